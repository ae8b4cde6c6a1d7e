"""If these fail, a file name in a cloned project stops the input, or the whole workbench, as soon as the user completes a path."""

from __future__ import annotations

import string

import pytest

from newel.context.file_completion import best_matches


def test_a_name_of_repeated_letters_is_searched_at_once() -> None:
    """A search that tries all ways to find the letters would take longer than any test may."""
    name = "".join(letter * 25 for letter in "component")
    assert best_matches([f"{name}.py", "com/po/nents.py"], "components") == ["com/po/nents.py"]


@pytest.mark.parametrize("mark", [*string.punctuation, "é"])
def test_letters_are_found_in_their_order_whatever_they_are(mark: str) -> None:
    name = f"a1{mark}2x"
    assert best_matches([name, "x"], f"a{mark}x") == [name]
    assert best_matches([name], f"x{mark}a") == []
