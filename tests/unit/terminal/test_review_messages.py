"""If these fail, a look at what agents changed buries the conversation, or hides what waits."""

from __future__ import annotations

from newel.review.project import RunFile, RunView
from newel.terminal.commands import slash_command
from newel.terminal.review.review_ui import DiffLimit, shortened
from newel.terminal.review.run_format import ROWS, SHORT, describe_run


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


def test_a_run_over_hundreds_of_files_is_summarized() -> None:
    shown = describe_run(a_run(300, 200), slash_command, SHORT)
    assert shown.count("gen/") == ROWS
    assert f"{300 - ROWS} more files" in shown
    assert len(shown) < 4_000
    assert shown.count("\n") < 100
    assert "… 60,540 more lines: `newel review cp_1` shows the whole diff" in shown


def test_a_small_run_is_shown_completely() -> None:
    shown = describe_run(a_run(3, 5), slash_command, SHORT)
    assert shown.count("gen/") == 3
    assert "more" not in shown


def test_a_cut_ends_at_a_line_and_counts_the_rest() -> None:
    assert shortened("+1\n+2\n+3\n", "newel review", DiffLimit(3, 100)) == "+1\n+2\n+3\n"
    rest = "`newel review` shows the whole diff\n"
    assert shortened("+1\n+2\n+3\n", "newel review", DiffLimit(2, 100)) == f"+1\n+2\n… 1 more line: {rest}"
    assert shortened("+1\n+2\n+3", "newel review", DiffLimit(9, 7)) == f"+1\n+2\n… 1 more line: {rest}"
    assert shortened("+123456789\n", "newel review", DiffLimit(9, 4)) == f"+123\n… 6 more characters: {rest}"
