"""If these fail, a long result reaches the model broken, or without a hint where the rest is."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from newel.context.shortening import shorten
from tests.properties import examples

TEXT = st.text(st.sampled_from("a\u0301\n\r👩\u200d💻🏽\ud83d\ude00é\u2028 "), min_size=300, max_size=3_000)

CHARACTERS = ["a", " ", "e\u0301", "👩\u200d💻", "👍🏽", "\ud83d\ude00", "❤\ufe0f"]


@given(TEXT, st.integers(100, 250))
def test_head_and_tail_are_kept_and_the_note_counts_the_rest(text: str, most: int) -> None:
    head, note, tail = parts(shorten(text, most, "the whole result is in /f"))
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) <= most
    missing = int(note.split()[1].replace(",", ""))
    assert (
        0 <= len(text) - len(head) - len(tail) - missing <= 1
    )  # a line end before the note counts as the head's


@settings(max_examples=examples(25))
@given(st.lists(st.sampled_from(CHARACTERS), min_size=300), st.integers(100, 250))
def test_no_character_is_split(characters: list[str], most: int) -> None:
    head, _, tail = parts(shorten("".join(characters), most, "x"))
    between = set(accumulate(map(len, characters), initial=0))
    assert len(head) in between
    assert sum(map(len, characters)) - len(tail) in between


def test_cuts_are_at_line_breaks() -> None:
    text = "".join(f"line {number}\n" for number in range(1_000))
    head, _, tail = parts(shorten(text, 500, "x"))
    assert f"{head}\n".endswith("\n")
    assert head.split("\n")[-1] == f"line {len(head.split(chr(10))) - 1}"
    assert tail.startswith("line ")


def parts(output: str) -> tuple[str, str, str]:
    head, _, rest = output.partition("\n[… ")
    note, _, tail = rest.partition(" …]\n")
    return head, f"[… {note}", tail
