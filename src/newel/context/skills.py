"""Skills: folders with a ``SKILL.md``, in the open format Agent Skills, whose instructions a model gets when a task needs them.

A model sees names and descriptions first, the text of a skill when it asks for it, and the files beside it when the text names them. What a
skill says of tools that it may use loosens nothing: its calls are judged like all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, Literal, TypeGuard, cast

import msgspec

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.context.file_reader import IsPrivate, none_private, read_head, resolve_in_project
from newel.context.front_matter import FrontMatter, split_front_matter
from newel.text.format import one_line
from newel.workspace.port import DirectoryEntry, Workspace

FILE_NAME: Final = "SKILL.md"
MAX_BYTES: Final = 256 * 1024
"""Of a ``SKILL.md``, and of a file beside it."""
MAX_SKILLS: Final = 200
"""Of one folder: an unknown project must not delay the start."""
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.:-]*"
_STANDARD_NAME: Final = r"[a-z0-9]+(?:-[a-z0-9]+)*"
_WITHOUT_EFFECT: Final = ("model", "effort", "context", "agent", "hooks", "shell", "paths")
"""Fields that other agents act on and Newel does not."""

State = Literal["used", "shadowed", "broken"]


class SkillFolder(msgspec.Struct, frozen=True):
    """A folder of skills; ``path`` is absolute, ``source`` its name for users. That of a project holds no links out of the project, whose
    root is ``project``; it is empty for the user's.
    """

    workspace: Workspace
    path: str
    source: str
    project: str = ""


class SkillProblem(msgspec.Struct, frozen=True):
    """What is wrong in a line of a ``SKILL.md``; a ``note`` does not keep it from being used."""

    line: int
    message: str
    is_note: bool = False


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """``path`` is that of its ``SKILL.md``, ``root`` that of its folder with links resolved. ``for_model`` and ``for_user`` tell who may
    ask for it.
    """

    name: str
    description: str
    path: str
    folder: SkillFolder
    root: str = ""
    hint: str = ""
    takes_arguments: bool = False
    for_model: bool = True
    for_user: bool = True
    state: State = "used"
    problems: Sequence[SkillProblem] = ()

    @property
    def source(self) -> str:
        return self.folder.source

    @property
    def is_of_project(self) -> bool:
        return bool(self.folder.project)

    def lines(self) -> Iterator[str]:
        """Its problems as ``path:line: message``."""
        for problem in self.problems:
            yield f"{self.path}:{problem.line}: {problem.message}"


async def find_skills(folders: Sequence[SkillFolder], *, is_private: IsPrivate = none_private) -> list[Skill]:
    """The skills of folders, the nearest folder first, by name; with those that are broken, and those that a nearer one of their name
    replaces. The folders have to exist. Raises ``HostUnavailable``.
    """
    skills: list[Skill] = []
    used: set[str] = set()
    for folder in folders:
        for entry in await _entries(folder):
            skill = await load_skill(folder, entry.name, is_private=is_private)
            if skill is None:
                continue
            if skill.state == "used":
                if skill.name in used:
                    skill = msgspec.structs.replace(skill, state="shadowed")
                used.add(skill.name)
            skills.append(skill)
    return sorted(skills, key=lambda skill: (skill.name, skill.state != "used"))


async def _entries(folder: SkillFolder) -> list[DirectoryEntry]:
    try:
        entries = await folder.workspace.list(folder.path)
    except HostUnavailable:
        raise
    except WorkspaceError:
        return []
    return [
        entry
        for entry in entries
        if entry.kind == "directory" and not entry.name.startswith(".") and entry.name.isprintable()
    ][:MAX_SKILLS]


async def load_skill(folder: SkillFolder, name: str, *, is_private: IsPrivate = none_private) -> Skill | None:
    """The skill in the entry ``name`` of a folder; None if there is no ``SKILL.md``. Raises ``HostUnavailable``."""
    path = str(PurePosixPath(folder.path, name, FILE_NAME))
    try:
        if await folder.workspace.stat(path) is None:
            return None
        root, text = await _read(folder, path, is_private)
    except HostUnavailable:
        raise
    except WorkspaceError as error:
        return _broken(folder, path, name, [SkillProblem(1, str(error))])
    return _parse(folder, path, name, root, split_front_matter(text))


async def read_instructions(skill: Skill, *, is_private: IsPrivate = none_private) -> str:
    """The text of a ``SKILL.md`` as it is now. Raises ``WorkspaceError``."""
    return (await _read(skill.folder, skill.path, is_private))[1]


async def _read(folder: SkillFolder, path: str, is_private: IsPrivate) -> tuple[str, str]:
    """The real path of a skill's folder, and its text. Raises ``WorkspaceError``."""
    workspace = folder.workspace
    if folder.project:
        real = await resolve_in_project(workspace, path, folder.project, is_private=is_private)
    else:
        real = await workspace.resolve(path)
    return str(PurePosixPath(real).parent), await _read_text(workspace, real)


async def _read_text(workspace: Workspace, path: str) -> str:
    head = await read_head(workspace, path, MAX_BYTES)
    if head.size > MAX_BYTES:
        raise WorkspaceError(f"{path} has more than {MAX_BYTES // 1024} KiB.")
    if not head.is_text:
        raise WorkspaceError(f"{path} is not a text file.")
    try:
        return head.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WorkspaceError(f"{path} is not in UTF-8.") from error


def _broken(folder: SkillFolder, path: str, name: str, problems: Sequence[SkillProblem]) -> Skill:
    return Skill(name=name, description="", path=path, folder=folder, state="broken", problems=problems)


def _parse(folder: SkillFolder, path: str, entry: str, root: str, front: FrontMatter) -> Skill:
    if front.problem:
        return _broken(
            folder,
            path,
            entry,
            [SkillProblem(front.problem_line, f"The front matter cannot be read: {front.problem}.")],
        )
    fields = front.fields
    name = fields.get("name", entry)
    if not _is_name(name) and _is_name(entry):
        name = entry  # Claude Code takes this one for its command, and texts such as "Hook Development" for a title
    description = fields.get("description") or _first_paragraph(front.body)
    if when := front.text("when_to_use"):
        description = f"{description} {when}"
    problems = list(_check(front, entry))
    if any(not problem.is_note for problem in problems):
        return _broken(folder, path, name if isinstance(name, str) else entry, problems)
    return Skill(
        name=str(name).strip(),
        description=" ".join(str(description).split()),
        path=path,
        folder=folder,
        root=root,
        hint=front.hint,
        takes_arguments=bool(front.hint or re.search(r"\$(?:ARGUMENTS|[0-9])", front.body)),
        for_model=fields.get("disable-model-invocation") is not True,
        for_user=fields.get("user-invocable") is not False,
        problems=problems,
    )


def _first_paragraph(body: str) -> str:
    paragraphs = (part.strip().lstrip("# ") for part in body.strip().split("\n\n"))
    return next(paragraphs, "")


def _is_name(name: object) -> TypeGuard[str]:
    return isinstance(name, str) and len(name) <= MAX_NAME and re.fullmatch(_NAME, name.strip()) is not None


def _check(front: FrontMatter, entry: str) -> Iterator[SkillProblem]:
    """What the front matter and the text lack; notes are what the format asks for and Newel does not need."""

    def problem(field: str, message: str, *, is_note: bool = False) -> SkillProblem:
        return SkillProblem(front.line_of(field), message, is_note)

    fields = front.fields
    name = fields.get("name", entry)
    if not _is_name(name):
        shown, rule = (
            one_line(str(name), 80),
            f"lowercase letters, digits and hyphens, {MAX_NAME} characters at most",
        )
        if _is_name(entry):
            message = f"The name {shown!r} cannot be used; that of the folder is. Write {rule}."
            yield problem("name", message, is_note=True)
        else:
            yield problem("name", f"The name {shown!r} cannot be used. Write {rule}.")
    elif "name" not in fields:
        yield problem("name", "There is no `name`; that of the folder is used.", is_note=True)
    elif name.strip() != entry:
        yield problem("name", f"The name is not that of the folder, {one_line(entry, 80)!r}.", is_note=True)
    elif not re.fullmatch(_STANDARD_NAME, name.strip()):
        yield problem(
            "name", "Other agents take only lowercase letters, digits and single hyphens.", is_note=True
        )
    yield from _check_description(front)
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str) or len(compatibility) > MAX_COMPATIBILITY:
        yield problem(
            "compatibility",
            f"`compatibility` is not a string of at most {MAX_COMPATIBILITY} characters.",
            is_note=True,
        )
    if not _is_text_map(fields.get("metadata", {})):
        yield problem("metadata", "`metadata` is not a map of strings.", is_note=True)
    if not _is_tools(fields.get("allowed-tools", "")):
        yield problem("allowed-tools", "`allowed-tools` is not a list of tools.", is_note=True)
    for field in ("disable-model-invocation", "user-invocable"):
        if not isinstance(fields.get(field, True), bool):
            yield problem(field, f"`{field}` is neither true nor false.")
    for field in _WITHOUT_EFFECT:
        if field in fields:
            yield problem(field, f"`{field}` has no effect in Newel.", is_note=True)
    if not front.body.strip():
        yield SkillProblem(1, "There are no instructions below the front matter.")


def _check_description(front: FrontMatter) -> Iterator[SkillProblem]:
    line = front.line_of("description")
    description = front.fields.get("description")
    if description is not None and not isinstance(description, str):
        yield SkillProblem(line, "`description` is not a string. Put it in quotation marks.")
    elif not (description or "").strip():
        yield SkillProblem(line, "There is no `description`; the first paragraph is used.", is_note=True)
    elif description is not None and len(description) > MAX_DESCRIPTION:
        yield SkillProblem(
            line,
            f"`description` has more than {MAX_DESCRIPTION:,} characters; the model sees its beginning.",
            is_note=True,
        )


def _is_text_map(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(item, str) for pair in cast("Mapping[Any, Any]", value).items() for item in pair
    )


def _is_tools(value: object) -> bool:
    items: Iterable[object] = cast("list[Any]", value) if isinstance(value, list) else [value]
    return all(isinstance(item, str) for item in items)
