"""The approval modes.

    auto        every call runs
    ask         the user approves each call that may change something
    review      calls whose changes are reviewed afterwards run; the user approves all others that may change something
    plan        calls that may change something never run, but commands that only read do
    read-only   the same, without a plan

Except under ``auto``, the user also approves each call that itself opens a file outside the project, or a file that often
holds secrets. Secret places are closed in every mode, here and in the workspace of the tools (``GuardedWorkspace``).

A page of a server that no rule allows needs approval under every mode: its address could carry away what the model has read. Only under
``auto`` with commands that may reach every server anyway it does not.

A call whose preview has a warning, such as a command outside of the sandbox, needs approval under every mode that lets calls change
something, whatever rules allow.

Rules come first, in every mode: what one denies never runs, what one asks about needs approval, and what one allows, and a command
that only reads, needs none, as long as the mode lets calls change something.

**An approval holds for what was shown.** A call is planned and shown, and after a yes planned and described again. It runs only
if both are equal: real paths, contents and result. If they differ, the user is asked again. The plan fails if a file changes
after that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

import msgspec

from newel.agent.errors import ConfigError, NewelError
from newel.agent.formatting import escape_newlines
from newel.agent.messages import ToolCall, ToolResultMessage, Wire
from newel.agent.ports import (
    AllowAll,
    OnOutput,
    PlannedCall,
    Policy,
    Preview,
    Tool,
    ToolResult,
    Touch,
    Verdict,
)
from newel.permissions.judgement import UNKNOWN, CallJudgement, Judge
from newel.permissions.rules import COMMANDS, WEB, describe_rules
from newel.permissions.secret_paths import FREE, OUTSIDE, Judgement, SecretPaths

ApprovalMode = Literal["auto", "ask", "review", "plan", "read-only"]

ROUNDS: Final = 3
"""How often the user is asked about a call whose files keep changing."""


class ApprovalRequest(Wire, frozen=True):
    """A call that needs approval, or with the kind ``server`` a server that a command or a tool server in a sandbox wants to reach:
    ``call`` names it as the argument ``server``. ``label`` is the tool's name for users, ``folder`` the working folder, ``subagent`` the
    name of the subagent whose call it is.

    ``preview`` is exactly what would be done (a command, a unified diff), below lines about links, files outside the project,
    and changes since the first preview. It comes from the model: screens show it with every invisible character escaped.
    ``touches`` are the files that the call itself opens. ``rules`` are those that the answer ``rule`` keeps, such as
    ``bash(git status *)``; without any, that answer is not offered.
    """

    call: ToolCall
    label: str
    preview: str
    folder: str
    touches: Sequence[Touch] = ()
    rules: Sequence[str] = ()
    kind: Literal["call", "server"] = "call"
    subagent: str = ""

    @property
    def title(self) -> str:
        """The tool's name, and the subagent's: ``Run Command by the subagent “Find writers”``."""
        return f"{self.label} by the subagent “{self.subagent}”" if self.subagent else self.label

    @property
    def offer(self) -> str:
        """What the answer ``rule`` allows in this project from then on, in words; empty if that is no answer."""
        return f"the server {self.server}" if self.server else describe_rules(self.rules)

    @property
    def server(self) -> str:
        """The server, with a port other than those of the web; empty for a call."""
        return str(self.call.arguments.get("server", "")) if self.kind == "server" else ""


class Approval(Wire, frozen=True):
    """The answer. ``always`` allows this tool with the same arguments and files for the lifetime of the policy, ``rule`` what the rules
    of the request allow, or its server, in this project for good; a server is allowed for the session by the other two. ``word`` is for
    the model, with a ``no``. ``nobody`` means that no user could answer. ``command``, with ``once``, runs in place of the shell command
    that was asked about.
    """

    decision: Literal["once", "always", "rule", "no", "nobody"]
    word: str = ""
    command: str = ""


AskApproval = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Asks the user and waits. On cancellation it removes the question from the screen."""

Report = Callable[[str], Awaitable[None]]
"""Tells the user something where they answer questions."""

NOT_SAVED: Final = "Not saved for this project: {what}. {error} Your answer holds {until}."

FOR_THIS_CALL: Final = "for exactly this call until the session ends"

NOBODY_TO_ASK = (
    "Not run: this call needs the user's approval, and this run cannot ask for it. Do what is possible without it, and tell "
    "the user what remains to be done; they can allow it with `--approve auto`."
)
NOBODY_FOR_RULE = (
    "Not run: this call needs the user's approval ({reason}), and this run cannot ask for it. Do what is possible without it, and "
    "tell the user what remains to be done."
)
DENIED_BY_RULE = (
    "Not run: the user's rule `deny {rule}` forbids it. Do not try it another way; continue without it."
)
DENIED_BY_HOOK: Final = "Not run: a hook forbids this call ({where}). {reason}"
NOT_IN_PLAN = (
    "Not run: this is a plan, and '{tool}' may change something here. Only commands that are known to read run, such as `git log` or "
    "`rg TEXT`, without redirections, substitutions and variables. Put the change into your plan."
)
READ_ONLY = (
    "Not run: this run is read-only, and '{tool}' may change something here. Only commands that are known to read run, such as `git log` "
    "or `rg TEXT`, without redirections, substitutions and variables. Describe the change that you would make."
)
WHERE_NOTHING_CHANGES: Final = {"plan": NOT_IN_PLAN, "read-only": READ_ONLY}
"""The reasons under modes in which no call changes anything."""

DECLINED = (
    "Not run: the user declined this call. Do not repeat it; continue without it, or ask what they want."
)
DECLINED_WITH_WORD = "Not run: the user declined this call and said: {word}"
EDITED: Final = "The user edited this command before it ran. It ran as:\n\n{command}\n\n"


_DENIALS: Final = tuple(
    text.partition("{")[0]
    for text in (
        NOBODY_TO_ASK,
        NOBODY_FOR_RULE,
        READ_ONLY,
        NOT_IN_PLAN,
        DENIED_BY_RULE,
        DENIED_BY_HOOK,
        DECLINED,
        DECLINED_WITH_WORD,
    )
)

KEEPS_CHANGING = (
    "Not run: {path} keeps changing while the user is asked to approve this call, so nothing was done. Find out what changes "
    "it, or ask the user."
)
NOT_REVIEWED = (
    "Not run: {path} was not changed, because it is outside the project. In this run only files of the project can be changed: "
    "the user reviews each change before it takes effect."
)
FAILS_UNSEEN = (
    "Not run: this call cannot succeed, and why may tell what is in {path}, which the user has to approve first. Read the file, then "
    "correct the call."
)
CHANGED = "This call changed while it waited for approval. It would now do the following:"


def approval_policy(
    mode: ApprovalMode,
    *,
    ask: AskApproval | None,
    folder: str,
    places: SecretPaths,
    judge: Judge | None = None,
    reviewed: Collection[str] = frozenset(),
    warns: bool = False,
    fetches: bool = False,
    is_open: bool = False,
    report: Report | None = None,
) -> Policy:
    """The policy of an approval mode. With ``ask`` None no user can answer, and calls that need approval are denied. ``folder`` is shown
    with each request. ``reviewed`` are the tools whose changes are reviewed afterwards. ``places`` judges the files that calls
    open, ``judge`` calls by the user's rules. ``warns``: previews of commands may have a warning; ``fetches``: pages of the
    web may be called for; ``is_open``: commands may reach every server. ``report`` gets a message for each answer that cannot be saved.
    """
    ask_first = partial(_AskingPolicy, mode, ask, folder, places, report=report, is_open=is_open)
    if mode == "auto" and (judge is None or not judge.may_stop_calls):
        # The workspace of the tools closes secret places.
        judged: dict[str, Policy] = {COMMANDS: ask_first(None)} if warns else {}
        if fetches and not is_open:
            judged[WEB] = ask_first(judge)
        return _PolicyByTool(judged) if judged else AllowAll()
    return ask_first(judge, reviewed=reviewed if mode == "review" else ())


class _JudgedCall(msgspec.Struct, frozen=True):
    """A call as planned. ``touch`` is that with the strictest judgement ``place``, None if all are free. ``error`` says why there is no
    preview.
    """

    planned: PlannedCall
    touch: Touch | None
    place: Judgement
    preview: Preview
    by_rules: CallJudgement
    error: Exception | None = None


class _AskingPolicy:
    def __init__(
        self,
        mode: ApprovalMode,
        ask: AskApproval | None,
        folder: str,
        places: SecretPaths,
        judge: Judge | None,
        *,
        reviewed: Collection[str] = (),
        report: Report | None = None,
        is_open: bool = False,
    ) -> None:
        self._mode = mode
        self._refusal = WHERE_NOTHING_CHANGES.get(mode, "")
        self._ask = ask
        self._folder = folder
        self._places = places
        self._judge = judge
        self._reviewed = reviewed
        self._report = report
        self._reaches_all = is_open and mode == "auto"
        self._always: set[tuple[str, ...]] = set()
        self._opened: set[str] = set()

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        answers: list[Approval] = []
        verdict = await self._decide(call, tool, arguments, answers)
        return msgspec.structs.replace(verdict, asked=True) if answers else verdict

    async def _decide(self, call: ToolCall, tool: Tool, arguments: Any, answers: list[Approval]) -> Verdict:
        """Decide, and add each answer of the user to ``answers``."""
        if self._refusal and not tool.read_only and tool.spec.name != COMMANDS:
            return self._refuse_change(tool)
        shown_preview: Preview | None = None
        while True:
            try:
                judged = await self._plan(tool, arguments)
            except (NewelError, OSError) as error:
                # Denied although it would fail anyway: its files could change so that it succeeds, unseen by the user.
                return Verdict(allow=False, reason=f"Not run: {error}")
            verdict = self._without_asking(tool, judged)
            if judged.error is not None and (verdict is None or verdict.allow):
                return self._fail(tool, judged, judged.error, is_open=verdict is not None)
            if verdict is not None:
                return verdict
            key = _approval_key(call, tool, judged.preview)
            # The answer holds only for what was shown: the call was planned again since, and may do something else now.
            if judged.preview == shown_preview:
                await self._remember(answers[-1], key, judged)
                self._opened.update(touch.path for touch in judged.planned.touches)
                return Verdict(allow=True, planned=judged.planned)
            if shown_preview is None and key in self._always:
                return Verdict(allow=True, planned=judged.planned)
            if len(answers) == ROUNDS:
                return Verdict(allow=False, reason=KEEPS_CHANGING.format(path=_target(shown_preview)))
            answer = await self._request(call, tool, judged, changed=shown_preview is not None)
            answers.append(answer)
            if answer.decision not in {"once", "always", "rule"}:
                return self._decline(tool, judged, answer)
            if answer.decision == "once" and answer.command and tool.spec.name == COMMANDS:
                return await self._decide_edited(call, tool, answer.command)
            shown_preview = judged.preview

    async def _decide_edited(self, call: ToolCall, tool: Tool, command: str) -> Verdict:
        """Judge the command that the user wrote in place of the model's. They have seen it, but their rules may forbid it."""
        arguments = call.arguments | {"command": command}
        try:
            judged = await self._plan(tool, tool.parse(arguments))
        except (NewelError, OSError) as error:
            return Verdict(allow=False, reason=f"Not run: {error}")
        verdict = self._without_asking(tool, judged)
        if verdict is not None and not verdict.allow:
            return verdict
        return Verdict(allow=True, planned=_EditedCommand(judged.planned, command), arguments=arguments)

    async def _plan(self, tool: Tool, arguments: Any) -> _JudgedCall:
        """Plan a call and judge it. What nobody will be shown has no preview."""
        planned = await tool.plan(arguments)
        touch, place = self._strictest(planned.touches)
        if place.level == "never":
            return _JudgedCall(planned, touch, place, Preview(""), UNKNOWN)
        if tool.read_only and place.level == "free" and tool.spec.name != WEB:
            by_rules = await self._judge_by_rules(tool, planned, "")
            if by_rules.effect != "ask":
                return _JudgedCall(planned, touch, place, Preview(""), by_rules)
        try:
            preview = await planned.preview()
        except (NewelError, OSError) as error:
            by_rules = await self._judge_by_rules(tool, planned, "")
            return _JudgedCall(planned, touch, place, Preview(""), by_rules, error)
        by_rules = await self._judge_by_rules(tool, planned, preview.text)
        return _JudgedCall(planned, touch, place, preview, by_rules)

    async def _judge_by_rules(self, tool: Tool, planned: PlannedCall, text: str) -> CallJudgement:
        if self._judge is None:
            return UNKNOWN
        return await self._judge.judge(tool.spec.name, planned.touches, text)

    def _without_asking(self, tool: Tool, judged: _JudgedCall) -> Verdict | None:
        """The verdict on a call for which nobody has to be asked; None if somebody has."""
        touch, place, by_rules = judged.touch, judged.place, judged.by_rules
        if touch is not None and place.level == "never":
            return self._refuse(touch, place)
        if by_rules.effect == "deny":
            return Verdict(allow=False, reason=DENIED_BY_RULE.format(rule=by_rules.reason))
        warning = judged.preview.warning
        if self._refusal and not tool.read_only and (warning or by_rules.effect != "reads"):
            return self._refuse_change(tool)
        is_reviewed = tool.spec.name in self._reviewed and not tool.read_only
        if is_reviewed and touch is not None and place.reason == OUTSIDE:
            return Verdict(allow=False, reason=NOT_REVIEWED.format(path=touch.path))
        is_free = (
            tool.read_only or is_reviewed or self._mode == "auto" or by_rules.effect in {"allow", "reads"}
        )
        is_asked = (
            bool(warning)
            or by_rules.effect == "ask"
            or (by_rules.effect == "server" and not self._reaches_all)
            or (place.level == "ask" and (self._mode != "auto" or bool(place.rule)))
        )
        return Verdict(allow=True, planned=judged.planned) if is_free and not is_asked else None

    def _fail(self, tool: Tool, judged: _JudgedCall, error: Exception, *, is_open: bool) -> Verdict:
        """Deny a call that would fail. The error of an edit quotes its file, so the model gets it only if that file may be read unasked
        (``is_open``), or was opened before; else it could read the file by failing.
        """
        if is_open or judged.touch is None or judged.touch.path in self._opened:
            return Verdict(allow=False, reason=f"Not run: {error}")
        if self._ask is None:
            return self._decline(tool, judged, Approval("nobody"))
        return Verdict(allow=False, reason=FAILS_UNSEEN.format(path=judged.touch.named))

    def _refuse_change(self, tool: Tool) -> Verdict:
        return Verdict(allow=False, reason=self._refusal.format(tool=tool.spec.name))

    async def _remember(self, answer: Approval, key: tuple[str, ...], judged: _JudgedCall) -> None:
        # A rule holds for as long as it is kept.
        # To read on in a page is no other call.
        is_for_more = answer.decision == "always" or (answer.decision == "once" and key[0] == WEB)
        if is_for_more or (answer.decision == "rule" and not await self._keep(judged.by_rules.rules)):
            self._always.add(key)

    async def _keep(self, rules: Sequence[str]) -> bool:
        """Keep rules for the project; whether that was possible."""
        if self._judge is None:
            return False
        try:
            self._judge.keep(rules)
        except ConfigError as error:
            if self._report is not None:
                what = ", ".join(map(escape_newlines, rules))
                await self._report(NOT_SAVED.format(what=what, error=error, until=FOR_THIS_CALL))
            return False
        return True

    async def _request(self, call: ToolCall, tool: Tool, judged: _JudgedCall, *, changed: bool) -> Approval:
        if self._ask is None:
            return Approval("nobody")
        text = self._describe(judged.preview, changed=changed)
        reasons = [judged.preview.warning] if judged.preview.warning else []
        if judged.by_rules.effect == "ask":
            reasons.append(judged.by_rules.reason)
        rules = () if reasons or judged.place.level == "ask" else judged.by_rules.rules
        text = "".join(f"({reason})\n" for reason in reasons) + text
        request = ApprovalRequest(
            call, tool.label, text, self._folder, touches=judged.preview.touches, rules=rules
        )
        answer = await self._ask(request)
        return Approval("no") if answer.decision == "rule" and not rules else answer

    def _decline(self, tool: Tool, judged: _JudgedCall, answer: Approval) -> Verdict:
        if answer.decision != "nobody":
            word = answer.word.strip()
            return Verdict(allow=False, reason=DECLINED_WITH_WORD.format(word=word) if word else DECLINED)
        warning = judged.preview.warning
        if warning or judged.by_rules.effect in {"ask", "server"} or judged.place.rule:
            reason = warning or judged.by_rules.reason or judged.place.reason
            return Verdict(allow=False, reason=NOBODY_FOR_RULE.format(reason=reason))
        if judged.touch is not None and tool.read_only:
            return self._refuse(judged.touch, judged.place)
        return Verdict(allow=False, reason=NOBODY_TO_ASK)

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


class _EditedCommand:
    """A planned command that the user has edited. Its result begins with what ran, as the model asked for something else."""

    def __init__(self, planned: PlannedCall, command: str) -> None:
        self.touches = planned.touches
        self.preview = planned.preview
        self._planned = planned
        self._command = command

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        result = await self._planned.execute(on_output)
        return msgspec.structs.replace(result, output=EDITED.format(command=self._command) + result.output)


class _PolicyByTool:
    """Allows all calls but those of some tools without planning them, which takes longer than many calls."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._policies = policies

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        if policy := self._policies.get(tool.spec.name):
            return await policy.decide(call, tool, arguments)
        return Verdict(allow=True)


def _approval_key(call: ToolCall, tool: Tool, preview: Preview) -> tuple[str, ...]:
    """The key of an ``always``: this tool with these arguments, real files and result. A read-only tool may read other parts of
    the same files, or of the same page.
    """
    if tool.spec.name == WEB:
        return WEB, preview.text
    import json  # not msgspec: an argument may hold a lone surrogate, which only json can write

    files = [part for touch in preview.touches for part in (touch.path, touch.after)]
    arguments = "" if tool.read_only and files else json.dumps(call.arguments, sort_keys=True)
    return tool.spec.name, arguments, *files


def is_denial(result: ToolResultMessage) -> bool:
    """Whether a call did not run because the user, nobody or the mode did not allow it."""
    return result.is_error and not result.duration and result.output.startswith(_DENIALS)


def is_unasked(result: ToolResultMessage, *, by_rule: bool) -> bool:
    """Whether a call did not run because nobody could approve it, ``by_rule`` as a rule asks about it, or as the mode does."""
    text = NOBODY_FOR_RULE if by_rule else NOBODY_TO_ASK
    return result.is_error and result.output.startswith(text.partition("{")[0])


def _target(preview: Preview | None) -> str:
    return preview.touches[0].named if preview and preview.touches else "its target"
