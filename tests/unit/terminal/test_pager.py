"""If these fail, a long diff in the pager differs from a short one, or comes late."""

from __future__ import annotations

import itertools
import os
import termios
from pathlib import Path

import pytest

from newel.terminal.pager import page, painted
from newel.terminal.renderers.diff_styles import with_diff
from newel.terminal.renderers.styles import Styles

ENVIRON = {"TERM": "xterm-256color"}


def diff(lines: int) -> str:
    removed = "".join(f"-    was({n})\n" for n in range(lines))
    added = "".join(f"+    now({n})  \n\n" for n in range(0, lines, 2)).replace("\n\n", "\n+\n")
    header = f"--- a/x.py\n+++ b/x.py\n@@ -1,{lines} +1,{lines} @@\n"
    return f"A run\n\n\n  its files\n{header}{removed}{added}\n\nThe end"


@pytest.mark.parametrize("lines", [2, 300, 3_000])
def test_a_text_is_painted_in_pieces_as_it_is_at_once(lines: int) -> None:
    styles = Styles(ENVIRON)
    text = diff(lines)
    assert "".join(painted(text, styles, 80)) == styles.paint(with_diff(text), 80) + "\n"


def test_the_first_screen_is_painted_before_the_rest() -> None:
    (first,) = itertools.islice(painted(diff(3_000), Styles(ENVIRON), 80), 1)
    assert "was(" in first
    assert first.count("\n") < 300


def test_a_pager_may_be_left_before_the_end(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    environ = ENVIRON | {"PATH": os.environ["PATH"], "PAGER": f"sh -c 'head -n 1 > {seen}'"}
    controller, terminal = os.openpty()
    with os.fdopen(controller, "rb"), os.fdopen(terminal, "w") as out:
        assert page(out, diff(20_000), environ)
    assert seen.read_text() == "A run\n"


@pytest.mark.parametrize(("columns", "is_paged"), [(40, True), (200, False)])
def test_a_text_whose_long_lines_do_not_fit_is_paged(tmp_path: Path, columns: int, is_paged: bool) -> None:
    environ = ENVIRON | {"PATH": os.environ["PATH"], "PAGER": f"sh -c 'cat > {tmp_path}/seen'"}
    controller, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    with os.fdopen(controller, "rb"), os.fdopen(terminal, "w") as out:
        assert page(out, f"{'word ' * 30}\n" * 12, environ) is is_paged
