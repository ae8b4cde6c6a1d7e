"""Turns typed text into a prompt: expands templates, and attaches mentioned files."""

from __future__ import annotations

import msgspec

from newel.agent.messages import Attachment, UserMessage
from newel.context.mentions import expand_mentions
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import parse_command


class Prompt(msgspec.Struct, frozen=True):
    """``typed`` may name templates and files; ``piped`` comes from standard input and is passed on verbatim."""

    typed: str
    piped: str = ""


class Prepared(msgspec.Struct, frozen=True):
    """``notes`` tell the user what could not be attached."""

    text: str
    attachments: list[Attachment]
    notes: list[str]

    def message(self) -> UserMessage:
        return UserMessage(content=self.text, attachments=self.attachments)


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
        text, attachments, notes = await expand_mentions(text, agent.attachable)
    if template:
        text = template.expand(text)
    if prompt.piped:
        text = f"{text}\n\n{prompt.piped}" if text else prompt.piped
    return Prepared(text, attachments, notes)
