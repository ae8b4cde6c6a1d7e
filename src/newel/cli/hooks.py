"""``newel hooks``: what runs when, from which file, and the trust in the hooks of a project."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from newel.agent.formatting import pluralize
from newel.app.hooks import LoadedHooks, hook_rows, load_hooks, unused_claude_hooks
from newel.app.project_trust import show_hooks
from newel.cli.options import Parser, confirm, folder, list_by_default
from newel.config.settings import Flags, Settings, load_settings
from newel.hooks.hook import Hook
from newel.hooks.hook_listing import NO_HOOKS, HookRow, hook_lines
from newel.hooks.hook_trust import HookTrust, scripts_of
from newel.text.json import to_printable_json
from newel.text.sanitize import escape_line

EPILOG: Final = """\
Your hooks are in ~/.newel/hooks.json, in the format of Claude Code's
settings, and in [[hooks.EVENT]] of ~/.newel/config.toml. Those of
~/.claude/settings.json run with `claude_settings = true` in [hooks]. Those
of a project run once you trust them."""

QUESTION: Final = (
    "Run these commands in this folder from now on, with your rights and outside of the sandbox?"
)


def command_hooks(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel hooks",
        description="List the hooks that run here, check their files, or trust those of this project.",
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="list the hooks with their files and lines (default)")
    listed.add_argument("--json", action="store_true", help="as JSON")
    check = actions.add_parser("check", help="say what is wrong with the files and the scripts they name")
    trust = actions.add_parser("trust", help="show the hooks of this project, and trust them")
    trust.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    change = trust.add_mutually_exclusive_group()
    change.add_argument(
        "--decline", action="store_true", help="never run them, and do not mention them again"
    )
    change.add_argument("--revoke", action="store_true", help="withdraw the decision")
    for action in (listed, check, trust):
        action.add_argument("--cwd", metavar="DIR", help="for this folder")
    options = parser.parse_args(list_by_default(arguments))
    project = folder(parser, options.cwd)
    settings = load_settings(Flags(), cwd=project, environ=os.environ)
    loaded = load_hooks(settings, project)
    if options.action == "check":
        return _check(loaded, project)
    if options.action == "trust":
        return _trust(settings, loaded, project, options)
    return _list(settings, loaded, as_json=options.json)


def _list(settings: Settings, loaded: LoadedHooks, *, as_json: bool) -> int:
    rows = hook_rows(loaded)
    if settings.hooks.disabled:
        rows = [HookRow(row.hook, "off") for row in rows]
    for problem in loaded.all_problems():
        print(f"newel: {escape_line(problem)}", file=sys.stderr)
    if as_json:
        print(to_printable_json([_as_json(row.hook, row.state) for row in rows]))
        return 0
    for line in hook_lines(rows):
        print(line)
    if not rows:
        print(NO_HOOKS)
    if unused := unused_claude_hooks(settings):
        print(unused)
    return 0


def _as_json(hook: Hook, state: str) -> dict[str, Any]:
    return {
        "event": hook.event,
        "matcher": hook.matcher,
        "if": hook.condition,
        "command": hook.command,
        "args": hook.args,
        "timeout": hook.limit,
        "file": str(hook.file),
        "line": hook.line,
        "level": hook.level,
        "state": state,
    }


def _check(loaded: LoadedHooks, project: Path) -> int:
    problems = loaded.all_problems()
    hooks = [*loaded.user, *(hook for of_file in loaded.project for hook in of_file.hooks)]
    for hook in hooks:
        problems += [f"{hook.where}: {problem}" for problem in _problems_of_scripts(hook, project)]
    for problem in problems:
        print(escape_line(problem))
    if not problems:
        print(f"{pluralize(len(hooks), 'hook')}, no problems.")
    return 1 if problems else 0


def _problems_of_scripts(hook: Hook, project: Path) -> Iterator[str]:
    first = (hook.command.split() or [""])[0].strip("\"'")
    word = hook.command.partition(" ")[0]
    # A path in which a shell would replace something may be any.
    own = [Path(word).expanduser()] if re.fullmatch(r"~?/[\w./-]+", word) else []
    for script in dict.fromkeys([*scripts_of(hook, project), *own]):
        if not script.is_file():
            yield f"{script} does not exist."
        elif first.endswith(script.name) and not os.access(script, os.X_OK):
            yield f"{script} is not executable: chmod +x {shlex.quote(str(script))}"


def _trust(settings: Settings, loaded: LoadedHooks, project: Path, options: argparse.Namespace) -> int:
    found = [of_file for of_file in loaded.project if of_file.hooks]
    trust = HookTrust(settings.home)
    if options.revoke or options.decline:
        for of_file in found:
            trust.decide(of_file.file, of_file.fingerprint, trusted=False if options.decline else None)
        print("The hooks of this project do not run." if found else "This project has no hooks.")
        return 0
    undecided = [of_file for of_file in found if of_file.state != "trusted"]
    if not undecided:
        print("The hooks of this project are trusted already." if found else "This project has no hooks.")
        return 0
    for of_file in undecided:
        print("\n".join(show_hooks(of_file, project)), end="\n\n")
    if not options.yes and not confirm(QUESTION):
        print("Nothing was changed. To be asked no more: newel hooks trust --decline")
        return 1
    for of_file in undecided:
        trust.decide(of_file.file, of_file.fingerprint, trusted=True)
    print("Trusted, until one of the commands, or a script that it names, changes.")
    return 0
