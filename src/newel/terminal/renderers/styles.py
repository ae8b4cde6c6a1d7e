"""Styles and building blocks of the full screen, rendered by rich."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text
from rich.theme import Theme as RichTheme

from newel.agent.formatting import pluralize
from newel.config.themes import RoleStyle, Theme, default_theme
from newel.terminal.renderers.base import PROMPT_LINES
from newel.terminal.renderers.call_outcome import BESIDE, CallOutcome
from newel.terminal.renderers.palette import (
    ACCENT,
    DIM,
    ERROR,
    MARK,
    MAX_WIDTH,
    SUCCESS,
    TOOL,
    USER,
    truncate,
    wrap,
)
from newel.terminal.shown_command import shown_command
from newel.text.format import PROMPT, command_of, describe_call, format_duration, shown_name
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.terminal.renderers.painted_markdown import StreamingMarkdown

MARKDOWN_ROLES: Final[dict[str, tuple[str, str]]] = {
    "markdown.code": ("code", ""),
    "markdown.h1": ("heading", "underline"),
    "markdown.h2": ("heading", ""),
    **dict.fromkeys((f"markdown.h{level}" for level in range(3, 7)), ("text", "bold")),
    "markdown.hr": ("rule", ""),
    "markdown.item.bullet": ("rule", ""),
    "markdown.item.number": ("rule", ""),
    "markdown.block_quote": ("quote", ""),
    "markdown.link": ("link", ""),
    "markdown.link_url": ("rule", "underline"),
    "markdown.table.border": ("rule", ""),
    "markdown.table.header": ("text", "bold"),
    "frame.title": ("accent", "not dim bold"),
}
"""Roles and attributes of rich's names."""

INDENT = 12
"""Columns that a list's indentation and the marks around a word may take."""

USER_CHARACTERS = 2_000
"""Bound of a message of the user in the scroll-back, besides that of its lines."""
WITHOUT_LINKS = ("linux", "vt", "dumb")
"""Terminals that print the control sequence of a link."""

LINES_AT_ONCE = 8
"""Lines that are painted without a pause."""

_EMPTY = re.compile(r"(?:\x1b\[[0-9;]*m)*")
_TRAILING_SPACE = re.compile(r"(?<! ) +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


class Styles:
    """Paints for a terminal of a given kind, in the styles of a theme.

    Follows the usual variables in ``environ``: ``NO_COLOR``, ``TERM`` and ``COLORTERM``.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, theme: Theme | None = None) -> None:
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            height=25,  # without one, rich takes a dumb terminal for 80 columns wide
            _environ=environ,
        )
        self._knows_links = not environ.get("TERM", "").startswith(WITHOUT_LINKS)
        self._is_themed = False
        self.use(theme or default_theme())

    def use(self, theme: Theme) -> None:
        """Paint in the styles of this theme from now on."""
        self.theme = theme
        self.roles: Mapping[str, RoleStyle] = {
            role: style if self._can_show(style) else _default_style(role)
            for role, style in theme.styles.items()
        }
        named = {role: rich_style(style) for role, style in self.roles.items()}
        markdown = {
            name: named[role] + Style.parse(attributes) for name, (role, attributes) in MARKDOWN_ROLES.items()
        }
        if self._is_themed:
            self._console.pop_theme()
        self._console.push_theme(RichTheme(named | markdown), inherit=True)
        self._is_themed = True
        self._console.style = named["text"] or None

    @property
    def colours(self) -> Literal["none", "standard", "256", "truecolor"]:
        """The colours that the terminal can show."""
        if self._console.no_color:
            return "none"
        match self._console.color_system:
            case "256":
                return "256"
            case "truecolor":
                return "truecolor"
            case None:
                return "none"
            case _:
                return "standard"

    def _can_show(self, style: RoleStyle) -> bool:
        """Whether the colours stay what they are. Replaced by the nearest of sixteen, a text might have the colour of its background."""
        return self.colours != "standard" or style.is_basic

    def paint(self, what: RenderableType, width: int, *, crop: bool = False) -> str:
        """Render to lines, without empty ones around them. ``crop`` cuts at ``width``; otherwise code may be wider, so that
        it can be copied.
        """
        return "\n".join(self.paint_lines(what, width, crop=crop))

    def paint_lines(self, what: RenderableType, width: int, *, crop: bool = False) -> Iterator[str]:
        """The lines of ``paint``, a few at a time as they are asked for: a long text takes long."""
        console, width = self._console, max(width, 8)
        console.width = width
        group = Group(what)  # in it a text keeps its own way to wrap
        lines = iter(Segment.split_lines(console.render(group, console.options)))
        empty: int | None = None
        """The number of empty lines that wait for another; None before the first line."""
        while True:
            console.width = width  # other texts may have been painted since
            if not (some := list(islice(lines, LINES_AT_ONCE))):
                return
            with console.capture() as captured:
                console.print(
                    Segments(chain.from_iterable((*line, Segment.line()) for line in some)), crop=crop, end=""
                )
            for line in _TRAILING_SPACE.sub(r"\1", captured.get().removesuffix("\n")).split("\n"):
                if not _EMPTY.fullmatch(line):
                    yield from ("",) * (empty or 0)
                    yield line
                    empty = 0
                elif empty is not None:
                    empty += 1

    def prose(self, text: str, *, has_links: bool = False, wraps_code: bool = False) -> StreamingMarkdown:
        from newel.terminal.renderers.painted_markdown import StreamingMarkdown

        has_links = has_links and self._knows_links
        return StreamingMarkdown(sanitize(text), has_links=has_links, wraps_code=wraps_code)

    def markdown(self, text: str, width: int, *, crop: bool = False, has_links: bool = True) -> Iterator[str]:
        """Painted lines. Finished text has links, which prompt_toolkit, the painter of unfinished text, does not know."""
        prose = self.prose(text, has_links=has_links and not crop)
        yield from self.paint_lines(prose, _text_width(text, width), crop=crop)

    def wrapped_markdown(self, text: str, width: int) -> str:
        """Text for a screen that cannot show longer lines, so that code is wrapped, too."""
        return self.paint(self.prose(text, wraps_code=True), _text_width(text, width), crop=True)


def rich_style(style: RoleStyle) -> Style:
    return Style(
        color=_rich_colour(style.foreground),
        bgcolor=_rich_colour(style.background),
        bold="bold" in style.attributes or None,
        dim="faint" in style.attributes or None,
        italic="italic" in style.attributes or None,
        underline="underline" in style.attributes or None,
        reverse="reverse" in style.attributes or None,
    )


def _rich_colour(colour: str) -> str | None:
    return f"color({colour})" if colour.isdigit() else colour or None


def _default_style(role: str) -> RoleStyle:
    return default_theme().styles[role]


def _text_width(text: str, width: int) -> int:
    """The width at which a text is wrapped: ``MAX_WIDTH``, but no word that the terminal has room for is broken."""
    longest = max(map(cell_len, text.split()), default=0)
    return width if longest > MAX_WIDTH - INDENT else min(width, MAX_WIDTH)


def user_text(text: str) -> Text:
    """What the user has sent, a long text only in its first lines."""
    whole = sanitize(text).expandtabs(4).rstrip()
    lines = whole.split("\n")
    more = ""
    if len(lines) > PROMPT_LINES + 1:
        more = f"… {len(lines) - PROMPT_LINES:,} more lines"
        lines = lines[:PROMPT_LINES]
    shown = "\n  ".join(lines)
    if len(shown) > USER_CHARACTERS + 80:
        more = f"… {len(whole) - USER_CHARACTERS:,} more characters"
        shown = shown[:USER_CHARACTERS]
    line = Text().append(f"{PROMPT} ", style=MARK).append(shown, style=USER)
    return line.append(f"\n  {more}", style=DIM) if more else line


def call_lines(outcome: CallOutcome, width: int) -> list[Text]:
    """``● read a.py        212 lines  6 ms``: the call, its result and its duration. A shell command takes as many
    lines as it needs, up to a bound; the result is beside the last one. Below are the last lines of an output that does not fit there.
    """
    width = min(width, MAX_WIDTH)
    time = "" if outcome.milliseconds is None else format_duration(outcome.milliseconds)
    is_beside = not outcome.more and len(outcome.output) == 1 and len(outcome.output[0]) <= BESIDE
    summary = outcome.output[0] if is_beside else "" if outcome.output else outcome.summary
    result = truncate("  ".join(part for part in (summary, time) if part), width // 2)
    room = width - cell_len(result) - 2
    mark = Text().append("● ", style=ERROR if outcome.failed else SUCCESS)
    lines = _call(mark, outcome.name, outcome.args, width, room)
    if lines[-1].cell_len > room:
        lines.append(Text())
    lines[-1].append(" " * (room - lines[-1].cell_len + 2)).append(result, style=DIM)
    return lines if is_beside else [*lines, *_output_lines(outcome, width)]


def _output_lines(outcome: CallOutcome, width: int) -> list[Text]:
    at_least = "at least " if outcome.is_cut else ""
    more = [f"… {at_least}{pluralize(outcome.more, 'more line')}"] if outcome.more else []
    return [output_line(line, width) for line in (*more, *outcome.output)]


def running_lines(name: str, args: dict[str, Any], width: int) -> list[Text]:
    width = min(width, MAX_WIDTH)
    return _call(Text().append("○ ", style=ACCENT), name, args, width, width)


def _call(mark: Text, name: str, args: dict[str, Any], width: int, room: int) -> list[Text]:
    """The call after ``mark``; only a shell command may be wider than ``room``."""
    command = command_of(name, args)
    if not command:
        return [_append_call(mark, truncate(describe_call(name, args), room - mark.cell_len), name)]
    name = shown_name(name, args)
    indent = mark.cell_len + len(name) + 1
    first, *rows = shown_command(command, lambda line: wrap(line, max(width - indent, 8)))
    return [_append_call(mark, f"{name} {first}", name), *(Text(" " * indent + row) for row in rows)]


def output_line(text: str, width: int) -> Text:
    """A line of a tool's output, under the tool's own line."""
    return Text("  │ ", style=DIM).append(truncate(text.expandtabs(4), min(width, MAX_WIDTH) - 4), style=DIM)


def failure_lines(text: str, width: int) -> list[Text]:
    """A line of a failed call, whole, on as many lines as it needs."""
    parts = wrap(text.expandtabs(4), max(min(width, MAX_WIDTH) - 4, 4))
    return [Text().append("  │ ", style=DIM).append(part) for part in parts]


def whole_lines(text: str) -> Text:
    """Text whose lines are never wrapped, so that they can be copied."""
    return Text(sanitize(text), no_wrap=True, overflow="ignore")


def _append_call(line: Text, described: str, name: str) -> Text:
    length = len(name) if described.startswith(f"{name} ") or described == name else 0
    return line.append(described[:length], style=TOOL).append(described[length:])
