"""If these fail, `--approve review` changes files before the user agrees, or loses an agent's work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.review.model.file_lines import content_of
from newel.review.model.file_review import buffer
from newel.review.store.ledger import Ledger
from newel.review.tracking.recording_workspace import ledger_folder
from tests.forked import start
from tests.integration.cli.test_review import files, git
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux
from tests.unit.review.model.test_file_kinds import tree

Make = Callable[..., Newel]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


STEPS = [
    call("read", file_path="app.py"),
    call("edit", file_path="app.py", old_string="two", new_string="TWO"),
    bash(
        "cat app.py > seen.txt; sed -i s/six/SIX/ app.py; mv old.txt moved.txt; chmod +x run.sh; printf '\\377' > b.bin"
    ),
    bash("git log --oneline | wc -l; cat ignored/dep.txt; pwd"),
    {"content": "Done."},
]


@pytest.fixture
def newel(with_model: Make) -> Newel:
    newel = with_model(scenario("do all of it", *STEPS))
    project = newel.project
    (project / "app.py").write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven")
    (project / "old.txt").write_bytes(b"old\r\nlines\r\n")
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "ignored").mkdir()
    (project / "ignored" / "dep.txt").write_text("installed\n")
    (project / ".gitignore").write_text("ignored/\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    return newel


def ledger(newel: Newel) -> Ledger:
    return Ledger.open(ledger_folder(newel.home / ".newel", str(newel.project)))


def proposed(newel: Newel) -> dict[str, bytes | None]:
    """The files after keeping all proposals."""
    found: dict[str, bytes | None] = {}
    with ledger(newel) as opened:
        for path in opened.paths():
            review = opened.get(path)
            if review.hunks:
                content = content_of(buffer(review))
                found[path] = content and (opened.blob(content.blob) if content.blob else content.data)
    return found


def tool_results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def test_nothing_is_changed_before_the_user_keeps_it_and_every_change_is_proposed(newel: Newel) -> None:
    before = files(newel.project)
    head = git(newel.project, "status", "--porcelain"), git(newel.project, "rev-parse", "HEAD")
    done = newel("--approve", "review", "do all of it")
    assert done.returncode == 0, done.stderr
    assert files(newel.project) == before
    assert (git(newel.project, "status", "--porcelain"), git(newel.project, "rev-parse", "HEAD")) == head
    assert proposed(newel) == {
        "app.py": b"one\nTWO\nthree\nfour\nfive\nSIX\nseven",
        "seen.txt": b"one\nTWO\nthree\nfour\nfive\nsix\nseven",
        "old.txt": None,
        "moved.txt": b"old\r\nlines\r\n",
        "run.sh": b"#!/bin/sh\n",
        "b.bin": b"\xff",
    }
    lines, installed, folder = tool_results(newel)[-1].splitlines()[1:4]
    assert (lines.strip(), installed) == ("1", "installed")
    assert folder != str(newel.project)
    assert "6 files have pending changes" in done.stdout + done.stderr


def test_kept_changes_are_written_and_an_undo_reverts_them(newel: Newel) -> None:
    before = files(newel.project)
    newel("--approve", "review", "do all of it")
    done = newel("keep", "--all", "--yes")
    assert done.returncode == 0, done.stderr + done.stdout
    after = {path: data for path, (_, data) in files(newel.project).items()}
    assert after["app.py"] == b"one\nTWO\nthree\nfour\nfive\nSIX\nseven"
    assert after["moved.txt"] == b"old\r\nlines\r\n"
    assert after["b.bin"] == b"\xff"
    assert "old.txt" not in after
    assert (newel.project / "run.sh").stat().st_mode & 0o111
    assert proposed(newel) == {}
    assert newel("undo", "--yes").returncode == 0
    assert files(newel.project) == before


def test_the_next_runs_copy_has_pending_changes_and_no_rejected_ones(
    with_model: Make,
) -> None:
    first = [
        call("write", file_path="waits.txt", content="waits\n"),
        call("write", file_path="rejected.txt", content="rejected\n"),
        bash("echo more >> there.txt"),
        {"content": "Done."},
    ]
    second = [bash("cat waits.txt; ls; cat there.txt"), {"content": "Done."}]
    newel = with_model(
        {"scenarios": [*scenario("first", *first)["scenarios"], *scenario("second", *second)["scenarios"]]}
    )
    (newel.project / "there.txt").write_text("was\n")
    assert newel("--approve", "review", "first").returncode == 0
    done = newel("reject", "rejected.txt", "there.txt", "--yes")
    assert done.returncode == 0, done.stderr + done.stdout
    (newel.project / "own.txt").write_text("the user's\n")
    assert newel("--approve", "review", "second").returncode == 0
    shown = tool_results(newel)[-1]
    assert "waits\n" in shown
    assert "own.txt" in shown
    assert "rejected.txt" not in shown
    assert "was\n" in shown
    assert "more" not in shown


def test_files_outside_the_project_are_not_changed_and_the_model_is_told(
    with_model: Make, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_text("mine\n")
    steps = [
        call("write", file_path=str(elsewhere), content="overwritten\n"),
        call("write", file_path="link/in.txt", content="out\n"),
        {"content": "Done."},
    ]
    newel = with_model(scenario("write there", *steps))
    (tmp_path / "outside").mkdir()
    (newel.project / "link").symlink_to(tmp_path / "outside")
    assert newel("--approve", "review", "write there").returncode == 0
    assert elsewhere.read_text() == "mine\n"
    assert list((tmp_path / "outside").iterdir()) == []
    assert all("was not changed" in result for result in tool_results(newel))


def test_a_command_that_names_the_projects_folder_is_recorded_and_reported(
    with_model: Make, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    newel = with_model(
        scenario("go there", bash(f"cd {project} && echo past > past.txt"), {"content": "Done."})
    )
    done = newel("--approve", "review", "go there")
    assert "past.txt" in done.stdout + done.stderr
    assert (project / "past.txt").exists()
    assert newel("undo", "--yes").returncode == 0
    assert not (project / "past.txt").exists()


def test_a_path_of_the_project_means_its_copy(with_model: Make, tmp_path: Path) -> None:
    path = tmp_path / "project" / "a.txt"
    steps = [
        call("read", file_path=str(path)),
        call("write", file_path=str(path), content="new\n"),
        {"content": "Done."},
    ]
    newel = with_model(scenario("write it", *steps))
    path.write_text("old\n")
    assert newel("--approve", "review", "write it").returncode == 0
    assert path.read_text() == "old\n"
    assert proposed(newel) == {"a.txt": b"new\n"}


def test_changes_that_cannot_be_proposed_are_reported(with_model: Make) -> None:
    newel = with_model(scenario("make a pipe", bash("mkfifo pipe; mkdir empty"), {"content": "Done."}))
    done = newel("--approve", "review", "make a pipe")
    assert "pipe: new named pipe. It is not proposed" in done.stdout + done.stderr
    assert "empty: new folder. It is not proposed" in done.stdout + done.stderr
    assert not (newel.project / "pipe").exists()


def test_links_are_proposed_and_are_in_the_next_runs_copy(with_model: Make) -> None:
    """Also a link that replaces a file, and one with a changed target."""
    does = "ln -s nowhere new; rm file; ln -s other file; ln -sfn two link"
    make = scenario("make links", bash(does), {"content": "Done."})
    look = scenario("look at them", bash("readlink new file link"), {"content": "Done."})
    newel = with_model({"scenarios": make["scenarios"] + look["scenarios"]})
    (newel.project / "file").write_text("text\n")
    (newel.project / "link").symlink_to("one")
    newel("--approve", "review", "make links")
    assert (newel.project / "file").read_text() == "text\n"
    newel("--approve", "review", "look at them")
    assert "nowhere\\nother\\ntwo" in json.dumps(newel.requests[-1])
    kept = newel("keep", "--all", "--yes")
    assert kept.returncode == 0, kept.stdout + kept.stderr
    links = {name: str((newel.project / name).readlink()) for name in ("new", "file", "link")}
    assert links == {"new": "nowhere", "file": "other", "link": "two"}
    refused = newel("undo", "--yes")  # the last run changed nothing
    assert refused.returncode == 1
    checkpoint = refused.stderr.rpartition("`newel undo ")[2].partition("`")[0]
    assert newel("undo", checkpoint, "--yes").returncode == 0
    assert (newel.project / "file").read_text() == "text\n"
    assert (newel.project / "link").readlink() == Path("one")
    assert not (newel.project / "new").is_symlink()


def test_a_change_of_kind_is_proposed_written_and_undone_exactly(with_model: Make) -> None:
    """Otherwise keeping a folder that was a file loses the file: no undo restores it."""
    begin = (
        "mkdir -p full/s bare later; echo f > full/f; echo g > full/s/g; cp -R full into_link; "
        "echo old > file; ln -s keep link; echo k > keep; echo b > bare_file"
    )
    does = (
        "for x in full into_link file link bare_file; do rm -rf $x; done; echo new > full; ln -s keep into_link; "
        "mkdir -p file/s link bare_file; echo f > file/f; echo g > file/s/g; echo h > link/h; "
        "mkdir -p later; echo in > later/in"
    )
    newel = with_model(scenario("turn them", bash(does), {"content": "Done."}))
    subprocess.run(["bash", "-c", begin], cwd=newel.project, check=True)
    before = tree(newel.project)
    newel("--approve", "review", "turn them")
    assert tree(newel.project) == before
    kept = newel("keep", "--all", "--yes")
    assert kept.returncode == 0, kept.stdout + kept.stderr
    after = tree(newel.project)
    wanted = newel.home / "wanted"
    wanted.mkdir()
    subprocess.run(["bash", "-c", f"{begin}; {does}"], cwd=wanted, check=True)
    assert after == tree(wanted)
    for command, expected in (("undo", before), ("redo", after), ("undo", before)):
        done = newel(command, "--yes")
        assert (done.returncode, tree(newel.project)) == (0, expected), done.stdout + done.stderr


def test_an_undo_is_complete_although_something_was_not_proposed(with_model: Make) -> None:
    """Otherwise something stays forever, and the undone change cannot be restored."""
    does = "rm -r d; mkfifo d; echo new > f"
    newel = with_model(scenario("make a pipe", bash(does), {"content": "Done."}))
    (newel.project / "d").mkdir()
    (newel.project / "d" / "in").write_text("in\n")
    before = tree(newel.project)
    newel("--approve", "review", "make a pipe")
    newel("keep", "--all", "--yes")
    after = tree(newel.project)
    for command, expected in (("undo", before), ("redo", after)):
        done = newel(command, "--yes")
        assert (done.returncode, tree(newel.project)) == (0, expected), done.stdout + done.stderr


def test_no_copy_stays_behind(newel: Newel) -> None:
    newel("--approve", "review", "do all of it")
    copies = newel.home / ".newel" / "copies"
    assert list(copies.iterdir()) == []


@pytest.mark.parametrize("gone", ["the project", "its parent"])
def test_a_project_that_vanishes_is_reported_and_its_copy_is_not_empty(gone: str, with_model: Make) -> None:
    reads = call("read", file_path="a.txt")
    steps = [scenario("one", reads, {"content": "First."}), scenario("two", reads, {"content": "Second."})]
    newel = with_model({"scenarios": [each for one in steps for each in one["scenarios"]]})
    newel.project = newel.project / "outer" / "p"
    newel.project.mkdir(parents=True)
    (newel.project / "a.txt").write_text("a\n")
    words = [str(BIN / "newel"), "--approve", "review", "--json"]
    process = start(words, cwd=newel.project, env=newel.environ, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('{"type":"message","content":"one"}\n')
    process.stdin.flush()
    for line in process.stdout:
        if json.loads(line)["type"] == "agent_end":
            break
    shutil.rmtree(newel.project if gone == "the project" else newel.project.parent)
    out, err = process.communicate('{"type":"message","content":"two"}\n', timeout=20)
    assert f"Cannot update the copy of {newel.project}" in out
    assert "Errno" not in out + err
    assert "Standard output" not in err


@pytest.mark.parametrize(
    "words", ["go", "review", "undo --yes", "mcp list", "doctor", "export x", "agent go"]
)
def test_a_missing_folder_is_an_explained_error(words: str, with_model: Make) -> None:
    newel = with_model()
    newel.project = newel.project / "gone"
    newel.project.mkdir()
    line = f'rmdir "$PWD"; exec newel {words}'
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=newel.project,
        env=newel.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Errno" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert words == "export x" or "folder" in done.stderr


def copies(newel: Newel) -> list[str]:
    return sorted(path.name for path in (newel.home / ".newel" / "copies").iterdir())


@pytest.mark.parametrize("moment", ["while the model thinks", "while a command runs"])
def test_a_killed_process_leaves_no_copy(moment: str, with_model: Make) -> None:
    """It contains ignored files and keys, and nobody may start Newel here for months."""
    command = "echo key > secret; chmod 500 locked; while :; do date >> log; sleep 0.01; done"
    steps = [bash(command), {"content": "Done."}]
    if moment == "while the model thinks":
        steps = [{"response": {"content": "Done."}, "delay_ms": 15_000}]
    newel = with_model(scenario("go", *steps))
    (newel.project / "locked").mkdir()
    (newel.project / "locked" / "a").touch()
    process = newel.start("--approve", "review", "go")
    place = newel.home / ".newel" / "copies"
    sign = "a" if moment == "while the model thinks" else "secret"
    wait_until(lambda: any(Path(folder) for folder, _, names in os.walk(place) if sign in names))
    process.kill()
    process.communicate(timeout=10)
    wait_until(lambda: copies(newel) == [])


def test_a_copy_whose_watchdog_died_too_is_deleted_by_the_next_command(newel: Newel) -> None:
    left = newel.home / ".newel" / "copies" / "other-0123abcd"
    left.mkdir(parents=True)
    (left / ".newel-lock").touch()
    (left / "secret").touch()
    newel("review")
    assert copies(newel) == []


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_programs_are_told_about_pending_changes(newel: Newel) -> None:
    newel("--approve", "review", "do all of it")
    told = json.loads(newel("review", "--json").stdout)
    assert {file["file_path"] for file in told["pending"]} == set(proposed(newel))


@pytest.mark.parametrize(("front", "command"), [("conversation", "/undo"), ("prompt", "newel undo")])
def test_a_notice_names_the_command_of_the_place_where_it_is_shown(
    with_model: Make, tmp_path: Path, front: str, command: str
) -> None:
    """If this fails, a user leaves the conversation to type what works in it."""
    newel = with_model(scenario("go", bash(f"echo x > {tmp_path}/project/made.txt"), {"content": "Done."}))
    environ = newel.environ | {"TERM": "xterm-256color"}
    words = ["-p", "go"] if front == "prompt" else []
    with Tmux(
        [str(BIN / "newel"), "--approve", "review", *words], newel.project, environ, columns=200
    ) as terminal:
        if not words:
            terminal.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")
            terminal.type("go", "Enter")
        terminal.wait_for(f"bypassing the review: made.txt. To undo that, run `{command}`.")
