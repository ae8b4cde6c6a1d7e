"""Questions that a run has for a person, and their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.permissions.approval import Approval, ApprovalRequest
from newel.runs.models import TabQuestion

PutQuestion = Callable[[TabQuestion], Awaitable[dict[str, Any]]]
"""Shows a question and waits for its answer, whose shape ``TabQuestion`` describes."""


class NoSuchQuestion(NewelError):
    """The question was answered already, or its run is over."""


class PendingQuestions:
    """The questions of one conversation. ``changed`` is called when one comes or goes."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._open: dict[str, tuple[TabQuestion, anyio.Event, list[dict[str, Any]]]] = {}

    @property
    def waiting(self) -> list[TabQuestion]:
        return [question for question, _, _ in self._open.values()]

    async def put(self, question: TabQuestion) -> dict[str, Any]:
        """Show it and wait; a run that is cancelled takes its question away."""
        question = msgspec.structs.replace(question, id=new_id())
        answered, answers = anyio.Event(), list[dict[str, Any]]()
        self._open[question.id] = question, answered, answers
        self._changed()
        try:
            await answered.wait()
        finally:
            del self._open[question.id]
            self._changed()
        return answers[0]

    def answer(self, question_id: str, answer: dict[str, Any]) -> None:
        """Raises ``NoSuchQuestion``; the first answer counts."""
        if question_id not in self._open or self._open[question_id][2]:
            raise NoSuchQuestion("This question was answered already, or its run is over.")
        _, answered, answers = self._open[question_id]
        answers.append(answer)
        answered.set()


def approval_by(put: PutQuestion) -> Callable[[ApprovalRequest], Awaitable[Approval]]:
    """The policy's way to ask, by putting a question. Whatever is not plainly a yes is a no."""

    async def ask(request: ApprovalRequest) -> Approval:
        answer = await put(
            TabQuestion(
                id="", kind="approval", title=request.label, preview=request.preview, folder=request.folder
            )
        )
        try:
            return msgspec.convert(answer, Approval)
        except msgspec.ValidationError:
            return Approval("no")

    return ask
