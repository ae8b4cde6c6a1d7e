r"""Prompt templates: a Markdown file in ``.newel/prompts`` or ``.claude/commands`` defines a command of its name.

    ---
    description: Review a change
    ---
    Review the change in $1. Pay attention to: $ARGUMENTS

``$1`` to ``$99`` are single arguments (empty if there are fewer), ``$ARGUMENTS`` is the text as typed, ``$@`` the arguments
separated by single spaces. ``\$1`` stays ``$1``. If a template uses none of them, the text is appended to it.

Files in the format of Claude Code have ``$ARGUMENTS[0]`` and ``$0`` for the first argument, too; one that uses ``$0`` counts from it. There
``$@`` is nothing special, and without arguments ``$1`` stays: it may be part of a command.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath
from typing import Final, Literal

import msgspec

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.agent.messages import Wire
from newel.context.file_reader import IsPrivate, WorkspaceFolder, none_private, read_head, resolve_in_project

MAX_BYTES = 256 * 1024
MAX_DESCRIPTION = 80
MAX_TEMPLATES = 200
"""Of one folder. All are read when an agent is created, which an unknown project must not delay."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_PLACEHOLDER = r"(?P<escaped>\\)?\$(?:ARGUMENTS\[(?P<index>[0-9]{1,2})\]|(?P<what>(?:0|[1-9][0-9]?)(?![0-9])|@|ARGUMENTS\b))"

MAX_DEPTH: Final = 4
"""Folders in a folder of commands whose files count."""

SKILL: Final = "skill:"
PROMPT: Final = "prompt:"
"""Before the name of a skill or a prompt that another command of its name hides, and before any."""

Style = Literal["newel", "claude"]


class CommandFolder(WorkspaceFolder, frozen=True):
    """A folder of commands in the format of Claude Code, on the same level as the folder before it. Those in a subfolder ``web`` are
    ``web:NAME``.
    """


class Template(Wire, frozen=True):
    """A prompt with placeholders. ``problem`` is the reason why an existing file is not used, ``hint`` says what arguments it takes. That
    of a skill has no ``body``: it is read when it is used.
    """

    name: str
    description: str
    body: str
    path: str
    problem: str | None = None
    hint: str = ""
    style: Style = "newel"
    is_skill: bool = False

    @property
    def takes_arguments(self) -> bool:
        """Whether it has a place for arguments."""
        return bool(self.hint) or any(self._places())

    def expand(self, arguments: str = "") -> str:
        """Fill in the arguments, split as a shell does, or at white space if a quote is not closed. Raises ``WorkspaceError``
        with the ``problem``.
        """
        if self.problem is not None:
            raise WorkspaceError(self.problem)
        arguments = arguments.strip()
        values = _split(arguments)
        first = 0 if any(place["what"] == "0" for place in self._places()) else 1
        used = False

        def value(number: int) -> str:
            return values[number] if 0 <= number < len(values) else ""

        def fill(place: re.Match[str]) -> str:
            nonlocal used
            if not self._is_place(place):
                return place[0]
            if place["escaped"]:
                return place[0][1:]
            used = True
            match place["what"]:
                case None:
                    return value(int(place["index"]))
                case "ARGUMENTS":
                    return arguments
                case "@":
                    return " ".join(values)
                case number:
                    return value(int(number) - first) if values or self.style == "newel" else place[0]

        text = re.sub(_PLACEHOLDER, fill, self.body)
        return text if used or not arguments else f"{text.rstrip()}\n\n{arguments}"

    def _places(self) -> list[re.Match[str]]:
        places = re.finditer(_PLACEHOLDER, self.body)
        return [place for place in places if self._is_place(place) and not place["escaped"]]

    def _is_place(self, place: re.Match[str]) -> bool:
        return place["what"] != ("0" if self.style == "newel" else "@")


class WrittenPrompt(Template, frozen=True, kw_only=True):
    """A prompt that a function writes: ``write`` gets the arguments. It raises ``WorkspaceError``."""

    write: Callable[[str], Awaitable[str]]


def find_template(templates: Mapping[str, Template], name: str) -> Template | None:
    """The template that a user means: ``review``, ``web:review`` or, if there is one only, ``review`` for that; ``skill:NAME`` and
    ``prompt:NAME`` name the kind, too.
    """
    if template := templates.get(name):
        return template
    for prefix, is_skill in ((SKILL, True), (PROMPT, False)):
        if name.startswith(prefix):
            template = templates.get(name.removeprefix(prefix))
            return template if template is not None and template.is_skill == is_skill else None
    nested = [template for key, template in templates.items() if key.endswith(f":{name}")]
    return nested[0] if len(nested) == 1 else None


def reachable_names(templates: Mapping[str, Template], taken: Container[str]) -> dict[str, Template]:
    """The templates by names with which a user reaches them where other commands have ``taken`` some."""
    return {
        f"{SKILL if template.is_skill else PROMPT}{name}" if name in taken else name: template
        for name, template in templates.items()
    }


def described(template: Template) -> str:
    """Its description for a menu, behind the arguments that it takes."""
    return f"{template.hint} · {template.description}" if template.hint else template.description


async def load_templates(
    folders: Sequence[WorkspaceFolder],
    *,
    built_in: Sequence[Template] = (),
    is_private: IsPrivate = none_private,
) -> dict[str, Template]:
    """Load the templates of the folders, the user's before the project's, by name in alphabetical order. The user's may replace one that is
    ``built_in``, the project's may not.

    If both have a name, the project's becomes ``project.NAME``, and the description of the user's mentions it. A ``CommandFolder`` adds to
    the folder before it what that does not have. Skipped are files that cannot be read, are not text, are larger than 256 KiB or have a
    name that is no command, and all beyond the first 200 of a folder. Links out of the folder's project, and to what ``is_private``, are
    not followed; the workspace of the user's folder is the whole machine. Raises ``HostUnavailable``.
    """
    templates: dict[str, Template] = {}
    existing: dict[str, Template] = {}
    for folder, is_there in zip(folders, await _exist(folders), strict=True):
        if not isinstance(folder, CommandFolder):
            existing = dict(templates)
        for file, is_link in await _files(folder) if is_there else ():
            template = await _load(folder, file, is_private if is_link else None)
            if template is None:
                continue
            if (users := existing.get(template.name)) is not None:
                template = msgspec.structs.replace(template, name=f"project.{template.name}")
                note = f"{users.description} (the project's own: /{template.name})"
                templates[users.name] = msgspec.structs.replace(users, description=note)
            templates.setdefault(template.name, template)
        templates = {template.name: template for template in built_in} | templates
    return dict(sorted(templates.items()))


async def _exist(folders: Sequence[WorkspaceFolder]) -> list[bool]:
    """Whether each folder exists; those of a workspace that follow each other in one request: a host may be far away."""
    exist: list[bool] = []
    for workspace, group in groupby(folders, key=lambda folder: folder.workspace):
        infos = await workspace.stats([folder.path for folder in group])
        exist += [info is not None for info in infos]
    return exist


async def _files(folder: WorkspaceFolder) -> list[tuple[PurePosixPath, bool]]:
    """The files that may be templates; true for those that a link leads to."""
    workspace, path = folder.workspace, folder.path
    try:
        is_link = await workspace.resolve(path) != path
        return (
            await _files_below(folder, path, is_link, 0 if isinstance(folder, CommandFolder) else MAX_DEPTH)
        )[:MAX_TEMPLATES]
    except HostUnavailable:
        raise
    except WorkspaceError:
        return []


async def _files_below(
    folder: WorkspaceFolder, path: str, is_link: bool, depth: int
) -> list[tuple[PurePosixPath, bool]]:
    """Links to folders below are not followed: they may lead back."""
    found: list[tuple[PurePosixPath, bool]] = []
    for entry in await folder.workspace.list(path):
        place = PurePosixPath(path, entry.name)
        if entry.kind == "file" and place.suffix == ".md" and re.fullmatch(_NAME, place.stem):
            found.append((place, is_link or entry.is_link))
        elif (
            entry.kind == "directory"
            and depth < MAX_DEPTH
            and not entry.is_link
            and re.fullmatch(_NAME, entry.name)
        ):
            found += await _files_below(folder, str(place), is_link, depth + 1)
        if len(found) >= MAX_TEMPLATES:
            break
    return found


async def _load(
    folder: WorkspaceFolder, file: PurePosixPath, is_private: IsPrivate | None
) -> Template | None:
    """``is_private`` judges a file that a link leads to; it is None for others."""
    workspace, path = folder.workspace, str(file)
    name = ":".join(file.relative_to(folder.path).with_suffix("").parts)
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
    from newel.context.front_matter import split_front_matter

    front = split_front_matter(text)
    body = front.body.strip()
    first_line = body.split("\n", 1)[0].lstrip("# ")
    return Template(
        name,
        (front.text("description") or first_line)[:MAX_DESCRIPTION].strip(),
        body,
        path,
        hint=front.hint[:MAX_DESCRIPTION],
        style="claude" if isinstance(folder, CommandFolder) else "newel",
    )


def _split(arguments: str) -> list[str]:
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
