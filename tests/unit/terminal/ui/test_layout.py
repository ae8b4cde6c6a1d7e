"""If this fails, what a model is writing mixes with what it wrote before, or a wide character is lost."""

from __future__ import annotations

import io

import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output.vt100 import Vt100_Output

from newel.terminal.ui.layout import Rows, build_layout
from tests.integration.terminal.conftest import Screen

COLUMNS, ROWS = 20, 12
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
DRAWINGS = {
    "\n".join((f"{BOLD}one line{PLAIN} and more", "another")): ["one line and more", "another"],
    f"one{BOLD} line{PLAIN} less": ["one line less"],
    f"日本 {BOLD}日本{PLAIN} x": ["日本 日本 x"],
    f"  x{BOLD}  {PLAIN}x": ["  x  x"],
    f"{BOLD}a line that is 20 w{PLAIN}日 wide": ["a line that is 20 w"],
    "\n".join(("a", "", "b", f"{BOLD} c{PLAIN}")): ["a", "", "b", " c"],
}
"""What is painted one after the other, and what the window shows of it."""


def prefix(line: int, wrapped: int) -> AnyFormattedText:
    del line, wrapped
    return "> "


@pytest.mark.anyio
async def test_each_drawing_of_growing_text_replaces_the_one_before() -> None:
    written = io.StringIO()
    output = Vt100_Output(written, lambda: Size(rows=ROWS, columns=COLUMNS), enable_cpr=False)
    live: list[str] = []
    with create_app_session(input=DummyInput(), output=output):
        rows = Rows(lambda: live, lambda: "", prefix, lambda: "", lambda: "")
        app = Application[None](build_layout(Buffer(), rows, lambda: ROWS))
        screen = Screen(COLUMNS, ROWS)
        with set_app(app):  # without one, each control that asks for it makes a dummy
            for painted, shown in (*DRAWINGS.items(), *reversed(DRAWINGS.items())):
                live[:] = painted.split("\n")
                app.renderer.render(app, app.layout)
                screen.write(written.getvalue())
                written.seek(0)
                written.truncate()
                assert screen.lines[: len(shown) + 1] == [*shown, ">"]
        await app.cancel_and_wait_for_background_tasks()
