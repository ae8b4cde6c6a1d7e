"""If these fail, a tool's name is rejected by chat APIs, ambiguous, or changes between runs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.mcp.types import offered_name

names = st.text(alphabet=st.sampled_from("ab_-.é 🙂"), min_size=1, max_size=6) | st.text(
    min_size=1, max_size=80
)


@given(names, names)
def test_a_name_is_valid_for_chat_apis(server: str, tool: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", offered_name(server, tool))


@given(names, names, names, names)
def test_two_tools_never_share_a_name(server: str, tool: str, other: str, others: str) -> None:
    if (server, tool) != (other, others):
        assert offered_name(server, tool) != offered_name(other, others)


@pytest.mark.parametrize(("server", "tool"), [("git", "git_status"), ("a-b", "get-sum"), ("x", "a__b")])
def test_a_usual_name_is_readable(server: str, tool: str) -> None:
    assert offered_name(server, tool) == f"{server}__{tool}"


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a", "b__c"), ("a__b", "c")), (("a", "_b"), ("a_", "b")), (("a.b", "c"), ("a_b", "c"))],
)
def test_names_that_would_look_alike_are_distinct(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert offered_name(*one) != offered_name(*other)
