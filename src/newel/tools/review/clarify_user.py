"""``clarify_user``: asks the user a question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import anyio
from msgspec import Meta

from newel.agent.ports import OnOutput, ToolResult
from newel.tools.base import Parameters, TypedTool
from newel.tools.review.base import ToolAnswer, json_result

NO_USER_ANSWER: Final = "no_user_answer"
"""The answer to a question that the user skipped."""

AskQuestion = Callable[[str], Awaitable[str]]
"""Waits for the user's answer without a timeout; an empty one means that the user skipped the question."""


class ClarifyParameters(Parameters, frozen=True):
    question: Annotated[str, Meta(description="One short question to the user")]


class ClarifyAnswer(ToolAnswer, frozen=True):
    answer: str


class ClarifyTool(TypedTool[ClarifyParameters]):
    """Only one question is pending at a time, across calls."""

    name = "clarify_user"
    label = "Ask the User"
    description = (
        "Ask the user one question and wait for the answer. Only use it if the files do not have the answer. "
        f"`{NO_USER_ANSWER}` means that the user skipped the question: use your best judgement."
    )
    read_only = True
    parameters = ClarifyParameters

    def __init__(self, ask: AskQuestion, max_length: int) -> None:
        self._ask = ask
        self._max_length = max_length
        self._pending = anyio.Lock()

    async def serial_key(self, _: ClarifyParameters, /) -> str:
        return self.name

    async def preview(self, arguments: ClarifyParameters, /) -> str:
        return arguments.question

    async def execute(self, arguments: ClarifyParameters, _: OnOutput, /) -> ToolResult:
        question = arguments.question.strip()
        if not question:
            raise self.invalid("argument `question`: it is empty")
        if len(question) > self._max_length:
            raise self.invalid(f"argument `question`: it has more than {self._max_length} characters")
        async with self._pending:
            answer = (await self._ask(question)).strip() or NO_USER_ANSWER
        return json_result(ClarifyAnswer(answer=answer), question=question, skipped=answer == NO_USER_ANSWER)
