"""A policy that asks hooks first. What they decide counts as a rule for this one call: ``deny`` as a deny rule, ``ask`` as an ask rule, and
``allow`` as an allow rule, which opens no secret place, lets nothing out of the sandbox, and changes nothing where nothing may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from newel.agent.errors import InvalidArguments, NewelError
from newel.agent.messages import ToolCall
from newel.agent.ports import OnOutput, PlannedCall, Policy, Tool, ToolResult, Touch, Verdict
from newel.hooks.call_hooks import CallHooks
from newel.hooks.hook_runner import HookVerdict
from newel.hooks.tool_names import our_arguments
from newel.permissions.approval import DENIED_BY_HOOK
from newel.permissions.judgement import UNKNOWN, CallJudgement
from newel.permissions.rule_book import CallJudge
from newel.text.json import to_json
from newel.text.sanitize import escape_line

CHANGED: Final = "A hook changed this call before it ran ({where}). Its arguments were: {arguments}\n\n"
REFUSED: Final = "Not run: a hook changed this call ({where}) to one that the tool refuses. {error}"
MAX_SHOWN: Final = 2_000
"""Characters of the changed arguments that the model sees."""


class HookedJudge:
    """Adds what a hook wants of the current call to what the rules say. Calls are judged one at a time."""

    may_stop_calls = True

    def __init__(self, rules: CallJudge) -> None:
        self.opinion: CallJudgement = UNKNOWN
        self._rules = rules
        self.keep = rules.keep

    async def judge(self, name: str, touches: Sequence[Touch], text: str, /) -> CallJudgement:
        judged = await self._rules.judge(name, touches, text)
        opinion = self.opinion
        if judged.effect == "deny" or opinion.effect == "none":
            return judged
        if opinion.effect == "ask":
            return opinion
        is_open = judged.effect == "none" and not self._rules.starts_programs(
            touches if name != "bash" else ()
        )
        return opinion if is_open else judged


class HookedPolicy:
    """``plain`` judges calls about which hooks say nothing, ``judged`` the others, by ``judge``."""

    def __init__(self, calls: CallHooks, plain: Policy, judged: Policy, judge: HookedJudge) -> None:
        self._calls = calls
        self._plain = plain
        self._judged = judged
        self._judge = judge

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        wanted = await self._calls.before(call)
        verdict = await self._decide(call, tool, arguments, wanted)
        if not verdict.allow:
            self._calls.forget(call)
        return verdict

    async def _decide(self, call: ToolCall, tool: Tool, arguments: Any, wanted: HookVerdict) -> Verdict:
        if wanted.decision == "deny":
            where = wanted.by.where if wanted.by else "unknown"
            return Verdict(
                allow=False, reason=DENIED_BY_HOOK.format(where=where, reason=wanted.reason).rstrip()
            )
        if wanted.arguments is None:
            return await self._by_rules(call, tool, arguments, wanted)
        where = wanted.changed_by.where if wanted.changed_by else "unknown"
        changed = our_arguments(call.name, wanted.arguments)
        call = msgspec.structs.replace(call, arguments=changed)
        try:
            arguments = tool.parse(changed)
        except InvalidArguments as error:
            return Verdict(allow=False, reason=REFUSED.format(where=where, error=error))
        verdict = await self._by_rules(call, tool, arguments, wanted)
        if not verdict.allow:
            return verdict
        try:
            planned = verdict.planned or await tool.plan(arguments)
        except (NewelError, OSError) as error:
            return Verdict(allow=False, reason=f"Not run: {error}")
        shown = verdict.arguments or changed
        text = escape_line(to_json(shown).decode(errors="replace"), MAX_SHOWN)
        told = _ChangedCall(planned, CHANGED.format(where=where, arguments=text))
        return msgspec.structs.replace(verdict, planned=told, arguments=shown)

    async def _by_rules(self, call: ToolCall, tool: Tool, arguments: Any, wanted: HookVerdict) -> Verdict:
        if not wanted.decision:
            return await self._plain.decide(call, tool, arguments)
        where = wanted.by.where if wanted.by else ""
        reason = f"a hook asks ({where}){wanted.reason and f': {wanted.reason}'}"
        self._judge.opinion = CallJudgement(
            "ask" if wanted.decision == "ask" else "allow", escape_line(reason)
        )
        try:
            return await self._judged.decide(call, tool, arguments)
        finally:
            self._judge.opinion = UNKNOWN


class _ChangedCall:
    """A planned call that a hook has changed. Its result begins with what ran, as the model asked for something else."""

    def __init__(self, planned: PlannedCall, note: str) -> None:
        self.touches = planned.touches
        self.preview = planned.preview
        self._planned = planned
        self._note = note

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        result = await self._planned.execute(on_output)
        return msgspec.structs.replace(result, output=self._note + result.output)
