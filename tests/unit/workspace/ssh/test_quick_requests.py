"""If these fail, work on many files of a distant host takes a round trip for each, or one request takes another's answer."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import ConnectionLost
from newel.workspace.ssh.port import AnswerTooLong, HostAnswer, quote
from newel.workspace.ssh.shell import SHELL_COMMAND, HostShell, ShellEnded
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace
from tests.opened_host import open_host
from tests.sshd import Sshd
from tests.tcp_relay import Relay, open_relay
from tests.unit.workspace.ssh.hosts import wait_for_condition

pytestmark = pytest.mark.anyio

FILES = 40


@pytest.fixture
def relay(sshd: Sshd) -> Generator[Relay]:
    with open_relay(sshd.port) as wire:
        yield wire


@pytest.fixture
async def far(sshd: Sshd, relay: Relay, tmp_path: Path) -> AsyncGenerator[SshWorkspace]:
    """A host behind a relay."""
    config = tmp_path / "ssh_config"
    config.write_text(sshd.client_config(port=relay.port))
    async with open_host(Target("own", path=str(tmp_path)), config=str(config)) as workspace:
        yield workspace


async def test_what_is_read_and_removed_at_once_shares_round_trips(
    far: SshWorkspace, relay: Relay, tmp_path: Path
) -> None:
    for number in range(FILES):
        (tmp_path / f"{number}").write_text(f"{number}")
    found: dict[int, bytes] = {}

    async def read(number: int) -> None:
        found[number] = await far.read_bytes(await far.resolve(f"{number}"))

    await far.stat("/")  # the connection is up
    before = relay.round_trips
    async with anyio.create_task_group() as tasks:
        for number in range(FILES):
            tasks.start_soon(read, number)
    assert found == {number: b"%d" % number for number in range(FILES)}
    assert relay.round_trips - before < FILES / 4
    before = relay.round_trips
    async with anyio.create_task_group() as tasks:
        for number in range(FILES):
            tasks.start_soon(far.remove, f"{tmp_path}/{number}")
    assert [path.name for path in tmp_path.iterdir()] == ["ssh_config"]  # noqa: ASYNC240 — two entries
    assert relay.round_trips - before < FILES / 4


async def test_a_cancelled_request_takes_no_other_with_it(far: SshWorkspace, relay: Relay) -> None:
    """Neither the one that sends for all, nor one that is sent by another."""
    answers: dict[int, bytes] = {}
    scopes = [anyio.CancelScope() for _ in range(6)]

    async def ask(number: int) -> None:
        with scopes[number]:
            answers[number] = (await far.connection.ask_quick(f"echo {number}")).data

    async with anyio.create_task_group() as tasks:
        with relay.holding():
            for number in range(6):
                tasks.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
            scopes[0].cancel()
            await anyio.wait_all_tasks_blocked()
            scopes[3].cancel()
            await anyio.wait_all_tasks_blocked()
    assert answers == {number: b"%d\n" % number for number in (1, 2, 4, 5)}


async def test_a_request_that_ends_the_shell_fails_alone(far: SshWorkspace) -> None:
    answers: dict[int, bytes] = {}
    lost: list[int] = []

    async def ask(number: int) -> None:
        try:
            answer = await far.connection.ask_quick("kill -9 $$" if number == 3 else f"echo {number}")
        except ConnectionLost:
            lost.append(number)
        else:
            answers[number] = answer.data

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(ask, number)
    assert lost == [3]
    assert answers == {number: b"%d\n" % number for number in range(8) if number != 3}


async def test_changes_that_share_a_round_trip_are_each_made_once_or_reported(
    far: SshWorkspace, tmp_path: Path
) -> None:
    """Also when the connection ends in the middle of them: a change that may have been made is never sent again."""
    made: list[int] = []
    lost: list[int] = []

    async def change(number: int) -> None:
        script = "kill -9 $$" if number == 3 else f"echo {number} >>{tmp_path}/made"
        try:
            await far.connection.change(script)
        except ConnectionLost:
            lost.append(number)
        else:
            made.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(change, number)
    lines = (tmp_path / "made").read_text().split()
    assert len(set(lines)) == len(lines)
    assert set(made) <= set(map(int, lines))
    assert (sorted([*made, *lost]), 3 in lost) == ([*range(8)], True)


async def test_a_cancelled_change_that_another_one_has_sent_has_ended_when_the_cancellation_returns(
    far: SshWorkspace, tmp_path: Path
) -> None:
    started, released, made = (tmp_path / name for name in ("started", "released", "made"))
    scripts = [":", f": >{started}; until [ -e {released} ]; do sleep 0.01; done", f": >{made}"]
    cancelled = anyio.CancelScope()

    async def change(script: str) -> None:
        await far.connection.change(script)

    async def change_and_look() -> None:
        with cancelled:
            await change(scripts[2])
        assert made.exists()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(change, scripts[0])
        tasks.start_soon(change, scripts[1])  # this one and the next are sent as one, after the first
        tasks.start_soon(change_and_look)
        await wait_for_condition(started.exists, "the second change")
        cancelled.cancel()
        released.touch()


@asynccontextmanager
async def open_shell() -> AsyncGenerator[HostShell]:
    shell = HostShell(["sh", "-c", SHELL_COMMAND], dict(os.environ))
    try:
        await shell.start("/")
        yield shell
    finally:
        await shell.close()


requests = st.tuples(st.binary(max_size=50), st.sampled_from([1, 3_000]), st.integers(0, 255))


@settings(max_examples=30, deadline=None)
@given(st.lists(requests, min_size=1, max_size=10))
def test_answers_to_requests_that_are_sent_at_once_are_told_apart(
    asked: list[tuple[bytes, int, int]],
) -> None:
    """Whatever they contain, however long they are, and also if they try to read what is not theirs."""
    answers: list[HostAnswer] = []

    async def ask() -> None:
        async with open_shell() as shell:
            await shell.ask_all([_script(*each) for each in asked], answers)
            assert (await shell.ask("echo still in step", b"")).data == b"still in step\n"

    anyio.run(ask)
    assert answers == [HostAnswer(status, text * times) for text, times, status in asked]


def _script(text: bytes, times: int, status: int) -> str:
    """Prints a text that many times."""
    octal = "".join(f"\\{byte:03o}" for byte in text)
    return f"cat; for x in $(seq {times}); do printf {quote(octal)}; done; (exit {status})"


async def test_an_answer_that_is_too_long_is_that_of_one_request() -> None:
    answers: list[HostAnswer] = []
    async with open_shell() as shell:
        with pytest.raises(AnswerTooLong):
            await shell.ask_all(
                ["echo 1", "echo 2", "head -c 100000 /dev/zero", "echo 4"], answers, limit=1_000
            )
        assert [answer.data for answer in answers] == [b"1\n", b"2\n"]
        with pytest.raises(ShellEnded):
            await shell.ask("echo out of step", b"")
