"""If these fail, something runs that nobody agreed to, or that looked like something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.messages import ToolCall
from newel.permissions.approval import Approval, ApprovalRequest
from newel.terminal.ui.approval import Approver, present, understand


@pytest.mark.parametrize("answer", ["y", "Y", " yes "])
def test_a_plain_yes_allows_once(answer: str) -> None:
    assert understand(answer) == Approval("once")


def test_always_needs_its_own_answer() -> None:
    assert understand("a") == Approval("always")


@pytest.mark.parametrize("answer", ["", "n", "No", None, "   "])
def test_no_answer_is_no(answer: str | None) -> None:
    assert understand(answer) == Approval("no")


@pytest.mark.parametrize("answer", ["use rg instead", "n use rg instead", "no use rg instead"])
def test_other_text_is_a_refusal_that_the_model_gets(answer: str) -> None:
    assert understand(answer) == Approval("no", "use rg instead")


@given(st.text())
def test_only_a_plain_yes_or_always_allows(answer: str) -> None:
    allowed = understand(answer).decision != "no"
    assert allowed == (answer.strip().lower() in {"y", "yes", "a", "always", "p", "project"})


def test_the_question_hides_nothing() -> None:
    command = "ls \x1b[8m; rm -rf ~\x1b[0m\n\u202egpj.exe"
    text = present(ApprovalRequest(ToolCall("1", "bash", {}), "Run a command", command, "/src/shop"))
    assert text == (
        "Run a command in /src/shop on this machine:\n\n    ls ␛[8m; rm -rf ~␛[0m\n    <U+202E>gpj.exe\n"
    )


def test_the_question_names_the_machine() -> None:
    """Otherwise a user takes a command on a server for one on their own machine, or the reverse."""
    there = "ssh://deploy@shop.example:2222/srv/a%20b"
    text = present(ApprovalRequest(ToolCall("1", "bash", {}), "Run a command", "ls", there))
    assert text == "Run a command in /srv/a b on deploy@shop.example:\n\n    ls\n"


@pytest.mark.anyio
async def test_without_a_front_end_nothing_is_allowed() -> None:
    request = ApprovalRequest(ToolCall("1", "bash", {}), "Run a command", "ls", "/")
    assert (await Approver()(request)).decision == "nobody"
