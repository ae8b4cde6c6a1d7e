"""Who may decide what a call may read and change: the approval presets.

    auto        every call runs
    ask         a person approves each call that may change something
    review      calls whose changes are decided afterwards run; a person approves each other that may change something
    read-only   calls that may change something never run

Under all but ``auto`` a person also approves each call that itself opens a file outside the project, or one of it that often
holds secrets. What no mode opens is closed twice: here, and where a tool opens files (``guarded.py``).

**An answer is for what was shown.** A call is planned and shown, and after a yes planned and shown again: only if both are
the same, the real paths, the contents and the result, does it run, and the plan that runs fails where that changes later.
What changed meanwhile is asked about once more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, Literal

from newel.agent.errors import NewelError
from newel.agent.formatting import escape_newlines
from newel.agent.messages import ToolCall, Wire
from newel.agent.ports import AllowAll, Policy, Preview, Tool, Touch, Verdict
from newel.permissions.guarded import refusal_message
from newel.permissions.secret_paths import FREE, OUTSIDE, Judgement, SecretPaths

Preset = Literal["auto", "ask", "review", "read-only"]

ROUNDS: Final = 3
"""How often a call is asked about whose files keep changing."""


class ApprovalRequest(Wire, frozen=True):
    """A call that waits for an answer. ``label`` is the tool's name for people, ``preview`` exactly what
    would be done (a command, a unified diff), below lines that say where links lead, what lies outside the project, and that
    this changed since it was shown first; ``folder`` is where. All of it comes from the model: a screen
    shows it with every hidden character written out. ``touches`` are the files that the call itself opens.
    """

    call: ToolCall
    label: str
    preview: str
    folder: str
    touches: Sequence[Touch] = ()


class Approval(Wire, frozen=True):
    """The answer. ``always`` allows this tool with these very arguments and files as long as the policy lives;
    ``word`` is told to the model along with a ``no``. ``nobody`` says that no person could answer.
    """

    decision: Literal["once", "always", "no", "nobody"]
    word: str = ""


Ask = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Puts a request to a person and waits. On cancellation it takes its question off the screen."""

NOBODY_TO_ASK = (
    "Not run: this call needs the user's approval, and this run cannot ask for it. Do what is possible "
    "without it, and tell the user what is left to do; they can allow it with `--approve auto`."
)
READ_ONLY = (
    "Not run: this run is read-only, and '{tool}' may change something. Use the tools that only read, and "
    "describe the change that you would make."
)
DECLINED = "Not run: the user declined this call. Do not repeat it; go on without it, or ask what they want."
DECLINED_WITH_WORD = "Not run: the user declined this call and said: {word}"


KEEPS_CHANGING = (
    "Not run: {path} keeps changing while the user is asked about this call, so nothing was done. Find out what changes it, "
    "or ask the user."
)
NOT_REVIEWED = (
    "Not run: {path} was not changed. It is outside the project, and in this run only files of the project can be changed, "
    "as the user reviews each change before it takes effect."
)
CHANGED = "This changed while the question was open. Now it would do:"


def approval_policy(
    preset: Preset,
    *,
    ask: Ask | None,
    folder: str,
    reviewed: Collection[str] = frozenset(),
    places: SecretPaths | None = None,
) -> Policy:
    """The policy of a preset. ``ask`` is None where no person can answer: what would be asked about is denied then, and the
    model told so. ``folder`` is shown with each request. ``reviewed`` are the tools whose changes a person decides
    afterwards. ``places`` judges the files that calls open; with None all are free.
    """
    match preset:
        case "auto":
            return AllowAll()  # secret places are closed to its tools by their workspace
        case "ask":
            return _AskFirst(ask, folder, places)
        case "review":
            return _AskFirst(ask, folder, places, free=reviewed)
        case "read-only":
            return _AskFirst(ask, folder, places, changes=False)


class _AskFirst:
    def __init__(
        self,
        ask: Ask | None,
        folder: str,
        places: SecretPaths | None,
        *,
        free: Collection[str] = (),
        changes: bool = True,
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
        shown: Preview | None = None
        answer = Approval("no")
        for _ in range(ROUNDS + 1):
            try:
                planned = await tool.plan(arguments)
                touch, judged = self._worst(planned.touches)
                if touch is not None and judged.level == "never":
                    return Verdict(allow=False, reason=f"Not run: {self._refusal(touch, judged)}")
                is_reviewed = tool.spec.name in self._free and not tool.read_only
                if is_reviewed and touch is not None and judged.reason == OUTSIDE:
                    return Verdict(allow=False, reason=NOT_REVIEWED.format(path=touch.path))
                if judged.level == "free" and (tool.read_only or is_reviewed):
                    return Verdict(allow=True, planned=planned)
                preview = await planned.preview()
            except (NewelError, OSError) as error:
                # Not allowed on the ground that it would fail anyway: what it is about could yet change so that it
                # succeeds, and then it would run with nobody having seen what it does.
                return Verdict(allow=False, reason=f"Not run: {error}")
            exactly = _exactly(call, tool, preview)
            if preview == shown:
                if answer.decision == "always":
                    self._always.add(exactly)
                return Verdict(allow=True, planned=planned)
            if shown is None and exactly in self._always:
                return Verdict(allow=True, planned=planned)
            answer = await self._asked(call, tool, preview, changed=shown is not None)
            if answer.decision == "nobody" and touch is not None and tool.read_only:
                return Verdict(allow=False, reason=f"Not run: {self._refusal(touch, judged)}")
            if answer.decision not in {"once", "always"}:
                return _verdict(answer)
            shown = preview
        return Verdict(allow=False, reason=KEEPS_CHANGING.format(path=_named(shown)))

    async def _asked(self, call: ToolCall, tool: Tool, preview: Preview, *, changed: bool) -> Approval:
        if self._ask is None:
            return Approval("nobody")
        text = self._described(preview, changed=changed)
        return await self._ask(ApprovalRequest(call, tool.label, text, self._folder, preview.touches))

    def _worst(self, touches: Sequence[Touch]) -> tuple[Touch | None, Judgement]:
        """The touch that is judged most strictly; none where all are free."""
        found: tuple[Touch | None, Judgement] = (None, FREE)
        for touch in touches if self._places else ():
            judged = self._judge(touch)
            if judged.level == "never" or (judged.level == "ask" and found[0] is None):
                found = touch, judged
        return found

    def _judge(self, touch: Touch) -> Judgement:
        return self._places.judge(touch.path, writes=touch.writes) if self._places else FREE

    def _refusal(self, touch: Touch, judged: Judgement) -> str:
        path = self._places.original(touch.path) if self._places else touch.path
        return refusal_message(path, judged, writes=touch.writes)

    def _described(self, preview: Preview, *, changed: bool) -> str:
        """What the person decides about: where links lead and what is not of the project comes first."""
        lines = [CHANGED] if changed else []
        for touch in preview.touches if self._places else ():
            path = self._places.original(touch.path) if self._places else touch.path
            judged = self._judge(touch)
            leads = self._places is not None and self._places.by_its_words(touch.named) != path
            line = f"{touch.named} → {path}" if leads else path
            if judged.level != "free":
                line += f"  ({judged.reason})"
            if leads or judged.level != "free":
                lines.append(escape_newlines(line))
        is_named = any(touch.named == preview.text and not touch.writes for touch in preview.touches)
        if not (lines and is_named):
            lines.append(preview.text)
        return "\n".join(lines)


def _exactly(call: ToolCall, tool: Tool, preview: Preview) -> tuple[str, ...]:
    """What an ``always`` is for: this tool with these arguments, on these real files, with this result. One that only reads
    may read the file in other pieces.
    """
    import json  # not msgspec: an argument may hold a lone surrogate, which only json can write

    files = [part for touch in preview.touches for part in (touch.path, touch.after)]
    arguments = "" if tool.read_only and files else json.dumps(call.arguments, sort_keys=True)
    return tool.spec.name, arguments, *files


def _named(preview: Preview | None) -> str:
    return preview.touches[0].named if preview and preview.touches else "what it is about"


def _verdict(answer: Approval) -> Verdict:
    match answer.decision:
        case "once" | "always":
            return Verdict(allow=True)
        case "no":
            word = answer.word.strip()
            return Verdict(allow=False, reason=DECLINED_WITH_WORD.format(word=word) if word else DECLINED)
        case "nobody":
            return Verdict(allow=False, reason=NOBODY_TO_ASK)
