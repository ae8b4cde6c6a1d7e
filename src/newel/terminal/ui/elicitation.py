"""Requests of tool servers to the user: a form, field by field, or a page to visit.

The server's text is indented behind a bar, so that it cannot pass for Newel's own. Nothing is sent before the user has
seen all of it and agreed.
"""

from __future__ import annotations

from typing import Any, Final, Literal
from urllib.parse import urlsplit

from newel.agent.formatting import pluralize
from newel.mcp.elicitation_form import Answer, BadForm, Field, fields
from newel.mcp.types import ElicitAnswer, ElicitRequest
from newel.terminal.ui.line_reader import AskLine
from newel.text.sanitize import escape_invisible, escape_line

LEAVING: Final = "/decline refuses the request, /cancel leaves it unanswered."
MAX_QUOTED: Final = 4_000
"""Characters shown of a server's text."""
MAX_LISTED: Final = 100
"""Choices listed; others can be typed."""


class _FormDismissed(Exception):
    """The user declined or cancelled the request."""

    def __init__(self, action: Literal["decline", "cancel"]) -> None:
        self.action: Literal["decline", "cancel"] = action


async def elicit(request: ElicitRequest, ask: AskLine) -> ElicitAnswer:
    """Put a server's request to the user through ``ask``. The end of input cancels it."""
    try:
        if request.url is not None:
            return await _visit(request, request.url, ask)
        return await _fill_in(request, ask)
    except _FormDismissed as ended:
        return ElicitAnswer(action=ended.action)


async def _line(ask: AskLine, question: str, about: str, *, interrupting: bool) -> str:
    answer = await ask(question, about, interrupting=interrupting)
    match None if answer is None else answer.strip():
        case None | "/cancel":
            raise _FormDismissed("cancel")
        case "/decline":
            raise _FormDismissed("decline")
        case line:
            return line


async def _choose(ask: AskLine, offers: dict[str, str], about: str) -> str:
    """Ask for one of ``offers``, keys with their meanings; Enter declines."""
    choices = [f"{letter} {what}" for letter, what in offers.items()]
    question = " · ".join([*choices, "n declines (Enter)", "/cancel"]) + ": "
    while True:
        typed = (await _line(ask, question, about, interrupting=True)).lower()
        if typed in {"", "n", "no"}:
            raise _FormDismissed("decline")
        letter = "y" if typed == "yes" else typed
        if letter in offers:
            return letter
        about = f"{escape_line(typed, 40)} is not one of these."


# -- a page to visit ----------------------------------------------------------------------------------


async def _visit(request: ElicitRequest, url: str, ask: AskLine) -> ElicitAnswer:
    lines = [_heading(request), f"\n    {_indent(escape_invisible(url), '    ')}\n"]
    if host := _host(url):
        lines.append(f"This page is on {host}. Newel does not open it.")
    else:
        lines.append("This is not the address of a web page. Newel does not open it.")
    await _choose(ask, {"y": "when you have visited it"}, "\n".join(lines))
    return ElicitAnswer(action="accept")


def _host(url: str) -> str:
    """The host of a page in unambiguous letters; empty if it is no web page."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
    except (ValueError, UnicodeError):
        return ""
    return escape_line(host) if parts.scheme in {"http", "https"} else ""


# -- a form -------------------------------------------------------------------------------------------


async def _fill_in(request: ElicitRequest, ask: AskLine) -> ElicitAnswer:
    server = escape_line(request.server)
    about = _heading(request)
    try:
        form = fields(request.schema or {})
    except BadForm as error:
        await _choose(ask, {}, f"{about}\nNewel cannot answer it. {escape_line(str(error))}")
        return ElicitAnswer(action="decline")
    if not form:
        await _choose(ask, {"y": "agrees"}, about)
        return ElicitAnswer(action="accept", content={})
    about = f"{about}\nYour answers go to {server} once you have seen all of them.\n{LEAVING}\n"
    values: dict[str, Answer | None] = {field.name: field.default for field in form}
    while True:
        for field in form:
            values[field.name] = await _ask_for(field, values[field.name], about, ask)
            about = ""  # the user expects the next questions
        filled = {name: value for name, value in values.items() if value is not None}
        review = f"This goes to {server}:\n{_review(form, filled)}"
        if await _choose(ask, {"y": "sends it", "c": "changes it"}, review) == "y":
            return ElicitAnswer(action="accept", content=filled)


async def _ask_for(field: Field, value: Answer | None, about: str, ask: AskLine) -> Answer | None:
    """Ask for the value of a field; Enter keeps ``value``."""
    hint = field.wants if field.required or value is not None else f"{field.wants}; optional"
    default = "" if value is None else f" [{escape_line(field.show(value), 60)}]"
    question = f"{escape_line(field.title, 60)} ({hint}){default}: "
    interrupting = bool(about)
    about = "\n".join([about, *_describe(field)]).lstrip("\n")
    while True:
        line = await _line(ask, question, about, interrupting=interrupting)
        interrupting = False
        if not line and (value is not None or not field.required):
            return value
        try:
            if line:
                return field.read(line)
            about = "A value is required."
        except ValueError:
            about = f"{escape_line(line, 60)} is not valid. Expected: {field.wants}."


def _describe(field: Field) -> list[str]:
    lines = [f"  │ {escape_line(field.about, 400)}"] if field.about else []
    for number, choice in enumerate(field.choices[:MAX_LISTED], 1):
        lines.append(f"{number:>5}  {escape_line(choice.title)}")
    if len(field.choices) > MAX_LISTED:
        lines.append(f"       and {len(field.choices) - MAX_LISTED} more")
    return lines


def _review(form: list[Field], values: dict[str, Any]) -> str:
    rows = [
        (escape_line(field.title, 60), field.show(values[field.name]))
        for field in form
        if field.name in values
    ]
    width = max((len(title) for title, _ in rows), default=0)
    indent = " " * (width + 6)
    lines = [f"    {title:<{width}}  {_indent(escape_invisible(value), indent)}" for title, value in rows]
    return "\n".join(lines) or "    nothing: all fields are empty"


# -- text of the server ----------------------------------------------------------------------------


def _heading(request: ElicitRequest) -> str:
    return f"The tool server {escape_line(request.server)} asks you:\n  │ {_indent(escape_invisible(request.message), '  │ ')}"


def _indent(text: str, indent: str) -> str:
    """A text whose lines after the first are indented."""
    if len(text) > MAX_QUOTED:
        text = f"{text[:MAX_QUOTED]}… ({pluralize(len(text) - MAX_QUOTED, 'more character')})"
    return text.strip().replace("\n", f"\n{indent}")
