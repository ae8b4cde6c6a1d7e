"""The approval presets.

    auto        every call runs
    ask         the user approves each call that may change something
    review      calls whose changes are reviewed afterwards run; the user approves all others that may change something
    read-only   calls that may change something never run

Except under ``auto``, the user also approves each call that itself opens a file outside the project, or a file that often
holds secrets. Secret places are closed in every mode, here and in the workspace of the tools (``GuardedWorkspace``).

**An approval holds for what was shown.** A call is planned and shown, and after a yes planned and described again. It runs only
if both are equal: real paths, contents and result. If they differ, the user is asked again. The plan fails if a file changes
after that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, Literal

from newel.agent.errors import NewelError
from newel.agent.formatting import escape_newlines
from newel.agent.messages import ToolCall, ToolResultMessage, Wire
from newel.agent.ports import AllowAll, Policy, Preview, Tool, Touch, Verdict
from newel.permissions.secret_paths import FREE, OUTSIDE, Judgement, SecretPaths

Preset = Literal["auto", "ask", "review", "read-only"]

ROUNDS: Final = 3
"""How often the user is asked about a call whose files keep changing."""


class ApprovalRequest(Wire, frozen=True):
    """A call that needs approval. ``label`` is the tool's name for users, ``folder`` the working folder.

    ``preview`` is exactly what would be done (a command, a unified diff), below lines about links, files outside the project,
    and changes since the first preview. It comes from the model: screens show it with every invisible character escaped.
    ``touches`` are the files that the call itself opens.
    """

    call: ToolCall
    label: str
    preview: str
    folder: str
    touches: Sequence[Touch] = ()


class Approval(Wire, frozen=True):
    """The answer. ``always`` allows this tool with the same arguments and files for the lifetime of the policy. ``word`` is for
    the model, with a ``no``. ``nobody`` means that no user could answer.
    """

    decision: Literal["once", "always", "no", "nobody"]
    word: str = ""


Ask = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Asks the user and waits. On cancellation it removes the question from the screen."""

NOBODY_TO_ASK = (
    "Not run: this call needs the user's approval, and this run cannot ask for it. Do what is possible without it, and tell "
    "the user what remains to be done; they can allow it with `--approve auto`."
)
READ_ONLY = (
    "Not run: this run is read-only, and '{tool}' may change something. Use read-only tools, and describe the change that you "
    "would make."
)
DECLINED = (
    "Not run: the user declined this call. Do not repeat it; continue without it, or ask what they want."
)
DECLINED_WITH_WORD = "Not run: the user declined this call and said: {word}"


_DENIALS: Final = tuple(
    text.partition("{")[0] for text in (NOBODY_TO_ASK, READ_ONLY, DECLINED, DECLINED_WITH_WORD)
)

KEEPS_CHANGING = (
    "Not run: {path} keeps changing while the user is asked to approve this call, so nothing was done. Find out what changes "
    "it, or ask the user."
)
NOT_REVIEWED = (
    "Not run: {path} was not changed, because it is outside the project. In this run only files of the project can be changed: "
    "the user reviews each change before it takes effect."
)
CHANGED = "This call changed while it waited for approval. It would now do the following:"


def approval_policy(
    preset: Preset,
    *,
    ask: Ask | None,
    folder: str,
    places: SecretPaths,
    reviewed: Collection[str] = frozenset(),
) -> Policy:
    """The policy of a preset. With ``ask`` None no user can answer, and calls that need approval are denied. ``folder`` is shown
    with each request. ``reviewed`` are the tools whose changes are reviewed afterwards. ``places`` judges the files that calls
    open.
    """
    if preset == "auto":
        return AllowAll()  # the workspace of the tools closes secret places
    free = reviewed if preset == "review" else ()
    return _AskFirst(ask, folder, places, free=free, changes=preset != "read-only")


class _AskFirst:
    def __init__(
        self,
        ask: Ask | None,
        folder: str,
        places: SecretPaths,
        *,
        free: Collection[str],
        changes: bool,
    ) -> None:
        self._ask = ask
        self._folder = folder
        self._places = places
        self._free = free
        self._changes = changes
        self._always: set[tuple[str, ...]] = set()

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        if not (tool.read_only or self._changes):
            return Verdict(allow=False, reason=READ_ONLY.format(tool=tool.spec.name))
        shown_preview: Preview | None = None
        answer = Approval("no")
        for asked in range(ROUNDS + 1):
            try:
                planned = await tool.plan(arguments)
                touch, judged = self._strictest(planned.touches)
                if touch is not None and judged.level == "never":
                    return self._refuse(touch, judged)
                is_reviewed = tool.spec.name in self._free and not tool.read_only
                if is_reviewed and touch is not None and judged.reason == OUTSIDE:
                    return Verdict(allow=False, reason=NOT_REVIEWED.format(path=touch.path))
                if judged.level == "free" and (tool.read_only or is_reviewed):
                    return Verdict(allow=True, planned=planned)
                preview = await planned.preview()
            except (NewelError, OSError) as error:
                # Denied although it would fail anyway: its files could change so that it succeeds, unseen by the user.
                return Verdict(allow=False, reason=f"Not run: {error}")
            key = _approval_key(call, tool, preview)
            # The answer holds only for what was shown: the call was planned again since, and may do something else now.
            if preview == shown_preview:
                if answer.decision == "always":
                    self._always.add(key)
                return Verdict(allow=True, planned=planned)
            if shown_preview is None and key in self._always:
                return Verdict(allow=True, planned=planned)
            if asked == ROUNDS:
                break
            answer = await self._request(call, tool, preview, changed=shown_preview is not None)
            if answer.decision == "nobody" and touch is not None and tool.read_only:
                return self._refuse(touch, judged)
            if answer.decision not in {"once", "always"}:
                return _decline(answer)
            shown_preview = preview
        return Verdict(allow=False, reason=KEEPS_CHANGING.format(path=_target(shown_preview)))

    async def _request(self, call: ToolCall, tool: Tool, preview: Preview, *, changed: bool) -> Approval:
        if self._ask is None:
            return Approval("nobody")
        text = self._describe(preview, changed=changed)
        return await self._ask(ApprovalRequest(call, tool.label, text, self._folder, preview.touches))

    def _strictest(self, touches: Sequence[Touch]) -> tuple[Touch | None, Judgement]:
        """The touch with the strictest judgement; None if all are free."""
        strictest: tuple[Touch | None, Judgement] = (None, FREE)
        for touch in touches:
            judged = self._places.judge(touch.path, writes=touch.writes)
            if judged.level == "never" or (judged.level == "ask" and strictest[0] is None):
                strictest = touch, judged
        return strictest

    def _refuse(self, touch: Touch, judged: Judgement) -> Verdict:
        problem = self._places.refusal(touch.path, judged, writes=touch.writes)
        return Verdict(allow=False, reason=f"Not run: {problem}")

    def _describe(self, preview: Preview, *, changed: bool) -> str:
        """The preview for the user: targets of links and files outside the project come first."""
        lines = [CHANGED] if changed else []
        for touch in preview.touches:
            path = self._places.original(touch.path)
            judged = self._places.judge(touch.path, writes=touch.writes)
            leads = self._places.lexical_path(touch.named) != path
            line = f"{touch.named} → {path}" if leads else path
            if judged.level != "free":
                line += f"  ({judged.reason})"
            if leads or judged.level != "free":
                lines.append(escape_newlines(line))
        is_named = any(touch.named == preview.text and not touch.writes for touch in preview.touches)
        if not (lines and is_named):
            lines.append(preview.text)
        return "\n".join(lines)


def _approval_key(call: ToolCall, tool: Tool, preview: Preview) -> tuple[str, ...]:
    """The key of an ``always``: this tool with these arguments, real files and result. A read-only tool may read other parts of
    the same files.
    """
    import json  # not msgspec: an argument may hold a lone surrogate, which only json can write

    files = [part for touch in preview.touches for part in (touch.path, touch.after)]
    arguments = "" if tool.read_only and files else json.dumps(call.arguments, sort_keys=True)
    return tool.spec.name, arguments, *files


def is_denial(result: ToolResultMessage) -> bool:
    """Whether a call did not run because the user, nobody or the preset did not allow it."""
    return result.is_error and not result.duration and result.output.startswith(_DENIALS)


def _target(preview: Preview | None) -> str:
    return preview.touches[0].named if preview and preview.touches else "its target"


def _decline(answer: Approval) -> Verdict:
    word = answer.word.strip()
    declined = DECLINED_WITH_WORD.format(word=word) if word else DECLINED
    return Verdict(allow=False, reason=NOBODY_TO_ASK if answer.decision == "nobody" else declined)
