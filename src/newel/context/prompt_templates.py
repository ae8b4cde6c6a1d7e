r"""Prompt templates: a Markdown file in ``.newel/prompts`` defines a command of its name.

    ---
    description: Review a change
    ---
    Review the change in $1. Pay attention to: $ARGUMENTS

``$1`` to ``$99`` are single arguments (empty if there are fewer), ``$ARGUMENTS`` is the text as typed, ``$@`` the arguments
separated by single spaces. ``\$1`` stays ``$1``. If a template uses none of them, the text is appended to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.agent.messages import Wire
from newel.context.file_reader import IsPrivate, WorkspaceFolder, none_private, read_head, resolve_in_project
from newel.workspace.port import Workspace

MAX_BYTES = 256 * 1024
MAX_DESCRIPTION = 80
MAX_TEMPLATES = 200
"""Of one folder. All are read when an agent is created, which an unknown project must not delay."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_FRONT_MATTER = r"(?sm)---[ \t]*\n(?P<fields>.*?)^---[ \t]*(?:\n|\Z)"
_DESCRIPTION = r"""(?m)^description:[ \t]*(["']?)(?P<words>.*?)\1[ \t]*$"""
_PLACEHOLDER = r"(?P<escaped>\\)?\$(?P<what>[1-9][0-9]?(?![0-9])|@|ARGUMENTS\b)"


class Template(Wire, frozen=True):
    """A prompt with placeholders. ``problem`` is the reason why an existing file is not used."""

    name: str
    description: str
    body: str
    path: str
    problem: str | None = None

    @property
    def takes_arguments(self) -> bool:
        """Whether it has a place for arguments."""
        return any(not place["escaped"] for place in re.finditer(_PLACEHOLDER, self.body))

    def expand(self, arguments: str = "") -> str:
        """Fill in the arguments, split as a shell does, or at white space if a quote is not closed. Raises ``WorkspaceError``
        with the ``problem``.
        """
        if self.problem is not None:
            raise WorkspaceError(self.problem)
        arguments = arguments.strip()
        values = _split(arguments)
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
                    return " ".join(values)
                case number:
                    return values[int(number) - 1] if int(number) <= len(values) else ""

        text = re.sub(_PLACEHOLDER, fill, self.body)
        return text if used or not arguments else f"{text.rstrip()}\n\n{arguments}"


async def load_templates(
    folders: Sequence[WorkspaceFolder],
    *,
    built_in: Sequence[Template] = (),
    is_private: IsPrivate = none_private,
) -> dict[str, Template]:
    """Load the templates of the folders, the user's before the project's, by name in alphabetical order. The user's may replace one that is
    ``built_in``, the project's may not.

    If both have a name, the project's becomes ``project.NAME``, and the description of the user's mentions it. Skipped are
    files that cannot be read, are not text, are larger than 256 KiB or have a name that is no command, and all beyond the
    first 200 of a folder. Links out of the folder's project, and to what ``is_private``, are not followed; the workspace of the user's folder
    is the whole machine. Raises ``HostUnavailable``.
    """
    templates: dict[str, Template] = {}
    for folder in folders:
        existing = dict(templates)
        for file, is_link in await _files(folder):
            if (template := await _load(folder.workspace, file, is_private if is_link else None)) is None:
                continue
            if (users := existing.get(template.name)) is not None:
                template = msgspec.structs.replace(template, name=f"project.{template.name}")
                note = f"{users.description} (the project's own: /{template.name})"
                templates[users.name] = msgspec.structs.replace(users, description=note)
            templates.setdefault(template.name, template)
        templates = {template.name: template for template in built_in} | templates
    return dict(sorted(templates.items()))


async def _files(folder: WorkspaceFolder) -> list[tuple[PurePosixPath, bool]]:
    """The files that may be templates; true for those that a link leads to."""
    workspace, path = folder.workspace, folder.path
    try:
        if await workspace.stat(path) is None:
            return []
        is_link = await workspace.resolve(path) != path
        entries = await workspace.list(path)
    except HostUnavailable:
        raise
    except WorkspaceError:
        return []
    files = [
        (PurePosixPath(path, entry.name), is_link or entry.is_link)
        for entry in entries
        if entry.kind == "file" and entry.name.endswith(".md")
    ]
    return [(file, is_link) for file, is_link in files if re.fullmatch(_NAME, file.stem)][:MAX_TEMPLATES]


async def _load(workspace: Workspace, file: PurePosixPath, is_private: IsPrivate | None) -> Template | None:
    """``is_private`` judges a file that a link leads to; it is None for others."""
    path, name = str(file), file.stem
    try:
        place = (
            path if is_private is None else await resolve_in_project(workspace, path, is_private=is_private)
        )
    except HostUnavailable:
        raise
    except WorkspaceError as error:
        return Template(
            name,
            "not used: links to a file outside the project, or with secrets",
            "",
            path,
            problem=str(error),
        )
    try:
        head = await read_head(workspace, place, MAX_BYTES)
    except HostUnavailable:
        raise
    except WorkspaceError:
        return None
    text, cut = head.text(MAX_BYTES)
    if cut or not head.is_text:
        return None
    text = text.replace("\r\n", "\n")
    description = ""
    if front := re.match(_FRONT_MATTER, text):
        text = text[front.end() :]
        if stated := re.search(_DESCRIPTION, front["fields"]):
            description = stated["words"]
    body = text.strip()
    first_line = body.split("\n", 1)[0].lstrip("# ")
    return Template(name, (description or first_line)[:MAX_DESCRIPTION].strip(), body, path)


def _split(arguments: str) -> list[str]:
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
