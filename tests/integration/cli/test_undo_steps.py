"""If these fail, a user who goes back a step too far, or too short, loses work or has to look for ids in hexadecimal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.terminal.conftest import Terminal
from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]
ORDERED, TURNED = "1\n2\n3\n4\n5\n", "5\n4\n3\n2\n1\n"


@pytest.fixture
def steps(with_model: Make) -> Newel:
    """A project in which each run adds a line of its own to a.txt, and writes a file of its own."""
    made: dict[str, Any] = {"scenarios": []}
    for word in ("one", "two", "three", "four"):
        command = bash(f"echo {word} >> a.txt; echo {word} > {word}.txt")
        made["scenarios"] += scenario(f"add {word}", command, {"content": "Done."})["scenarios"]
    made["scenarios"] += scenario("look", bash("true"), {"content": "Done."})["scenarios"]
    return with_model(made)


def ran(newel: Newel, *words: str) -> str:
    done = newel(*words)
    assert done.returncode == 0, done.stderr + done.stdout
    return str(done.stdout)


def lines(newel: Newel) -> list[str]:
    """The lines of a.txt; each run's own file exists exactly while its line does."""
    file = newel.project / "a.txt"
    found = file.read_text().split() if file.exists() else []
    assert {f"{word}.txt" for word in found} == {path.name for path in newel.project.glob("[!a]*.txt")}
    return found


def test_each_undo_goes_a_run_further_and_each_redo_comes_back(steps: Newel) -> None:
    for word in ("one", "two", "three"):
        ran(steps, f"add {word}")
    assert "Undone in 2 files" in ran(steps, "undo", "--yes")
    assert lines(steps) == ["one", "two"]
    ran(steps, "undo", "--yes")
    assert lines(steps) == ["one"]
    assert "Redone in 2 files" in ran(steps, "redo", "--yes")
    assert lines(steps) == ["one", "two"]
    ran(steps, "undo", "--yes")
    ran(steps, "undo", "--yes")
    assert lines(steps) == []
    done = steps("undo", "--yes")
    assert (done.returncode, "There is nothing to undo" in done.stderr) == (1, True)
    for expected in (["one"], ["one", "two"], ["one", "two", "three"]):
        ran(steps, "redo", "--yes")
        assert lines(steps) == expected
    done = steps("redo", "--yes")
    assert (done.returncode, "There is nothing to redo" in done.stderr) == (1, True)
    ran(steps, "undo", "--yes")
    assert lines(steps) == ["one", "two"]


def test_lines_that_changed_places_are_undone_once(with_model: Make) -> None:
    """Undone again, they would be there twice, and the undo would never go further."""
    first = scenario("begin", bash("touch begun"), {"content": "Done."})
    second = scenario("turn", bash("seq 5 | tac > a.txt"), {"content": "Done."})
    newel = with_model({"scenarios": first["scenarios"] + second["scenarios"]})
    file, begun = newel.project / "a.txt", newel.project / "begun"
    file.write_text(ORDERED)
    ran(newel, "begin")
    ran(newel, "turn")
    for _ in range(2):
        ran(newel, "undo", "--yes")
        assert (file.read_text(), begun.exists()) == (ORDERED, True)
        ran(newel, "undo", "--yes")
        assert (file.read_text(), begun.exists()) == (ORDERED, False)
        ran(newel, "redo", "--yes")
        assert (file.read_text(), begun.exists()) == (ORDERED, True)
        ran(newel, "redo", "--yes")
        assert (file.read_text(), begun.exists()) == (TURNED, True)


def test_half_of_a_move_is_not_undone(with_model: Make) -> None:
    """The line would be there twice: where it was, and as the user has changed it since. What can be done instead is named."""
    first = scenario("begin", bash("touch begun"), {"content": "Done."})
    second = scenario("turn", bash("printf '1\\n3\\n2\\n' > a.txt"), {"content": "Done."})
    newel = with_model({"scenarios": first["scenarios"] + second["scenarios"]})
    file, begun = newel.project / "a.txt", newel.project / "begun"
    file.write_text("1\n2\n3\n")
    ran(newel, "begin")
    ran(newel, "turn")
    file.write_text("1\n3\ntwo\n")
    done = newel("undo", "--yes")
    assert (done.returncode, file.read_text()) == (1, "1\n3\ntwo\n")
    assert done.stdout.startswith("Undo: turn\nSkipped (changed since):\n  a.txt:2: hunk ")
    assert "it belongs to a move, and its other half" in done.stdout
    *_, last = done.stdout.splitlines()
    assert last.startswith("Nothing was undone. To undo the run before it (begin): `newel undo cp_")
    ran(newel, *last.rpartition("newel ")[2].rstrip("`.").split(), "--yes")
    assert (file.read_text(), begun.exists()) == ("1\n3\ntwo\n", False)


def test_an_undo_leaves_alone_what_the_user_has_undone(with_model: Make) -> None:
    """As by `git checkout FILE`. The lines that the run has moved would be there twice."""
    newel = with_model(scenario("turn", bash("seq 5 | tac > a.txt; echo > b.txt"), {"content": "Done."}))
    file = newel.project / "a.txt"
    file.write_text(ORDERED)
    ran(newel, "turn")
    file.write_text(ORDERED)
    assert "Undone in 1 file: b.txt." in ran(newel, "undo", "--yes")
    assert file.read_text() == ORDERED
    ran(newel, "redo", "--yes")
    assert file.read_text() == ORDERED


def test_what_a_rollback_has_restored_is_not_undone_again(with_model: Make) -> None:
    newel = with_model(scenario("turn", bash("seq 5 | tac > a.txt"), {"content": "Done."}))
    file = newel.project / "a.txt"
    file.write_text(ORDERED)
    ran(newel, "turn")
    assert file.read_text() == TURNED
    ran(newel, "rollback", "1", "--yes")
    for more in ("", "more\n"):
        file.write_text(ORDERED + more)
        done = newel("undo", "2", "--yes")
        assert (done.returncode, "is undone already" in done.stderr) == (1, True)
        assert file.read_text() == ORDERED + more


def test_a_new_run_ends_the_redo_and_undo_goes_on_before_what_is_undone(steps: Newel) -> None:
    for word in ("one", "two", "three"):
        ran(steps, f"add {word}")
    ran(steps, "undo", "--yes")
    ran(steps, "add four")
    done = steps("redo", "--yes")
    assert done.returncode == 1
    assert (
        "Nothing was undone since the last run. To redo an earlier one (add three): `newel redo cp_"
        in done.stderr
    )
    assert lines(steps) == ["one", "two", "four"]
    ran(steps, "undo", "--yes")
    ran(steps, "undo", "--yes")
    assert lines(steps) == ["one"]


def test_a_redo_after_a_run_without_changes_is_not_a_guess(steps: Newel) -> None:
    ran(steps, "add one")
    ran(steps, "undo", "--yes")
    ran(steps, "look")
    assert steps("redo", "--yes").returncode == 1
    assert lines(steps) == []
    ran(steps, "redo", "2", "--yes")
    assert lines(steps) == ["one"]


def test_numbers_name_runs_in_lists_and_in_commands(steps: Newel) -> None:
    for word in ("one", "two", "three"):
        ran(steps, f"add {word}")
    rows = ran(steps, "checkpoints").splitlines()
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert [row.split("add ")[1] for row in rows] == ["three  (2 files)", "two  (2 files)", "one  (2 files)"]
    assert "\n+two\n" in ran(steps, "review", "2")
    assert "`newel review 2` shows another run." in ran(steps, "review")
    ran(steps, "undo", "3", "--yes")
    assert lines(steps) == ["two", "three"]
    rows = ran(steps, "checkpoints").splitlines()
    assert rows[0].endswith("Undo of add one  (2 files)")
    assert rows[3].endswith("add one  (2 files, undone)")
    assert "undone already" in steps("undo", "4", "--yes").stderr
    ran(steps, "redo", "4", "--yes")
    assert lines(steps) == ["one", "two", "three"]
    ran(steps, "undo", "5", "--yes")  # the run that was undone and redone
    assert lines(steps) == ["two", "three"]
    assert steps("undo", "99", "--yes").returncode == 1


def test_an_undo_of_a_single_hunk_leaves_the_rest_to_the_next_undo(steps: Newel) -> None:
    ran(steps, "add one")
    ran(steps, "add two")
    found = json.loads(ran(steps, "checkpoints", "--json"))["checkpoints"][0]
    own = next(file["hunks"][0]["hunk_id"] for file in found["files"] if file["file_path"] == "two.txt")
    ran(steps, "rollback", "1", "--hunk", own, "--yes")
    assert not (steps.project / "two.txt").exists()
    ran(steps, "undo", "--yes")
    assert lines(steps) == ["one"]
    ran(steps, "redo", "--yes")
    ran(steps, "redo", "--yes")
    assert lines(steps) == ["one", "two"]


@pytest.mark.parametrize("front", ["shell", "conversation"])
def test_an_undo_lists_the_files_and_v_shows_the_diff(front: str, steps: Newel) -> None:
    ran(steps, "add one")
    words = ["undo"] if front == "shell" else []
    environ = steps.environ | {"TERM": "xterm-256color", "PYTHONUTF8": "1", "PAGER": ""}
    terminal = Terminal([str(BIN / "newel"), *words], steps.project, 100, 30, environ)
    try:
        if front == "conversation":
            terminal.wait_for("Enter sends")
            terminal.send("/undo\r")
        terminal.wait_for("Undo these changes? [y/N, v: diff]")
        shown = terminal.screen.text
        minus = "\N{MINUS SIGN}1\n"
        elsewhere = "Made in another conversation.\n" if front == "conversation" else ""
        assert (
            f"Undo: add one\n{elsewhere}2 files would change:\n  a.txt    {minus}  one.txt  {minus}" in shown
        )
        assert "@@" not in shown
        terminal.send("v\r")
        terminal.wait_for("-one")
        terminal.wait_for(lambda: terminal.screen.text.rpartition("-one")[2].count("these changes?") == 1)
        terminal.send("y\r")
        terminal.wait_for("Undone in 2 files: a.txt, one.txt.")
        prefix = "newel " if front == "shell" else "/"
        terminal.wait_for(f"`{prefix}redo` redoes it, `{prefix}undo` undoes the run before it.")
        if front == "conversation":
            terminal.send("/redo\r")
            terminal.wait_for("Redo these changes?")
            terminal.send("y\r")
            terminal.wait_for("Redone in 2 files: a.txt, one.txt.")
            assert lines(steps) == ["one"]
            terminal.send("add two\r")
            terminal.wait_for("two.txt")
            terminal.wait_for("Done.")
            terminal.send("/undo\r")
            terminal.wait_for("Undo: add two\n2 files would")
            terminal.send("n\r")
            terminal.wait_for("Nothing was changed.")
            terminal.send("\x04")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_a_review_in_a_conversation_shows_whole_diffs_in_the_pager(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("seq 300 > a.txt"), {"content": "Done."}))
    ran(newel, "go")
    environ = newel.environ | {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
    terminal = Terminal([str(BIN / "newel")], newel.project, 100, 30, environ)
    try:
        terminal.wait_for("Enter sends")
        terminal.send("/review\r")
        terminal.wait_for("q closes")
        assert "\n+++ b/a.txt\n" in terminal.screen.text
        terminal.send("G")
        terminal.wait_for("+300\nChanges · end")
        terminal.send("q")
        terminal.send("/cost\r")
        terminal.wait_for("No tokens used yet.")
        terminal.send("\x04")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_a_review_names_renamed_files_once(with_model: Make) -> None:
    commands = (
        "mkdir lib; mv a.py lib/b.py; sed -i s/line3$/line-three/ lib/b.py; mv same.py moved.py; rm gone.py"
    )
    newel = with_model(scenario("go", bash(commands), {"content": "Done."}))
    (newel.project / "a.py").write_text("".join(f"line{number}\n" for number in range(9)))
    (newel.project / "same.py").write_text("same\nlines\n")
    (newel.project / "gone.py").write_text("nothing\nlike\nthe\nothers\n")
    ran(newel, "go")
    rows = ran(newel, "review").split("diff --git")[0]
    arrow = "\N{RIGHTWARDS ARROW}"
    assert f"  a.py {arrow} lib/b.py " in rows
    assert f"  same.py {arrow} moved.py " in rows
    assert rows.count("renamed") == 2
    assert rows.count("gone.py") == 1


def test_an_undo_of_a_rename_names_it_once_and_says_what_stays_staged(with_model: Make) -> None:
    """If this fails, `git status` shows `RD` after an undo, and nobody has said why."""
    newel = with_model(scenario("go", bash("git mv a.py b.py; echo x >> c.txt"), {"content": "Done."}))
    (newel.project / "a.py").write_text("".join(f"line{number}\n" for number in range(9)))
    (newel.project / "c.txt").write_text("c\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q"], ["add", "a.py", "c.txt"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=newel.project, check=True)
    ran(newel, "go")
    undone = ran(newel, "undo", "--yes")
    arrow = "\N{RIGHTWARDS ARROW}"
    assert f"  b.py {arrow} a.py  renamed\n" in undone
    staged = "Still staged in git, which an undo leaves alone: a.py, b.py. `git restore --staged FILE` unstages them."
    assert undone.count(staged) == 1
    subprocess.run([*git, "restore", "--staged", "a.py", "b.py"], cwd=newel.project, check=True)
    assert subprocess.check_output([*git, "status", "--porcelain"], cwd=newel.project) == b""
    assert "staged" not in ran(newel, "redo", "--yes")


def test_an_undo_says_nothing_about_git_where_nothing_is_staged(steps: Newel) -> None:
    subprocess.run(["git", "init", "-q"], cwd=steps.project, check=True)
    ran(steps, "add one")
    assert "staged" not in ran(steps, "undo", "--yes")


def test_a_proposal_that_is_kept_after_its_run_was_undone_can_be_undone(with_model: Make) -> None:
    """An undo rejects what is pending, and a redo proposes it again; to keep a rejected hunk brings it back, as the run's."""
    newel = with_model(scenario("turn", bash("sed -i '2s/$/!/; 9s/$/!/' a.txt"), {"content": "Done."}))
    file = newel.project / "a.txt"
    before = "".join(f"{number}\n" for number in range(1, 11))
    file.write_text(before)
    ran(newel, "--approve", "review", "turn")
    rejected = (
        "Rejected the pending changes in 1 file: a.txt.\n"
        "`newel redo` redoes it, `newel undo` undoes the run before it.\n"
    )
    assert ran(newel, "undo", "--yes").endswith(rejected)
    assert "Pending again in 1 file: a.txt.\n" in ran(newel, "redo", "--yes")
    assert "2 pending hunks" in ran(newel, "review")
    assert ran(newel, "undo", "--yes").endswith(rejected)
    ((hunk, other),) = [
        [each["hunk_id"] for each in pending["hunks"]]
        for pending in json.loads(ran(newel, "review", "--json"))["pending"]
    ]
    ran(newel, "keep", hunk, "--yes")
    kept = before.replace("2\n", "2!\n", 1)
    assert file.read_text() == kept
    assert "undone" not in ran(newel, "checkpoints").splitlines()[-1]
    assert "Undone in 1 file: a.txt." in ran(newel, "undo", "--yes")
    assert file.read_text() == before
    ran(newel, "redo", "--yes")
    assert file.read_text() == kept
    ran(newel, "keep", other, "--yes")
    assert file.read_text() == kept.replace("9\n", "9!\n")
    for expected in (before.replace("9\n", "9!\n"), before):
        ran(newel, "undo", "--yes")
        assert file.read_text() == expected


def test_what_an_undo_has_skipped_is_undone_once_nothing_is_in_its_way(with_model: Make) -> None:
    """An undo leaves the lines that a later run has changed. `newel undo` must not say that there is nothing to undo while they stand."""
    made: dict[str, Any] = {"scenarios": []}
    for word, command in (
        ("first", "sed -i 's/^2$/two/; s/^8$/eight/' a.txt"),
        ("second", "sed -i s/two/TWO/ a.txt"),
    ):
        made["scenarios"] += scenario(word, bash(command), {"content": "Done."})["scenarios"]
    newel = with_model(made)
    file = newel.project / "a.txt"
    before = "".join(f"{number}\n" for number in range(1, 11))
    file.write_text(before)
    ran(newel, "first")
    ran(newel, "second")
    done = newel("undo", "2", "--yes")
    assert (done.returncode, "Skipped (changed since):" in done.stdout) == (1, True)
    assert file.read_text() == before.replace("2\n", "TWO\n", 1)
    ran(newel, "undo", "--yes")
    assert file.read_text() == before.replace("2\n", "two\n", 1)
    ran(newel, "undo", "--yes")
    assert file.read_text() == before
    done = newel("undo", "--yes")
    assert (done.returncode, "There is nothing to undo" in done.stderr) == (1, True)
    for expected in ("two\n", "TWO\n"):
        ran(newel, "redo", "--yes")
        assert file.read_text() == before.replace("2\n", expected, 1)
    ran(newel, "redo", "--yes")
    assert file.read_text() == before.replace("2\n", "TWO\n", 1).replace("8\n", "eight\n")
