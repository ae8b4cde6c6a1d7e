"""Who may decide what a call may change: the approval presets.

    auto        every call runs
    ask         a person approves each call that may change something
    review      calls whose changes are decided afterwards run; a person approves each other that may change something
    read-only   calls that may change something never run

Calls of read-only tools run under each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, get_args

from newel.agent.errors import NewelError
from newel.agent.messages import ToolCall, Wire
from newel.agent.ports import AllowAll, Policy, Tool, Verdict

Preset = Literal["auto", "ask", "review", "read-only"]
PRESETS: tuple[Preset, ...] = get_args(Preset)


class ApprovalRequest(Wire, frozen=True):
    """A call that waits for an answer. ``label`` is the tool's name for people, ``preview`` exactly what
    would be done (a command, a unified diff), ``folder`` where. All of it comes from the model: a screen
    shows it with every hidden character written out.
    """

    call: ToolCall
    label: str
    preview: str
    folder: str


class Approval(Wire, frozen=True):
    """The answer. ``always`` allows this tool with these very arguments as long as the policy lives;
    ``word`` is told to the model along with a ``no``. ``nobody`` says that no person could answer.
    """

    decision: Literal["once", "always", "no", "nobody"]
    word: str = ""


Ask = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Puts a request to a person and waits. On cancellation it takes its question off the screen."""

NOBODY_TO_ASK = (
    "Not run: this call needs the user's approval and nobody can be asked in this run. Do what is possible "
    "without it, and tell the user what is left to do; they can allow it with `--approve auto`."
)
READ_ONLY = (
    "Not run: this run is read-only, and '{tool}' may change something. Use the tools that only read, and "
    "describe the change that you would make."
)
DECLINED = "Not run: the user declined this call. Do not repeat it; go on without it, or ask what they want."
DECLINED_WITH_WORD = "Not run: the user declined this call and said: {word}"


def policy(
    preset: Preset, *, ask: Ask | None, folder: str, reviewed: Collection[str] = frozenset()
) -> Policy:
    """The policy of a preset. ``ask`` is None where no person can answer: then ``ask`` and ``review`` deny,
    and tell the model so. ``folder`` is shown with each request. ``reviewed`` are the tools whose changes a person decides
    afterwards.
    """
    match preset:
        case "auto":
            return AllowAll()
        case "ask":
            return _AskFirst(ask, folder, frozenset())
        case "review":
            return _AskFirst(ask, folder, frozenset(reviewed))
        case "read-only":
            return _ReadOnly()


class _ReadOnly:
    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:  # noqa: ARG002 — the port's shape
        if tool.read_only:
            return Verdict(allow=True)
        return Verdict(allow=False, reason=READ_ONLY.format(tool=tool.spec.name))


class _AskFirst:
    def __init__(self, ask: Ask | None, folder: str, free: Collection[str]) -> None:
        self._ask = ask
        self._folder = folder
        self._free = free
        self._always: set[tuple[str, str]] = set()

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        import json  # not msgspec: an argument may hold a lone surrogate, which only json can write

        if tool.read_only or tool.spec.name in self._free:
            return Verdict(allow=True)
        exactly = (tool.spec.name, json.dumps(call.arguments, sort_keys=True))
        if exactly in self._always:
            return Verdict(allow=True)
        if self._ask is None:
            return Verdict(allow=False, reason=NOBODY_TO_ASK)
        try:
            preview = await tool.preview(arguments)
        except (NewelError, OSError) as error:
            # Not allowed on the ground that it would fail anyway: an earlier call of the same message
            # could yet make it succeed, and then it would run with nobody having seen what it does.
            return Verdict(allow=False, reason=f"Not run: {error}")
        answer = await self._ask(ApprovalRequest(call, tool.label, preview, self._folder))
        if answer.decision == "always":
            self._always.add(exactly)
        return _verdict(answer)


def _verdict(answer: Approval) -> Verdict:
    match answer.decision:
        case "once" | "always":
            return Verdict(allow=True)
        case "no":
            word = answer.word.strip()
            return Verdict(allow=False, reason=DECLINED_WITH_WORD.format(word=word) if word else DECLINED)
        case "nobody":
            return Verdict(allow=False, reason=NOBODY_TO_ASK)
