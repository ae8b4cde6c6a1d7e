"""If these fail, a terminal's key does something else than is printed on it, or ends the conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.keys import Keys

from newel.terminal.ui.keyboard import KeyParser, reported_key


@pytest.mark.parametrize(
    ("sequence", "key"),
    [
        ("\x1b[27u", Keys.Escape),
        ("\x1b[13u", Keys.Enter),
        ("\x1b[13;5u", (Keys.Escape, Keys.Enter)),
        ("\x1b[9;2u", Keys.BackTab),
        ("\x1b[127;5u", (Keys.Escape, Keys.Backspace)),
        ("\x1b[32;5u", Keys.ControlAt),
        ("\x1b[32;2u", " "),
        ("\x1b[47;5u", Keys.ControlUnderscore),
        ("\x1b[27;5;99~", Keys.ControlC),
        ("\x1b[99;7u", (Keys.Escape, Keys.ControlC)),
        ("\x1b[102;3u", (Keys.Escape, "f")),
        ("\x1b[102;4u", (Keys.Escape, "F")),
        ("\x1b[223;5u", Keys.Ignore),
        ("\x1b[223;4u", (Keys.Escape, "ß")),
        ("\x1b[1;133C", Keys.ControlRight),
        ("\x1b[3;129~", Keys.Delete),
        ("\x1b[57400u", "1"),
        ("\x1b[57414u", Keys.Enter),
        ("\x1b[57424u", Keys.End),
        ("\x1b[57358u", Keys.Ignore),
        ("\x1b[A", None),
        ("\x1b[1;5C", None),
    ],
)
def test_a_reported_key_is_the_one_that_was_pressed(sequence: str, key: object) -> None:
    assert reported_key(sequence) == key


@given(st.text("\x1b[0123456789;:u~ABHm<>?a", max_size=40))
def test_no_sequence_ends_the_reading_of_keys(text: str) -> None:
    parser = KeyParser(lambda _: None)
    parser.feed(text)
    parser.flush()


def pressed(*reads: str, marks_pastes: bool = False) -> list[tuple[object, str]]:
    """The keys that a terminal's reads are taken for."""
    keys: list[tuple[object, str]] = []
    parser = KeyParser(lambda press: keys.append((press.key, press.data)), marks_pastes=marks_pastes)
    for read in reads:
        parser.feed(read)
    return keys


PASTE, ENTER = Keys.BracketedPaste, (Keys.ControlM, "\r")


def test_lines_that_arrive_at_once_are_a_paste() -> None:
    assert pressed("one\rtwo") == [(PASTE, "one\rtwo")]
    assert pressed("one\rtwo\r\r") == [(PASTE, "one\rtwo\r\r")]
    assert pressed("\tif x:\r\n\t\treturn") == [(PASTE, "\tif x:\r\n\t\treturn")]


def test_a_line_with_its_enter_is_sent() -> None:
    """As a script sends it."""
    assert pressed("ok\r") == [("o", "o"), ("k", "k"), ENTER]
    assert pressed("x" * 1000 + "\r")[-1] == ENTER
    assert pressed("x" * 1024, "rest\r")[-1] == ENTER


def test_keys_among_the_text_act() -> None:
    """Alt+Enter, and Ctrl+C behind Enter."""
    assert PASTE not in dict(pressed("one\x1b\rtwo"))
    assert pressed("a\r\x03b")[1:3] == [ENTER, (Keys.ControlC, "\x03")]


def test_a_long_paste_ends_with_its_last_read() -> None:
    lines = "a line\r" * 100
    reads = [lines, "a line " * 100 + "\r", "the last line\r", "\r"]
    assert pressed(*reads) == [*((PASTE, read) for read in reads[:3]), ENTER]
    assert pressed(lines, "ok", "\r")[-1] == ENTER


def test_lines_are_typed_where_a_paste_is_marked() -> None:
    """As after a pause of a slow connection: each is a message."""
    keys = pressed("ok\rgo", marks_pastes=True)
    assert ENTER in keys
    assert PASTE not in dict(keys)


def test_a_paste_that_is_marked_stays_one() -> None:
    assert pressed("\x1b[200~one\rtw", "o\rthree", "\rfour\x1b[201~\r") == [
        (PASTE, "one\rtwo\rthree\rfour"),
        ENTER,
    ]
