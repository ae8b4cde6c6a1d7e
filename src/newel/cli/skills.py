"""``newel skills``: lists, checks and trusts skills."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from newel.agent.errors import ConfigError, UsageError
from newel.app.skills import SkillPlaces, find_places
from newel.cli.options import Parser, add_place, list_by_default, open_place
from newel.config.settings import newel_home
from newel.config.trust import ProjectTrust
from newel.context.skills import FILE_NAME, Skill, SkillFolder, find_skills, load_skill
from newel.text.format import one_line
from newel.text.json import to_printable_json
from newel.text.sanitize import escape_line
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import SCHEME

EPILOG = """\
Skills are folders with a SKILL.md, as other agents have them: in ~/.newel/skills, ~/.agents/skills and ~/.claude/skills, and of a \
project in .newel/skills, .agents/skills and .claude/skills. Those of a project are used once you trust them."""


def command_skills(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel skills",
        description="List the skills that agents have here, check some, or trust those of a project.",
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="list the skills, and what is wrong with some (default)")
    listed.add_argument("--json", action="store_true", help="as JSON")
    add_place(listed, "list those of")
    check = actions.add_parser("check", help="check a skill, a folder of skills, or all")
    check.add_argument(
        "path", nargs="?", type=Path, metavar="PATH", help="a SKILL.md, its folder, or a folder of skills"
    )
    trust = actions.add_parser("trust", help="let agents use the skills of a project")
    trust.add_argument(
        "project",
        nargs="?",
        metavar="PROJECT",
        help="its folder, or ssh://… as Newel names it (default: here)",
    )
    change = trust.add_mutually_exclusive_group()
    change.add_argument(
        "--decline", action="store_true", help="never use them, and do not mention them again"
    )
    change.add_argument("--remove", action="store_true", help="remove the decision")
    options = parser.parse_args(list_by_default(arguments))
    if options.action == "check":
        return _check(options.path)
    if options.action == "trust":
        return _trust(options)
    return anyio.run(_list, parser, options)


# -- list -----------------------------------------------------------------------------------------------


async def _list(parser: Parser, options: argparse.Namespace) -> int:
    from newel.workspace.process.output import OutputLimits

    home = newel_home(os.environ)
    async with open_place(parser, options) as place:
        places = await find_places(home, place.workspace(place.name, OutputLimits()))
        skills = await find_skills([*places.of_project, *places.of_user])
    is_trusted = ProjectTrust(home).is_trusted(places.project) is True
    if options.json:
        print(to_printable_json([_row(skill, is_trusted) for skill in skills]))
        return 0
    for skill in skills:
        print("\n".join(_described(skill, skills, is_trusted)))
    if not skills:
        print("No skills here. `newel skills --help` says where Newel looks for them.")
    return 0


def _state(skill: Skill, is_trusted: bool) -> str:
    return "untrusted" if skill.state == "used" and skill.is_of_project and not is_trusted else skill.state


def _row(skill: Skill, is_trusted: bool) -> dict[str, Any]:
    return {
        "name": skill.name,
        "source": skill.source,
        "state": _state(skill, is_trusted),
        "description": skill.description,
        "path": skill.path,
        "for_model": skill.for_model,
        "for_user": skill.for_user,
        "problems": [msgspec.to_builtins(problem) for problem in skill.problems],
    }


def _described(skill: Skill, skills: Sequence[Skill], is_trusted: bool) -> list[str]:
    says = one_line(skill.description, 100)
    match _state(skill, is_trusted):
        case "shadowed":
            nearest = next(each for each in skills if each.name == skill.name and each.state == "used")
            says = f"replaced by the one in {escape_line(nearest.source)}"
        case "broken":
            says = "left out"
        case "untrusted":
            says = f"not used until you trust it (`newel skills trust`) · {says}"
        case _:
            says += "" if skill.for_model else " (only you call it)"
    lines = [f"{escape_line(skill.name)}  {escape_line(skill.source)}  {says}"]
    problems = [problem for problem in skill.problems if not problem.is_note]
    return [*lines, *(f"  {escape_line(f'{skill.path}:{each.line}: {each.message}')}" for each in problems)]


# -- check ----------------------------------------------------------------------------------------------


def _check(path: Path | None) -> int:
    skills = _of_folder(Path()) if path is None else _at(path)
    shown = False
    for skill in skills:
        for line in skill.lines():
            print(escape_line(line))
            shown = True
    if not shown:
        print(f"{len(skills)} checked, no problems.")
    return 1 if any(skill.state == "broken" for skill in skills) else 0


def _of_folder(folder: Path) -> list[Skill]:
    """All skills of an agent that works in a folder."""
    places = _places(folder)
    return anyio.run(find_skills, [*places.of_project, *places.of_user])


def _places(folder: Path) -> SkillPlaces:
    return anyio.run(find_places, newel_home(os.environ), LocalWorkspace(os.path.realpath(folder)))


def _at(path: Path) -> list[Skill]:
    """The skills in a file, in its folder, or in the folders of one. Raises ``ConfigError`` if there are none."""
    place = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 — links stay as they are written
    place = place.parent if place.name == FILE_NAME else place
    machine = LocalWorkspace("/")
    if (place / FILE_NAME).exists():
        skill = anyio.run(load_skill, SkillFolder(machine, str(place.parent), str(path)), place.name)
        found = [skill] if skill is not None else []
    else:
        found = anyio.run(find_skills, [SkillFolder(machine, str(place), str(path))])
    if not found:
        raise ConfigError(f"There is no {FILE_NAME} in {escape_line(str(path))}, nor in a folder in it.")
    return found


# -- trust ----------------------------------------------------------------------------------------------


def _trust(options: argparse.Namespace) -> int:
    project, names = options.project or "", list[str]()
    is_far = project.startswith(SCHEME)
    if not is_far:
        folder = Path(project or ".").expanduser()
        if not folder.is_dir():
            raise UsageError(f"{escape_line(str(folder))} is not a folder.")
        places = _places(folder)
        project = places.project
        found = anyio.run(find_skills, places.of_project)
        names = [escape_line(skill.name) for skill in found if skill.state == "used"]
    trust = ProjectTrust(newel_home(os.environ))
    if options.remove:
        trust.decide(project, trusted=None)
        print(f"Removed: the decision about the skills of {escape_line(project)}.")
        return 0
    trust.decide(project, trusted=not options.decline)
    listed = f": {', '.join(names)}" if names else ""
    may = "Declined: agents do not use" if options.decline else "Trusted: agents may use"
    print(f"{may} the skills of {escape_line(project)}{listed}.")
    if not (names or is_far):
        print("newel: It has no skills now.", file=sys.stderr)
    return 0
