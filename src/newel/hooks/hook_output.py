"""What a hook says by its exit code and its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

MAX_TEXT: Final = 10_000
"""Characters of each text of a hook that the model or the user gets."""

BLOCKED: Final = 2
"""The exit code that blocks, whatever else a hook says."""

TAKES_TEXT: Final = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events whose hooks add what they print, if it is no JSON, to the conversation."""

Decision = Literal["", "allow", "ask", "deny"]

DECISIONS: Final[Mapping[str, Decision]] = {
    "allow": "allow", "approve": "allow", "ask": "ask", "block": "deny", "deny": "deny"
}  # fmt: skip
"""What the words for a decision mean; others mean none."""

_CUT: Final = "\n[… cut: the hook wrote {size:,} characters …]"


class _HookSpecificOutput(msgspec.Struct):
    permission: Literal["allow", "deny", "ask", "defer"] | None = msgspec.field(
        default=None, name="permissionDecision"
    )
    reason: str | None = msgspec.field(default=None, name="permissionDecisionReason")
    input: dict[str, Any] | None = msgspec.field(default=None, name="updatedInput")
    context: str | None = msgspec.field(default=None, name="additionalContext")


class _Output(msgspec.Struct):
    goes_on: bool = msgspec.field(default=True, name="continue")
    stop_reason: str | None = msgspec.field(default=None, name="stopReason")
    message: str | None = msgspec.field(default=None, name="systemMessage")
    decision: Literal["approve", "allow", "block", "deny", "ask"] | None = None
    reason: str | None = None
    specific: _HookSpecificOutput | None = msgspec.field(default=None, name="hookSpecificOutput")


class HookReply(msgspec.Struct, frozen=True, kw_only=True):
    """What one hook wants. ``decision`` is about a call, or ``deny`` for what an event is about; ``stop`` says why the run is to end,
    ``arguments`` replace those of a call, ``context`` is for the model, ``message`` for the user. ``problem`` says what is wrong with the
    hook.
    """

    decision: Decision = ""
    reason: str = ""
    arguments: dict[str, Any] | None = None
    context: str = ""
    message: str = ""
    stop: str | None = None
    problem: str = ""


def read_reply(event: str, *, exit_code: int, stdout: str, stderr: str, is_cut: bool = False) -> HookReply:
    """The reply of a hook that has ended by itself. Never raises."""
    text = stdout.strip()
    output, problem = _parse(text, is_cut=is_cut)
    if exit_code == BLOCKED:
        reply = _Output() if output is None else output
        read = _from_output(reply)
        is_reason = read.decision == "deny" and read.reason
        reason = read.reason if is_reason else bounded(stderr.strip())
        return msgspec.structs.replace(read, decision="deny", reason=reason)
    if problem:
        return HookReply(problem=problem)
    if exit_code != 0:
        return _failed(_from_output(output or _Output()), exit_code, stderr)
    if output is not None:
        return _from_output(output)
    return HookReply(context=bounded(text) if event in TAKES_TEXT else "")


def _failed(reply: HookReply, exit_code: int, stderr: str) -> HookReply:
    """What counts of the reply of a hook that broke off: what it forbids, not what it allows."""
    first = next((line.strip() for line in stderr.splitlines() if line.strip()), "")
    problem = f"exit code {exit_code}{first and f': {first[:300]}'}"
    if reply.decision == "allow":
        reply = msgspec.structs.replace(reply, decision="", reason="")
    return msgspec.structs.replace(reply, arguments=None, problem=problem)


def _parse(text: str, *, is_cut: bool) -> tuple[_Output | None, str]:
    """The JSON of an output, or what is wrong with it; neither for a text."""
    if not text.startswith("{"):
        return None, ""
    if is_cut:
        return None, "its output is too long"
    try:
        return msgspec.json.decode(text, type=_Output), ""
    except msgspec.ValidationError as error:
        return None, f"its JSON is invalid: {error}"
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        return None, f"its output looks like JSON but is not valid: {error}"


def _from_output(output: _Output) -> HookReply:
    specific = output.specific or _HookSpecificOutput()
    word = specific.permission or output.decision or ""
    reason = specific.reason if specific.permission else output.reason
    problem = "`defer` is not supported here; the call is judged as usual" if word == "defer" else ""
    return HookReply(
        decision=DECISIONS.get(word, ""),
        reason=bounded(reason or ""),
        arguments=specific.input,
        context=bounded(specific.context or ""),
        message=bounded(output.message or ""),
        stop=None if output.goes_on else bounded(output.stop_reason or ""),
        problem=problem,
    )


def bounded(text: str) -> str:
    """A text of a hook, cut if it is too long."""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + _CUT.format(size=len(text))
