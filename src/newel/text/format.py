"""Formatting of names, numbers and tool calls for screens. All results are sanitized single lines, except ``call_text``.

The page formats numbers in the same way, in ``web/src/format.js``; ``tests/fixtures/number_formats.json`` holds both to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from newel.agent.events import EndReason, ModelRouted, Retry
from newel.agent.formatting import pluralize
from newel.agent.messages import Usage
from newel.text.json import regex, to_json
from newel.text.sanitize import escape_line, sanitize

PROMPT = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
"""Precedes the user's input."""

TOLD = "Newel told the model:"
"""Precedes a message that Newel sends in place of the user."""

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

SUBJECT = {
    "read": "file_path",
    "write": "file_path",
    "edit": "file_path",
    "bash": "command",
    "grep": "pattern",
    "find": "pattern",
    "ls": "path",
    "task": "description",
    "web_fetch": "url",
    "skill": "name",
}
"""The main argument of each tool."""

WITHOUT_SUBJECT = frozenset({"todo"})
"""Tools of which a line shows the result alone."""

ENDINGS: dict[EndReason, str] = {"aborted": "Stopped.", "error": "The run failed."}
"""Messages for runs that end without one."""


def one_line(text: str, limit: int = 160) -> str:
    """Sanitize a text, on one line of at most ``limit`` characters."""
    line = sanitize(text[: limit * 4], keep_newlines=False).replace("\t", " ").strip("↵ ")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def join_names(names: Iterable[str], *, shown: int = 8) -> str:
    """The first names, with invisible characters escaped, and the number of others."""
    lines = [escape_line(name) for name in names]
    more = len(lines) - shown
    return ", ".join(lines[:shown] if more > 1 else lines) + (f" and {more:,} more" if more > 1 else "")


def as_clause(text: str) -> str:
    """A text on one line without its full stop, as part of a sentence."""
    return one_line(text).rstrip(" .")


def describe_retry(event: Retry, *, void: bool) -> str:
    """The message about a retry; ``void`` if a part of the answer was shown already."""
    return (
        f"The request failed: {as_clause(event.reason)}.{' Ignore the text above.' if void else ''} "
        f"Trying again in {short_number(event.delay)} s ({event.attempt} of {event.max_attempts})."
    )


def describe_routing(event: ModelRouted) -> str:
    """The message about the model that is asked from now on."""
    return f"Using the {event.place} model {one_line(event.model)}: {as_clause(event.reason)}."


def format_columns(rows: Sequence[tuple[str, str]], columns: int) -> str:
    """Names and their descriptions in two columns, wrapped. A name that is wider than half of ``columns`` has its own line."""
    import textwrap

    at = max((len(name) + 2 for name, _ in rows if len(name) + 2 <= columns // 2), default=4)
    lines: list[str] = []
    for name, description in rows:
        first, *more = textwrap.wrap(description, max(columns - at, 8)) or [""]
        if len(name) + 2 > at:
            lines += [name, " " * at + first] if first else [name]
        else:
            lines.append(name.ljust(at) + first)
        lines += [" " * at + line for line in more]
    return "\n".join(line.rstrip() for line in lines)


def wrap_words(text: str, columns: int) -> str:
    """Wrap lines between words, indented like their beginning; a number there counts. A longer word, such as a path, stays whole."""
    import textwrap

    lines: list[str] = []
    for line in text.split("\n"):
        found = regex(r" *(?:\d+  )?").match(line)
        start = found[0] if found else ""
        wrapper = textwrap.TextWrapper(
            columns,
            initial_indent=start,
            subsequent_indent=" " * len(start),
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += wrapper.wrap(line[len(start) :]) or [""]
    return "\n".join(lines)


def elide_middle(text: str, limit: int = 160) -> str:
    """``one_line``, but with the middle of a long text left out instead of its end."""
    shortened = text if len(text) <= limit * 8 else f"{text[: limit * 4]}…{text[-limit * 4 :]}"
    line = one_line(shortened, len(shortened))
    half = (limit - 3) // 2
    return line if len(line) <= limit else f"{line[:half].rstrip()} … {line[-half:].lstrip()}"


def command_of(name: str, args: dict[str, Any]) -> str:
    """The shell command of a call, empty for other calls."""
    command = args.get("command") if name == "bash" else None
    return command if isinstance(command, str) else ""


def shown_name(name: str, args: dict[str, Any]) -> str:
    """The name of a call's tool, with what nobody must overlook: ``bash (unsandboxed)``."""
    return f"{name} (unsandboxed)" if name == "bash" and args.get("unsandboxed") else name


def describe_call(name: str, args: dict[str, Any], limit: int = 160) -> str:
    """A tool call on one line: ``bash pytest -q``, ``edit src/app.py``."""
    return one_line(call_text(name, args), limit)


def call_text(name: str, args: dict[str, Any]) -> str:
    """A tool call with its main argument, unsanitized."""
    subject = args.get(SUBJECT.get(name, ""))
    if name in WITHOUT_SUBJECT:
        return name
    if not isinstance(subject, str):
        subject = to_json(args).decode() if args else ""
    return f"{shown_name(name, args)} {subject}"


def _round(number: float, digits: int = 0) -> float:
    """Round half up, as JavaScript's ``Math.round`` does, so that the page shows the same figure."""
    return math.floor(number * 10**digits + 0.5) / 10**digits


def format_duration(milliseconds: float) -> str:
    """``4 ms``, ``1.9 s``, ``2 min 5 s``."""
    if milliseconds < 999.5:
        return f"{_round(milliseconds):.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{_round(seconds, 1):.1f} s"
    minutes, rest = divmod(int(_round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def spinner(frame: int) -> str:
    """One frame of a spinner."""
    return _SPINNER[frame % len(_SPINNER)]


def format_elapsed(seconds: float) -> str:
    """`` · 12 s`` in whole seconds, empty in the first one."""
    return f" · {format_duration(int(seconds) * 1000).replace('.0 s', ' s')}" if seconds >= 1 else ""


def short_number(number: float) -> str:
    """``420``, ``3.1k``, ``1.2M``."""
    for limit, divisor, unit in ((1_000, 1, ""), (999_950, 1_000, "k"), (math.inf, 1_000_000, "M")):
        if number < limit:
            return f"{_round(number / divisor, 1):.1f}".removesuffix(".0") + unit
    raise ValueError(number)


def format_size(bytes_: int) -> str:
    """``142 bytes``, ``1.2 kB``, ``4.7 GB``."""
    if bytes_ < 1_000:
        return pluralize(bytes_, "byte")
    for limit, divisor, unit in ((999_950, 1e3, "kB"), (999_950_000, 1e6, "MB"), (math.inf, 1e9, "GB")):
        if bytes_ < limit:
            return f"{_round(bytes_ / divisor, 1):.1f} {unit}"
    raise ValueError(bytes_)


def format_cost(dollars: float) -> str:
    """``$0.004``, ``$1.20``."""
    if dollars == 0:
        return "$0"
    if 0 < dollars < 0.0005:
        return "under $0.001"
    digits = 3 if dollars < 0.9995 else 2
    return f"${_round(dollars, digits):.{digits}f}"


def format_share(context: int, window: int) -> str:
    """``11 % of 128k``."""
    return f"{_round(100 * context / window):.0f} % of {short_number(window)}"


def usage_line(
    usage: Usage,
    cost: float | None,
    *,
    context: int = 0,
    window: int | None = None,
    milliseconds: float | None = None,
) -> str:
    """``3.1k in (82 % cached) · 420 out · $0.004 · 11 % of 128k · 6.2 s``, without unknown parts.

    ``context`` is the size of the last request, ``window`` of the model's context, both in tokens.
    """
    parts: list[str] = []
    if usage.total:
        share = _round(100 * usage.cache_read / usage.input) if usage.cache_read else 0
        cached = f" ({share:.0f} % cached)" if usage.cache_read else ""
        parts += [f"{short_number(usage.input)} in{cached}", f"{short_number(usage.output)} out"]
    if cost is not None:
        parts.append(format_cost(cost))
    if context and window:
        parts.append(format_share(context, window))
    elif context:
        parts.append(f"{short_number(context)} context")
    if milliseconds is not None:
        parts.append(format_duration(milliseconds))
    return " · ".join(parts)


def short_folder(folder: str) -> str:
    """A folder with ``~`` for the user's home."""
    home = str(Path.home())
    return f"~{folder.removeprefix(home)}" if folder == home or folder.startswith(f"{home}/") else folder
