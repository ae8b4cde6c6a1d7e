"""If these fail, an agent's changes on a host cannot be undone, or undoing them loses other content."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from newel.agent.events import AgentEvent, ErrorEvent
from newel.agent.messages import AssistantMessage
from newel.review.project import recent_runs
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.recording_workspace import RecorderRegistry
from newel.session.coding_agent import CodingAgent
from newel.workspace.ssh.connection import SLOW_AFTER
from newel.workspace.ssh.target import Target
from tests.integration.review.recorded_agent import recorded_agent, recorder_of
from tests.opened_host import open_host
from tests.review_bench import calls, says
from tests.sshd import SECONDS, Sshd
from tests.tcp_relay import open_relay

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]
Tree = dict[str, tuple[bytes, int]]


@asynccontextmanager
async def agent_on(
    config: str,
    root: Path,
    home: Path,
    script: Sequence[AssistantMessage],
    *,
    slow: float = SLOW_AFTER,
) -> AsyncGenerator[CodingAgent]:
    """An agent that works in a folder of the host, recorded."""
    async with (
        open_host(Target("own", path=str(root)), config=config, slow_after=slow) as host,
        recorded_agent(host, home, script) as agent,
    ):
        (await recorder_of(agent)).scan_timeout = 0.5
        yield agent


@asynccontextmanager
async def recorder_on(sshd: Sshd, root: Path, home: Path) -> AsyncGenerator[ChangeRecorder]:
    """As in another process: it knows only the ledger and the host."""
    recorders = RecorderRegistry(home)
    async with open_host(Target("own", path=str(root)), config=str(sshd.config)) as host:
        try:
            yield await recorders.recorder_of(host)
        finally:
            recorders.close()


def tree(root: Path) -> Tree:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def filled(root: Path) -> Path:
    (root / "src/deep").mkdir(parents=True)
    (root / "src/a.py").write_bytes(b"one\r\ntwo\nthree")
    (root / "src/deep/b").write_bytes(bytes(range(256)) * 40)
    (root / "src/deep/-rf it's").write_bytes(b"kept\n")
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o700)
    (root / "gone.txt").write_bytes(b"a\nb\nc\n")
    return root


COMMAND = (
    "printf 'ONE\\n' > src/a.py; printf '\\0x' >> src/deep/b; rm gone.txt; mv src/deep/-rf* moved; chmod 644 run.sh; "
    "mkdir -p new/deeper; echo n > new/deeper/file; echo é > 'new/\"quoted\" ü'"
)


async def test_a_commands_changes_on_a_host_are_undone_exactly(sshd: Sshd, tmp_path: Path) -> None:
    root, home = filled(tmp_path / "project"), tmp_path / "home"
    before = tree(root)
    script = [
        calls("bash", command=COMMAND),
        calls("write", file_path="src/written.py", content="w\n"),
        calls("bash", command="echo more >> src/written.py; echo last >> moved"),
        says("Done."),
    ]
    async with agent_on(str(sshd.config), root, home, script) as agent:
        await agent.prompt("Change all")
    after = tree(root)
    assert "src/written.py" in after
    async with recorder_on(sshd, root, home) as recorder:
        (run,) = await recent_runs(recorder.project, limit=5)
        assert run.title == "Change all"
        assert {file.file_path for file in run.files} == set(before) ^ set(after) | {
            "src/a.py",
            "src/deep/b",
            "run.sh",
        }
        await recorder.project.apply(await recorder.project.undo())
        assert tree(root) == before
        assert not (root / "new").exists()
        await recorder.project.apply(await recorder.project.redo())
        assert tree(root) == after


async def test_an_undo_on_a_distant_host_does_not_wait_for_it_at_each_step(
    sshd: Sshd, tmp_path: Path
) -> None:
    """With 200 files and 30 ms, eight round trips for each would take the better part of a minute."""
    root, home, count = tmp_path / "project", tmp_path / "home", 20
    root.mkdir()
    for number in range(count):
        (root / f"{number}").write_text("old\n")
    script = [
        calls(
            "bash",
            command="for f in *; do echo new >> $f; done; mkdir -p a/b/c && cd a/b/c && "
            f"touch $(seq {count}) && mkdir $(printf 'empty%s ' $(seq {count}))",
        ),
        says("Done."),
    ]
    config = tmp_path / "ssh_config"
    with open_relay(sshd.port) as wire:
        config.write_text(sshd.client_config(port=wire.port))
        async with agent_on(str(config), root, home, script) as agent:
            await agent.prompt("Change all")
            project = (await recorder_of(agent)).project
            before = wire.round_trips
            await project.apply(await project.undo())
            assert wire.round_trips - before < 2 * 3 * count, (
                "a write for each file, and little else, also for what is removed"
            )
    assert {path.read_text() for path in root.iterdir()} == {"old\n"}


async def test_changes_of_the_user_on_the_host_before_the_command_stay(sshd: Sshd, tmp_path: Path) -> None:
    root, home = filled(tmp_path / "project"), tmp_path / "home"
    script = [
        calls("bash", command="echo 1 > one"),
        says("One."),
        calls("bash", command="rm gone.txt"),
        says("Two."),
    ]
    async with agent_on(str(sshd.config), root, home, script) as agent:
        await agent.prompt("First")
        (root / "gone.txt").write_bytes(b"by hand\n")
        await agent.prompt("Second")
        (root / "later").write_bytes(b"by hand, too\n")
    async with recorder_on(sshd, root, home) as recorder:
        await recorder.project.apply(await recorder.project.undo())
    assert (root / "gone.txt").read_bytes() == b"by hand\n"
    assert (root / "later").read_bytes() == b"by hand, too\n"
    assert (root / "one").exists()


@pytest.mark.slow  # seconds of waiting
async def test_stopping_a_command_on_a_silent_host_returns_and_its_changes_are_recorded(
    sshd: Sshd, tmp_path: Path
) -> None:
    root, home, config = filled(tmp_path / "project"), tmp_path / "home", tmp_path / "ssh_config"
    script = [
        calls("bash", command=f"{COMMAND}; touch begun; sleep 1000"),
        calls("bash", command="true"),
        says("Done."),
    ]
    told: list[str] = []

    def see(event: AgentEvent) -> None:
        if isinstance(event, ErrorEvent):
            told.append(event.message)

    with open_relay(sshd.port) as wire, ExitStack() as silence:
        config.write_text(sshd.client_config(port=wire.port))
        async with agent_on(str(config), root, home, script, slow=0.3) as agent:
            agent.agent.subscribe(see)
            with anyio.fail_after(SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(agent.prompt, "Stopped")
                    while not (root / "begun").exists():  # noqa: ASYNC110 — no event tells of a file
                        await anyio.sleep(0.01)
                    silence.enter_context(wire.holding())
                    agent.abort()
            assert "recorded with the next command" in told[-1]
            silence.close()
            await agent.prompt("Next")
            (run,) = await recent_runs((await recorder_of(agent)).project, limit=5)
            assert run.title == "Stopped"
            assert {"gone.txt", "begun", "moved"} < {file.file_path for file in run.files}


KILLED = """
import sys
from pathlib import Path

import anyio

from tests.integration.review.test_remote import agent_on
from tests.review_bench import calls


async def main():
    config, root, home, command = sys.argv[1:]
    script = [calls("bash", command="echo early > early"), calls("bash", command=command)]
    async with agent_on(config, Path(root), Path(home), script) as agent:
        await agent.prompt("Killed")


anyio.run(main)
"""


@pytest.mark.slow  # a second of a core
async def test_a_commands_changes_on_a_host_can_be_undone_after_newel_was_killed(
    sshd: Sshd, tmp_path: Path
) -> None:
    root, home = filled(tmp_path / "project"), tmp_path / "home"
    for path in root.rglob("*"):
        os.utime(path, (1, 1))
    before = tree(root)
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = f"{COMMAND}; echo ready > {ready}; sleep 1000"
    words = [sys.executable, "-c", KILLED, str(sshd.config), str(root), str(home), command]
    async with await anyio.open_process(words, cwd=ROOT, stderr=None) as process:
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(ready.read_bytes, abandon_on_cancel=True)
        process.kill()
    async with recorder_on(sshd, root, home) as recorder:
        (run,) = await recent_runs(recorder.project, limit=5)
        assert run.title == "Killed"
        await recorder.project.apply(await recorder.project.undo())
    assert tree(root) == before


THINKING = """
import sys
from pathlib import Path

import anyio

from newel.review.tracking.effect_log import HEARTBEAT_S
from tests.integration.review.test_remote import agent_on
from tests.review_bench import calls


async def main():
    config, root, home, ready = sys.argv[1:]

    async def think(_):
        await anyio.Path(root, "left").write_text("left\\n")
        await anyio.sleep(1.5 * HEARTBEAT_S)
        await anyio.Path(ready).write_text("ready")
        await anyio.sleep_forever()

    script = [calls("bash", command="echo x > made; git init -q; echo x > .git/hooks/pre-commit"), think]
    async with agent_on(config, Path(root), Path(home), script) as agent:
        await agent.prompt("Thinks")


anyio.run(main)
"""


@pytest.mark.slow  # seconds of waiting
async def test_on_a_host_too_a_kill_between_two_commands_leaves_edits_of_the_user_alone(
    sshd: Sshd, tmp_path: Path
) -> None:
    root, home, ready = filled(tmp_path / "project"), tmp_path / "home", tmp_path / "ready"
    os.mkfifo(ready)
    words = [sys.executable, "-c", THINKING, str(sshd.config), str(root), str(home), str(ready)]
    async with await anyio.open_process(words, cwd=ROOT, stderr=None) as process:
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(ready.read_bytes, abandon_on_cancel=True)
        process.kill()
    await anyio.sleep(2.5)
    (root / "mine").write_text("mine\n")
    async with recorder_on(sshd, root, home) as recorder:
        said = "\n".join(recorder.notices)
        assert ".git/" in said
        assert "by what it left running or by you, so it is not recorded: left." in said
        assert "mine" not in said
        (run,) = await recent_runs(recorder.project, limit=5)
        assert {file.file_path for file in run.files} == {"made"}
        await recorder.project.apply(await recorder.project.undo())
    assert (root / "mine").exists()
    assert (root / "left").exists()
    assert not (root / "made").exists()
