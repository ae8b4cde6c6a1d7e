"""Draw docs/editors.svg: a client of the Agent Client Protocol drives ``newel acp``, in a terminal of 92 columns.

    python -m scripts.editor_picture

The client is acpx, of the npm registry; the protocol, the edit and the undo are real, and only the model is scripted.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from scripts.picture import COLUMNS, draw

from mock_llm_server import running
from tests.nodejs import NODE, SERVERS, packages
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

ROWS = 60
PROMPT = "rename the option --dry to --dry-run"
EDIT = {"file_path": "cli.py", "edits": [{"old_string": '"--dry"', "new_string": '"--dry-run"'}]}
MODEL = scenario(
    "rename the option",
    {
        "content": "One line in cli.py.",
        "tool_calls": [{"function": {"name": "edit", "arguments": EDIT}}],
    },
    {"content": "Renamed."},
)


def write_program(folder: Path) -> None:
    """Put ``acpx`` and ``newel`` on a ``PATH`` of their own, under the names that a reader types."""
    folder.mkdir()
    acpx = packages(SERVERS) / "acpx" / "dist" / "cli.js"
    (folder / "acpx").write_text(f'#!/bin/sh\nexec {NODE} {acpx} "$@"\n')
    (folder / "acpx").chmod(0o755)
    (folder / "newel").symlink_to(BIN / "newel")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="newel-") as folder, running(MODEL) as server:
        newel = Newel(Path(folder), server)
        (newel.project / "cli.py").write_text('import sys\n\nadd("--dry")\nadd("--all")\n')
        programs = Path(folder) / "programs"
        write_program(programs)
        environ = {
            **newel.environ,
            "PATH": f"{programs}:{newel.environ['PATH']}",
            "TMPDIR": folder,
            "COLORTERM": "truecolor",
            "PS1": "$ ",
            "PAGER": "cat",
        }
        with Tmux(
            ["bash", "--norc", "--noprofile"], newel.project, environ, columns=COLUMNS, rows=ROWS
        ) as screen:
            screen.wait_for("$")
            screen.type(f'acpx --agent "newel acp" --approve-all exec "{PROMPT}"', "Enter")
            screen.wait_for("[done] end_turn")
            screen.wait_for("\n$")
            screen.type("newel undo --yes", "Enter")
            screen.wait_for("`newel redo` redoes it")
            lines = screen.painted
    last = next(index for index, line in enumerate(lines) if "redoes it" in line)
    shown = [line.replace(str(newel.project), "~/project") for line in lines[: last + 1]]
    first, *rest = [re.sub(r"\s+$", "", line) for line in shown]
    draw("editors", "newel acp, driven by acpx", first.removeprefix("$ "), rest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
