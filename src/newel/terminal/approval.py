"""Asking a person whether a call may run, in words that leave nothing out."""

from __future__ import annotations

from typing import Final, TextIO

from newel.permissions.policy import Approval, ApprovalRequest, Ask
from newel.terminal.lines import LineReader
from newel.terminal.renderer import Renderer
from newel.terminal.safe import reveal
from newel.terminal.words import one_line

QUESTION: Final = "Run this? y once · a always for exactly this · n no (Enter) · or say what to do instead: "

_ONCE = {"y", "yes"}
_ALWAYS = {"a", "always"}
_NO = {"", "n", "no"}


class Approver:
    """The ``Ask`` of a policy: passes requests to the front end that is running.

    Policies are made before front ends; whoever can ask a person sets ``handler``. Without one every
    request is denied.
    """

    def __init__(self) -> None:
        self.handler: Ask | None = None

    async def __call__(self, request: ApprovalRequest) -> Approval:
        if self.handler is None:
            return Approval("no", "Nobody can be asked at the moment.")
        return await self.handler(request)


class TerminalAsk:
    """Asks on a terminal, where ``renderer`` shows the run and ``stdin`` is read line by line."""

    def __init__(self, renderer: Renderer, lines: LineReader, out: TextIO) -> None:
        self._renderer = renderer
        self._lines = lines
        self._out = out

    async def __call__(self, request: ApprovalRequest) -> Approval:
        with self._renderer.paused():
            self._lines.forget_typed()  # a yes from before the question is no answer to it
            self._out.write(f"\n{present(request)}\n{QUESTION}")
            self._out.flush()
            return understand(await self._lines.next())


def present(request: ApprovalRequest, host: str = "this machine") -> str:
    """The request as text: what, where, and on lines of its own the exact command or diff. Whatever
    could hide something is written out.
    """
    lines = reveal(request.preview).split("\n")
    exact = "\n".join(f"    {line}" for line in lines)
    folder = reveal(request.folder).replace("\n", "␊")
    return f"{one_line(request.label)} in {folder} on {host}:\n\n{exact}\n"


def understand(answer: str | None) -> Approval:
    """What a typed answer means. Only a plain yes is one; other words are a no with a word to the model."""
    words = (answer or "").strip()
    match words.lower():
        case word if word in _ONCE:
            return Approval("once")
        case word if word in _ALWAYS:
            return Approval("always")
        case word if word in _NO:
            return Approval("no")
        case _:
            return Approval("no", words.removeprefix("n ").removeprefix("no ").strip())
