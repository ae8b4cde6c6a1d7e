"""If these fail, a command reaches a server that the user has refused, or the user is asked again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import anyio
import pytest

from newel.app.network_questions import KEPT, MAX_QUESTIONS, NetworkQuestions, in_turn
from newel.permissions.approval import Approval, ApprovalRequest
from newel.workspace.sandbox.domains import Domain

pytestmark = pytest.mark.anyio

Decision = Literal["once", "always", "no", "nobody"]


class User:
    """Answers every question with the same decision."""

    def __init__(self, decision: Decision) -> None:
        self.decision: Decision = decision
        self.asked: list[str] = []

    async def __call__(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request.preview.split("\n")[0])
        await anyio.sleep(0.001)
        return Approval(self.decision)


@pytest.mark.parametrize(
    ("decision", "allowed"), [("once", True), ("always", True), ("no", False), ("nobody", False)]
)
async def test_the_answer_holds_and_is_asked_for_once(
    tmp_path: Path, decision: Decision, allowed: bool
) -> None:
    user = User(decision)
    questions = NetworkQuestions(tmp_path, "/project", user)
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(await questions.allows("example.org"))

    async with anyio.create_task_group() as group:  # as the connections of one download
        for _ in range(3):
            group.start_soon(ask)
    assert answers == [allowed] * 3
    assert user.asked == ["example.org"] * (3 if decision == "nobody" else 1)


async def test_only_always_is_kept_and_only_for_its_project(tmp_path: Path) -> None:
    await NetworkQuestions(tmp_path, "/project", User("always")).allows("example.org:8443")
    await NetworkQuestions(tmp_path, "/project", User("once")).allows("once.example.org")
    assert NetworkQuestions(tmp_path, "/project", None).kept() == [Domain("example.org", 8443)]
    assert NetworkQuestions(tmp_path, "/other", None).kept() == []
    assert (tmp_path / KEPT).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "[]", '{"/project": ["http://x", "\\u0000"]}', "x" * 100_000])
async def test_a_damaged_file_allows_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / KEPT).write_text(text)
    questions = NetworkQuestions(tmp_path, "/project", None)
    assert questions.kept() == []
    assert not await questions.allows("example.org")


async def test_a_flood_of_names_ends_in_refusals(tmp_path: Path) -> None:
    user = User("no")
    questions = NetworkQuestions(tmp_path, "/project", user)
    for number in range(50):
        assert not await questions.allows(f"n{number}.example.org")
    assert len(user.asked) == MAX_QUESTIONS


async def test_two_questions_are_not_on_the_screen_at_once() -> None:
    shown = 0

    async def ask(_: ApprovalRequest) -> Approval:
        nonlocal shown
        shown += 1
        assert shown == 1
        await anyio.sleep(0.01)
        shown -= 1
        return Approval("no")

    async with anyio.create_task_group() as group:
        questions = [NetworkQuestions(Path("/"), "/", asking) for asking in [in_turn(ask)] * 3]
        for each in questions:
            group.start_soon(each.allows, "example.org")
