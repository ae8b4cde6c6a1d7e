"""If these fail, a user's own program for the status line ends the conversation."""

from __future__ import annotations

import anyio
import pytest

from newel.terminal.repl.status_program import follow


@pytest.mark.anyio
async def test_the_program_is_given_a_path_that_is_no_text() -> None:
    shown: list[str] = []
    complaints: list[str] = []
    with anyio.move_on_after(5) as scope:

        def show(line: str) -> None:
            shown.append(line)
            scope.cancel()

        await follow(["cat"], lambda: {"cwd": "/home/jos\udce9"}, show, complaints.append)
    assert (shown, complaints) == (['{"cwd": "/home/jos\\udce9"}'], [])
