"""``newel config``: shows and changes the settings of ``config.toml``."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from newel.agent.errors import ConfigError, UsageError
from newel.cli.options import Parser
from newel.config.editing import FILE, check_config, effective_values, has_value, read_name, save, set_value
from newel.config.settings import Flags, load_settings, newel_home
from newel.storage.files import read_regular
from newel.text.sanitize import escape_line
from newel.workspace.disk.state_file import rewrite
from newel.workspace.process.own_programs import own_environ

DESCRIPTION = "Show and change the settings of config.toml, which every folder uses."
EPILOG = """\
NAME is a setting, such as model, limits.maxCost or models."my-model".context_window; VALUE is a word, or a value in TOML: \
newel config set sandbox.domains '["pypi.org"]'
`newel docs settings` explains all settings. Keys are not shown; `newel keys` stores them."""

TEMPLATE = b"# Settings of Newel: `newel docs settings` explains them.\n"


def command_config(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel config",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    get = actions.add_parser("get", help="show what applies, and where it is set (default)")
    get.add_argument(
        "name", metavar="NAME", nargs="?", help="a setting or a table; without it all that are set"
    )
    put = actions.add_parser("set", help="set a setting")
    put.add_argument("name", metavar="NAME", help="a setting, such as model or limits.maxCost")
    put.add_argument(
        "value",
        metavar="VALUE",
        help="""a word, or a value in TOML: 5, true, '["pypi.org"]' (quoted for the shell)""",
    )
    unset = actions.add_parser("unset", help="remove a setting, so that its default applies")
    unset.add_argument("name", metavar="NAME", help="a setting or a table")
    actions.add_parser("edit", help="open the file in $VISUAL or $EDITOR, and check it")
    actions.add_parser("path", help="print the path of the file")
    options = parser.parse_args(arguments)
    home = newel_home(os.environ)
    match options.action:
        case "set":
            return _set(home, options.name, options.value)
        case "unset":
            return _unset(home, options.name)
        case "edit":
            return _edit(home / FILE)
        case "path":
            print(home / FILE)
            return 0
        case _:
            return _get(options.name if options.action else None)


def _get(name: str | None) -> int:
    only = None if name is None else read_name(name)
    settings = load_settings(Flags(), cwd=Path.cwd(), environ=os.environ)
    values = effective_values(settings, only=only)
    if only is None:
        values = [each for each in values if each.origin != "default"]
        if not values:
            print("Nothing is set: the defaults apply. To begin: newel setup")
    if len(values) == 1 and only is not None and "." not in values[0].name.removeprefix(name or ""):
        print(f"{escape_line(values[0].shown)}   ({escape_line(values[0].origin)})")
        return 0
    width = max((len(each.name) for each in values), default=0)
    for each in values:
        print(f"{escape_line(each.name):<{width}}  {escape_line(each.shown)}   ({escape_line(each.origin)})")
    return 0


def _set(home: Path, name: str, value: str) -> int:
    path = read_name(name)
    set_value(home, path, value)
    settings = load_settings(Flags(), cwd=Path.cwd(), environ=os.environ)
    applies = effective_values(settings, only=path)[0]
    print(f"{escape_line(applies.name)} = {escape_line(applies.shown)}   ({escape_line(applies.origin)})")
    if not applies.origin.startswith(str(home / FILE)):
        print(f"newel: It was saved, but {escape_line(applies.origin)} has precedence.", file=sys.stderr)
    return 0


def _unset(home: Path, name: str) -> int:
    path = read_name(name)
    if not has_value(home, path):
        raise ConfigError(f"{name} is not set in {home / FILE}.")
    save(home, {path: None})
    print(f"Removed {escape_line(name)} from {home / FILE}.")
    return 0


def _edit(file: Path) -> int:
    """Edit a copy, so that no other Newel reads a half-written file, or one with a mistake."""
    before = read_regular(file) if file.exists() else b""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix="config-", suffix=".toml", dir=file.parent)
    draft = Path(name)
    with os.fdopen(descriptor, "wb") as out:
        out.write(before or TEMPLATE)
    _run_editor(draft)
    while error := _error_in(file, draft):
        if not _edit_again(error):
            raise ConfigError(f"{file} was not changed. Your text is in {draft}.") from error
        _run_editor(draft)
    after = draft.read_bytes()
    draft.unlink()
    if after in (before, TEMPLATE):
        print("Nothing was changed.")
        return 0
    rewrite(file, lambda now: _unless_changed(file, before, now, after))
    print(f"Saved {file}.")
    return 0


def _error_in(file: Path, draft: Path) -> ConfigError | None:
    try:
        check_config(file, draft.read_bytes())
    except ConfigError as error:
        return error
    return None


def _unless_changed(file: Path, before: bytes, now: bytes, after: bytes) -> bytes:
    if now != before:
        draft = file.with_suffix(".edited.toml")
        draft.touch(mode=0o600)
        draft.write_bytes(after)
        raise ConfigError(f"{file} was changed meanwhile, so it was not saved. Your text is in {draft}.")
    return after


def _run_editor(file: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    environ = own_environ()
    path = environ["PATH"]
    command = (
        shlex.split(editor)
        if editor
        else [next((name for name in ("nano", "vi") if shutil.which(name, path=path)), "vi")]
    )
    try:
        code = subprocess.run([*command, str(file)], env=environ, check=False).returncode
    except OSError as error:
        file.unlink()
        raise UsageError(
            f"The editor {command[0]!r} does not start: {error.strerror}. Set $VISUAL or $EDITOR."
        ) from error
    if code != 0:
        file.unlink()
        raise ConfigError(f"The editor {command[0]!r} ended with exit code {code}, so nothing was changed.")


def _edit_again(error: ConfigError) -> bool:
    print(f"newel: {escape_line(str(error))}", file=sys.stderr)
    if not sys.stdin.isatty():
        return False
    sys.stderr.write("Edit again? [Y/n] ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    return bool(line) and line.strip().lower() in {"", "y", "yes"}
