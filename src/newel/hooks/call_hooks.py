"""The hooks about tool calls: ``PreToolUse`` before a call is judged, ``PostToolUse`` or ``PostToolUseFailure`` when it has its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import ToolCall
from newel.agent.ports import ToolResult
from newel.hooks.hook_runner import HookPlace, HookRunner, HookVerdict
from newel.hooks.tool_names import absolute, hook_input, hook_names, hook_response
from newel.permissions.secret_paths import looks_secret
from newel.storage.files import real_path
from newel.text.sanitize import escape_line

T = TypeVar("T")

Facts = Callable[[], dict[str, Any]]
"""Returns the fields that every hook gets, as they are now."""

SUBAGENT: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("subagent", default=None)
"""The further fields of hooks in a subagent's run; None in the run of the agent itself."""

FOLLOWED: Final = "[A hook changed {file} after this call. You know the file as it is now:]\n{diff}"
AFTERWARDS: Final = "[A hook changed {files} after this call. Read it again before you edit it.]"
MAX_FILES: Final = 10
"""Changed files that are named to the model."""


@runtime_checkable
class FileChanger(Protocol):
    """A tool that changes one file, and remembers which content of it the model knows."""

    async def known_content(self, name: str, /) -> bytes | None:
        """The content of a file, if the model knows it."""
        ...

    async def show_change(self, name: str, before: bytes, /) -> str:
        """The whole diff from ``before``, which the model knows, to the file as it is now, which it knows from then on; empty if there is
        none to show.
        """
        ...


class CallHooks:
    """``facts`` are the fields that every hook gets, ``place`` is where these run."""

    def __init__(self, runner: HookRunner, place: HookPlace, facts: Facts) -> None:
        self._runner = runner
        self._place = place
        self._facts = facts
        self._begun: dict[tuple[str, str], tuple[Mapping[str, Any], str]] = {}

    async def before(self, call: ToolCall) -> HookVerdict:
        """What the hooks want of a call that is about to be judged."""
        verdict = await self._run("PreToolUse", call, call.arguments)
        arguments = call.arguments if verdict.arguments is None else verdict.arguments
        self._begun[_key(call)] = arguments, verdict.context
        return verdict

    def clear(self) -> None:
        """A run begins: no call is under way."""
        self._begun.clear()

    def forget(self, call: ToolCall) -> None:
        """The call does not run."""
        self._begun.pop(_key(call), None)

    async def after(self, call: ToolCall, result: ToolResult, tool: object = None) -> ToolResult:
        """The result of a call of ``tool`` with what the hooks add for the model, and what they have made of the file."""
        arguments, earlier = self._begun.pop(_key(call), (call.arguments, ""))
        notes = [earlier] if earlier else []
        event = "PostToolUseFailure" if _has_failed(result) else "PostToolUse"
        if self._runner.has(event):
            file = str(result.details.get("filePath", ""))
            changer = tool if file and isinstance(tool, FileChanger) else None
            before = await _read(changer.known_content(file)) if changer else None
            if before is not None and looks_secret(self._real(file), before):
                before = None  # reading it again is judged
            verdict = await self._run(event, call, arguments, result)
            notes += [verdict.reason] if verdict.decision == "deny" and verdict.reason else []
            notes += verdict.contexts
            changed = verdict.changed
            if changer and before is not None and (diff := await _read(changer.show_change(file, before))):
                notes.append(FOLLOWED.format(file=escape_line(file), diff=diff.rstrip("\n")))
                changed = [name for name in changed if self._absolute(name) != self._absolute(file)]
            if changed:
                notes.append(AFTERWARDS.format(files=_some(changed)))
        if not notes:
            return result
        return msgspec.structs.replace(result, output="\n\n".join([result.output, *notes]))

    async def _run(
        self, event: str, call: ToolCall, arguments: Mapping[str, Any], result: ToolResult | None = None
    ) -> HookVerdict:
        if not self._runner.has(event):
            return HookVerdict()
        given = self._given(call.name, arguments)
        more: dict[str, Any] = {}
        if event == "PostToolUse" and result is not None:
            more["tool_response"] = hook_response(call.name, given, result)
        elif result is not None:
            more |= {"error": result.output, "is_interrupt": False}
        fields = {
            **self._facts(),
            **(SUBAGENT.get() or {}),
            "cwd": self._place.folder,
            "hook_event_name": event,
            "tool_name": hook_names(call.name)[0],
            "tool_input": given,
            "tool_use_id": call.id,
            **more,
        }
        return await self._runner.run(event, fields, place=self._place, tool=call.name)

    def _absolute(self, path: str) -> str:
        return absolute(path, root=self._place.root, home=self._place.home)

    def _real(self, path: str) -> str:
        return real_path(self._absolute(path))

    def _given(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place
        given = hook_input(tool, arguments, root=place.root, home=place.home)
        if place.copy_of:
            for name in ("file_path", "path"):
                if isinstance(path := given.get(name), str) and _is_below(path, place.copy_of):
                    given[name] = absolute(path[len(place.copy_of) :].lstrip("/"), root=place.root, home="")
        return given


async def _read(content: Awaitable[T]) -> T | None:
    """What a tool knows of a file; None if the file cannot be read."""
    try:
        return await content
    except (NewelError, OSError):
        return None


def _key(call: ToolCall) -> tuple[str, str]:
    """Subagents may use the ids of their parent."""
    return (SUBAGENT.get() or {}).get("agent_id", ""), call.id


def _has_failed(result: ToolResult) -> bool:
    """As in Claude Code, a command that exits with another code than 0 has."""
    return result.is_error or result.details.get("exitCode") not in {None, 0}


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _some(files: Sequence[str]) -> str:
    rest = len(files) - MAX_FILES
    return ", ".join(map(escape_line, files[:MAX_FILES])) + (f" and {rest} more" if rest > 0 else "")
