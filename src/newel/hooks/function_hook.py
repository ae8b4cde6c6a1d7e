"""Hooks that are Python functions: they run in Newel's own process, at the same points as commands and with the same fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import msgspec

from newel.concurrency import isolated
from newel.hooks.hook import Hook
from newel.hooks.hook_output import HookReply, bounded
from newel.hooks.user_function import LoopWatch, call_function, describe_failure

WRONG_ANSWER: Final = "it returned {kind}; return None, a string for the model, or a HookReply"
TOO_SLOW: Final = "it did not finish within {limit:g} s, so Newel stopped waiting for it"


class HookInput(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a hook. The fields are those of the JSON that commands get, and empty where the event has none."""

    hook_event_name: str
    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    permission_mode: str = ""
    agent_id: str = ""
    agent_type: str = ""
    tool_name: str = ""
    tool_input: dict[str, Any] = {}
    tool_use_id: str = ""
    tool_response: Any = None
    error: str = ""
    prompt: str = ""
    source: str = ""
    reason: str = ""
    trigger: str = ""
    custom_instructions: str = ""
    message: str = ""
    notification_type: str = ""
    stop_hook_active: bool = False
    last_assistant_message: str = ""


HookAnswer = HookReply | str | None
HookFunction = Callable[[HookInput], HookAnswer | Awaitable[HookAnswer]]


class FunctionHook(Hook, frozen=True, kw_only=True):
    """``command`` names the function; ``file`` and ``line`` are where it begins."""

    function: HookFunction

    @property
    def what(self) -> tuple[str, str, str, tuple[str, ...] | None]:
        return self.event, f"{self.file}:{self.line}:{self.command}", self.matcher, None


async def run_function(hook: FunctionHook, given: Mapping[str, Any]) -> HookReply:
    """Call a hook. What is wrong with it is its reply; only a cancellation is raised."""
    watch = LoopWatch()
    reply = await _reply(hook, given, watch)
    problem = reply.problem or (f"it {watch.problem}" if watch.problem else "")
    return msgspec.structs.replace(reply, problem=problem)


async def _reply(hook: FunctionHook, given: Mapping[str, Any], watch: LoopWatch) -> HookReply:
    try:
        wanted = msgspec.convert(given, HookInput)
        answer: object = None
        with anyio.move_on_after(hook.limit) as scope:
            answer = await isolated(lambda: watch.run(call_function(hook.function, wanted)))
        if scope.cancelled_caught:
            return HookReply(problem=TOO_SLOW.format(limit=hook.limit))
    except (Exception, SystemExit) as error:  # noqa: BLE001 — of the user's code
        return HookReply(problem=describe_failure(error, str(hook.file)))
    match answer:
        case None:
            return HookReply()
        case str():
            return HookReply(context=bounded(answer))
        case HookReply():
            return _checked(answer)
        case _:
            return HookReply(problem=WRONG_ANSWER.format(kind=type(answer).__name__))


def _checked(answer: HookReply) -> HookReply:
    """The reply with texts of a bounded length. Python does not check the types of its fields, and the run relies on them."""
    try:
        reply = msgspec.convert(msgspec.structs.asdict(answer), HookReply)
    except msgspec.ValidationError as error:
        return HookReply(problem=f"its HookReply is wrong: {error}")
    return msgspec.structs.replace(
        reply,
        reason=bounded(reply.reason),
        context=bounded(reply.context),
        message=bounded(reply.message),
        problem="",
    )
