"""Finds the skills of an agent: the user's on this machine, and those of a project that the user trusts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec

from newel.config.trust import ProjectTrust
from newel.text.format import join_names
from newel.text.sanitize import escape_line, sanitize

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.context.file_reader import IsPrivate
    from newel.context.skill_book import SkillBook
    from newel.context.skills import Skill, SkillFolder
    from newel.workspace.port import Workspace

OF_USER: Final = (".agents/skills", ".claude/skills")
"""In the home folder, behind ``skills`` of Newel's own."""
OF_PROJECT: Final = (".newel/skills", ".agents/skills", ".claude/skills")

MAX_LOOKED_AT: Final = 1_000
"""Entries of a project's folder, before the question about it."""


class SkillPlaces(msgspec.Struct, frozen=True):
    """The folders that exist, the nearest first. ``project`` is the name of the project, as a decision about it has it."""

    of_project: Sequence[SkillFolder]
    of_user: Sequence[SkillFolder]
    project: str


class FoundSkills(msgspec.Struct, frozen=True):
    """``notices`` tell the user what is left out."""

    used: Sequence[Skill] = ()
    notices: Sequence[str] = ()


def user_folders(home: Path) -> list[tuple[str, str]]:
    """The paths of the user's folders, and their names for users. ``home`` is Newel's folder."""
    user = Path.home()
    name = "~/.newel/skills" if home == user / ".newel" else str(home / "skills")
    return [(str(home / "skills"), name), *((str(user / each), f"~/{each}") for each in OF_USER)]


async def find_places(home: Path, project: Workspace) -> SkillPlaces:
    """The folders of skills for an agent that works in ``project``. Raises ``HostUnavailable``."""
    from newel.context.file_reader import ancestors, project_depth
    from newel.workspace.local import LocalWorkspace

    machine = LocalWorkspace("/", environ={})
    of_user = user_folders(home)
    own = await machine.stats([path for path, _ in of_user])
    folders, marks = ancestors(project.root)
    paths = [str(PurePosixPath(folder, name)) for folder in folders for name in OF_PROJECT]
    infos = await project.stats(marks + paths)  # in one request: a host may be far away
    depth = project_depth(infos[: len(marks)])
    root = folders[depth]
    within = list(zip(paths, infos[len(marks) :], strict=True))[: (depth + 1) * len(OF_PROJECT)]
    theirs = {path for path, _ in of_user} if project.name == project.root else set[str]()
    return SkillPlaces(
        of_project=[
            _folder(project, path, _shown(path, project.root), root)
            for path, info in within
            if info is not None and info.kind == "directory" and path not in theirs
        ],
        of_user=[
            _folder(machine, path, name)
            for (path, name), info in zip(of_user, own, strict=True)
            if info is not None and info.kind == "directory"
        ],
        project=project.name.removesuffix(project.root) + root,
    )


def _shown(path: str, root: str) -> str:
    return os.path.relpath(path, root)


def _folder(workspace: Workspace, path: str, source: str, project: str = "") -> SkillFolder:
    from newel.context.skills import SkillFolder  # loaded only where there are skills

    return SkillFolder(workspace, path, source, project)


async def find_skills_in_use(settings: Settings, project: Workspace, is_private: IsPrivate) -> FoundSkills:
    """The skills that an agent uses."""
    places = await find_places(settings.home, project)
    folders, notices = [*places.of_user], list[str]()
    if places.of_project:
        trusted = ProjectTrust(settings.home).is_trusted(places.project)
        if trusted:
            folders = [*places.of_project, *folders]
        elif trusted is None:
            notices.append(_not_trusted(places))
    if not folders:
        return FoundSkills(notices=notices)
    from newel.context.skills import find_skills

    skills = await find_skills(folders, is_private=is_private)
    broken = [skill for skill in skills if skill.state == "broken"]
    if broken:
        notices.append(_left_out(broken))
    return FoundSkills([skill for skill in skills if skill.state == "used"], notices)


def _not_trusted(places: SkillPlaces) -> str:
    where = join_names([folder.source for folder in places.of_project])
    return (
        f"The skills in {where} are not used, because you have not trusted them. To use them: {trust_command(places.project)}; "
        "with --decline, they are not mentioned again."
    )


def trust_command(project: str) -> str:
    import shlex

    from newel.text.sanitize import escape_invisible

    is_here = project == os.path.realpath(Path.cwd())
    return escape_invisible(shlex.join(["newel", "skills", "trust", *([] if is_here else [project])]))


def _left_out(broken: Sequence[Skill]) -> str:
    first = sanitize(next(broken[0].lines()), keep_newlines=False)
    if len(broken) == 1:
        return f"A skill is left out: {first}"
    return f"{len(broken)} skills are left out: {first} `newel skills check` names the others."


def open_book(
    found: Sequence[Skill], project: Workspace, works_in: Workspace, is_private: IsPrivate
) -> SkillBook | None:
    """The skills for an agent whose tools work in ``works_in``; None if there are none."""
    if not found:
        return None
    from newel.context.skill_book import SkillBook

    is_far = project.name != project.root

    def find_folder(skill: Skill) -> str:
        if not skill.is_of_project:
            return "" if is_far else skill.root
        root = PurePosixPath(skill.root)
        is_copied = works_in.root != project.root and root.is_relative_to(project.root)
        return str(works_in.root / root.relative_to(project.root)) if is_copied else skill.root

    return SkillBook(found, find_folder, is_private=is_private)


def exposed_folders(home: Path) -> list[str]:
    """The real paths of the user's skills on this machine, whose files tools may read, and commands in a sandbox see: the folders, and what
    links in them lead to. A link to the home folder, or above it, exposes nothing.
    """
    exposed: list[str] = []
    user = os.path.realpath(Path.home())
    for path, _ in user_folders(home):
        if not os.path.isdir(path):  # noqa: PTH112 — a text
            continue
        exposed.append(os.path.realpath(path))
        with os.scandir(path) as entries:
            exposed += [
                os.path.realpath(entry.path)
                for entry in entries
                if entry.is_symlink() and os.path.isfile(f"{entry.path}/SKILL.md")  # noqa: PTH113 — a text
            ]
    return [path for path in dict.fromkeys(exposed) if not f"{user}/".startswith(f"{path.rstrip('/')}/")]


# -- trust ----------------------------------------------------------------------------------------------


def undecided_project(settings: Settings) -> tuple[str, list[str]] | None:
    """The project of this machine whose skills wait for a decision, and their names; None if there is none."""
    from newel.context.file_reader import ancestors

    folders, marks = ancestors(os.path.realpath(settings.cwd))
    depth = next((depth for depth, mark in enumerate(marks) if os.path.lexists(mark)), 0)
    of_user = {path for path, _ in user_folders(settings.home)}
    paths = [f"{folder.rstrip('/')}/{name}" for folder in folders[: depth + 1] for name in OF_PROJECT]
    names = {name for path in paths if path not in of_user for name in _names_in(path)}
    project = folders[depth]
    if not names or ProjectTrust(settings.home).is_trusted(project) is not None:
        return None
    return project, sorted(names)


def _names_in(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            looked_at = islice(entries, MAX_LOOKED_AT)
            return [entry.name for entry in looked_at if os.path.isfile(f"{entry.path}/SKILL.md")]  # noqa: PTH113
    except OSError:
        return []


def describe_skills(project: str, names: Sequence[str]) -> list[str]:
    """What it means to trust the skills of a project."""
    return [
        f"{escape_line(project)} has skills: {join_names(names, shown=10)}.",
        "  The model follows their instructions when it thinks that a task needs them; commands in them need the usual approval.",
        "  A decision about them stays when they change, and covers new ones.",
    ]
