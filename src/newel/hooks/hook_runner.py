"""Runs the hooks of an event, one after the other, and sums up what they want.

They run in the order of their files: of two formatters for one file, the second sees what the first has made of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.hooks.condition import may_hold
from newel.hooks.function_hook import FunctionHook, run_function
from newel.hooks.hook import EVENTS, TOOL_EVENTS, Hook, matches
from newel.hooks.hook_listing import HookResult
from newel.hooks.hook_output import HookReply
from newel.hooks.hook_process import run_hook
from newel.hooks.hook_trust import link_out
from newel.hooks.tool_names import hook_names
from newel.text.sanitize import escape_line, sanitize

Report = Callable[[str], Awaitable[None]]

NOT_ALLOWED: Final = "it allows a call, which only your own hooks may; the call is judged as usual"
CHANGED: Final = "it, or a script that it names, has changed since you trusted it, so it did not run. See it again: newel hooks trust"

KEEPS_ON: Final = frozenset({"Notification", "SessionEnd", "UserPromptSubmit"})
"""Events whose hooks do not end a run: there is none, or it does not begin."""

_STRONGER: Final = {"": 0, "allow": 1, "ask": 2, "deny": 3}


class HookPlace(msgspec.Struct, frozen=True):
    """Where hooks run while an agent works: in ``folder``. ``root`` is the folder of the agent's paths, and ``home`` its ``~``, which may
    be on a host. If ``root`` is a copy, ``copy_of`` is the project. ``recording`` records what hooks change as the agent's doing, and
    yields the changed files, once it has ended.
    """

    folder: str
    root: str
    home: str
    copy_of: str = ""
    recording: Callable[[], AbstractAsyncContextManager[Sequence[str]]] = lambda: nullcontext([])


class HookVerdict(msgspec.Struct, kw_only=True):
    """What the hooks of an event want: the strictest decision with its ``reason`` and the hook ``by`` that gave it, all ``contexts``, and
    ``stop``, which says why the run is to end. ``arguments`` are those of the last hook that changed them, which is ``changed_by``.
    ``changed`` are the files that the hooks have changed.
    """

    decision: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    by: Hook | None = None
    arguments: dict[str, Any] | None = None
    changed_by: Hook | None = None
    contexts: list[str] = []
    stop: str | None = None
    changed: list[str] = []

    @property
    def context(self) -> str:
        return "\n\n".join(self.contexts)

    def add(self, hook: Hook, reply: HookReply) -> None:
        if _STRONGER[reply.decision] > _STRONGER[self.decision]:
            self.decision, self.reason, self.by = reply.decision, reply.reason, hook
        if reply.arguments is not None:
            self.arguments, self.changed_by = reply.arguments, hook
        if reply.context:
            self.contexts = [*self.contexts, reply.context]
        if reply.stop is not None and self.stop is None:
            self.stop = reply.stop or f"A hook ended the run ({hook.where})."


class HookRunner:
    """``project`` is the folder of the hooks, in which they run outside of a run; ``is_unchanged`` says whether a hook that runs in a
    folder is still the one that the user has trusted; ``report`` tells the user what is wrong with one.
    """

    def __init__(
        self,
        hooks: Sequence[Hook],
        *,
        project: str,
        is_unchanged: Callable[[Hook, str], bool],
        report: Report,
    ) -> None:
        self._hooks: dict[str, list[Hook]] = {}
        seen: set[object] = set()
        for hook in hooks:
            if hook.what not in seen:
                seen.add(hook.what)
                self._hooks.setdefault(hook.event, []).append(hook)
        self.project = project
        self._is_unchanged = is_unchanged
        self.report = report
        self.results: dict[Hook, HookResult] = {}
        """How the last run of each hook went."""
        self.end_run: Callable[[], None] = lambda: None
        """Ends the run of the agent before its next request."""

    def has(self, *events: str) -> bool:
        """Whether there are hooks for one of these events."""
        return any(event in self._hooks for event in events)

    async def run(
        self, event: str, given: Mapping[str, Any], *, place: HookPlace | None = None, tool: str = ""
    ) -> HookVerdict:
        """Run the hooks of an event with this input. Without a ``place`` they run in the project's folder, and what they change counts as
        the user's doing. ``tool`` is our name of the tool that the event is about. Only a cancellation is raised.
        """
        verdict = HookVerdict()
        hooks = await self._meant(event, given, place, tool)
        if not hooks:
            return verdict
        try:
            async with place.recording() if place else nullcontext([]) as changed:
                for hook in hooks:
                    reply = await self._reply(hook, given, place.folder if place else self.project)
                    verdict.add(hook, reply)
            verdict.changed = list(changed)
        except NewelError as error:  # of the folder: a copy that cannot be made
            await self.report(f"The {event} hooks did not run. {error}")
            if event == "PreToolUse":  # nobody has judged the call
                verdict.add(hooks[0], HookReply(decision="deny", reason=f"It could not run. {error}"))
        if verdict.stop is not None and event not in KEEPS_ON:
            await self.report(sanitize(verdict.stop))
            self.end_run()
        return verdict

    async def _meant(
        self, event: str, given: Mapping[str, Any], place: HookPlace | None, tool: str
    ) -> list[Hook]:
        found: list[Hook] = []
        names = hook_names(tool) if event in TOOL_EVENTS else [str(given.get(EVENTS[event], ""))]
        for hook in self._hooks.get(event, ()):
            if EVENTS[event] and not matches(hook.matcher, names):
                continue
            if hook.condition and place is not None:
                arguments: Mapping[str, Any] = given.get("tool_input", {})
                if not await may_hold(hook.condition, tool, arguments, root=place.root, home=place.home):
                    continue
            found.append(hook)
        return found

    async def _reply(self, hook: Hook, given: Mapping[str, Any], folder: str) -> HookReply:
        began = anyio.current_time()
        if isinstance(hook, FunctionHook):
            reply = await run_function(hook, given)
        elif not self._is_unchanged(hook, folder):
            reply = HookReply(problem=CHANGED)
        elif hook.level == "user" and (file := link_out(hook, Path(self.project), folder)):
            reply = HookReply(problem=f"{file} is a link out of the project, so it did not run")
        else:
            reply = await run_hook(hook, given, project=self.project, folder=folder)
        if reply.decision == "allow" and hook.level == "project":
            reply = msgspec.structs.replace(reply, decision="", problem=NOT_ALLOWED)
        runs = self.results[hook].runs + 1 if hook in self.results else 1
        self.results[hook] = HookResult(anyio.current_time() - began, reply.decision, reply.problem, runs)
        if reply.problem:
            await self.report(f"The {hook.event} hook of {hook.where}: {escape_line(reply.problem, 500)}.")
        if reply.message:
            await self.report(f"{sanitize(reply.message)}\n(the {hook.event} hook of {hook.where})")
        return reply
