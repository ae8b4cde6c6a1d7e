"""The hooks about a conversation: its sessions, prompts, questions, compactions, and when the model is done.

``SessionStart`` runs with the first prompt of a session, not when a front end opens: a tab that nobody uses starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from newel.agent.events import AgentEvent, MessageEnd
from newel.agent.messages import AppMessage, CustomMessage, UserMessage
from newel.agent.transform import COMPACTION
from newel.hooks.call_hooks import SUBAGENT, Facts
from newel.hooks.hook_runner import HookPlace, HookRunner, HookVerdict
from newel.hooks.hooked_run import Admission

Source = Literal["startup", "resume", "clear", "compact"]

NEEDS_PERMISSION: Final = "Newel needs your permission to use {tool}"


class ConversationHooks:
    """Fulfils ``RunEvents``. ``facts`` are the fields that every hook gets, ``place`` is where those run that run within a run."""

    def __init__(self, runner: HookRunner, place: HookPlace, facts: Facts) -> None:
        self.report = runner.report
        self.problems: list[str] = []
        """What is to be told to the user with the first prompt."""
        self._runner = runner
        self._place = place
        self._facts = facts
        self._begun: dict[str, Any] | None = None
        """The fields of the session that has begun."""
        self._is_compacted = False

    def on_event(self, event: AgentEvent) -> None:
        """Notice compactions, also those between runs."""
        match event:
            case MessageEnd(message=CustomMessage(name=name)) if name == COMPACTION:
                self._is_compacted = True
            case _:
                pass

    async def admit(self, messages: Sequence[AppMessage], prompts: Sequence[AppMessage]) -> Admission:
        problems, self.problems = self.problems, []
        for problem in problems:
            await self.report(problem)
        contexts = [await self._begin(messages)] if prompts else []
        for prompt in prompts:
            if isinstance(prompt, UserMessage):
                admission = await self.admit_queued(prompt)
                if admission.blocked is not None:
                    return admission
                contexts.append(admission.context)
        return Admission("\n\n".join(filter(None, contexts)))

    async def admit_queued(self, message: UserMessage) -> Admission:
        verdict = await self._run("UserPromptSubmit", {"prompt": message.text})
        if verdict.stop is not None:
            return Admission(blocked=verdict.stop)
        if verdict.decision == "deny":
            return Admission(blocked=verdict.reason or f"({verdict.by.where if verdict.by else ''})")
        return Admission(verdict.context)

    async def compacted(self) -> str:
        self._is_compacted = False
        return (await self._run("SessionStart", {"source": "compact"})).context

    async def stop(self, answer: str, *, is_active: bool) -> str:
        fields: dict[str, Any] = {
            "stop_hook_active": is_active,
            "last_assistant_message": answer,
            "background_tasks": [],
            "session_crons": [],
        }
        event = "Stop" if SUBAGENT.get() is None else "SubagentStop"
        verdict = await self._run(event, fields, place=self._place)
        if verdict.stop is not None:
            return ""
        if verdict.decision == "deny":
            return "\n\n".join(filter(None, (verdict.reason or "Go on.", verdict.context)))
        return verdict.context

    async def before_compaction(self, reason: str, wishes: str) -> bool:
        """Whether a conversation may be compacted."""
        trigger = "manual" if reason == "asked" else "auto"
        verdict = await self._run("PreCompact", {"trigger": trigger, "custom_instructions": wishes})
        if verdict.decision != "deny":
            return True
        await self.report(f"A hook has kept the conversation from being compacted. {verdict.reason}".rstrip())
        return False

    async def asked(self, tool: str) -> None:
        """The user is asked about a call of a tool."""
        fields = {
            "message": NEEDS_PERMISSION.format(tool=tool),
            "title": "Permission needed",
            "notification_type": "permission_prompt",
        }
        await self._run("Notification", fields)

    async def end(self, reason: str = "other") -> None:
        """The session that has begun ends."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            await self._run("SessionEnd", {"reason": reason}, facts=begun)

    async def _begin(self, messages: Sequence[AppMessage]) -> str:
        """Run the hooks of a session that has changed since the last prompt, or was compacted; returns their texts for the model."""
        now = self._facts()
        is_other = self._begun is not None and self._begun["session_id"] != now["session_id"]
        source: Source
        if self._begun is None or is_other:
            source = "resume" if messages else "clear" if is_other else "startup"
            await self.end("resume" if messages else "clear")
        elif self._is_compacted:
            source = "compact"
        else:
            return ""
        self._is_compacted, self._begun = False, now
        return (await self._run("SessionStart", {"source": source})).context

    async def _run(
        self,
        event: str,
        fields: Mapping[str, Any],
        *,
        place: HookPlace | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> HookVerdict:
        if not self._runner.has(event):
            return HookVerdict()
        given = {
            **(facts or self._facts()),
            **(SUBAGENT.get() or {}),
            "cwd": place.folder if place else self._runner.project,
            "hook_event_name": event,
            **fields,
        }
        return await self._runner.run(event, given, place=place)


class SubagentHooks:
    """Fulfils ``RunEvents`` for the runs of subagents: only their end is an event."""

    def __init__(self, hooks: ConversationHooks) -> None:
        self.report = hooks.report
        self.stop = hooks.stop

    async def admit(self, messages: Sequence[AppMessage], prompts: Sequence[AppMessage]) -> Admission:
        del messages, prompts
        return Admission()

    async def admit_queued(self, message: UserMessage) -> Admission:
        del message
        return Admission()

    async def compacted(self) -> str:
        return ""
