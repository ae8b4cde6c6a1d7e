"""If these fail, a command runs that nobody agreed to, or the model is told something else than what happened."""

from __future__ import annotations

import pytest

from newel.agent.errors import InvalidArguments
from newel.agent.messages import ToolCall
from newel.terminal.jexida.shell_tool import (
    MAX_RESULT,
    QUESTION,
    Confirmation,
    Proposal,
    ShellTool,
    errors_apart,
    result_text,
)
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import CommandResult
from tests.integration.jexida.program import Here

CALL = ToolCall("1", "bash", {})


def completed(stdout: str = "", stderr: str = "", code: int = 0) -> CommandResult:
    return CommandResult(stdout=stdout, stderr=stderr, exit_code=code, duration=1)


def test_a_result_has_the_documented_format() -> None:
    told = result_text("ls", completed("a\n", "oops\n", 2))
    assert told == "Command: ls\nExit code: 2\nOutput:\na\n\noops\n"


def test_a_long_result_keeps_its_head_and_its_tail() -> None:
    told = result_text("ls", completed("a" * MAX_RESULT, "b" * MAX_RESULT))
    assert told.startswith("Command: ls\nExit code: 0\nOutput:\naaa")
    assert told.endswith("bbb")
    assert "16,001 characters left out" in told
    assert len(told) < MAX_RESULT + 200


def test_error_output_is_separated_only_where_it_could_be_overlooked() -> None:
    assert errors_apart(completed("out", "bad\n", 1)) == "bad"
    assert errors_apart(completed("", "bad\n", 1)) == errors_apart(completed("out", "warned\n")) == ""


class Person:
    """Answers from a script, and records the text offered for editing."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.given: list[str] = []

    async def __call__(
        self,
        question: str,
        given: str = "",
        /,
        *,
        interrupting: bool = False,
    ) -> str | None:
        self.given.append(given)
        return self.answers.pop(0)


async def decide(*answers: str | None) -> tuple[bool, str, str, bool]:
    stopped: list[bool] = []
    confirmation = Confirmation(lambda: stopped.append(True))
    confirmation.ask = Person(*answers)
    proposal = Proposal("ls", "why")
    verdict = await confirmation.decide(CALL, ShellTool(Here(LocalWorkspace("/")), print), proposal)
    return verdict.allow, proposal.command, verdict.reason, bool(stopped)


@pytest.mark.anyio
@pytest.mark.parametrize("answer", ["y", "Yes", " YES "])
async def test_only_a_plain_yes_runs_the_command_unchanged(answer: str) -> None:
    assert await decide(answer) == (True, "ls", "", False)


@pytest.mark.anyio
@pytest.mark.parametrize("answer", ["", "n", "No", None])
async def test_a_no_runs_nothing_and_ends_the_turn(answer: str | None) -> None:
    assert await decide(answer) == (False, "ls", "Not executed: the user declined this command.", True)


@pytest.mark.anyio
async def test_other_text_is_a_refusal_that_the_model_gets() -> None:
    allowed, _, reason, stopped = await decide("use ls -l instead")
    assert (allowed, stopped) == (False, False)
    assert reason == "Not executed: the user declined this command and said: use ls -l instead"


@pytest.mark.anyio
async def test_an_edited_command_is_the_one_that_runs() -> None:
    assert await decide("e", "ls -l") == (True, "ls -l", "", False)
    assert (await decide("edit", ""))[0] is False


@pytest.mark.anyio
async def test_without_a_user_nothing_runs() -> None:
    verdict = await Confirmation(lambda: None).decide(
        CALL, ShellTool(Here(LocalWorkspace("/")), print), Proposal("ls", "")
    )
    assert not verdict.allow
    assert "cannot ask for it" in verdict.reason


@pytest.mark.anyio
async def test_an_invalid_command_is_told_to_the_model() -> None:
    tool = ShellTool(Here(LocalWorkspace("/")), print)
    for arguments in ({}, {"command": " "}, {"command": 3}, {"command": "a\0b"}):
        with pytest.raises(InvalidArguments):
            tool.parse(arguments)
    assert "n no (Enter)" in QUESTION
