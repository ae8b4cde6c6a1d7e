"""If these fail, a file or a model can write to the user's clipboard, or show another command than it runs."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.text.sanitize import SanitizedStream, escape_diff, escape_invisible, sanitize

CONTROLS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n", "\t"}
BIDI = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}

HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "\x1b",
                "\x1b[",
                "\x1b]",
                "\x1bP",
                "\x1b_",
                "\x9b",
                "\x9d",
                "\x9c",
                "\x07",
                "\\",
                "31m",
                "8;;",
                "(B",
                " ",
                "/",
            ]
        ),
        st.sampled_from(
            ["\r", "\n", "\r\n", "\t", "\v", "\u2028", "\u202e", "\ud800", "\x00", "\x7f", "ok", "é"]
        ),
        st.text(max_size=3),
    )
).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n\tindented", "plain text\n\tindented"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b2Jcleared", "cleared"),
        ("up\x1b[2A\x1b[Kdown", "updown"),
        ("a\x1b]52;c;cm0gLXJmIH4=\x07b", "ab"),
        ("a\x1b]52;c;cm0gLXJmIH4=\x1b\\b", "ab"),
        ("\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("a\x1bPq#0;2;0;0;0#0~~\x1b\\b", "ab"),
        ("a\x1b_Gf=100;AAAA\x1b\\b", "ab"),
        ("a\x9d0;title\x9cb", "ab"),
        ("a\x1bktitle\x1b\\b", "ab"),
        ("a\x1bPtmux;\x1b\x1b]52;c;AAAA\x07\x1b\\b", "ab"),
        ("a\x1b(0\x1b#8\x1bcb", "ab"),
        ("unterminated \x1b]52;c;AAAA", "unterminated "),
        ("unterminated \x1b]52;c;AAAA\nnext line", "unterminated \nnext line"),
        ("a\x1b[12", "a"),
        ("a\x1b", "a"),
        ("one\r\ntwo", "one\ntwo"),
        ("10 %\r100 %", "10 %\n100 %"),
        ("a\x0bb\x0cc\x85d\u2028e\u2029f", "a\nb\nc\nd\ne\nf"),
        ("be\x07ll\x00 ba\x08ck \x7f", "bell back "),
        ("x = 'user\u202e'", "x = 'user<U+202E>'"),
        ("lone \ud800 surrogate", "lone \N{REPLACEMENT CHARACTER} surrogate"),
        ("👩\u200d👩\u200d👧 שלום", "👩\u200d👩\u200d👧 שלום"),
    ],
)
def test_control_sequences_are_removed_and_the_text_stays(text: str, shown: str) -> None:
    assert sanitize(text) == shown


def test_one_line_stays_one_line() -> None:
    assert sanitize("a\nb\r\nc", keep_newlines=False) == "a↵b↵c"


@given(HOSTILE)
def test_no_control_character_reaches_the_screen(text: str) -> None:
    shown = sanitize(text)
    assert not (CONTROLS | BIDI) & set(shown)
    shown.encode()
    assert "\n" not in sanitize(text, keep_newlines=False)


@given(HOSTILE)
def test_sanitizing_twice_changes_nothing_more(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)


@given(HOSTILE, st.data())
def test_a_text_in_pieces_is_sanitized_like_the_whole(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    stream = SanitizedStream()
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown = "".join(map(stream.feed, pieces)) + stream.finish()
    assert shown == sanitize(text)


def test_a_sequence_of_any_length_is_not_buffered() -> None:
    for beginning, payload, end in (("\x1b]52;c;", "A", "\x07"), ("\x1b[", "1;", "m"), ("\x1b", "(", "B")):
        stream = SanitizedStream()
        assert stream.feed("a" + beginning) == "a"
        for _ in range(1000):
            assert stream.feed(payload * 100) == ""
        assert len(repr(vars(stream))) < 100
        assert stream.feed(end + "b") + stream.finish() == "b"


def test_a_finished_stream_can_be_reused() -> None:
    stream = SanitizedStream()
    assert stream.feed("a\x1b]0;never ended") + stream.finish() == "a"
    assert stream.feed("b\r") + stream.finish() == "b\n"
    assert stream.feed("c") == "c"


def test_approved_text_is_shown_with_nothing_hidden() -> None:
    """A command may have an escape sequence around its worst part: the user who decides must see it."""
    command = "ls \x1b]0;\nrm -rf ~\x07 # \u202e\u200b\x9b\r"
    assert escape_invisible(command) == "ls ␛]0;\nrm -rf ~␇ # <U+202E><U+200B><U+009B>␍"


BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2800\u3164\ufe00\ufe0f\uffa0\ufffc\U0001d159\U000e0100\U000e01ef"
"""Signs that Unicode counts as letters, marks or symbols, and that most fonts show as nothing at all."""


@pytest.mark.parametrize("character", BLANK)
def test_an_invisible_character_is_escaped(character: str) -> None:
    note = f"<U+{ord(character):04X}>"
    assert escape_invisible(f"rm{character}x") == f"rm{note}x"
    assert escape_invisible(f"é\n{character}") == f"é\n{note}"


def test_only_plain_spaces_and_line_breaks_stay_unescaped() -> None:
    hidden = {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"}
    every = map(chr, range(sys.maxunicode + 1))
    stay = [char for char in every if unicodedata.category(char) in hidden and escape_invisible(char) == char]
    assert stay == ["\t", "\n", " "]


def test_visible_text_is_unchanged() -> None:
    text = "ls -la | grep 'naïve' > données.txt\n\techo 日本語 שלום नमस्ते 🙂"
    assert escape_invisible(text) == text


@given(HOSTILE)
def test_escaping_loses_no_visible_character(text: str) -> None:
    shown = escape_invisible(text)
    assert not (CONTROLS | BIDI) & set(shown)
    shown.encode()
    assert [c for c in text if c.isascii() and c.isprintable()] == [
        c for c in _without_notes(text, shown) if c.isascii() and c.isprintable()
    ]


def _without_notes(text: str, shown: str) -> str:
    for character in set(text):
        if not character.isascii():
            shown = shown.replace(f"<U+{ord(character):04X}>", "")
    return shown


GAPS = ["", " ", "\t", "  ", "\u00a0", "\v", "\u2003"]
CHANGED = st.tuples(
    st.sampled_from("-+"),
    st.sampled_from(GAPS),
    st.sampled_from(["", "a", "b", "é"]),
    st.sampled_from(GAPS),
)


@given(st.lists(CHANGED, min_size=1, max_size=6))
def test_a_diff_shows_white_space_at_the_ends_and_where_nothing_else_changes(
    rows: list[tuple[str, str, str, str]],
) -> None:
    lines = [(mark, f"{before}{word}{after}") for mark, before, word, after in rows]

    def has_counterpart(mark: str, text: str) -> bool:
        return any(other != mark and "".join(text.split()) == "".join(line.split()) for other, line in lines)

    expected: list[str] = []
    for mark, text in lines:
        shown = text.rstrip(" \t")
        if has_counterpart(mark, text):
            shown = text if any(other != mark and line == text for other, line in lines) else ""
        end = text[len(shown) :].replace(" ", "·").replace("\t", "→")
        expected.append(escape_invisible(f"{mark}{shown}{end}"))
    head = "@@ -1,9 +1,9 @@"
    diff = "\n".join([head, *(f"{mark}{text}" for mark, text in lines)])
    assert escape_diff(diff) == "\n".join([head, *expected])
