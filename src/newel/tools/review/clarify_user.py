"""``clarify_user``: a question that only the user can answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import anyio
from msgspec import Meta

from newel.agent.ports import OnOutput, ToolResult
from newel.tools.base import Parameters, TypedTool
from newel.tools.review.base import ToolAnswer, answered

NO_USER_ANSWER: Final = "no_user_answer"
"""The answer to a question that the user skipped."""

Ask = Callable[[str], Awaitable[str]]
"""Waits for the user's answer to a question, as long as it takes; an empty one means skipped."""


class ClarifyParameters(Parameters, frozen=True):
    question: Annotated[str, Meta(description="One short question to the user")]


class ClarifyAnswer(ToolAnswer, frozen=True):
    answer: str


class ClarifyTool(TypedTool[ClarifyParameters]):
    """One question is pending at a time: the next waits for its answer, whichever call it is of."""

    name = "clarify_user"
    label = "Ask the User"
    description = (
        "Ask the user one question and wait for the answer. Only for what the files cannot tell. "
        f"`{NO_USER_ANSWER}` means that the user skipped it: go on as seems best."
    )
    read_only = True
    parameters = ClarifyParameters

    def __init__(self, ask: Ask, longest: int) -> None:
        self._ask = ask
        self._longest = longest
        self._pending = anyio.Lock()

    async def serial_key(self, _: ClarifyParameters, /) -> str:
        return self.name

    async def preview(self, arguments: ClarifyParameters, /) -> str:
        return arguments.question

    async def execute(self, arguments: ClarifyParameters, _: OnOutput, /) -> ToolResult:
        question = arguments.question.strip()
        if not question:
            raise self.invalid("argument `question`: it is empty")
        if len(question) > self._longest:
            raise self.invalid(f"argument `question`: it has more than {self._longest} characters")
        async with self._pending:
            answer = (await self._ask(question)).strip() or NO_USER_ANSWER
        return answered(ClarifyAnswer(answer=answer), question=question, skipped=answer == NO_USER_ANSWER)
