"""What a prompt template or a skill says, with its arguments and the files that it names.

The files are those of the project that tools may read unasked: a template may be a stranger's. Commands in it (``!`git status` ``) are not
run here: the model runs them with ``bash``, so that they are judged, confined, recorded and undone like all others.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from newel.context.attachments import AttachableFiles
from newel.context.mentions import Expansion, expand_mentions
from newel.context.prompt_templates import Template, WrittenPrompt

_COMMAND: Final = r"(?m)(?:^|(?<=\s))!`[^`\n]+`|^```!"

RUN_FIRST: Final = (
    "In the text below, !`command` and blocks that begin with ```! stand for the output of commands. Run these commands first, with `bash`, and "
    "read their output in the place of each. Say so if one may not run."
)

ReadSkill = Callable[[str, str], Awaitable[str]]
"""Returns the instructions of the skill of a name with these arguments. Raises ``WorkspaceError``."""


async def expand_template(
    template: Template, arguments: str, *, attachable: AttachableFiles, read_skill: ReadSkill | None = None
) -> Expansion:
    """Fill in the arguments, and attach what the text names with ``@``. Raises ``WorkspaceError`` for a template that cannot be used."""
    if template.is_skill and read_skill is not None:
        called = f"/{template.name} {arguments}".rstrip()  # the first line is what lists of sessions show
        return Expansion(f"{called}\n\n{await read_skill(template.name, arguments)}", [], [])
    if isinstance(template, WrittenPrompt):
        return Expansion(await template.write(arguments), [], [])
    text = template.expand(arguments)
    if template.style == "newel":
        return Expansion(text, [], [])
    text = with_commands(text)
    if "@" not in text:
        return Expansion(text, [], [])
    return await expand_mentions(text, attachable, bare_images=False)


def with_commands(text: str) -> str:
    """The text, with the request to run the commands in it if there are some."""
    return f"{RUN_FIRST}\n\n{text}" if re.search(_COMMAND, text) else text
