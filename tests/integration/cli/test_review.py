"""If these fail, a user cannot see what an agent did to their files, or loses work by undoing it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.review.store.ledger import Ledger
from newel.review.tracking.recording_workspace import ledger_folder
from tests.integration.terminal.conftest import Terminal
from tests.requirements import require_program
from tests.served import served, wait_until
from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]
State = dict[str, tuple[int, bytes]]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def files(folder: Path) -> State:
    """Permission bits and bytes of all files, without git's own."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes()) for path in found}


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    done = subprocess.run(
        [require_program("git"), *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


STEPS = [
    call("write", file_path="new/made.py", content="print(1)\n"),
    call("edit", file_path="app.py", old_string="two", new_string="TWO"),
    bash("sed -i s/four/FOUR/ app.py && sed -i s/TWO/Two/ app.py"),
    bash("mv old.txt moved.txt && rm gone.txt && chmod +x run.sh && printf '\\x00\\xff\\x01' > blob.bin"),
    {"content": "Done."},
]


@pytest.fixture(params=["plain", "git"])
def newel(request: pytest.FixtureRequest, with_model: Make) -> Newel:
    """A project, with and without a git repository."""
    newel = with_model(scenario("do all of it", *STEPS))
    project = newel.project
    (project / "app.py").write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven")
    (project / "old.txt").write_bytes(b"old\r\nlines\r\n")
    (project / "gone.txt").write_text("to be gone\n")
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "picture.bin").write_bytes(bytes(range(256)))
    if request.param == "git":
        git(project, "init", "-q")
        git(project, "add", "app.py", "old.txt", "run.sh")
        git(project, "commit", "-q", "-m", "first")
        (project / "staged.txt").write_text("staged\n")
        git(project, "add", "staged.txt")
    return newel


def ran(newel: Newel, *words: str) -> str:
    done = newel(*words)
    assert done.returncode == 0, done.stderr + done.stdout
    return str(done.stdout)


def test_an_undo_reverts_a_whole_run_and_can_be_redone(newel: Newel) -> None:
    before = files(newel.project)
    ran(newel, "do all of it")
    after = files(newel.project)
    assert after != before
    ran(newel, "undo", "--yes")
    assert files(newel.project) == before
    ran(newel, "redo", "--yes")
    assert files(newel.project) == after
    ran(newel, "undo", "--yes")
    assert files(newel.project) == before


def test_later_changes_of_the_user_survive_an_undo(newel: Newel) -> None:
    before = files(newel.project)
    ran(newel, "do all of it")
    app = newel.project / "app.py"
    app.write_text(app.read_text().replace("six", "my six"))
    (newel.project / "mine.txt").write_text("mine\n")
    ran(newel, "undo", "--yes")
    expected = before | {
        "app.py": (before["app.py"][0], b"one\ntwo\nthree\nfour\nfive\nmy six\nseven"),
        "mine.txt": (before["app.py"][0], b"mine\n"),
    }
    assert files(newel.project) == expected
    ran(newel, "redo", "--yes")
    assert app.read_text() == "one\nTwo\nthree\nFOUR\nfive\nmy six\nseven"


def test_a_user_line_over_an_agents_line_stays_and_is_reported(newel: Newel) -> None:
    ran(newel, "do all of it")
    app = newel.project / "app.py"
    app.write_text(app.read_text().replace("Two", "mine"))
    done = newel("undo", "--yes")
    assert done.returncode == 1
    assert "app.py" in done.stdout
    assert app.read_text() == "one\nmine\nthree\nfour\nfive\nsix\nseven"
    assert (newel.project / "old.txt").exists()


def test_a_hard_rollback_restores_a_runs_files_whatever_was_written_since(newel: Newel) -> None:
    before = files(newel.project)
    ran(newel, "do all of it")
    app = newel.project / "app.py"
    app.write_text("all mine\n")
    checkpoint = json.loads(ran(newel, "checkpoints", "--json"))["checkpoints"][0]["checkpoint_id"]
    ran(newel, "rollback", checkpoint, "--yes")
    assert files(newel.project) == before
    ran(newel, "redo", "--yes")
    assert app.read_text() == "all mine\n"


def test_a_single_hunk_can_be_undone(newel: Newel) -> None:
    ran(newel, "do all of it")
    found = json.loads(ran(newel, "checkpoints", "--json"))["checkpoints"][0]
    hunks = next(file["hunks"] for file in found["files"] if file["file_path"] == "app.py")
    four = next(hunk["hunk_id"] for hunk in hunks if "-FOUR" in hunk["reverse_patch"])
    after = files(newel.project)
    ran(newel, "rollback", found["checkpoint_id"], "--hunk", four, "--yes")
    mode, data = after["app.py"]
    assert files(newel.project) == after | {"app.py": (mode, data.replace(b"FOUR", b"four"))}


def test_git_status_shows_none_of_newels_files(newel: Newel) -> None:
    if not (newel.project / ".git").exists():
        pytest.skip("no repository")
    status = git(newel.project, "status", "--porcelain")
    head, index = git(newel.project, "rev-parse", "HEAD"), git(newel.project, "ls-files", "--stage")
    ran(newel, "do all of it")
    ran(newel, "undo", "--yes")
    assert git(newel.project, "status", "--porcelain") == status
    assert git(newel.project, "rev-parse", "HEAD") == head
    assert git(newel.project, "ls-files", "--stage") == index
    assert not git(newel.project, "stash", "list")


def test_a_review_shows_the_changes_and_git_applies_it_as_a_patch(newel: Newel) -> None:
    ran(newel, "do all of it")
    told = ran(newel, "review")
    assert "do all of it" in told
    for line in ("-two", "+Two", "-four", "+FOUR", "+print(1)", "-to be gone", "new mode 100755"):
        assert f"\n{line}" in told, line
    data = json.loads(ran(newel, "review", "--json"))
    names = [file["file_path"] for file in data["checkpoints"][0]["files"]]
    assert sorted(names) == [
        "app.py",
        "blob.bin",
        "gone.txt",
        "moved.txt",
        "new/made.py",
        "old.txt",
        "run.sh",
    ]
    ran(newel, "undo", "--yes")
    assert not (newel.project / "new" / "made.py").exists()


def test_a_review_shows_the_last_run_in_full_and_an_earlier_one_by_id(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo $RANDOM > a.txt"), {"content": "Done."}))
    ran(newel, "go")
    first = (newel.project / "a.txt").read_text()
    ran(newel, "go")
    last = (newel.project / "a.txt").read_text()
    told = ran(newel, "review")
    assert f"\n+{last}" in told
    assert f"\n+{first}" not in told
    checkpoints = json.loads(ran(newel, "review", "--json"))["checkpoints"]
    earlier = checkpoints[1]["checkpoint_id"]
    assert "newel review 2" in told
    told = ran(newel, "review", earlier[:9])
    assert f"\n+{first}" in told
    assert last not in told
    assert json.loads(ran(newel, "review", earlier, "--json"))["checkpoints"] == checkpoints[1:]
    missing = newel("review", "cp_none")
    assert missing.returncode != 0
    assert "no checkpoint cp_none" in missing.stderr


@pytest.mark.parametrize("pager", ["sh -c 'cat > paged'", "", "no-such-pager", "'"])
def test_a_long_review_uses_the_pager_or_is_printed_in_full(pager: str, with_model: Make) -> None:
    newel = with_model(scenario("go", bash("seq 100 > a.txt"), {"content": "Done."}))
    ran(newel, "go")
    environ = newel.environ | {"TERM": "xterm-256color", "PAGER": pager}
    terminal = Terminal([str(BIN / "newel"), "review"], newel.project, 80, 40, environ)
    try:
        assert terminal.end() == 0
        shown = terminal.screen.text
    finally:
        terminal.close()
    if pager.startswith("sh"):
        shown = (newel.project / "paged").read_text()
        assert "\x1b[" in shown
    assert "+1" in shown
    assert "+100" in shown


def test_nothing_is_undone_without_confirmation(newel: Newel) -> None:
    ran(newel, "do all of it")
    after = files(newel.project)
    done = newel("undo")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert "app.py" in done.stdout
    assert files(newel.project) == after


def test_a_run_killed_with_its_command_can_be_reviewed_and_undone(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo two > f.txt; rm g.txt; touch began; sleep 30")))
    (newel.project / "f.txt").write_text("one\n")
    (newel.project / "g.txt").write_text("g\n")
    before = files(newel.project)
    while time.time() - (newel.project / "g.txt").stat().st_ctime < 0.2:
        time.sleep(0.02)  # a file changed just before it was read does not count as known
    process = newel.start("go")
    deadline = time.monotonic() + 10
    while not (newel.project / "began").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    told = ran(newel, "review")
    assert "-one" in told
    assert "+two" in told
    ran(newel, "undo", "--yes")
    assert files(newel.project) == before


def test_recording_can_be_disabled_and_a_review_says_so(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo two > f.txt"), {"content": "Done."}))
    settings = newel.home / ".newel" / "config.toml"
    settings.parent.mkdir()
    settings.write_text("[review]\nrecord = false\n")
    ran(newel, "go")
    told = ran(newel, "review")
    assert "record" in told
    assert not (newel.home / ".newel" / "review").exists()


def test_an_unusable_ledger_is_reported_once_and_the_run_continues(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo a > a"), bash("echo b > b"), {"content": "Done."}))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "review").write_text("in the way")
    done = newel("go")
    assert done.returncode == 0
    assert (newel.project / "b").exists()
    assert done.stderr.count("not recorded") == 1


def test_a_folder_without_runs_says_so(with_model: Make) -> None:
    newel = with_model()
    assert "No changes by agents" in ran(newel, "review")
    assert "No changes by agents" in ran(newel, "checkpoints")
    done = newel("undo", "--yes")
    assert done.returncode == 1
    assert "No changes by agents" in done.stderr
    assert not (newel.home / ".newel" / "review").exists()


def test_a_folder_below_names_the_one_that_has_runs(with_model: Make) -> None:
    """Who has changed into `src` meanwhile believes else that nothing can be undone."""
    newel = with_model(scenario("go", bash("mkdir sub; echo a > a"), {"content": "Done."}))
    ran(newel, "go")
    done = newel("undo", "--cwd", "sub", "--yes")
    assert (
        f"in this folder. Newel has worked in {newel.project}; `--cwd {newel.project}` looks there."
        in done.stderr
    )
    assert (
        f"No pending changes. Newel has worked in {newel.project};" in newel("decide", "--cwd", "sub").stdout
    )
    begun = newel("--continue", "--cwd", "sub", "hi")
    assert f"The latest of {newel.project}: `newel --continue --cwd {newel.project}`." in begun.stderr


def test_an_unknown_checkpoint_is_named(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo a > a"), {"content": "Done."}))
    ran(newel, "go")
    done = newel("rollback", "cp_none", "--yes")
    assert done.returncode == 1
    assert "cp_none" in done.stderr


@pytest.mark.parametrize("screen", ["rich", "console"])
def test_a_conversation_undoes_its_changes_and_tells_the_model(screen: str, with_model: Make) -> None:
    begin = scenario("go", call("write", file_path="a.txt", content="a\n"), {"content": "I wrote it."})
    begin["scenarios"] += scenario("thanks", {"content": "Oh."})["scenarios"]
    newel = with_model(begin)
    terminal = Terminal(
        [str(BIN / "newel"), "--renderer", screen],
        newel.project,
        100,
        30,
        newel.environ | {"TERM": "xterm-256color", "PYTHONUTF8": "1"},
    )
    try:
        terminal.wait_for("Enter sends" if screen == "rich" else "newel ")
        terminal.send("go\r")
        terminal.wait_for("13 out")
        assert (newel.project / "a.txt").exists()
        terminal.send("/review\r")
        terminal.wait_for("+a")
        terminal.send("/undo\r")
        terminal.wait_for("Undo these changes?")
        terminal.send("y\r")
        terminal.wait_for("Undone in 1 file: a.txt")
        assert not (newel.project / "a.txt").exists()
        terminal.send("thanks\r")
        terminal.wait_for("Oh.")
        terminal.send("\x04")
        assert terminal.end() == 0
    finally:
        terminal.close()
    told = newel.requests[-1]["messages"][-2]
    assert told["role"] == "user"
    assert "a.txt" in told["content"]


def test_answering_no_keeps_the_files(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo a > a"), {"content": "Done."}))
    ran(newel, "go")
    terminal = Terminal([str(BIN / "newel"), "undo"], newel.project, 100, 30, newel.environ)
    try:
        terminal.wait_for("Undo these changes?")
        terminal.send("n\r")
        assert terminal.end() == 1
    finally:
        terminal.close()
    assert "Nothing was changed." in terminal.screen.text
    assert (newel.project / "a").exists()


def test_ctrl_c_at_the_question_ends_the_command_and_changes_nothing(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo a > a"), {"content": "Done."}))
    ran(newel, "go")
    terminal = Terminal([str(BIN / "newel"), "undo"], newel.project, 100, 30, newel.environ)
    try:
        terminal.wait_for("Undo these changes?")
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.end() == 130
    finally:
        terminal.close()
    assert (newel.project / "a").exists()


@pytest.mark.slow  # an undo long enough to be stopped; test_stopped_undo.py is quick
def test_ctrl_c_stops_a_long_undo_and_the_next_one_completes_it(with_model: Make) -> None:
    make = "for n in $(seq 800); do echo $n > $n.txt; done"
    newel = with_model(scenario("go", bash(make), {"content": "Done."}))
    ran(newel, "go")
    there = len(list(newel.project.iterdir()))
    terminal = Terminal(
        [str(BIN / "newel"), "undo"], newel.project, 100, 30, newel.environ | {"TERM": "xterm"}
    )
    try:
        terminal.wait_for("Undo these changes?")
        terminal.send("y\r")
        terminal.wait_for("of 800 files", painted=False)
        terminal.wait_for(" s · Ctrl+C stops", painted=False)
        assert " · run " not in terminal.screen.text
        pid = terminal.process.pid

        def has_begun() -> bool:
            os.kill(pid, signal.SIGSTOP)  # or it may end before this busy machine comes to the next line
            if len(list(newel.project.iterdir())) < there:
                return True
            os.kill(pid, signal.SIGCONT)
            return False

        wait_until(has_begun, "the first files")
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGCONT)
        terminal.wait_for("`newel undo` completes it.")
        assert terminal.end() == 130
    finally:
        terminal.close()
    left = 800 - (there - len(list(newel.project.iterdir())))
    assert 0 < left < 800
    assert f"Undone in {left:,} files" in ran(newel, "undo", "--yes")
    assert "Redone in 800 files" in ran(newel, "redo", "--yes")


def test_a_stopped_command_is_recorded(with_model: Make) -> None:
    newel = with_model(
        scenario("go", call("bash", command="echo a > a; sleep 30", timeout=1), {"content": "Done."})
    )
    ran(newel, "go")
    assert "+a" in ran(newel, "review")
    ran(newel, "undo", "--yes")
    assert not (newel.project / "a").exists()


def test_an_undo_of_many_files_tells_the_model_the_first_of_them(with_model: Make) -> None:
    """All names would be in each request of the conversation from then on."""
    first = scenario(
        "go", bash("for n in $(seq 100 399); do echo $n > file$n.txt; done"), {"content": "Done."}
    )
    second = scenario("next", {"content": "I see."})
    newel = with_model({"scenarios": [*first["scenarios"], *second["scenarios"]]})
    ran(newel, "go")
    ran(newel, "undo", "--yes")
    ran(newel, "-c", "next")
    told = str(newel.requests[-1]["messages"])
    assert "- file100.txt" in told
    assert "- 250 more" in told
    assert "file399.txt" not in told


def test_the_list_of_an_undo_says_of_files_without_lines_whether_they_come_or_go(with_model: Make) -> None:
    newel = with_model(
        scenario("go", bash("mv old.bin kept.txt; printf '\\0\\1' > made.bin"), {"content": "Done."})
    )
    (newel.project / "old.bin").write_bytes(b"\0\1\2")
    ran(newel, "go")
    listed = newel("undo", "--yes").stdout
    assert re.search(r"made\.bin +deleted", listed), listed
    assert re.search(r"old\.bin +new", listed), listed


@pytest.mark.parametrize("sandbox", ["off", "workspace"])
def test_what_replaces_the_folder_between_two_runs_is_the_users(sandbox: str, with_model: Make) -> None:
    """A clone made anew, for example: commands work in it, and an undo of the next run takes nothing of it away."""
    first = scenario("go", bash("echo one > one.txt"), {"content": "Done."})
    second = scenario("next", bash("ls; echo two > two.txt"), {"content": "Done."})
    newel = with_model({"scenarios": [*first["scenarios"], *second["scenarios"]]})
    (newel.project / "old.txt").write_text("old\n")
    with served(newel, "go", "--sandbox", sandbox) as server:
        server.chat("go")
        assert (newel.project / "one.txt").exists()
        newel.project.rename(newel.project.with_name("former"))
        (newel.project / "src").mkdir(parents=True)
        (newel.project / "src" / "mine.txt").write_text("mine\n")
        server.chat("next")
    assert "src" in str(newel.requests[-1]["messages"][-1]["content"])
    assert (newel.project / "two.txt").read_text() == "two\n"
    undone = newel("undo", "--yes")
    assert "1 file would change" in undone.stdout, undone.stdout
    assert files(newel.project) == {"src/mine.txt": (0o644, b"mine\n")}


def test_an_ephemeral_run_leaves_no_ledger(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo a > a"), {"content": "Done."}))
    ran(newel, "--ephemeral", "go")
    assert not (newel.home / ".newel" / "review").exists()


def test_an_undo_after_git_reverted_the_changes_does_not_touch_the_run_before(with_model: Make) -> None:
    steps = [
        scenario("first", bash("echo first > first.txt"), {"content": "Done."}),
        scenario("second", bash("echo second >> tracked.txt"), {"content": "Done."}),
    ]
    newel = with_model({"scenarios": [each for one in steps for each in one["scenarios"]]})
    (newel.project / "tracked.txt").write_text("was\n")
    git(newel.project, "init", "-q")
    git(newel.project, "add", "tracked.txt")
    git(newel.project, "commit", "-q", "-m", "first")
    ran(newel, "first")
    ran(newel, "second")
    git(newel.project, "stash")
    before = files(newel.project)
    done = newel("undo", "--yes")
    assert done.returncode == 1
    assert "second" in done.stderr
    assert "newel undo cp_" in done.stderr
    assert files(newel.project) == before
    git(newel.project, "stash", "pop")
    ran(newel, "undo", "--yes")
    assert (newel.project / "tracked.txt").read_text() == "was\n"
    assert (newel.project / "first.txt").exists()


def test_an_undo_after_a_run_without_changes_names_the_run_before_it(with_model: Make) -> None:
    steps = [
        scenario("first", bash("echo first > first.txt"), {"content": "Done."}),
        scenario(
            "second", bash("touch t; mv first.txt f"), bash("mv f first.txt; rm t"), {"content": "Done."}
        ),
    ]
    newel = with_model({"scenarios": [each for one in steps for each in one["scenarios"]]})
    ran(newel, "first")
    ran(newel, "second")
    done = newel("undo", "--yes")
    assert done.returncode == 1
    assert "No change of the run “second” is recorded." in done.stderr
    assert (newel.project / "first.txt").read_text() == "first\n"
    ran(newel, *hint(done.stderr), "--yes")
    assert list(newel.project.iterdir()) == []


def hint(words: str) -> list[str]:
    """The command that an error suggests for the run before."""
    return words.split("To undo the run before it")[1].split("`newel ")[1].split("`", maxsplit=1)[0].split()


@pytest.fixture
def two_runs(with_model: Make) -> Newel:
    """A repository in which a run created a.txt; other changes are not recorded."""
    write = call("write", file_path="../outside.txt", content="out\n")
    steps = [
        scenario("first", call("write", file_path="a.txt", content="good\n"), {"content": "Done."}),
        scenario("ignored", bash("echo made > build/out; echo more > build/more"), {"content": "Done."}),
        scenario("outside", write, {"content": "Done."}),
        scenario("look", call("read", file_path="a.txt"), {"content": "Done."}),
    ]
    newel = with_model({"scenarios": [each for one in steps for each in one["scenarios"]]})
    git(newel.project, "init", "-q")
    (newel.project / ".gitignore").write_text("build/\n")
    (newel.project / "build").mkdir()
    (newel.project / "build" / "old").touch()
    ran(newel, "first")
    return newel


@pytest.mark.parametrize("second", ["ignored", "outside"])
def test_an_undo_never_selects_a_run_before_the_last(second: str, two_runs: Newel) -> None:
    ran(two_runs, second)
    before = files(two_runs.project)
    done = two_runs("undo", "--yes")
    assert done.returncode == 1
    assert f"The last run, “{second}”, has no recorded changes." in done.stderr
    if second == "ignored":
        assert "build/" in done.stderr
    assert files(two_runs.project) == before
    ran(two_runs, *hint(done.stderr), "--yes")
    assert not (two_runs.project / "a.txt").exists()
    assert "Redone in 1 file: a.txt." in ran(two_runs, "redo", "--yes")
    assert files(two_runs.project) == before


@pytest.mark.parametrize("how", ["ephemeral", "off"])
def test_an_undo_never_skips_an_unrecorded_run(how: str, two_runs: Newel) -> None:
    if how == "ephemeral":
        ran(two_runs, "--ephemeral", "ignored")
    else:
        settings = two_runs.home / ".newel" / "config.toml"
        settings.write_text("[review]\nrecord = false\n")
        ran(two_runs, "ignored")
        settings.unlink()
    done = two_runs("undo", "--yes")
    assert done.returncode == 1
    assert "The last run was not recorded" in done.stderr
    assert (two_runs.project / "a.txt").exists()
    kept = (two_runs.home / ".newel" / "review").rglob("*.json")
    assert not any("ignored" in path.read_text() for path in kept)
    ran(two_runs, *hint(done.stderr), "--yes")
    assert not (two_runs.project / "a.txt").exists()


def test_a_read_only_run_is_no_target_of_an_undo(two_runs: Newel) -> None:
    ran(two_runs, "look")
    assert "Undone in 1 file: a.txt." in ran(two_runs, "undo", "--yes")


@pytest.mark.parametrize("screen", ["rich", "console"])
def test_an_undo_in_a_conversation_selects_no_older_run_unasked(screen: str, two_runs: Newel) -> None:
    ran(two_runs, "ignored")
    env = two_runs.environ | {"TERM": "xterm-256color"}
    terminal = Terminal([str(BIN / "newel"), "--renderer", screen], two_runs.project, 120, 40, env)
    try:
        terminal.wait_for("Enter sends" if screen == "rich" else "newel ")
        terminal.send("/undo\r")
        terminal.wait_for("The last run, “ignored”, has no recorded changes.")
        terminal.wait_for("Undo: first")
        terminal.wait_for("Undo these changes?")
        terminal.send("\r")
        terminal.wait_for("Nothing was changed.")
        assert (two_runs.project / "a.txt").exists()
        terminal.send("/undo\r")
        terminal.wait_for(lambda: terminal.screen.text.count("Undo: first") == 2)
        terminal.wait_for(lambda: "Undo these changes?" in terminal.screen.text.rpartition("Undo: first")[2])
        terminal.send("y\r")
        terminal.wait_for("Undone in 1 file: a.txt.")
        assert not (two_runs.project / "a.txt").exists()
    finally:
        terminal.close()


def test_an_undo_that_could_not_write_a_file_can_be_repeated(with_model: Make) -> None:
    newel = with_model(scenario("first", bash("echo new > a.txt; echo new > b.txt"), {"content": "Done."}))
    for name in "ab":
        (newel.project / f"{name}.txt").write_text("old\n")
    ran(newel, "first")
    (newel.project / "b.txt").unlink()
    (newel.project / "b.txt").mkdir()
    done = newel("undo", "--yes")
    assert done.returncode == 1
    assert "b.txt" in done.stdout + done.stderr
    (newel.project / "b.txt").rmdir()
    (newel.project / "b.txt").write_text("new\n")
    ran(newel, "undo", "--yes")
    assert [(newel.project / f"{name}.txt").read_text() for name in "ab"] == ["old\n", "old\n"]


def test_a_killed_undo_is_completed_by_the_next_and_not_undone(newel: Newel) -> None:
    before = files(newel.project)
    ran(newel, "do all of it")
    folder = newel.home / ".newel"
    words = [
        *(require_program("strace"), "-f", "-o", "/dev/null", "-e", "trace=renameat,rename,renameat2"),
        *("-e", "inject=renameat,rename,renameat2:signal=KILL:when=1"),
        *(str(BIN / "newel"), "undo", "--yes"),
    ]
    subprocess.run(words, cwd=newel.project, env=newel.environ, capture_output=True, check=False, timeout=60)
    with Ledger.open(ledger_folder(folder, str(newel.project))) as ledger:
        assert ledger.intents()
    assert "interrupted" in ran(newel, "undo", "--yes")
    assert files(newel.project) == before
