"""If these fail, somebody types a part of a name and does not find what it is the name of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.text.fuzzy import fuzzy_matches


def found(texts: list[str], query: str) -> list[str]:
    return [texts[position] for position in fuzzy_matches(texts, query)]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("tpy", "tests/test_pages.py"),
        ("pages", "pages.py"),
        ("Pages", "pages.py"),
        ("test pages", "tests/test_pages.py"),
        ("srcpg", "src/pager.py"),
    ],
)
def test_letters_in_their_order_find_a_name(query: str, best: str) -> None:
    texts = ["docs/readme.md", "tests/test_pages.py", "src/pager.py", "pages.py"]
    assert found(texts, query)[0] == best


def test_the_beginning_of_a_name_is_better_than_its_middle() -> None:
    assert found(["compages.py", "my/pages.py"], "pages") == ["my/pages.py", "compages.py"]


def test_without_a_query_all_are_found_in_their_order() -> None:
    assert found(["b", "a"], " ") == ["b", "a"]


@given(st.text(max_size=20), st.sets(st.integers(0, 19)))
def test_a_text_is_found_by_any_of_its_letters(text: str, chosen: set[int]) -> None:
    letters = "".join(letter for place, letter in enumerate(text.lower()) if place in chosen).split()
    assert found([text], "".join(letters[:1])) == [text]


@given(st.lists(st.text(max_size=8), max_size=8), st.text(max_size=4))
def test_each_match_has_the_letters(texts: list[str], query: str) -> None:
    for text in found(texts, query):
        for word in query.lower().split():
            rest = iter(text.lower())
            assert all(letter in rest for letter in word)
