"""If these fail, a resumed conversation gives a call two results, or none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    open_calls,
)
from newel.session.message_tree import BranchPoint, MessageTree

ids = st.sampled_from(["a", "b", "c"])
calls = st.lists(ids, max_size=3, unique=True).map(
    lambda names: [ToolCall(name, "bash", {}) for name in names]
)
messages = st.one_of(
    st.builds(UserMessage, st.just("hello")),
    st.builds(AssistantMessage, calls),
    st.builds(ToolResultMessage, ids, st.just("bash"), st.just("done"), st.just(False)),
    st.builds(CustomMessage, st.just("note")),
)


@given(st.lists(messages | st.integers(0, 20), max_size=20))
def test_the_open_calls_are_those_of_the_active_branch(steps: list[AppMessage | int]) -> None:
    """A number moves to one of the messages so far, or to the start."""
    tree = MessageTree()
    known: list[str] = []
    for step in steps:
        if isinstance(step, int):
            tree.move(known[step] if step < len(known) else None)
        else:
            tree.add(step)
            known.append(step.id)
        assert tree.open_calls() == open_calls(tree.active())


def test_what_newel_says_in_between_parts_no_versions_of_a_message() -> None:
    """Otherwise the version before an undone run, or a summary, can no longer be reached."""
    tree = MessageTree()
    tree.add(UserMessage("first", id="u1"))
    tree.add(AssistantMessage([], id="a1"))
    tree.add(UserMessage("then", id="u2"))
    tree.move("a1")
    tree.add(UserMessage("The user has undone a run.", id="decided_1"))
    assert tree.branch_points() == [BranchPoint(after="a1", messages=["u2"])]
    tree.add(CustomMessage("compaction", {"firstKept": "u1"}, "c1"))
    tree.add(UserMessage("then, differently", id="u3"))
    assert tree.branch_points() == [BranchPoint(after="a1", messages=["u2", "u3"])]
