"""Draw docs/demo.svg: ``newel demo`` in a terminal of 92 columns.

The demo runs in tmux, which interprets every control sequence; rich then draws the screen with its colours as SVG.
Needs tmux.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 92, 30
THEME = TerminalTheme(
    (22, 24, 27),
    (230, 230, 227),
    [
        (16, 18, 20),
        (255, 138, 128),
        (124, 196, 127),
        (224, 176, 80),
        (122, 162, 227),
        (190, 150, 220),
        (79, 195, 195),
        (230, 230, 227),
    ],
    [
        (154, 160, 168),
        (255, 138, 128),
        (124, 196, 127),
        (224, 176, 80),
        (122, 162, 227),
        (190, 150, 220),
        (79, 195, 195),
        (255, 255, 255),
    ],
)


def tmux(*words: str) -> str:
    done = subprocess.run(["tmux", "-L", "newel-picture", *words], check=True, capture_output=True, text=True)
    return done.stdout


def screen() -> list[str]:
    """The screen of the finished run, one line of text with colour codes per row."""
    command = f"clear; {ROOT / '.venv/bin/newel'} demo; echo FINISHED; sleep 30"
    tmux(
        "new-session",
        "-d",
        "-x",
        str(COLUMNS),
        "-y",
        str(ROWS),
        "env",
        "COLORTERM=truecolor",
        "sh",
        "-c",
        command,
    )
    try:
        for _ in range(100):
            time.sleep(0.2)
            if "FINISHED" in tmux("capture-pane", "-p"):
                break
        lines = tmux("capture-pane", "-p", "-e").split("\n")
    finally:
        tmux("kill-server")
    end = next(index for index, line in enumerate(lines) if "FINISHED" in line)
    return [re.sub(r"newel-demo-\w+", "newel-demo", line) for line in lines[:end]]


def draw(name: str, title: str, command: str, lines: list[str]) -> None:
    """Write docs/NAME.svg: the screen after a command, as lines with colour codes."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(f"$ {command}", highlight=False)
    for line in AnsiDecoder().decode("\n".join(lines)):
        console.print(line)
    svg = console.export_svg(title=title, theme=THEME, unique_id=name)
    # The page must not load a font from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    (ROOT / f"docs/{name}.svg").write_text(svg)
    print(f"docs/{name}.svg is drawn")


def main() -> int:
    draw("demo", "newel demo", "./run demo", screen())
    return 0


if __name__ == "__main__":
    sys.exit(main())
