"""If these fail, a user cannot keep half of a proposal or correct it, or loses what they typed in the editor."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from newel.review.tracking.recording_workspace import ledger_folder
from tests.integration.cli.proposals import Proposals, insert, replace
from tests.support import BIN, Newel, scenario
from tests.terminal_waits import PATIENCE
from tests.tmux import Tmux

APP = "one\ntwo\nthree\nfour\nfive\n"
NEW = "def a():\n    1\n\n\ndef b():\n    2\n"

EDITS = {
    "tool_calls": [
        {
            "function": {
                "name": "edit",
                "arguments": {"file_path": "app.py", "old_string": "two", "new_string": "TWO"},
            }
        }
    ]
}
EDITOR = """\
import pathlib, sys, time
path = pathlib.Path(sys.argv[-1])
draft = path.read_bytes()
{do}
"""
TYPE = "path.write_bytes(draft.replace(b'TWO\\n', b'TWO and mine\\n'))"


@pytest.fixture
def newel(with_model: Callable[..., Newel]) -> Newel:
    steps = scenario("go", EDITS, {"content": "I did."})
    steps["scenarios"] += scenario("thanks", {"content": "Oh."})["scenarios"]
    newel = with_model(steps)
    (newel.project / "app.py").write_bytes(APP.encode())
    return newel


@pytest.fixture
def proposals(newel: Newel) -> Proposals:
    return Proposals(newel.home / ".newel", newel.project)


@pytest.fixture
def decide(newel: Newel, tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    """Starts a command in tmux, with an editor that does as a line of Python says."""
    numbers = count(1)
    with contextlib.ExitStack() as opened:

        def start(*words: str, editor: str = "", columns: int = 80) -> Tmux:
            script = tmp_path / "editor.py"
            script.write_text(EDITOR.format(do=editor))
            env = newel.environ | {"EDITOR": f"{sys.executable} {script}"}
            command = ["env", "-C", str(newel.project), str(BIN / "newel"), *(words or ("decide",))]
            folder = tmp_path / f"terminal{next(numbers)}"
            folder.mkdir()
            return opened.enter_context(Tmux(command, folder, env, columns=columns))

        yield start


def answer(terminal: Tmux, *steps: tuple[str, str]) -> None:
    """Wait for a text, with the question behind it, and press a key."""
    for about, key in steps:
        wait_until(terminal, lambda text, about=about: "? [" in text.rpartition(about)[2] and about in text)
        terminal.type("", key)


def wait_until(terminal: Tmux, is_there: Callable[[str], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_there(text := terminal.text):
        assert time.monotonic() < until, text
        time.sleep(0.03)


def app(newel: Newel) -> bytes:
    return (newel.project / "app.py").read_bytes()


def pending(newel: Newel) -> list[dict[str, object]]:
    files = json.loads(newel("review", "--json").stdout)["pending"]
    return [hunk for file in files for hunk in file["hunks"]]


def kept_edits(newel: Newel) -> list[Path]:
    return list((ledger_folder(newel.home / ".newel", str(newel.project)) / "edits").glob("*/*"))


# -- split -------------------------------------------------------------------------------------------------


def test_a_user_keeps_one_part_of_a_hunk_and_rejects_the_other(
    newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    (whole,) = proposals.propose("two functions", {"new.py": [insert(1, NEW)]})
    terminal = decide()
    answer(
        terminal, ("1 of 1 · new.py", "s"), ("Split into 2 hunks.\n\n1 of 2 · new.py", "y"), ("2 of 2", "n")
    )
    answer(terminal, ("To be written:\n  new.py  1 hunk  +4", "w"))
    terminal.wait_for("Rejected 1 hunk in 1 file: new.py.")
    assert (newel.project / "new.py").read_text() == "def a():\n    1\n\n\n"
    assert [(hunk["hunk_id"], hunk["state"]) for hunk in pending(newel)] == [(f"{whole}-2", "rejected")]
    refused = newel("keep", whole, "--yes")
    assert f"Hunk {whole} was split. Name its parts: {whole}-2." in refused.stderr
    assert newel("keep", f"{whole}-2", "--yes").returncode == 0
    assert (newel.project / "new.py").read_text() == NEW
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "new.py").exists()
    assert newel("redo", "--yes").returncode == 0
    assert (newel.project / "new.py").read_text() == NEW


def test_a_hunk_is_split_until_it_cannot_be_and_then_it_says_so(
    proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    proposals.propose("two", {"app.py": [replace(1, 2, "ONE\nTWO\n")]})
    terminal = decide()
    answer(terminal, ("1 of 1", "s"), ("1 of 2", "s"), ("This hunk cannot be split further.\n\n1 of 2", "q"))
    terminal.wait_for("2 hunks left to decide")


def test_a_split_survives_and_other_commands_name_the_parts(
    newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    (whole,) = proposals.propose("two", {"app.py": [replace(1, 2, "ONE\nTWO\n")]})
    answer(decide(), ("1 of 1", "s"), ("1 of 2", "q"))
    parts = [f"{whole}-1", f"{whole}-2"]
    assert [hunk["hunk_id"] for hunk in pending(newel)] == parts
    assert newel("reject", parts[0], "--yes").returncode == 0
    assert newel("keep", "app.py", "--yes").returncode == 0
    assert app(newel) == APP.replace("two", "TWO").encode()


# -- edit --------------------------------------------------------------------------------------------------


def test_an_edited_hunk_is_written_as_edited_and_undone_and_redone_exactly(
    newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    proposals.propose("shout", {"app.py": [replace(2, 2, "TWO\n")]})
    terminal = decide(editor=TYPE)
    answer(terminal, ("1 of 1 · app.py · shout", "e"), ("To be written:\n  app.py  1 hunk", "w"))
    terminal.wait_for("Kept 1 hunk in 1 file: app.py.")
    edited = APP.replace("two", "TWO and mine").encode()
    assert app(newel) == edited
    assert kept_edits(newel) == []
    for command, content in (("undo", APP.encode()), ("redo", edited), ("undo", APP.encode())):
        assert newel(command, "--yes").returncode == 0
        assert app(newel) == content


def test_the_editor_shows_what_is_replaced_and_what_stands_around_it(
    newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    proposals.propose("shout", {"app.py": [replace(3, 3, "THREE\nMORE\n")]})
    terminal = decide(editor="sys.stdout.buffer.write(draft)")
    answer(terminal, ("1 of 1", "e"), ("You changed nothing; the hunk is as it was.\n\n1 of 1", "q"))
    seen = " one\n two\n-three\n>>>>>>>> edit below\nTHREE\nMORE\n<<<<<<<< edit above\n four\n five\n"
    assert f"quit without saving.\n\n{seen}" in terminal.text
    assert kept_edits(newel) == []
    assert [hunk["mine"] for hunk in pending(newel)] == [False]


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (f"{TYPE}; sys.exit(3)", "ended with exit code 3."),
        ("path.write_bytes(b'TWO and mine\\n')", "The two marked lines around the text are no longer there."),
        ("path.write_bytes(draft.replace(b'TWO', b'TWO and mine \\xff'))", "The edited text is not UTF-8."),
        ("path.write_bytes(draft.replace(b'TWO', b'TWO and mine \\0'))", "new lines must be text, without NUL"),
        (f"pathlib.Path('app.py').write_bytes(b'one\\n2\\n'); {TYPE}", "has changed since it had that id"),
    ],
    ids=["exit code", "marks", "encoding", "nul", "changed meanwhile"],
)  # fmt: skip
def test_an_edit_that_cannot_be_applied_is_kept_and_named(
    do: str, says: str, newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    proposals.propose("shout", {"app.py": [replace(2, 2, "TWO\n")]})
    terminal = decide(editor=do, columns=300)
    answer(terminal, ("1 of 1 · app.py · shout", "e"), ("The hunk is as it was. Your text is in ", "q"))
    assert says in terminal.text
    (kept,) = kept_edits(newel)
    assert f"Your text is in {kept}." in terminal.text
    assert b"TWO and mine" in kept.read_bytes()
    assert [each["mine"] for each in pending(newel)] == [False]
    assert b"mine" not in app(newel)
    again = decide(columns=300)
    answer(again, (f"no longer needed:\n  {kept}", "q"))


@pytest.mark.parametrize("do", ["path.write_bytes(b'')", "path.unlink()", "sys.exit(1)"])
def test_an_edit_that_was_given_up_leaves_nothing(
    do: str, newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    proposals.propose("shout", {"app.py": [replace(2, 2, "TWO\n")]})
    terminal = decide(editor=do)
    answer(terminal, ("1 of 1", "e"))
    terminal.wait_for("Keep this?", times=2)
    terminal.type("", "q")
    assert "Your text is in" not in terminal.text
    assert kept_edits(newel) == []
    assert [each["mine"] for each in pending(newel)] == [False]


def test_a_text_survives_a_kill_in_the_middle_of_the_edit(
    newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    proposals.propose("shout", {"app.py": [replace(2, 2, "TWO\n")]})
    terminal = decide(
        editor=f"{TYPE}; print('parent', __import__('os').getppid(), flush=True); time.sleep(30)"
    )
    answer(terminal, ("1 of 1", "e"))
    terminal.wait_for("parent ")
    os.kill(int(terminal.text.rpartition("parent ")[2].split()[0]), signal.SIGKILL)
    (kept,) = kept_edits(newel)
    assert b"TWO and mine" in kept.read_bytes()
    again = decide(columns=300)
    answer(again, (f"no longer needed:\n  {kept}", "y"), ("To be written:", "w"))
    again.wait_for("Kept 1 hunk")
    assert app(newel) == APP.replace("two", "TWO").encode()


def test_ctrl_c_in_the_editor_is_the_editors(
    newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    proposals.propose("shout", {"app.py": [replace(2, 2, "TWO\n")]})
    wait = "import signal; signal.signal(signal.SIGINT, lambda *_: print('caught', flush=True)); print('open', flush=True); signal.pause()"
    terminal = decide(editor=f"{wait}; {TYPE}")
    answer(terminal, ("1 of 1", "e"))
    terminal.wait_for("open")
    terminal.type("", "C-c")
    answer(terminal, ("To be written:", "w"))
    terminal.wait_for("Kept 1 hunk")
    assert app(newel) == APP.replace("two", "TWO and mine").encode()


def test_in_a_conversation_a_hunk_is_edited_and_the_model_is_told_what_the_user_changed(
    newel: Newel, decide: Callable[..., Tmux]
) -> None:
    terminal = decide("--approve", "review", editor=TYPE, columns=100)
    terminal.wait_for("Enter sends")
    terminal.type("go", "Enter")
    terminal.wait_for("Review them with `/decide`.")
    terminal.type("/decide", "Enter")
    answer(terminal, ("1 of 1 · app.py · go", "e"), ("To be written:", "w"))
    terminal.wait_for("Kept 1 hunk in 1 file: app.py.")
    assert app(newel) == APP.replace("two", "TWO and mine").encode()
    terminal.type("thanks", "Enter")
    terminal.wait_for("Oh.")
    told = newel.requests[-1]["messages"][-2]["content"]
    assert "in the files now:\n- app.py (1 hunk)" in told
    assert "Edited by me before I kept them:\n- app.py:\n-TWO\n+TWO and mine\n" in told


# -- keys --------------------------------------------------------------------------------------------------


def test_keys_of_earlier_versions_decide_nothing(
    newel: Newel, proposals: Proposals, decide: Callable[..., Tmux]
) -> None:
    """Keep was k, the rest of the file f, skip s, and back b."""
    proposals.propose("shout", {"app.py": [replace(2, 2, "TWO\n"), replace(5, 5, "FIVE\n")]})
    terminal = decide()
    answer(terminal, ("1 of 2", "k"), ("This is the first hunk. y keeps it.\n\n1 of 2", "s"))
    answer(terminal, ("This hunk cannot be split further.\n\n1 of 2", "q"))
    terminal.wait_for("2 hunks left to decide")
    assert {hunk["state"] for hunk in pending(newel)} == {"pending"}
    assert app(newel) == APP.encode()


def test_a_deletion_is_neither_split_nor_edited(proposals: Proposals, decide: Callable[..., Tmux]) -> None:
    proposals.delete("remove it", "app.py")
    terminal = decide(editor=TYPE)
    answer(terminal, ("1 of 1 · app.py", "s"), ("cannot be split: it deletes the file.\n\n1 of 1", "e"))
    answer(terminal, ("cannot be edited: it deletes the file.\n\n1 of 1", "q"))
