"""If these fail, a bell rings after each short answer, or none after a long run."""

from __future__ import annotations

import io

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

from newel.terminal.ui.attention import LONG_S, Attention


def run_for(seconds: float, *, in_front: bool | None) -> str:
    """What is written to the terminal when a run of this length has ended."""
    out, now = io.StringIO(), [100.0]
    output = Vt100_Output(out, lambda: Size(24, 80), enable_bell=True)
    attention = Attention(output, "newel · shop", (), print, clock=lambda: now[0])
    if in_front is not None:
        attention.set_focus(in_front)
    attention.set_working(True)
    now[0] += seconds
    attention.set_working(False)
    return out.getvalue()


def test_the_end_of_a_long_run_is_called_out() -> None:
    assert "\a\x1b]9;newel · shop: finished after 42.0 s\x1b\\" in run_for(42, in_front=False)
    assert "\a" in run_for(42, in_front=None).replace("\x07", "\a").rpartition("]9;")[0]


def test_a_short_run_and_somebody_who_looks_on_are_left_in_peace() -> None:
    assert "]9;" not in run_for(LONG_S - 1, in_front=False)
    assert "]9;" not in run_for(42, in_front=True)
