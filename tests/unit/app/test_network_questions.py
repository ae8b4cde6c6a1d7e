"""If these fail, a command reaches a server that the user has refused, or the user is asked again and again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import anyio
import pytest

from newel.app.network_questions import MAX_QUESTIONS, NetworkQuestions, in_turn
from newel.permissions.allowlist import SERVERS_FILE, ServerAllowlist
from newel.permissions.approval import Approval, ApprovalRequest, AskApproval
from newel.workspace.sandbox.domains import Domain

pytestmark = pytest.mark.anyio

Decision = Literal["once", "always", "rule", "no", "nobody"]


class User:
    """Answers every question with the same decision."""

    def __init__(self, decision: Decision) -> None:
        self.decision: Decision = decision
        self.asked: list[str] = []

    async def __call__(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request.server)
        await anyio.sleep(0.001)
        return Approval(self.decision)


class Asked:
    """The questions of a session in ``/project``, and what the user is told."""

    def __init__(self, home: Path, ask: AskApproval | None = None, project: str = "/project") -> None:
        self.allowlist = ServerAllowlist(home, project)
        self.told: list[str] = []
        self.refused: list[str] = []
        self.questions = NetworkQuestions(self.allowlist, project, ask, self._tell, self.refused.append)

    async def _tell(self, message: str) -> None:
        self.told.append(message)

    async def allow(self, *servers: str) -> Sequence[bool]:
        return [await self.questions.allows(server) for server in servers]


@pytest.mark.parametrize(
    ("decision", "allowed"),
    [("once", True), ("always", True), ("rule", True), ("no", False), ("nobody", False)],
)
async def test_the_answer_holds_and_is_asked_for_once(
    tmp_path: Path, decision: Decision, allowed: bool
) -> None:
    user = User(decision)
    asked = Asked(tmp_path, user)
    answers: list[bool] = []

    async def ask() -> None:
        answers.append(await asked.questions.allows("example.org"))

    async with anyio.create_task_group() as group:  # as the connections of one download
        for _ in range(3):
            group.start_soon(ask)
    assert answers == [allowed] * 3
    assert asked.refused == ["example.org"] * (0 if allowed else 3)
    assert user.asked == ["example.org"] * (3 if decision == "nobody" else 1)


async def test_only_what_is_allowed_for_the_project_is_kept_and_only_there(tmp_path: Path) -> None:
    await Asked(tmp_path, User("rule")).allow("example.org:8443", "[2001:db8::7]:81")
    await Asked(tmp_path, User("once")).allow("once.example.org")
    await Asked(tmp_path, User("always")).allow("session.example.org")
    assert Asked(tmp_path).questions.allowed() == (Domain("example.org", 8443), Domain("2001:db8::7", 81))
    assert Asked(tmp_path, project="/other").questions.allowed() == ()
    assert (tmp_path / SERVERS_FILE).stat().st_mode & 0o077 == 0


async def test_a_kept_server_that_is_revoked_elsewhere_is_asked_about_again(tmp_path: Path) -> None:
    user = User("rule")
    asked = Asked(tmp_path, user)
    await asked.allow("example.org")
    assert ServerAllowlist(tmp_path, "/other").revoke(["example.org"]) == ()
    assert asked.questions.allowed() == (Domain("example.org"),)
    assert ServerAllowlist(tmp_path, "/project").revoke(["example.org"]) == ["example.org"]
    assert asked.questions.allowed() == ()
    user.decision = "no"
    assert await asked.allow("example.org") == [False]
    assert user.asked == ["example.org"] * 2


@pytest.mark.parametrize("text", ["", "[]", '{"/project": ["http://x", "\\u0000"]}', "x" * 100_000])
async def test_a_damaged_file_allows_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / SERVERS_FILE).write_text(text)
    asked = Asked(tmp_path)
    assert asked.questions.allowed() == ()
    assert await asked.allow("example.org") == [False]


async def test_a_project_whose_name_is_no_text_is_no_crash(tmp_path: Path) -> None:
    asked = Asked(tmp_path, User("rule"), project="/a\udcff")
    assert await asked.allow("example.org") == [True]
    assert "is not valid Unicode" in asked.told[0]


@pytest.mark.parametrize("kind", ["damaged", "pipe", "folder"])
async def test_an_answer_that_cannot_be_saved_is_named_and_holds_for_the_session(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / SERVERS_FILE
    match kind:
        case "damaged":
            path.write_text('{"/project": ["example.com",]}')
        case "pipe":
            os.mkfifo(path)
        case _:
            path.mkdir()
    user = User("rule")
    asked = Asked(tmp_path, user)
    assert await asked.allow("example.org", "example.org") == [True, True]
    assert user.asked == ["example.org"]
    (told,) = asked.told
    assert told.startswith(f"Not saved for this project: the server example.org. {path} ")
    assert told.endswith("Your answer holds until the session ends.")
    if kind == "damaged":
        assert path.read_text() == '{"/project": ["example.com",]}'


async def test_what_is_decided_does_not_wait_for_another_question(tmp_path: Path) -> None:
    answer = anyio.Event()

    async def ask(request: ApprovalRequest) -> Approval:
        if request.server != "first.example.org":
            await answer.wait()
        return Approval("once")

    asked = Asked(tmp_path, ask)
    await asked.allow("first.example.org")
    async with anyio.create_task_group() as group:
        group.start_soon(asked.allow, "second.example.org")
        await anyio.sleep(0.01)
        with anyio.fail_after(8):
            assert await asked.allow("first.example.org") == [True]
        answer.set()


async def test_the_end_of_a_run_withdraws_what_it_has_asked_and_all_that_waits(tmp_path: Path) -> None:
    """The question would take the user's next prompt for its answer."""
    asked: list[str] = []

    async def ask(request: ApprovalRequest) -> Approval:
        asked.append(request.server)
        if len(asked) == 1:
            await anyio.sleep_forever()
        return Approval("once")

    there = Asked(tmp_path, ask)
    answers: list[Sequence[bool]] = []

    async def allow(server: str) -> None:
        answers.append(await there.allow(server))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(allow, f"n{number}.example.org")
            await anyio.sleep(0.01)
            there.questions.withdraw()
    assert (asked, answers) == (["n0.example.org"], [[False]] * 3)
    assert await there.allow("n0.example.org") == [True]


async def test_a_flood_of_names_ends_in_refusals(tmp_path: Path) -> None:
    user = User("no")
    asked = Asked(tmp_path, user)
    assert not any(await asked.allow(*(f"n{number}.example.org" for number in range(50))))
    assert len(user.asked) == MAX_QUESTIONS


async def test_two_questions_are_not_on_the_screen_at_once(tmp_path: Path) -> None:
    shown = 0

    async def ask(_: ApprovalRequest) -> Approval:
        nonlocal shown
        shown += 1
        assert shown == 1
        await anyio.sleep(0.01)
        shown -= 1
        return Approval("no")

    ask_in_turn = in_turn(ask)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(Asked(tmp_path, ask_in_turn).allow, "example.org")
