"""Draw docs/themes.svg and docs/trust.svg: a theme is chosen, and a project's hooks are asked about, in a terminal of 92 columns.

    python -m scripts.conversation_pictures

The terminal is tmux, and the conversations are real; only the model is scripted. Needs tmux.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from scripts.picture import COLUMNS, draw

from mock_llm_server import running
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

ROWS = 40
MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
HOOK = '"$CLAUDE_PROJECT_DIR"/scripts/format.sh'
HOOKS = {
    "hooks": {"PostToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": HOOK}]}]}
}


def open_conversation(newel: Newel) -> Tmux:
    environ = {**newel.environ, "COLORTERM": "truecolor"}
    return Tmux([str(BIN / "newel")], newel.project, environ, columns=COLUMNS, rows=ROWS)


def draw_themes(newel: Newel) -> None:
    with open_conversation(newel) as screen:
        screen.wait_for(MARK)
        screen.type("/theme", "Enter")
        screen.wait_for("1 failed")
        screen.type("", *["Down"] * 3)
        screen.wait_for(f"{MARK} colorblind")
        draw_screen("themes", newel, screen)


def draw_trust(newel: Newel) -> None:
    script = newel.project / "scripts" / "format.sh"
    script.parent.mkdir()
    script.write_text('exec ruff format "$@"\n')
    settings = newel.project / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(HOOKS))
    with open_conversation(newel) as screen:
        screen.wait_for("Trust all of this")
        draw_screen("trust", newel, screen)


def draw_screen(name: str, newel: Newel, screen: Tmux) -> None:
    lines = [line.replace(str(newel.project), "~/project") for line in screen.painted]
    draw(name, "newel", "newel", [re.sub(r"\s+$", "", line) for line in lines])


def main() -> int:
    for picture in (draw_themes, draw_trust):
        with tempfile.TemporaryDirectory(prefix="newel-") as folder, running(scenario("", {})) as server:
            picture(Newel(Path(folder), server))
    return 0


if __name__ == "__main__":
    sys.exit(main())
