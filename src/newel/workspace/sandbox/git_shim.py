"""The program ``git`` that commands find first in a sandbox: a script that passes on the subcommands that change a repository."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from newel.workspace.sandbox import git_client_main
from newel.workspace.sandbox.git_rules import CHANGING

FOLDER: Final = "/run/newel"
"""The launcher's own folder inside."""

PROGRAMS: Final = f"{FOLDER}/bin"
"""First on ``PATH`` inside."""

_SCRIPT: Final = """#!/bin/sh
find_subcommand() {
    while [ $# -gt 0 ]; do
        case $1 in
        -C | -c) shift ;;
        -*) ;;
        *) subcommand=$1 first=$2; return ;;
        esac
        [ $# -gt 0 ] && shift
    done
}
find_subcommand "$@"
case $subcommand in
branch | tag | stash)
    case $subcommand\\ $first in
    branch\\  | tag\\  | *\\ -l | *\\ --list | branch\\ -[arv] | branch\\ -vv | branch\\ --show-current | stash\\ list | stash\\ show)
        exec @GIT@ "$@" ;;
    esac ;;
esac
case $subcommand in
@CHANGING@) exec @PYTHON@ -I -S @CLIENT@ @GIT@ "$@" ;;
esac
exec @GIT@ "$@"
"""


def shim_files(git: str, python: str) -> Mapping[str, str]:
    """The files that the launcher writes inside, by their paths; those in ``PROGRAMS`` can be executed. ``git`` is the real one."""
    client = f"{FOLDER}/git_client.py"
    values = {
        "@GIT@": shlex.quote(git),
        "@PYTHON@": shlex.quote(python),
        "@CLIENT@": client,
        "@CHANGING@": " | ".join(sorted(CHANGING)),
    }
    script = _SCRIPT
    for name, value in values.items():
        script = script.replace(name, value)
    return {
        f"{PROGRAMS}/git": script,
        client: Path(git_client_main.__file__).read_text(encoding="utf-8"),
    }
