"""Questions that a run asks the user, and their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.permissions.approval import Approval, ApprovalRequest
from newel.runs.models import TabQuestion

AskUser = Callable[[TabQuestion], Awaitable[dict[str, Any]]]
"""Shows a question and waits for its answer, whose shape ``TabQuestion`` describes."""


class NoSuchQuestion(NewelError):
    """The question was already answered, or its run has ended."""


class _AskedQuestion:
    def __init__(self, question: TabQuestion) -> None:
        self.question = question
        self.answered = anyio.Event()
        self.answer: dict[str, Any] = {}


class PendingQuestions:
    """The unanswered questions of one conversation. ``on_change`` is called when one is asked or goes away."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._pending: dict[str, _AskedQuestion] = {}

    @property
    def pending(self) -> list[TabQuestion]:
        return [each.question for each in self._pending.values()]

    async def ask(self, question: TabQuestion) -> dict[str, Any]:
        """Show a question and wait for the answer; cancelled, it withdraws the question."""
        asked = _AskedQuestion(msgspec.structs.replace(question, id=new_id()))
        self._pending[asked.question.id] = asked
        self._on_change()
        try:
            await asked.answered.wait()
        finally:
            del self._pending[asked.question.id]
            self._on_change()
        return asked.answer

    def answer(self, question_id: str, answer: dict[str, Any]) -> None:
        """Raises ``NoSuchQuestion``; the first answer counts."""
        asked = self._pending.get(question_id)
        if asked is None or asked.answered.is_set():
            raise NoSuchQuestion("This question was already answered, or its run has ended.")
        asked.answer = answer
        asked.answered.set()


def approval_handler(ask: AskUser) -> Callable[[ApprovalRequest], Awaitable[Approval]]:
    """Asks the user to approve a call. Anything but a clear yes is a no."""

    async def approve(request: ApprovalRequest) -> Approval:
        answer = await ask(
            TabQuestion(
                id="", kind="approval", title=request.label, preview=request.preview, folder=request.folder
            )
        )
        try:
            return msgspec.convert(answer, Approval)
        except msgspec.ValidationError:
            return Approval("no")

    return approve
