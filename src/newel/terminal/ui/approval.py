"""Approval of tool calls by the user."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeGuard

import anyio

from newel.agent.formatting import pluralize
from newel.diff.unified import changed_lines
from newel.mcp.types import ElicitAnswer, ElicitRequest
from newel.permissions.approval import Approval, ApprovalRequest
from newel.terminal.ui.line_reader import without_paste
from newel.text.format import call_text, command_of
from newel.text.sanitize import escape_invisible, escape_line, without_invisible
from newel.workspace.port import SCHEME

if TYPE_CHECKING:
    from newel.permissions.approval import AskApproval
    from newel.terminal.ui.line_reader import AskLine

QUESTION: Final = (
    "Run this? y once · a exactly this for the session · n no (Enter) · or say what to do instead: "
)
EDIT: Final = (" · or say", " · e edit it · or say")
"""The answer that is offered about a command."""
QUESTION_ABOUT_EDIT: Final = "Edit the command. Enter runs it, an empty line goes back: "
UNEDITED: Final = "Nothing was edited."
QUESTION_WITH_RULE: Final = QUESTION.replace(" · n no", " · p always in this project · n no")
"""What ``p`` allows is said above it."""
CHANGE: Final = ("Run this?", "Make this change?")
"""The words above an edit."""
VIEW: Final = " v see all of it ·"
"""The answer that is offered where a part of an edit is left out."""
QUESTION_ABOUT_SERVER: Final = "Allow it? y for this session · p always in this project · n no (Enter): "

_ANSWERS: Final[dict[str, Literal["once", "always", "rule", "no"]]] = {
    **dict.fromkeys(["y", "yes"], "once"),
    **dict.fromkeys(["a", "always"], "always"),
    **dict.fromkeys(["p", "project"], "rule"),
    **dict.fromkeys(["", "n", "no"], "no"),
}

_DECISIONS: Final = {
    "once": "Allowed once",
    "always": "Allowed for this session",
    "rule": "Allowed in this project",
    "no": "Denied",
    "nobody": "Denied",
}

AGAIN: Final = "{answer} is not one of the answers."

EDITING: Final = frozenset({"edit", "write"})
"""The tools whose previews are diffs. Of another call, such as a command, no part is left out."""
SHOWN: Final = 30
"""Lines of an edit that are shown at once; of a longer one, ``HEAD`` lines and the last ``TAIL``."""
HEAD: Final = 20
TAIL: Final = 8

MANY_LINES: Final = 12
MANY_CHARACTERS: Final = 800
"""Of a longer call, the question says how long it is: its beginning may be out of sight."""

View = Callable[[str], Awaitable[None]]
"""Shows a text, with its hidden characters written out, until the user has read it."""


class EditLine(Protocol):
    async def __call__(self, question: str, about: str, initial: str, /) -> str | None:
        """Ask for a text that begins as ``initial``; None if nobody can answer."""
        ...


MAX_RECORD: Final = 400
"""Characters of a call that are shown with its answer: more than the widest window has columns."""

_CONSENT = re.compile(
    r"y+|ya|yea|yeah|yep|yes|yup|k|ok|okay|sure|fine|good|great|right|alright|absolutely|definitely|agreed|lgtm"
    r"|a|always|allow|accept|approved?|confirm|continue|proceed|go|ahead|on|do|run|it|this|that|once|then|now|and|just"
    r"|please|of|course|thanks?|you|thx|ja|oui|si"
)
"""A word of consent: an answer of only these is no refusal."""


class Approver:
    """Passes requests of a policy, and with ``elicit`` those of tool servers, to the current front end.

    It is created before the front end. One with a user calls ``attend``; one for programs sets ``handler``. Requests that
    nobody can answer are denied.
    """

    def __init__(self) -> None:
        self.handler: AskApproval | None = None
        self._ask: AskLine | None = None
        self._turn = anyio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Approval:
        if self.handler is None:
            return Approval("nobody")
        return await self.handler(request)

    async def elicit(self, request: ElicitRequest) -> ElicitAnswer:
        """Put a server's request to the user; concurrent requests are asked one after the other."""
        ask = self._ask
        if ask is None:
            return ElicitAnswer(action="decline")
        from newel.terminal.ui.elicitation import elicit

        async with self._turn:
            return await elicit(request, ask)

    def attend(
        self,
        ask: AskLine | None,
        record: Callable[[str], None] | None = None,
        view: View | None = None,
        edit: EditLine | None = None,
    ) -> None:
        """Ask the user through ``ask`` from now on; None if there is no user. ``record`` shows each answer to a request of a policy,
        on screens from which the question disappears; ``view`` shows the whole of an edit, and ``edit`` changes a command.
        """
        self._ask = ask
        self.handler = None if ask is None else partial(_approve, ask, record, view, edit)


async def _approve(
    ask: AskLine,
    record: Callable[[str], None] | None,
    view: View | None,
    edit: EditLine | None,
    request: ApprovalRequest,
) -> Approval:
    whole = present(request)
    about = present(request, fold=True)
    is_call = request.kind == "call"
    command = command_of(request.call.name, request.call.arguments) if is_call else ""
    question = question_of(request, is_folded=about != whole, can_edit=bool(edit and command))
    while True:
        answer = await ask(question, about, interrupting=True)
        typed = (answer or "").strip().lower()
        if edit and command and typed == "e":
            shown = without_invisible(command)
            edited = await edit(QUESTION_ABOUT_EDIT, "", shown)
            if edited and edited.strip() and edited != shown:
                approval = Approval("once", command=edited)
                break
            about = UNEDITED
        elif request.call.name in EDITING and typed == "v":
            about = "" if view else whole
            if view:
                await view(whole)
        elif is_unclear(answer) or (understand(answer).decision == "rule" and not request.offer):
            about = again(answer or "")
        else:
            approval = understand(answer)
            break
    if record is not None:
        record(describe_answer(request, approval))
    return approval


def question_of(request: ApprovalRequest, *, is_folded: bool, can_edit: bool = False) -> str:
    from newel.tools.bash import OUTSIDE_SANDBOX  # loaded with the tools, not with the front end

    if request.kind == "server":
        return QUESTION_ABOUT_SERVER
    question = QUESTION_WITH_RULE if request.offer else QUESTION
    if request.call.name in EDITING:
        question = question.replace(*CHANGE)
    elif size := _size(request.preview):
        question = question.replace("Run this", f"Run all {size}", 1)
    if can_edit:
        question = question.replace(*EDIT)
    if is_folded:
        question = question.replace("? ", f"?{VIEW} ", 1)
    if request.preview.startswith(f"({OUTSIDE_SANDBOX})"):
        # The words above a long command are no longer on the screen.
        question = question.replace("?", " outside of the sandbox?", 1)
    return question


def _size(preview: str) -> str:
    """How long a preview is that may not fit into the window; empty for a short one."""
    lines = preview.removesuffix("\n").count("\n") + 1
    if lines > MANY_LINES:
        return f"{lines:,} lines"
    return f"{len(preview):,} characters" if len(preview) > MANY_CHARACTERS else ""


def present(request: ApprovalRequest, *, fold: bool = False) -> str:
    """The request as text: the tool, the place, and the exact command or diff on lines of its own. Hidden characters are
    written out. ``fold`` leaves out the middle of a long edit, and says so.
    """
    lines = escape_invisible(request.preview).removesuffix("\n").split("\n")
    if fold and request.call.name in EDITING and len(lines) > SHOWN:
        changed = changed_lines(request.preview)
        more = f"… {pluralize(len(lines) - HEAD - TAIL, 'more line')} ({changed} in all) · v shows all of it"
        lines = [*lines[:HEAD], more, *lines[-TAIL:]]
    exact = "\n".join(f"    {line}" for line in lines)
    rule = f"\np always allows here: {escape_line(request.offer)}\n" if request.offer else ""
    return f"{escape_line(request.title)} in {_place(request.folder)}:\n\n{exact}\n{rule}"


def describe_answer(request: ApprovalRequest, approval: Approval) -> str:
    """An answer on one line, with its subject: ``Allowed once: git push``. Hidden characters are written out."""
    call, decision = request.call, approval.decision
    if request.server:
        decision = "always" if decision == "once" else decision
        subject = f"the server {request.server}"
    elif decision == "rule":
        subject = request.offer
    else:
        subject = (
            approval.command or command_of(call.name, call.arguments) or call_text(call.name, call.arguments)
        )
    outside = ", unsandboxed" if decision != "no" and call.arguments.get("unsandboxed") else ""
    edited = ", edited" if approval.command else ""
    return f"{_DECISIONS[decision]}{outside}{edited}: {escape_line(subject, MAX_RECORD)}"


def _place(folder: str) -> str:
    """The folder and machine of a workspace's name."""
    host = "this machine"
    if folder.startswith(SCHEME):
        from newel.workspace.ssh.target import Target

        target = Target.parse(folder)
        folder, host = target.path or "", f"{target.user}@{target.host}"
    return escape_line(f"{folder} on {host}")


def is_unclear(answer: str | None, offered: Collection[str] = _ANSWERS.keys()) -> TypeGuard[str]:
    """Whether an answer resembles a yes but is not an offered one (``ok``, ``sure``, ``yes please``, ``1``), is a pasted yes, or a key that
    another question offers: it must neither allow nor refuse.
    """
    typed = (answer or "").strip().lower()
    if typed in offered:
        return False
    typed = without_paste(typed)
    # Other agents number their answers, and 1 is yes; ``e`` and ``v`` are keys at other calls, ``?`` is help elsewhere.
    if re.fullmatch(r"\w\W*|\S", typed):
        return True
    words = re.findall(r"\w+", typed)
    return bool(words) and all(map(_CONSENT.fullmatch, words))


def again(answer: str) -> str:
    """The note before the question is repeated after an unclear answer."""
    return AGAIN.format(answer=f"'{escape_line(without_paste(answer), 40)}'")


def understand(answer: str | None) -> Approval:
    """Interpret an answer. Only a plain yes is one; other words are a no with a message to the model."""
    typed = (answer or "").strip()
    if decision := _ANSWERS.get(typed.lower()):
        return Approval(decision)
    return Approval("no", without_paste(typed).removeprefix("n ").removeprefix("no ").strip())
