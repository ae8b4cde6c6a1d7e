"""If these fail, a run leaves no readable trace, or one that harms who reads it."""

from __future__ import annotations

import resource
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import ConfigError
from newel.agent.events import ErrorEvent, MessageEnd, ToolExecutionStart, TurnStart
from newel.agent.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from newel.contracts.contract_job import prepare
from newel.contracts.run_log import RunLog, inert, log_file
from newel.runs.chat_session import AgentFactory
from newel.runs.models import Contract
from newel.runs.run_events import ContractState, Evaluation
from tests.unit.contracts.parts import Work, calls, verdict


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return log_file(tmp_path / "logs", "Agent-1")


def test_each_event_is_in_the_file_at_once_with_its_time(path: Path) -> None:
    with RunLog(path) as log:
        event = ToolExecutionStart(tool_call_id="1", tool_name="bash", args={"command": "ls"})
        assert log.write(event) is None
        assert path.read_text() == f'{event.timestamp}  runs bash\n    {{"command":"ls"}}\n'
        log.write(MessageEnd(message=AssistantMessage(content=[ThinkingContent("Hm."), TextContent("A\nB")])))
        assert path.read_text().endswith("  said\n    A\n    B\n")
        assert "  thought\n    Hm.\n" in path.read_text()


def test_deltas_are_not_in_the_file(path: Path) -> None:
    with RunLog(path) as log:
        assert log.write(TurnStart()) is None
    assert not path.exists()


def test_only_the_owner_can_read_it(path: Path) -> None:
    with RunLog(path) as log:
        log.write(ContractState(state="running"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_resumed_run_appends_to_its_log(path: Path) -> None:
    for reason in ("one", "two"):
        with RunLog(str(path)) as log:
            log.write(ContractState(state="stopped", reason=reason))
    assert "one" in path.read_text()
    assert "two" in path.read_text()


def test_two_runs_of_the_same_name_have_separate_logs(tmp_path: Path) -> None:
    first = log_file(tmp_path, "../../Agent 1\x1b[2J")
    first.touch()
    assert log_file(tmp_path, "../../Agent 1\x1b[2J") != first
    assert first.parent == tmp_path
    assert first.name.endswith("Z_Agent-1-2J.log")


@pytest.mark.anyio
async def test_a_log_that_the_journal_cannot_name_is_refused(work: Work) -> None:
    """Otherwise it is written beside the home of a user whose name is not UTF-8, where nobody looks for it."""
    factory = cast("AgentFactory", work)
    with pytest.raises(ConfigError, match="Set NEWEL_HOME"):
        await prepare(Contract(text="x"), factory, project="/p", home=Path("/jos\udce9"), name="agent")


def test_no_key_reaches_the_log(path: Path) -> None:
    own, other = "my-own-secret-word", "sk-proj-0123456789abcdefghijklmnop"
    with RunLog(path, secrets=[own, ""]) as log:
        log.write(MessageEnd(message=UserMessage(f"use {own} and {other}")))
        log.write(ErrorEvent(code="x", message="Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123"))
    written = path.read_text()
    assert own not in written
    assert other not in written
    assert "abcdefghijklmnop" not in written
    assert "use my-…rd and" in written


def test_no_key_reaches_the_log_in_the_arguments_of_a_call(path: Path) -> None:
    """There, line breaks and quotes are escaped."""
    own, longer, other = 'my own "secret"', 'my own "secret" word', "sk-proj-0123456789abcdefghijklmnop"
    with RunLog(path, secrets=[own, longer]) as log:
        text = f"#\n{other} {longer}"
        log.write(ToolExecutionStart(tool_call_id="1", tool_name="bash", args={"command": text}))
    written = path.read_text()
    assert other not in written
    assert "secret" not in written
    assert " word" not in written


def test_no_escape_sequence_reaches_the_log(path: Path) -> None:
    with RunLog(path) as log:
        log.write(
            MessageEnd(
                message=ToolResultMessage(
                    tool_call_id="1",
                    tool_name="ba\x1b]0;owned\x07sh",
                    output="\x1b[2Ja\r\nb\u202ec",
                    is_error=False,
                )
            )
        )
    written = path.read_text()
    assert "\x1b" not in written
    assert "    <U+001B>[2Ja\n    b<U+202E>c\n" in written


@given(st.text())
def test_no_control_character_reaches_the_log(text: str) -> None:
    left = inert(text).replace("\n", "").replace("\t", "").replace("\u00a0", "")
    assert left == "" or left.isprintable()


def test_a_flood_of_output_is_shortened(path: Path) -> None:
    with RunLog(path) as log:
        log.write(Evaluation(satisfied=False, why="x" * 1_000_000))
    assert path.stat().st_size < 10_000
    assert "characters left out" in path.read_text()


@contextmanager
def room_for(size: int) -> Generator[None]:
    """Limit the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_once_and_writing_continues_with_room(path: Path) -> None:
    with RunLog(path) as log:
        with room_for(400):
            assert log.write(ContractState(state="running")) is None
            notices = [log.write(Evaluation(satisfied=False, why="y" * 300)) for _ in range(4)]
        [notice] = [each for each in notices if each is not None]
        assert notice.level == "warning"
        assert str(path) in notice.message
        assert log.write(ContractState(state="completed")) is None
    lines = path.read_text().split("\n")
    assert lines[-2].endswith("completed")
    assert lines[-3] == "[3 entries are missing here: they could not be written]"


def test_a_folder_that_cannot_be_created_is_reported_and_nothing_is_raised(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    with RunLog(tmp_path / "logs" / "a.log") as log:
        notice = log.write(ContractState(state="running"))
        assert notice is not None
        (tmp_path / "logs").unlink()
        assert log.write(ContractState(state="completed")) is None
    assert "completed" in (tmp_path / "logs" / "a.log").read_text()


@pytest.mark.anyio
async def test_a_run_whose_log_fails_records_that_in_its_journal_and_continues(
    work: Work, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("a file")
    with RunLog(tmp_path / "logs" / "a.log") as log:
        state = await work(Contract(text="x"), [calls("true"), verdict(satisfied=True)], log=log)
    assert state.state == "completed"
    assert [type(event).__name__ for event in work.journal[:2]] == ["ContractState", "Notice"]


@pytest.mark.anyio
async def test_the_log_describes_the_whole_run(work: Work, path: Path) -> None:
    contract = Contract(text="Greet me.", accept="echo fine")
    with RunLog(path) as log:
        await work(contract, [calls("echo hello"), verdict(satisfied=True)], log=log)
    lines = (await anyio.Path(path).read_text()).split("\n")
    heads = [line.split("  ", 1)[1] for line in lines if line.startswith("20")]
    assert [head.split(" · ")[0] for head in heads] == [
        "running",
        "told",
        "runs bash",
        "bash: done",
        "evaluation: satisfied",
        "runs the acceptance command",
        "acceptance: passed",
        "used 150 tokens in",
        "completed",
    ]
