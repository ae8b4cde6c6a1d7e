r"""Prompt templates: a Markdown file in ``.newel/prompts`` is a command of its name.

    ---
    description: Look at a change before it is made
    ---
    Review the change in $1. Pay attention to: $ARGUMENTS

``$1`` to ``$99`` are single arguments (nothing if there are fewer), ``$ARGUMENTS`` is what was typed as it
was typed, ``$@`` the arguments with one space between. ``\$1`` stays ``$1``. A template without any of
them gets what was typed at its end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from newel.agent.errors import HostGone, WorkspaceError
from newel.agent.messages import Wire
from newel.context.files import Folder, read_head
from newel.workspace.port import Workspace

MAX_BYTES = 256 * 1024
MAX_DESCRIPTION = 80
MAX_TEMPLATES = 200
"""Of one folder. Each is read when an agent is made: a stranger's project must not make that long."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?P<fields>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_DESCRIPTION = re.compile(r"""^description:[ \t]*(["']?)(?P<words>.*?)\1[ \t]*$""", re.MULTILINE)
_PLACEHOLDER = re.compile(r"(?P<escaped>\\)?\$(?P<what>[1-9][0-9]?(?![0-9])|@|ARGUMENTS\b)")


class Template(Wire, frozen=True):
    """A prompt with places for arguments."""

    name: str
    description: str
    body: str
    path: str

    def expand(self, arguments: str = "") -> str:
        """The prompt with the arguments in their places. They are split as a shell would; where a quote
        is left open, at white space.
        """
        arguments = arguments.strip()
        words = _split(arguments)
        used = False

        def fill(place: re.Match[str]) -> str:
            nonlocal used
            if place["escaped"]:
                return place[0][1:]
            used = True
            match place["what"]:
                case "ARGUMENTS":
                    return arguments
                case "@":
                    return " ".join(words)
                case number:
                    return words[int(number) - 1] if int(number) <= len(words) else ""

        text = _PLACEHOLDER.sub(fill, self.body)
        return text if used or not arguments else f"{text.rstrip()}\n\n{arguments}"


async def load(folders: Sequence[Folder]) -> dict[str, Template]:
    """The templates of all folders by name, in alphabetical order; a later folder's template hides an
    earlier one's of the same name: first the user's folder, then the project's. A folder that is not there has
    none. A file that cannot be read, is not text, is larger than 256 KiB or has a name that cannot be typed as a
    command is left out, and so is what a folder has beyond its first 200. Raises ``HostGone``.
    """
    found = {
        template.name: template
        for folder in folders
        for path in await _files(folder)
        if (template := await _load(folder.workspace, path)) is not None
    }
    return dict(sorted(found.items()))


async def _files(folder: Folder) -> list[PurePosixPath]:
    try:
        if await folder.workspace.stat(folder.path) is None:
            return []
        entries = await folder.workspace.list(folder.path)
    except HostGone:
        raise
    except WorkspaceError:
        return []
    paths = [PurePosixPath(folder.path, entry.name) for entry in entries if entry.kind == "file"]
    named = [path for path in paths if path.suffix == ".md" and _NAME.fullmatch(path.stem)]
    return named[:MAX_TEMPLATES]


async def _load(workspace: Workspace, path: PurePosixPath) -> Template | None:
    try:
        head = await read_head(workspace, str(path), MAX_BYTES)
    except HostGone:
        raise
    except WorkspaceError:
        return None
    text, cut = head.text(MAX_BYTES)
    if cut or not head.is_text:
        return None
    text = text.replace("\r\n", "\n")
    description = ""
    if front := _FRONT_MATTER.match(text):
        text = text[front.end() :]
        if given := _DESCRIPTION.search(front["fields"]):
            description = given["words"]
    body = text.strip()
    first_line = body.split("\n", 1)[0].lstrip("# ")
    return Template(path.stem, (description or first_line)[:MAX_DESCRIPTION].strip(), body, str(path))


def _split(arguments: str) -> list[str]:
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
