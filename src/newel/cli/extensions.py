"""``newel extensions``: the extensions of this user, what they add, and what is wrong with some."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from newel.app.extensions import find_extensions
from newel.cli.options import Parser, list_by_default
from newel.config.settings import Flags, Settings, load_settings
from newel.extensions.loader import Extension
from newel.text.json import to_printable_json
from newel.text.sanitize import escape_line

EPILOG: Final = """\
Extensions are Python files in ~/.newel/extensions, and packages installed
beside Newel with entry points newel.tools, newel.providers or newel.hooks.
They run in Newel's process with your rights. `newel --no-extensions` starts
without them; `disabled = true` in [extensions] of config.toml does so always."""


def command_extensions(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel extensions",
        description="List the Python extensions and what they add, or check that all can be loaded.",
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="list what each adds, and its problem (default)")
    listed.add_argument("--json", action="store_true", help="as JSON")
    actions.add_parser("check", help="load all; exit with 1 if one is left out")
    options = parser.parse_args(list_by_default(arguments))
    settings = load_settings(Flags(), cwd=Path.cwd(), environ=os.environ)
    found = find_extensions(settings.home)
    extensions = found.extensions if found else ()
    if options.action == "check":
        return _check(extensions)
    if options.json:
        print(to_printable_json([_row(extension, settings) for extension in extensions]))
        return 0
    for extension in extensions:
        print("\n".join(_described(extension)))
    if not extensions:
        print(f"No extensions. Put a Python file into {escape_line(str(settings.home / 'extensions'))}.")
    elif settings.extensions.disabled:
        print("None is loaded: config.toml has `disabled = true` in [extensions].")
    return 0


def _check(extensions: Sequence[Extension]) -> int:
    problems = [extension.problem for extension in extensions if extension.problem is not None]
    for problem in problems:
        print(escape_line(str(problem)))
    if not problems:
        print(f"{len(extensions)} checked, no problems.")
    return 1 if problems else 0


def _added(extension: Extension) -> dict[str, list[str]]:
    if extension.problem is not None:
        return {"tools": [], "hooks": [], "commands": [], "providers": []}
    added = extension.added
    return {
        "tools": [*added.tools],
        "hooks": [f"{hook.event} {hook.matcher}".rstrip() for hook in added.hooks],
        "commands": [f"/{name}" for name in added.commands],
        "providers": [f"extension:{name}" for name in added.providers],
    }


def _row(extension: Extension, settings: Settings) -> dict[str, Any]:
    state = "off" if settings.extensions.disabled else "loaded"
    problem = extension.problem
    return {
        "name": extension.name,
        "source": extension.source,
        "state": state if problem is None else "left out",
        **_added(extension),
        "problem": None if problem is None else msgspec.to_builtins(problem),
    }


def _described(extension: Extension) -> list[str]:
    says = "left out" if extension.problem else "adds nothing"
    lines = [f"  {kind}: {', '.join(names)}" for kind, names in _added(extension).items() if names]
    if lines:
        says = ""
    elif extension.problem:
        lines = [f"  {extension.problem}"]
    head = f"{extension.name}  {extension.source}  {says}".rstrip()
    return [escape_line(head), *map(escape_line, lines)]
