"""From what a person typed to what the agent is asked: templates and mentioned files."""

from __future__ import annotations

import re
from typing import NamedTuple

from newel.agent.messages import Attachment, UserMessage
from newel.session.coding_agent import CodingAgent

_COMMAND = re.compile(r"/(?P<name>[A-Za-z0-9][\w.-]*)(?:\s+(?P<arguments>.*))?", re.DOTALL)


class Prompt(NamedTuple):
    """``typed`` may name templates and files; ``piped`` came from elsewhere and is passed on as it is."""

    typed: str
    piped: str = ""


class Prepared(NamedTuple):
    """``notes`` are words for the user about what could not be attached."""

    text: str
    attachments: list[Attachment]
    notes: list[str]

    def message(self) -> UserMessage:
        return UserMessage(content=self.text, attachments=self.attachments)


def parse_command(text: str) -> tuple[str, str] | None:
    """``/name arguments`` as its two parts; None for what is no command (a path is none)."""
    found = _COMMAND.fullmatch(text.strip())
    return (found["name"], (found["arguments"] or "").strip()) if found else None


async def prepare(agent: CodingAgent, prompt: Prompt) -> Prepared:
    """Attach the files that are mentioned, and expand a template if one is named.

    Only what was typed can mention files: a template may be a stranger's, and must not attach the user's. Raises
    ``WorkspaceError`` for a template that is not used.
    """
    command = parse_command(prompt.typed)
    template = agent.templates.get(command[0]) if command else None
    text = command[1] if command and template else prompt.typed
    attachments: list[Attachment] = []
    notes: list[str] = []
    if "@" in text or "." in text:  # nothing else can name a file
        from newel.context.mentions import expand_mentions

        text, attachments, notes = await expand_mentions(text, agent.attachable)
    if template:
        text = template.expand(text)
    if prompt.piped:
        text = f"{text}\n\n{prompt.piped}" if text else prompt.piped
    return Prepared(text, attachments, notes)
