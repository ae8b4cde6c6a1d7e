"""Draw docs/undo.svg: a run is reviewed and undone, in a terminal of 92 columns.

    python -m scripts.undo_picture

The terminal is tmux, and the run, the review and the undo are real; only the model is scripted.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from scripts.picture import COLUMNS, draw

from mock_llm_server import running
from tests.support import Newel, bash, scenario
from tests.tmux import Tmux

ROWS = 48
PROMPT = "rename the option --dry to --dry-run"
FILES = {
    "cli.py": 'import sys\n\nadd("--dry")\nadd("--all")\n',
    "notes.txt": "about --dry\n",
    "run.sh": "exec python cli.py\n",
}
MODEL = scenario(
    "rename the option",
    bash("sed -i 's/--dry\"/--dry-run\"/' cli.py && rm notes.txt && chmod +x run.sh"),
    {"content": "Renamed."},
)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="newel-") as folder, running(MODEL) as server:
        newel = Newel(Path(folder), server)
        for name, text in FILES.items():
            (newel.project / name).write_text(text)
        newel("--quiet", PROMPT)
        environ = {**newel.environ, "COLORTERM": "truecolor", "PS1": "$ ", "PAGER": "cat"}
        with Tmux(
            ["bash", "--norc", "--noprofile"], newel.project, environ, columns=COLUMNS, rows=ROWS
        ) as screen:
            screen.wait_for("$")
            screen.type("newel review", "Enter")
            screen.wait_for('add("--dry-run")')
            screen.wait_for("\n$")
            screen.type("newel undo", "Enter")
            screen.wait_for("Undo these changes?")
            screen.answer("y", "Enter")
            screen.wait_for("`newel redo` redoes it")
            lines = screen.painted
    last = next(index for index, line in enumerate(lines) if "redoes it" in line)
    first, *rest = [re.sub(r"\s+$", "", line) for line in lines[: last + 1]]
    draw("undo", "newel undo", first.removeprefix("$ "), rest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
