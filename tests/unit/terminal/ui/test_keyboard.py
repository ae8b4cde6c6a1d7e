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
