"""Keys as terminals report them on request: by the kitty keyboard protocol, or as xterm's modifyOtherKeys.

Otherwise Shift+Enter would be Enter, and Escape the beginning of other keys' sequences. A terminal that knows neither
ignores the request.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final

from prompt_toolkit.input import Input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from newel.terminal.ui.echo import unread_bytes

Key = str | tuple[str, ...]
"""A key of prompt_toolkit, or several in a row: it reports Alt+B as Escape and ``b``."""

ESCAPE_S: Final = 0.02
"""Time after an Escape in which more bytes make it the beginning of another key. Terminals write a key's bytes at once."""

_BEGIN, _END = "\x1b[>1u\x1b[>4;1m\x1b[m", "\x1b[<u\x1b[>4m\x1b[m"
# The last part is for terminals that take the second one for a style.

_REPORT: Final = (
    r"\x1b\[(?P<code>\d{0,7})(?:;(?P<modifiers>\d{1,7}))?(?:;(?P<other>\d{1,7}))?(?P<end>[u~A-HPQS])"
)
_UNFINISHED: Final = r"\x1b\[[\d;]*\Z"

_TEXT: Final = r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*"
"""Characters and Enter, and no other key that acts."""

_FULL_READ: Final = 256
"""Characters of a read behind which the rest of a long paste follows: at most 1 KB is read at once, of up to four bytes each."""

_SHIFT, _ALT, _CONTROL, _LOCKS = 1, 2, 4, 64 | 128
_TAB, _ENTER, _ESCAPE, _SPACE, _BACKSPACE = 9, 13, 27, 32, 127

_KEYPAD: Final = dict(
    zip(
        range(57399, 57428),
        (
            *"0123456789./*-+",
            Keys.Enter,
            *"=,",
            Keys.Left,
            Keys.Right,
            Keys.Up,
            Keys.Down,
            Keys.PageUp,
            Keys.PageDown,
            Keys.Home,
            Keys.End,
            Keys.Insert,
            Keys.Delete,
            Keys.Ignore,
        ),
        strict=True,
    )
)
"""The keypad's keys by their codes in the kitty protocol."""


def begin_keys() -> str:
    """What asks the terminal to report keys that ``KeyParser`` understands."""
    return "" if os.environ.get("TERM") == "linux" else _BEGIN


def end_keys() -> str:
    """What makes the terminal report keys as before; for other programs, too."""
    return "" if os.environ.get("TERM") == "linux" else _END


def marks_pastes() -> bool:
    """Whether the terminal tells what is pasted from what is typed. Consoles do not, and GNU screen not for its own buffer."""
    return "STY" not in os.environ and not os.environ.get("TERM", "").startswith(("linux", "eterm", "vt"))


def early_keys(source: Input) -> list[KeyPress]:
    """The keys that were typed before the terminal was in raw mode, which made a line feed of Enter."""
    keys: list[KeyPress] = []
    while unread_bytes(source.fileno()) and (read := source.read_keys()):
        keys += read
    return [KeyPress(Keys.Enter) if press.key == Keys.ControlJ else press for press in keys]


class KeyParser(Vt100Parser):
    """Also understands the reports that ``begin_keys`` asks for. A sequence whose rest is late, as on a slow connection,
    does not become text.

    Unless the terminal ``marks_pastes``, lines that arrive at once are one: each would be sent as a message of its own.
    """

    def __init__(self, on_key: Callable[[KeyPress], None], *, marks_pastes: bool = True) -> None:
        # A character is inserted as it is, not as the sequence that reported it.
        super().__init__(lambda press: on_key(KeyPress(press.key) if len(press.key) == 1 else press))
        self._last = ""
        self._marks_pastes = marks_pastes
        self._is_pasting = False
        """More of a paste that is not marked may follow."""

    def feed(self, data: str) -> None:
        if not self._marks_pastes and self._is_paste(data):
            data = f"\x1b[200~{data}\x1b[201~"
        start = data.rfind("\x1b")
        self._last = data[start:] if start >= 0 else (self._last + data)[-32:]
        super().feed(data)

    def _is_paste(self, data: str) -> bool:
        """Whether text follows Enter within one read, which nobody types, or continues such a read."""
        if self._in_bracketed_paste or not data:
            return False
        is_text = re.fullmatch(_TEXT, data) is not None
        begins = "\r" in data.rstrip("\r\n")
        is_paste = is_text and (begins or (self._is_pasting and data.strip("\r\n") != ""))
        self._is_pasting = is_paste and len(data) >= _FULL_READ
        return is_paste

    def flush(self) -> None:
        if not re.fullmatch(_UNFINISHED, self._last):
            super().flush()

    def _get_match(self, prefix: str) -> Keys | tuple[Keys, ...] | None:
        # prompt_toolkit takes characters for keys, too, which its annotation leaves out.
        return reported_key(prefix) or super()._get_match(prefix)  # pyright: ignore[reportReturnType]


def reported_key(sequence: str) -> Key | None:
    """The key that a whole sequence reports; None if it is no such report. ``Keys.Ignore`` stands for keys without use
    here.
    """
    report = re.fullmatch(_REPORT, sequence)
    if report is None:
        return None
    code, modifiers = int(report["code"] or 1), int(report["modifiers"] or 1) - 1
    if report["end"] == "u" and report["code"]:
        return _key(code, modifiers & ~_LOCKS)
    if report["end"] == "~" and code == _ESCAPE and report["other"]:  # as modifyOtherKeys
        return _key(int(report["other"]), modifiers & ~_LOCKS)
    if modifiers & _LOCKS:  # num lock makes no difference
        plain = modifiers & ~_LOCKS
        numbers = f"{report['code']};{plain + 1}" if plain else report["code"].removeprefix("1")
        return ANSI_SEQUENCES.get(f"\x1b[{numbers}{report['end']}", Keys.Ignore)
    return None


def _key(code: int, modifiers: int) -> Key:
    """``code`` is the character without modifiers, or one of the kitty protocol's own."""
    match code:
        case _ if code == _ENTER:
            return (Keys.Escape, Keys.Enter) if modifiers else Keys.Enter
        case _ if code == _TAB:
            return Keys.BackTab if modifiers & _SHIFT else Keys.Tab
        case _ if code == _ESCAPE:
            return Keys.Escape
        case _ if code == _BACKSPACE:
            return (Keys.Escape, Keys.Backspace) if modifiers & (_ALT | _CONTROL) else Keys.Backspace
        case _ if code in _KEYPAD:
            return _KEYPAD[code]
        case _ if not _SPACE <= code < 0xE000 or modifiers & ~(_SHIFT | _ALT | _CONTROL):
            return Keys.Ignore
        case _:
            return _character(chr(code), modifiers)


def _character(char: str, modifiers: int) -> Key:
    key: Key = char
    if modifiers & _CONTROL:
        key = _control(char)
    elif modifiers & _SHIFT and len(char.upper()) == 1:
        key = char.upper()
    return (Keys.Escape, key) if modifiers & _ALT and isinstance(key, str) else key


def _control(char: str) -> Key:
    """The key with Control, as terminals have always reported it."""
    if char in "/-":
        return Keys.ControlUnderscore
    code = ord(char.upper()) if char.isascii() else 0
    is_control = char == " " or ord("@") <= code <= ord("_")
    return ANSI_SEQUENCES[chr(code & 0x1F)] if is_control else Keys.Ignore
