"""If these fail, a look at what agents changed buries the conversation, or hides what waits."""

from __future__ import annotations

from newel.review.runs import RunFile, RunView
from newel.terminal.review import ROWS, describe_run


def a_run(files: int, lines: int) -> RunView:
    patch = "--- a\n+++ b\n" + "-line\n" * lines
    return RunView(
        checkpoint_id="cp_1",
        session_id="",
        created_at="2026-03-02T07:40:00.000Z",
        title="made many files",
        files=tuple(
            RunFile(file_path=f"gen/{number}.txt", state="", patch=patch, hunks=()) for number in range(files)
        ),
    )


def test_a_run_over_hundreds_of_files_takes_little_room() -> None:
    shown = describe_run(a_run(300, 200), shown=2_000)
    assert shown.count("gen/") == ROWS
    assert f"{300 - ROWS} more files" in shown
    assert len(shown) < 4_000
    assert shown.count("\n") < 80
    assert "more characters" in shown


def test_a_small_run_is_shown_whole() -> None:
    shown = describe_run(a_run(3, 5), shown=2_000)
    assert shown.count("gen/") == 3
    assert "more" not in shown
