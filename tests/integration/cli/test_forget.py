"""If these fail, what a user wanted deleted is still on disk, or more is deleted than they named."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.agents.support import after
from tests.integration.cli.stored_data import is_stored
from tests.served import served, wait_until
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

WithModel = Callable[..., Newel]

SECRET = "hunter2-" + "x9Q" * 40
PRINT = "printf hunter2-; printf 'x9Q%.0s' $(seq 40)"
"""Prints it, so that it is in the conversation and in no file."""
DONE = {"content": "Done."}


def two_runs() -> dict[str, Any]:
    """``one`` and ``two`` change a file each, and both change ``both.txt``."""
    commands = {name: f"echo {name} > {name}.txt; echo {name} >> both.txt" for name in ("one", "two")}
    return together(*(scenario(name, bash(command), DONE) for name, command in commands.items()))


def together(*files: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [each for file in files for each in file["scenarios"]]}


def runs(newel: Newel) -> list[str]:
    return re.findall(r"^ *\d+ +(cp_\w+)", newel("checkpoints").stdout, re.MULTILINE)


def check(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_no_byte_of_a_forgotten_file_stays(with_model: WithModel) -> None:
    newel = with_model(scenario("go", bash("echo more >> keys.txt; echo other > other.txt"), DONE))
    (newel.project / "keys.txt").write_text(f"{SECRET}\n")
    check(newel("go"))
    assert is_stored(newel, SECRET)
    said = check(newel("forget", "keys.txt", "--yes"))
    assert "keys.txt" in said
    assert not is_stored(newel, SECRET)
    assert (newel.project / "keys.txt").read_text() == f"{SECRET}\nmore\n"
    assert "keys.txt" not in newel("review").stdout
    check(newel("undo", "--yes"))  # the rest of the run
    assert not (newel.project / "other.txt").exists()


def test_a_folder_is_forgotten_with_all_below_it(with_model: WithModel) -> None:
    command = "mkdir -p deep/er deeper; echo x | tee deep/er/a.txt > deep/b.txt; echo x > deeper/c.txt"
    newel = with_model(scenario("go", bash(command), DONE))
    check(newel("go"))
    said = check(newel("forget", "deep", "--yes"))
    assert "2 files" in said
    check(newel("undo", "--yes"))
    assert (newel.project / "deep/b.txt").exists()
    assert not (newel.project / "deeper/c.txt").exists()


def test_a_deleted_file_can_be_forgotten(with_model: WithModel) -> None:
    newel = with_model(scenario("go", bash("rm keys.txt"), DONE))
    (newel.project / "keys.txt").write_text(f"{SECRET}\n")
    check(newel("go"))
    check(newel("forget", "keys.txt", "--yes"))
    assert not is_stored(newel, SECRET)
    assert newel("undo", "--yes").returncode == 1


def test_a_run_is_forgotten_and_others_stay(with_model: WithModel) -> None:
    newel = with_model(two_runs())
    check(newel("one"))
    check(newel("two"))
    last, first = runs(newel)
    said = check(newel("forget", "--run", first, "--yes"))
    assert "both.txt" in said  # stays: the other run changed it too
    assert runs(newel) == [last]
    check(newel("undo", "--yes"))
    assert not (newel.project / "two.txt").exists()
    assert (newel.project / "both.txt").read_text() == "one\n"


def test_the_last_run_is_the_default(with_model: WithModel) -> None:
    newel = with_model(two_runs())
    check(newel("one"))
    check(newel("two"))
    _, first = runs(newel)
    check(newel("forget", "--run", "--yes"))
    assert runs(newel) == [first]
    assert newel("undo", "--yes").returncode == 1, (
        "the last run is forgotten, and an older one must not be undone for it"
    )


def test_a_session_is_forgotten_with_all_its_words(with_model: WithModel) -> None:
    newel = with_model(two_runs())
    check(newel("one"))
    check(newel("two"))
    first, second = newel.sessions
    check(newel("forget", "--session", first.stem.rpartition("_")[2][:8], "--yes"))
    assert newel.sessions == [second]


def test_no_byte_of_a_forgotten_chat_of_the_page_stays(with_model: WithModel) -> None:
    """Its answers, and what its commands printed, are in the journal of the workbench, too."""
    hello = scenario("hello", {"content": "Hello, and good day."})
    newel = with_model(together(scenario("show", bash(PRINT), DONE), hello))
    with served(newel) as server, server.page() as page:
        for number, text in enumerate(("show", "hello")):
            tab = page.ask("openChat")["tab"]
            page.ask("watch", tab=tab)
            page.ask("send", tab=tab, messageId=f"m{number}", text=text)
            page.until_event("agent_end")
    (shown,) = [path for path in newel.sessions if SECRET in path.read_text()]
    words = ("forget", "--session", shown.stem.rpartition("_")[2], "--yes")
    assert is_stored(newel, SECRET)
    check(newel(*words))
    assert not is_stored(newel, SECRET)
    with served(newel) as server, server.page() as page:
        assert [tab["title"] for tab in page.tabs] == ["hello"]
        (tab,) = (tab["id"] for tab in page.tabs)
        assert "good day" in str(page.ask("watch", tab=tab)) + str(page.next("snapshot"))


def test_no_byte_of_a_forgotten_agent_stays(with_model: WithModel) -> None:
    newel = with_model(together(after(1, True), scenario("Show", bash(PRINT), DONE)))
    check(newel("agent", "Show it"))
    (session,) = newel.sessions
    assert is_stored(newel, SECRET)
    said = check(newel("forget", "--session", session.stem.rpartition("_")[2], "--yes"))
    assert "an agent's log" in said
    assert not is_stored(newel, SECRET)
    assert "No agents" in check(newel("agents"))


def test_what_was_typed_in_a_forgotten_session_is_forgotten_with_it(with_model: WithModel) -> None:
    newel = with_model(two_runs())
    check(newel("one"))
    history = newel.home / ".newel" / "history"
    mine, others = (
        f'\n# 2026-01-03 10:00:00\n# in "{folder}"\n+one\n' for folder in (newel.project, "/elsewhere")
    )
    history.write_text(f"{mine}{others}{mine.replace('+one', '+two')}")
    check(newel("forget", "--session", newel.sessions[0].stem.rpartition("_")[2], "--yes"))
    assert history.read_text() == f"{others}{mine.replace('+one', '+two')}"


def test_a_message_is_forgotten_as_it_was_typed(with_model: WithModel) -> None:
    """In the conversation it is without the `@` of a file, and without the space around it."""
    newel = with_model(scenario("", DONE))
    (newel.project / "notes.txt").write_text("notes\n")
    with Tmux([str(BIN / "newel")], newel.project, newel.environ) as screen:
        screen.wait_for("Enter sends")
        screen.type(" see @notes.txt about the merger", "Enter")
        screen.wait_for("Done.")
        screen.type("/quit", "Enter")
        screen.wait_for_end()
    history = newel.home / ".newel" / "history"
    assert "merger" in history.read_text()
    check(newel("forget", "--session", newel.sessions[0].stem.rpartition("_")[2], "--yes"))
    assert "merger" not in history.read_text()


def test_what_became_part_of_a_message_is_forgotten_as_it_was_typed(with_model: WithModel) -> None:
    """A template with its arguments, a note for the agent, and a command of the user's own; what else was typed stays."""
    newel = with_model(scenario("", DONE))
    (newel.project / ".newel" / "prompts").mkdir(parents=True)
    (newel.project / ".newel" / "prompts" / "sum-up.md").write_text("Sum it up: $1")
    with Tmux([str(BIN / "newel")], newel.project, newel.environ) as screen:
        screen.wait_for("Enter sends")
        screen.type("!echo merger", "Enter")
        screen.wait_for("The model gets this with your next message (")  # the hint at typing has other words
        screen.type("/sum-up merger", "Enter")
        screen.wait_for("Done.")
        screen.type("# the merger is secret", "Enter")
        screen.wait_for("Done.", times=2)
        screen.type("!!echo private", "Enter")
        screen.wait_for("Private: the model does not get this.")
        screen.type("/quit", "Enter")
        screen.wait_for_end()
    history = newel.home / ".newel" / "history"
    assert history.read_text().count("merger") == 3
    check(newel("forget", "--session", newel.sessions[0].stem.rpartition("_")[2], "--yes"))
    assert "merger" not in history.read_text()
    assert "!!echo private" in history.read_text()


def test_the_title_of_a_forgotten_conversation_goes_with_its_tab(with_model: WithModel) -> None:
    """It was opened in the page, and nothing was said there: the journal has no run of it, but the beginning of its first message."""
    newel = with_model(scenario("title", DONE))
    check(newel("--ephemeral", "title"))
    check(newel("title of mine 4711"))
    identity = newel.sessions[0].stem.rpartition("_")[2]
    with served(newel) as server, server.page() as page:
        page.ask("openChat", session=identity)
        refused = newel("forget", "--session", identity, "--yes")
        assert refused.returncode == 1
        assert "stop it first" in refused.stderr
    journal = newel.home / ".newel" / "jobs"
    assert any(b"4711" in path.read_bytes() for path in journal.glob("*/journal.db*"))
    check(newel("forget", "--session", identity, "--yes"))
    assert not any(b"4711" in path.read_bytes() for path in journal.glob("*/journal.db*"))
    with served(newel) as server, server.page() as page:
        assert page.tabs == []


def test_a_session_that_a_workbench_has_in_its_journal_stays_until_it_is_closed(
    with_model: WithModel,
) -> None:
    newel = with_model(two_runs())
    with served(newel) as server, server.page() as page:
        tab = page.ask("openChat")["tab"]
        page.ask("watch", tab=tab)
        page.ask("send", tab=tab, messageId="m", text="one")
        page.until_event("agent_end")
        wait_until(lambda: newel.sessions, "the session")
        refused = newel("forget", "--session", newel.sessions[0].stem.rpartition("_")[2], "--yes")
        assert refused.returncode == 1
        assert "stop it first" in refused.stderr
        assert newel.sessions


def test_everything_of_a_folder_is_forgotten_and_nothing_of_another(
    with_model: WithModel, tmp_path: Path
) -> None:
    newel = with_model(two_runs())
    check(newel("one"))
    other = tmp_path / "other"
    other.mkdir()
    check(newel("two", "--cwd", str(other)))
    check(newel("forget", "--all", "--yes"))
    assert len(newel.sessions) == 1
    assert not is_stored(newel, "one.txt")
    assert newel("undo", "--yes").returncode == 1
    check(newel("undo", "--yes", "--cwd", str(other)))
    assert not (other / "two.txt").exists()


def test_worktrees_of_which_something_stays_are_named(with_model: WithModel) -> None:
    """Else a user takes for deleted what an agent has said and changed in a worktree of its own."""
    newel = with_model(
        scenario("go", bash(f"{PRINT} > new.txt; cat new.txt; rm new.txt; touch kept.txt"), DONE)
    )
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "empty")):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *words], cwd=newel.project, check=True)
    check(newel("--worktree=mine", "go"))
    (worktree,) = (newel.home / ".newel" / "worktrees").iterdir()
    assert is_stored(newel, SECRET)
    remedy = f"newel forget --all --cwd {worktree}"
    assert remedy in newel("forget", "--all", "--yes").stdout
    check(newel("forget", "--all", "--yes", "--cwd", str(worktree)))
    assert not is_stored(newel, SECRET)
    assert remedy not in newel("forget", "--all", "--yes").stdout


def test_a_folder_that_is_gone_can_be_forgotten(with_model: WithModel) -> None:
    """Else the contents of its files stay for as long as the user does not make it again."""
    newel = with_model(scenario("go", bash(f"{PRINT} > new.txt; cat new.txt"), DONE))
    gone = newel.project / "gone"
    gone.mkdir()
    check(newel("--cwd", "gone", "go"))
    shutil.rmtree(gone)
    assert is_stored(newel, SECRET)
    check(newel("forget", "--all", "--yes", "--cwd", "gone"))
    assert not is_stored(newel, SECRET)
    assert "Nothing is stored about" in newel("forget", "--all", "--yes", "--cwd", "gone").stdout


def test_what_was_typed_in_a_folder_is_forgotten_with_it(with_model: WithModel) -> None:
    newel = with_model(two_runs())
    history = newel.home / ".newel" / "history"
    history.parent.mkdir()
    others = '\n# 2026-01-01 10:00:00\n+of an old version\n\n# 2026-01-02 10:00:00\n# in "/elsewhere"\n+one\n+two\n'
    mine = f'\n# 2026-01-03 10:00:00\n# in "{newel.project}"\n+mine\n+on two lines\n'
    history.write_text(f"{mine}{others}{mine}")
    assert "2 messages that you typed" in check(newel("forget", "--all", "--yes"))
    assert history.read_text() == others
    assert history.stat().st_mode & 0o777 == 0o600


def test_nothing_is_forgotten_unasked(with_model: WithModel) -> None:
    newel = with_model(two_runs())
    check(newel("one"))
    for words in (["one.txt"], ["--run"], ["--all"]):
        result = newel("forget", *words)
        assert (result.returncode, result.stdout) == (2, "")
        assert "--yes" in result.stderr
    assert len(runs(newel)) == 1


def test_what_another_process_uses_is_not_forgotten(with_model: WithModel) -> None:
    newel = with_model(two_runs())
    check(newel("one"))
    with newel.start("web", "--port", "0") as server:
        assert server.stdout is not None
        server.stdout.readline()
        for words in (["one.txt"], ["--run"], ["--all"]):
            result = newel("forget", *words, "--yes")
            assert result.returncode == 1
            assert re.search("Close it|stop it", result.stderr)
        server.terminate()
    assert len(runs(newel)) == 1
    assert newel.sessions


def test_a_name_that_is_not_stored_is_an_error(with_model: WithModel) -> None:
    newel = with_model(two_runs())
    check(newel("one"))
    for name in ("three.txt", "", f"../{newel.project.name}one.txt", "/", ".."):
        result = newel("forget", name, "--yes")
        assert result.returncode == 1, name
        assert name in result.stderr
    assert len(runs(newel)) == 1
    assert newel("forget").returncode == 2


def test_a_command_of_an_agent_cannot_forget(with_model: WithModel) -> None:
    newel = with_model(scenario("go", bash(f"{BIN}/newel forget --all --yes; echo code $?"), DONE))
    check(newel("go"))
    assert "code 2" in str(newel.requests[-1]["messages"][-1]["content"])
