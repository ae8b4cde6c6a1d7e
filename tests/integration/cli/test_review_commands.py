"""If these fail, a user at a terminal cannot choose which of an agent's proposals reach their files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from newel.diff.unified import MINUS
from newel.review.model.file_review import FileReview, new_hunk_id
from newel.review.store.ledger import Ledger
from newel.review.tracking.recording_workspace import ledger_folder
from tests.integration.cli.proposals import Proposals, insert, replace
from tests.integration.terminal.conftest import Terminal
from tests.requirements import require_program
from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]

APP = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"


WRITES = {
    "tool_calls": [{"function": {"name": "write", "arguments": {"file_path": "a.txt", "content": "a\n"}}}]
}
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


@pytest.fixture
def newel(with_model: Make) -> Newel:
    """A project, and a model that changes two files when told to go, and answers thanks with Oh."""
    steps = scenario("go", WRITES, EDITS, {"content": "I did."})
    steps["scenarios"] += scenario("thanks", {"content": "Oh."})["scenarios"]
    newel = with_model(steps)
    (newel.project / "app.py").write_text(APP)
    (newel.project / "b.txt").write_text("b\n")
    return newel


@pytest.fixture
def proposals(newel: Newel) -> Proposals:
    return Proposals(newel.home / ".newel", newel.project)


@pytest.fixture
def three(proposals: Proposals) -> list[str]:
    """Pending hunks: two in app.py, one that creates new.txt."""
    files = {"app.py": [replace(2, 2, "TWO\n"), replace(8, 8, "EIGHT\n")], "new.txt": [insert(1, "new\n")]}
    return proposals.propose("shout", files)


@pytest.fixture
def decide(newel: Newel) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*words: str, columns: int = 80, **environ: str) -> Terminal:
        env = newel.environ | {"TERM": "xterm-256color"} | environ
        command = [str(BIN / "newel"), *(words or ("decide",))]
        opened.append(Terminal(command, newel.project, columns, 40, env))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def answer(terminal: Terminal, *steps: tuple[str, str]) -> None:
    """Wait for each text and its question, and type the answer. A text that is asked about again must occur as often as
    in the steps.
    """
    for number, (about, keys) in enumerate(steps, 1):
        times = [step[0] for step in steps[:number]].count(about)
        terminal.wait_for(partial(is_asked, terminal, about, times))
        terminal.send(keys)


def is_asked(terminal: Terminal, about: str, times: int = 1) -> bool:
    text = terminal.screen.text
    return text.count(about) >= times and "? [" in text[text.rfind(about) :]


def app(newel: Newel) -> str:
    return (newel.project / "app.py").read_text()


# -- seeing what waits --------------------------------------------------------------------------------


def test_a_review_lists_pending_changes_first_with_their_origin(newel: Newel, three: list[str]) -> None:
    told = newel("review").stdout
    for part in (*three, "pending · shout", "\n-two\n+TWO\n", "new file mode", "newel decide"):
        assert part in told, part
    assert told.index("+TWO") < told.index("cp_")


def test_a_script_reads_pending_changes_and_git_applies_each_hunk(newel: Newel, three: list[str]) -> None:
    pending = json.loads(newel("review", "--json").stdout)["pending"]
    assert [file["file_path"] for file in pending] == ["app.py", "new.txt"]
    hunks = [hunk for file in pending for hunk in file["hunks"]]
    assert [hunk["hunk_id"] for hunk in hunks] == three
    assert {(hunk["state"], hunk["origin"], hunk["run"]) for hunk in hunks} == {
        ("pending", "agent", "run_shout")
    }
    for hunk in hunks:
        subprocess.run(
            [require_program("git"), "apply"], cwd=newel.project, input=hunk["patch"], text=True, check=True
        )
    assert app(newel) == APP.replace("two", "TWO").replace("eight", "EIGHT")
    assert (newel.project / "new.txt").read_text() == "new\n"


def test_rejected_hunks_are_still_listed_and_can_be_restored(newel: Newel, three: list[str]) -> None:
    assert newel("reject", three[0], "--yes").returncode == 0
    told = newel("review").stdout
    assert f"app.py  {three[0]}" in told[told.index("Rejected") :]
    assert newel("keep", three[0], "--yes").returncode == 0
    assert app(newel) == APP.replace("two", "TWO")


# -- scripts ------------------------------------------------------------------------------------------


def test_kept_hunks_are_written_and_the_others_stay_pending(
    newel: Newel, proposals: Proposals, three: list[str]
) -> None:
    done = newel("keep", three[1], "--yes")
    assert done.returncode == 0, done.stderr
    assert "+EIGHT" in done.stdout
    assert "Kept 1 hunk in 1 file: app.py." in done.stdout
    assert app(newel) == APP.replace("eight", "EIGHT")
    assert proposals.states("app.py") == ["pending"]
    assert not (newel.project / "new.txt").exists()


def test_file_names_and_all_select_their_pending_hunks(
    newel: Newel, proposals: Proposals, three: list[str]
) -> None:
    assert newel("reject", "new.txt", "--yes").returncode == 0
    assert newel("keep", "--all", "--yes").returncode == 0
    assert app(newel) == APP.replace("two", "TWO").replace("eight", "EIGHT")
    assert not (newel.project / "new.txt").exists()
    assert proposals.states("new.txt") == ["rejected"]
    nothing = newel("keep", "--all", "--yes")
    assert nothing.returncode == 1
    assert "No pending changes" in nothing.stdout


def test_without_a_terminal_the_exit_code_tells_whether_something_waits(newel: Newel) -> None:
    """If this fails, a script cannot tell "nothing to decide" from wrong usage."""
    nothing = newel("decide")
    assert (nothing.returncode, nothing.stdout) == (1, "No pending changes.\n")
    newel("--approve", "review", "go")
    waits = newel("decide")
    assert waits.returncode == 2
    assert "not a terminal" in waits.stderr
    newel("keep", "--all", "--yes")
    assert newel("decide").returncode == 1


def test_nothing_is_decided_without_confirmation(
    newel: Newel, proposals: Proposals, three: list[str]
) -> None:
    for command in ("keep", "reject"):
        done = newel(command, "--all")
        assert done.returncode == 2
        assert "--yes" in done.stderr
        assert "app.py" in done.stdout
    assert proposals.states("app.py") == ["pending", "pending"]
    assert app(newel) == APP
    assert newel("decide").returncode == 2


@pytest.mark.parametrize("words", [["h_"], ["h_none"], ["../etc/passwd"], [""], ["h_a\x1b[2J"]])
def test_an_unknown_or_ambiguous_name_changes_nothing(
    words: list[str], newel: Newel, proposals: Proposals, three: list[str]
) -> None:
    done = newel("keep", three[0], *words, "--yes")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "Traceback" not in done.stderr
    assert proposals.states("app.py") == ["pending", "pending"]
    assert app(newel) == APP


def test_a_conflict_is_kept_only_by_its_own_id(newel: Newel, proposals: Proposals, three: list[str]) -> None:
    (newel.project / "app.py").write_text(APP.replace("two", "mine"))
    done = newel("keep", "app.py", "--yes")
    assert done.returncode == 1
    conflict = proposals.get("app.py").hunks[0].id
    assert f"hunk {conflict} is a conflict" in done.stdout
    assert app(newel) == APP.replace("two", "mine").replace("eight", "EIGHT")
    stale = newel("keep", three[0], "--yes")
    assert stale.returncode == 1
    assert "has changed since" in stale.stderr
    kept = newel("keep", conflict, "--yes")
    assert kept.returncode == 0
    assert "This overwrites lines that changed on disk: app.py." in kept.stdout
    assert app(newel) == APP.replace("two", "TWO").replace("eight", "EIGHT")


def test_a_conflict_that_was_kept_elsewhere_is_written_only_by_its_own_id_too(
    newel: Newel, proposals: Proposals, three: list[str]
) -> None:
    (newel.project / "app.py").write_text(APP.replace("two", "mine"))
    conflict = proposals.get("app.py").hunks[0].id
    proposals.accept("app.py", conflict)
    for words in (("app.py",), ("--all",)):
        assert newel("keep", *words, "--yes").returncode == 1
        assert "mine" in app(newel)
    assert newel("keep", conflict, "--yes").returncode == 0
    assert "mine" not in app(newel)
    assert newel("undo", "--yes").returncode == 0
    assert app(newel) == APP.replace("two", "mine")


def test_the_list_of_files_to_write_names_those_that_overwrite_a_change_on_the_disk(
    newel: Newel, proposals: Proposals, three: list[str], decide: Callable[..., Terminal]
) -> None:
    (newel.project / "app.py").write_text(APP.replace("two", "mine"))
    conflict = proposals.get("app.py").hunks[0].id
    proposals.accept("app.py", conflict)
    terminal = decide()
    answer(terminal, ("1 of 2", "d\r"), ("2 of 2", "d\r"), ("changed on disk: app.py.", "n\r"))
    assert terminal.end() == 1
    assert app(newel) == APP.replace("two", "mine")


def test_the_users_lines_are_dropped_only_on_request(
    newel: Newel, proposals: Proposals, three: list[str]
) -> None:
    proposals.write("app.py", 2, 3, "TWO and mine\n")
    undecided = newel("reject", "app.py", "--yes")
    assert undecided.returncode == 1
    assert "--mine peel" in undecided.stderr
    assert proposals.states("app.py") == ["pending", "pending"]
    mine = proposals.get("app.py").hunks[0].id
    assert newel("reject", mine, "--mine", "peel", "--yes").returncode == 0
    assert proposals.get("app.py").hunks[0].top.lines == ("TWO\n",)
    assert proposals.states("app.py") == ["pending", "pending"]
    proposals.write("app.py", 2, 3, "TWO and mine\n")
    mine = proposals.get("app.py").hunks[0].id
    assert newel("reject", mine, "--mine", "base", "--yes").returncode == 0
    assert proposals.states("app.py") == ["rejected", "pending"]
    assert app(newel) == APP


def test_a_hunk_of_the_user_alone_is_rejected_only_by_its_id(newel: Newel, proposals: Proposals) -> None:
    proposals.get("b.txt")
    proposals.write("b.txt", 1, 2, "mine\n")
    done = newel("reject", "--all", "--yes")
    assert done.returncode == 1
    assert "all your own" in done.stdout
    assert proposals.states("b.txt") == ["pending"]
    assert newel("keep", "--all", "--yes").returncode == 0
    assert (newel.project / "b.txt").read_text() == "mine\n"


def test_an_unwritable_file_does_not_block_the_others(
    newel: Newel, proposals: Proposals, three: list[str]
) -> None:
    proposals.propose("more", {"sub/x.txt": [insert(1, "x\n")]})
    (newel.project / "sub").write_text("a file where a folder should be")
    done = newel("keep", "--all", "--yes")
    assert done.returncode == 1
    assert "sub/x.txt" in done.stdout
    assert app(newel) == APP.replace("two", "TWO").replace("eight", "EIGHT")
    (newel.project / "sub").unlink()
    assert newel("keep", "--all", "--yes").returncode == 0
    assert (newel.project / "sub" / "x.txt").read_text() == "x\n"


def test_a_kept_change_can_be_undone_and_redone(newel: Newel, three: list[str]) -> None:
    newel("keep", "--all", "--yes")
    kept = APP.replace("two", "TWO").replace("eight", "EIGHT")
    assert newel("undo", "--yes").returncode == 0
    assert app(newel) == APP
    assert not (newel.project / "new.txt").exists()
    assert newel("redo", "--yes").returncode == 0
    assert app(newel) == kept
    assert (newel.project / "new.txt").read_text() == "new\n"
    assert newel("undo", "--yes").returncode == 0
    assert app(newel) == APP


def test_repeated_undos_do_not_grow_the_names_of_runs(newel: Newel, three: list[str]) -> None:
    newel("keep", "--all", "--yes")
    for command in ("undo", "redo", "undo"):
        newel(command, "--yes")
    titles = [line.split("  ")[3].strip() for line in newel("checkpoints").stdout.splitlines()]
    assert titles == ["Undo of shout", "Redo of shout", "Undo of shout", "shout"]


def test_hostile_text_cannot_control_the_screen(newel: Newel, proposals: Proposals) -> None:
    proposals.propose("\x1b]0;title\x07go", {"a\x1b[2Jb": [insert(1, "\x1b[31mred\x1b]52;c;QQ==\x07\n")]})
    for words in (["review"], ["keep", "--all", "--yes"]):
        done = newel(*words)
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout


# -- one by one ---------------------------------------------------------------------------------------


def test_a_user_decides_hunk_by_hunk_and_files_are_written_at_the_end(
    newel: Newel, proposals: Proposals, three: list[str], decide: Callable[..., Terminal]
) -> None:
    terminal = decide()
    answer(
        terminal,
        ("1 of 3 · app.py · shout", "r\r"),
        ("2 of 3 · app.py · shout", "y\r"),
        ("3 of 3 · new.txt · shout", "y\r"),
        (f"To be written:\n  app.py  1 hunk  +1 {MINUS}1\n  new.txt  1 hunk  +1\n", ""),
    )
    assert app(newel) == APP
    terminal.wait_for("Write this?")
    terminal.send("w\r")
    assert terminal.end() == 0
    assert app(newel) == APP.replace("eight", "EIGHT")
    assert (newel.project / "new.txt").read_text() == "new\n"
    assert proposals.states("app.py") == ["rejected"]
    assert "Kept 2 hunks in 2 files: app.py, new.txt." in terminal.screen.text


def test_leaving_early_writes_nothing_and_loses_no_decision(
    newel: Newel, proposals: Proposals, three: list[str], decide: Callable[..., Terminal]
) -> None:
    terminal = decide()
    answer(terminal, ("1 of 3", "y\r"), ("2 of 3", ""))
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.end() == 130
    assert app(newel) == APP
    assert proposals.states("app.py") == ["accepted", "pending"]
    again = decide()
    answer(again, ("1 of 2", "q\r"), ("Write this?", "w\r"))
    assert again.end() == 0
    assert app(newel) == APP.replace("two", "TWO")
    assert "2 hunks left to decide" in again.screen.text


def test_the_rest_of_a_file_is_decided_at_once_except_conflicts_and_user_lines(
    newel: Newel, proposals: Proposals, three: list[str], decide: Callable[..., Terminal]
) -> None:
    (newel.project / "app.py").write_text(APP.replace("eight", "mine"))
    terminal = decide()
    answer(
        terminal,
        ("1 of 3", "a\r"),
        ("2 of 3 · app.py · conflict", "y\r"),
        ("Overwrite the current lines?", "\r"),
        ("2 of 3 · app.py · conflict", "u\r"),
        ("3 of 3", "d\r"),
        ("Write this?", "w\r"),
    )
    assert terminal.end() == 0
    assert app(newel) == APP.replace("eight", "mine").replace("two", "TWO")
    assert proposals.states("app.py") == ["pending"]
    assert proposals.states("new.txt") == ["rejected"]


def test_a_decision_can_be_revised(
    newel: Newel, proposals: Proposals, three: list[str], decide: Callable[..., Terminal]
) -> None:
    terminal = decide()
    back = "app.py · kept, not written yet"
    answer(terminal, ("1 of 3", "y\r"), ("2 of 3", "k\r"), (back, "r\r"), ("2 of 3", "q\r"))
    assert terminal.end() == 0
    assert proposals.states("app.py") == ["rejected", "pending"]
    assert app(newel) == APP


def test_the_users_lines_are_asked_about_and_the_hunk_below_is_decided_afterwards(
    newel: Newel, proposals: Proposals, decide: Callable[..., Terminal]
) -> None:
    proposals.propose("shout", {"app.py": [replace(2, 2, "TWO\n")]})
    proposals.write("app.py", 2, 3, "TWO and mine\n")
    terminal = decide()
    mine = ("1 of 1 · app.py · shout, edited by you", "r\r")
    answer(terminal, mine, ("Drop only yours (m)", "m\r"), ("1 of 1 · app.py · shout\n", "y\r"))
    answer(terminal, ("Write this?", "w\r"))
    assert terminal.end() == 0
    assert app(newel) == APP.replace("two", "TWO")


def test_a_file_that_changes_during_the_decision_is_not_overwritten(
    newel: Newel, proposals: Proposals, three: list[str], decide: Callable[..., Terminal]
) -> None:
    terminal = decide()
    answer(terminal, ("1 of 3", "a\r"), ("3 of 3", "y\r"))
    terminal.wait_for(partial(is_asked, terminal, "To be written:"))
    (newel.project / "app.py").write_text(APP.replace("two", "mine"))
    terminal.send("w\r")
    assert terminal.end() == 1
    assert app(newel) == APP.replace("two", "mine")
    assert (newel.project / "new.txt").read_text() == "new\n"
    assert "app.py changed on disk" in terminal.screen.text.replace("\n", " ")


def test_a_decision_on_a_changed_hunk_is_asked_again(
    newel: Newel, proposals: Proposals, three: list[str], decide: Callable[..., Terminal]
) -> None:
    terminal = decide()
    answer(terminal, ("1 of 3 · app.py · shout", ""))
    proposals.write("app.py", 2, 3, "TWO and mine\n")
    answer(terminal, ("1 of 3 · app.py · shout", "y\r"))
    answer(terminal, ("shout, edited by you", "y\r"), ("2 of 3", "q\r"), ("To be written:", "w\r"))
    assert terminal.end() == 0
    assert app(newel) == APP.replace("two", "TWO and mine")


def test_a_kept_hunk_that_is_skipped_later_is_not_reported_as_kept(
    newel: Newel, three: list[str], decide: Callable[..., Terminal]
) -> None:
    terminal = decide(columns=100)
    answer(terminal, ("1 of 3", "y\r"), ("2 of 3", "k\r"), ("1 of 3", "u\r"), ("2 of 3", ""))
    (newel.project / "app.py").write_text(APP.replace("two", "mine"))
    answer(terminal, ("2 of 3", "y\r"), ("3 of 3", "q\r"), ("To be written:", "w\r"))
    assert terminal.end() == 0
    assert "must be decided again" not in terminal.screen.text
    assert app(newel) == APP.replace("two", "mine").replace("eight", "EIGHT")


def test_a_kept_hunk_that_changed_elsewhere_is_not_dropped_silently(
    newel: Newel, three: list[str], decide: Callable[..., Terminal]
) -> None:
    terminal = decide(columns=100)
    answer(terminal, ("1 of 3", "y\r"), ("2 of 3", ""))
    (newel.project / "app.py").write_text(APP.replace("two", "mine"))
    answer(terminal, ("2 of 3", "y\r"), ("3 of 3", "q\r"), ("To be written:", "w\r"))
    assert terminal.end() == 0
    assert "app.py was changed meanwhile: 1 hunk you kept must be decided again." in terminal.screen.text
    assert app(newel) == APP.replace("two", "mine").replace("eight", "EIGHT")


def test_an_invalid_answer_lists_the_valid_ones(three: list[str], decide: Callable[..., Terminal]) -> None:
    terminal = decide(columns=40)
    answer(terminal, ("1 of 3", "?\r"), ("reject it", "x\r"), ("reject it", "\x04"))
    assert terminal.end() == 1
    assert "Nothing was written." in terminal.screen.text


def test_added_and_removed_lines_are_coloured_unless_colours_are_off(
    three: list[str], decide: Callable[..., Terminal]
) -> None:
    for environ, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = decide(**environ)
        terminal.wait_for("Keep this?")
        terminal.send("q\r")
        terminal.end()
        assert ("\x1b[38;5;33m+TWO" in terminal.raw) == coloured


def test_hostile_text_is_inert_during_decisions(
    newel: Newel, proposals: Proposals, decide: Callable[..., Terminal]
) -> None:
    proposals.propose("\x1b]0;title\x07go", {"a\x1b[2Jb\nc": [insert(1, "\x1b]52;c;QQ==\x07red\n")]})
    terminal = decide()
    answer(terminal, ("1 of 1", "y\r"), ("Write this?", "w\r"))
    assert terminal.end() == 0
    assert "\x1b]" not in terminal.raw
    assert "\x1b[2J" not in terminal.raw
    assert "\x07" not in terminal.raw
    assert Path(newel.project, "a\x1b[2Jb\nc").read_text() == "\x1b]52;c;QQ==\x07red\n"


# -- after a run, and in a conversation ---------------------------------------------------------------


def test_a_run_with_pending_changes_says_so_and_how_to_decide(newel: Newel) -> None:
    done = newel("-q", "--approve", "review", "go")
    assert done.returncode == 0
    assert done.stderr == "newel: 2 files have pending changes. Review them with `newel decide`.\n"
    assert app(newel) == APP
    assert newel("-q", "--approve", "review", "thanks").stderr == ""


def test_a_run_without_changes_does_not_suggest_a_review(newel: Newel) -> None:
    done = newel("--ephemeral", "--approve", "review", "go")
    assert "newel decide" not in done.stderr
    assert "2 files were discarded" in done.stderr


def test_json_mode_gets_no_extra_line_about_pending_changes(newel: Newel) -> None:
    done = newel("--approve", "review", "--json", "go")
    assert all(json.loads(line)["type"] != "error" for line in done.stdout.splitlines())


def test_an_unrecorded_run_says_so_once(newel: Newel) -> None:
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text("[review]\nrecord = false\n")
    done = newel("go", "thanks")
    assert done.stderr.count("Change recording is off") == 1
    assert "recording" not in done.stdout


def test_the_simple_repl_reports_pending_changes(newel: Newel) -> None:
    done = newel("--approve", "review", stdin="go\nthanks\n", command="lsimons-agent")
    assert done.stdout.count("2 files have pending changes. Review them with `newel decide`.") == 1


@pytest.mark.parametrize("screen", ["rich", "console"])
def test_decisions_in_a_conversation_are_told_to_the_model(
    screen: str, newel: Newel, decide: Callable[..., Terminal]
) -> None:
    terminal = decide("--renderer", screen, "--approve", "review", columns=100)
    terminal.wait_for("Enter sends" if screen == "rich" else "newel ")
    terminal.send("go\r")
    terminal.wait_for("2 files have pending changes. Review them with `/decide`.")
    terminal.send("/review\r")
    terminal.wait_for("2 pending hunks")
    terminal.send("/decide\r")
    answer(
        terminal, ("1 of 2 · a.txt · go", "r\r"), ("2 of 2 · app.py · go", "y\r"), ("To be written:", "w\r")
    )
    terminal.wait_for("Kept 1 hunk in 1 file: app.py.")
    terminal.wait_for("Rejected 1 hunk in 1 file: a.txt.")
    assert app(newel) == APP.replace("two", "TWO")
    assert not (newel.project / "a.txt").exists()
    terminal.send("thanks\r")
    terminal.wait_for("Oh.")
    terminal.send("\x04")
    assert terminal.end() == 0
    told = newel.requests[-1]["messages"][-2]["content"]
    assert "in the files now:\n- app.py (1 hunk)" in told
    assert "not in the files:\n- a.txt (1 hunk)" in told


def test_hunks_and_files_can_be_named_in_a_conversation(
    newel: Newel, decide: Callable[..., Terminal]
) -> None:
    terminal = decide("--approve", "review", columns=100)
    terminal.wait_for("Enter sends")
    terminal.send("go\r")
    terminal.wait_for("2 files have pending changes. Review them with `/decide`.")
    terminal.send("/keep app.py\r")
    terminal.wait_for("Keep and write these?")
    terminal.send("y\r")
    terminal.wait_for("Kept 1 hunk")
    terminal.send("/reject --all --yes\r")
    terminal.wait_for("Rejected 1 hunk in 1 file: a.txt.")
    for words, expected in (
        ("/keep", "Name a hunk or a file, or use --all"),
        ("/reject --mine none", "Unknown option --mine"),
        ("/keep 'x", "Unclosed quote"),
        ("/decide", "No pending changes."),
    ):
        terminal.send(f"{words}\r")
        terminal.wait_for(expected)
    terminal.send("\x04")
    assert terminal.end() == 0
    assert app(newel) == APP.replace("two", "TWO")


def test_a_conversation_stopped_during_decisions_continues_and_has_written_nothing(
    newel: Newel, decide: Callable[..., Terminal]
) -> None:
    terminal = decide("--approve", "review", columns=100)
    terminal.wait_for("Enter sends")
    terminal.send("go\r")
    terminal.wait_for("2 files have pending changes. Review them with `/decide`.")
    terminal.send("/decide\r")
    answer(terminal, ("1 of 2 · a.txt · go", "r\r"), ("2 of 2 · app.py · go", "\x1b"))
    terminal.wait_for("Nothing was written.")
    terminal.send("thanks\r")
    terminal.wait_for("Oh.")
    terminal.send("\x04")
    assert terminal.end() == 0
    assert app(newel) == APP
    assert "not in the files:\n- a.txt (1 hunk)" in newel.requests[-1]["messages"][-2]["content"]


@pytest.mark.slow  # seconds of waiting
@pytest.mark.parametrize("keys", ["y", "y\r"])
@pytest.mark.parametrize("front", ["shell", "conversation"])
def test_a_key_that_is_held_down_decides_but_writes_nothing(
    front: str, keys: str, newel: Newel, decide: Callable[..., Terminal]
) -> None:
    """Decisions can be taken back until the last question, which neither their keys nor Enter answer with yes."""
    assert newel("--approve", "review", "go").returncode == 0
    terminal = decide() if front == "shell" else decide("-c", "--approve", "review", columns=100)
    if front == "conversation":
        terminal.wait_for("── Resumed")
        terminal.send("/decide\r")
    terminal.wait_for(partial(is_asked, terminal, "1 of 2 · a.txt"))
    for _ in range(60):  # at 30 keys a second
        terminal.watch(1 / 30)
        if terminal.process.poll() is not None:
            break
        terminal.send(keys)
    if (front, keys) == ("conversation", "y\r"):
        assert "To be written:" in terminal.screen.text
    assert app(newel) == APP
    assert not (newel.project / "a.txt").exists()


@pytest.mark.parametrize("front", ["shell", "conversation"])
def test_a_key_decides_without_enter_and_words_tell_the_model_why(
    front: str, newel: Newel, decide: Callable[..., Terminal]
) -> None:
    assert newel("--approve", "review", "go").returncode == 0
    terminal = decide() if front == "shell" else decide("-c", "--approve", "review", columns=100)
    if front == "conversation":
        terminal.wait_for("── Resumed")
        terminal.send("/decide\r")
    terminal.wait_for(partial(is_asked, terminal, "1 of 2 · a.txt"))
    terminal.send("y")
    terminal.wait_for(partial(is_asked, terminal, "2 of 2 · app.py"))
    terminal.send("k")
    terminal.wait_for(partial(is_asked, terminal, "1 of 2 · a.txt", 2))
    terminal.send("r")
    terminal.send(" too aggressive: keep the name\r")
    terminal.wait_for(partial(is_asked, terminal, "2 of 2 · app.py", 2))
    terminal.send("\r")  # no answer
    terminal.send("y")
    terminal.wait_for(partial(is_asked, terminal, "Write this?"))
    assert app(newel) == APP
    terminal.send("\r")  # no answer either
    terminal.send("w")
    terminal.wait_for("Kept 1 hunk in 1 file: app.py.")
    if front == "conversation":
        terminal.wait_for("Rejected 1 hunk")
        terminal.send("\x04")
    assert terminal.end() == 0
    assert app(newel) == APP.replace("two", "TWO")
    newel("-c", "thanks")
    told = newel.requests[-1]["messages"][-2]["content"]
    assert "not in the files:\n- a.txt (1 hunk): too aggressive: keep the name" in told


def test_a_rollback_in_a_conversation_restores_the_files(
    newel: Newel, decide: Callable[..., Terminal]
) -> None:
    terminal = decide("--approve", "auto", columns=100)
    terminal.wait_for("Enter sends")
    terminal.send("go\r")
    terminal.wait_for("I did.")
    terminal.wait_for(lambda: app(newel) == APP.replace("two", "TWO"))
    (newel.project / "app.py").write_text("all mine\n")
    terminal.send("/rollback\r")
    terminal.wait_for("Roll back to before which run")
    terminal.wait_for("Esc cancels")
    terminal.send("\r")
    terminal.wait_for("Undo these changes?")
    terminal.send("y\r")
    terminal.wait_for("Undone in 2 files")
    assert app(newel) == APP
    assert not (newel.project / "a.txt").exists()
    terminal.send("thanks\r")
    terminal.wait_for("Oh.")
    terminal.send("\x04")
    assert terminal.end() == 0
    assert "- app.py" in newel.requests[-1]["messages"][-2]["content"]


def test_a_rejected_file_is_described_by_what_it_would_change(with_model: Make) -> None:
    """A script that shows what can be restored would call a new file deleted, and a deleted one changed in its mode."""
    command = bash("echo > new; rm gone; sed -i s/a/b/ text; chmod 755 mode; ln -s text link")
    newel = with_model(scenario("change", command, {"content": "Done."}))
    for name in ("gone", "text", "mode"):
        (newel.project / name).write_text("a\n")
        (newel.project / name).chmod(0o644)
    assert newel("--approve", "review", "change").returncode == 0

    def seen() -> dict[str, tuple[str, str, str]]:
        files = json.loads(newel("review", "--json").stdout)["pending"]
        return {file["file_path"]: (file["kind"], file["change"], file["about"]) for file in files}

    pending = seen()
    assert pending == {
        "new": ("file", "created", ""),
        "gone": ("file", "deleted", ""),
        "text": ("file", "modified", ""),
        "mode": ("file", "mode", "mode 644 → 755"),
        "link": ("link", "created", "new symbolic link → text"),
    }
    assert newel("reject", "--all", "--yes").returncode == 0
    assert seen() == pending


# -- what was seen is what is decided -----------------------------------------------------------------


def listed(newel: Newel) -> list[str]:
    pending = json.loads(newel("review", "--json").stdout)["pending"]
    return [hunk["hunk_id"] for file in pending for hunk in file["hunks"]]


@pytest.mark.parametrize("verdict", ["keep", "reject"])
@pytest.mark.parametrize("change", ["proposal", "mine", "disk"])
@pytest.mark.parametrize("length", [9, None])
def test_a_decision_applies_to_the_shown_hunk_or_fails(
    verdict: str, change: str, length: int | None, newel: Newel, proposals: Proposals
) -> None:
    """Between the look and the decision the hunk changes, and its id with it."""
    proposals.propose("shout", {"app.py": [replace(2, 2, "TWO\n"), replace(8, 8, "EIGHT\n")]}, run="r")
    with Ledger.open(ledger_folder(newel.home / ".newel", str(newel.project))) as ledger:
        ledger.change("app.py", "propose", partial(renamed, names=[new_hunk_id(), new_hunk_id()]))
    seen, other = listed(newel)
    match change:
        case "proposal":
            proposals.propose("again", {"app.py": [replace(2, 2, "os.system('evil')\n")]}, run="r")
        case "mine":
            proposals.write("app.py", 2, 3, "TWO and mine\n")
        case _:
            (newel.project / "app.py").write_text(APP.replace("two", "mine"))
    before = app(newel)
    done = newel(verdict, seen[:length], "--yes")
    assert done.returncode != 0
    assert "has changed since" in done.stderr
    assert proposals.states("app.py") == ["pending", "pending"]
    assert app(newel) == before
    now, same = listed(newel)
    assert now != seen
    assert same == other  # unchanged hunks keep their ids, wherever their lines are
    assert (
        newel(verdict, now[:length], *(["--mine", "base"] if verdict == "reject" else []), "--yes").returncode
        == 0
    )
    assert newel(verdict, other[:length], "--yes").returncode == 0


def renamed(review: FileReview, names: list[str]) -> FileReview:
    """With ids like those outside of tests."""
    hunks = tuple(
        msgspec.structs.replace(hunk, id=name) for hunk, name in zip(review.hunks, names, strict=True)
    )
    return msgspec.structs.replace(review, hunks=hunks, rev=review.rev + 1)
