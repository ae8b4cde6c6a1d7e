"""A prompt as it was typed: ``/template arguments``, and ``@files`` to attach. It means the same in every front end."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from newel.agent.messages import Attachment, UserMessage, new_id
from newel.context.mentions import Expansion, expand_mentions
from newel.context.prompt_templates import find_template
from newel.session.coding_agent import CodingAgent
from newel.text.slash_command import parse_command


class Prompt(msgspec.Struct, frozen=True):
    """``typed`` may name templates and files; ``piped`` comes from standard input and is passed on verbatim. ``images``
    were pasted. ``id`` is that of the message, if it is known before.
    """

    typed: str
    piped: str = ""
    images: tuple[Attachment, ...] = ()
    id: str = ""


async def expand_typed(agent: CodingAgent, typed: str) -> Expansion:
    """Attach the files that are mentioned, and expand a template if one is named.

    What was typed can mention any file; a template may be a stranger's, and attaches files of the project only. Raises
    ``WorkspaceError`` for a template that is not used.
    """
    command = parse_command(typed)
    template = find_template(agent.templates, command[0]) if command else None
    said = Expansion(command[1] if command and template else typed, [], [])
    if "@" in said.text or "." in said.text:  # nothing else can name a file
        said = await expand_mentions(said.text, agent.attachable)
    if template is None:
        return said
    from newel.context.prompt_expansion import expand_template

    read_skill = agent.skills.instructions if agent.skills else None
    filled = await expand_template(
        template, said.text, attachable=agent.attachable_by_prompts, read_skill=read_skill
    )
    return Expansion(filled.text, [*said.attachments, *filled.attachments], [*said.notes, *filled.notes])


async def prepare(agent: CodingAgent, prompt: Prompt, note: Callable[[str], None]) -> UserMessage:
    """The message of a prompt, as ``expand_typed`` reads it. ``note`` tells the user which files could not be attached. Raises
    ``WorkspaceError`` for a template that is not used.
    """
    text, attachments, notes = await expand_typed(agent, prompt.typed)
    if prompt.piped:
        text = f"{text}\n\n{prompt.piped}" if text else prompt.piped
    for line in notes:
        note(line)
    attachments = [*attachments, *prompt.images]
    message = UserMessage(content=text, attachments=attachments, id=prompt.id or new_id())
    if not prompt.piped and text != prompt.typed:
        agent.keep_typed(message, prompt.typed)
    return message
