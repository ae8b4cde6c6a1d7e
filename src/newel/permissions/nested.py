"""A Newel that a command of an agent has started: it decides nothing, and may do no more than that agent.

A command runs with the user's rights, so that an agent could keep its own changes, or have another agent do what it may
not do itself. This stops an agent that tries, on Linux also one that hides where its command comes from
(``newel.workspace.process.lineage``); against one that means harm only a sandbox helps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from newel.agent.errors import UsageError
from newel.workspace.process import lineage, process_mark

DECIDES: Final[Mapping[str, Sequence[str]]] = {
    "decide": (),
    "keep": (),
    "reject": (),
    "undo": (),
    "rollback": (),
    "trust": (),
    "mcp": ("add", "remove", "trust"),
    "hosts": ("add", "remove"),
}
"""The commands by which a person decides, with the actions that do so; none stands for all of them."""

MAY_START: Final[Mapping[str, Sequence[str]]] = {
    "auto": ("auto", "ask", "review", "read-only"),
    "review": ("review", "read-only"),
}
"""What an agent may start, by what it may do. Under ``ask`` nobody answers for what another agent does."""


def refuse_decision(command: str, arguments: Sequence[str]) -> None:
    """Raises ``UsageError`` for a command that decides, if an agent has started this process."""
    actions = DECIDES.get(command)
    if actions is None or process_mark.inherited_rights() is None:
        return
    action = next((each for each in arguments if each in actions), "")
    if {"-h", "--help"}.isdisjoint(arguments) and (action or not actions):
        raise UsageError(
            f"`newel {command}{f' {action}' if action else ''}` is for you to decide, so it does not work in a command that "
            "an agent, or `!` in a conversation, has started. Run it in another terminal."
        )


def enter(approve: str, *, attended: bool) -> None:
    """Begin a run. Agents of this process may do from now on what ``approve`` says; ``attended``: whoever is in front of it
    is asked, and decides.

    Raises ``UsageError`` if an agent has started this process that may do less.
    """
    above = process_mark.inherited_rights()
    if above is not None and above != "auto":
        allowed = MAY_START.get(above, ("read-only",))
        under = f"An agent that works with --approve {above}" if above else "An agent"
        if approve not in allowed:
            raise UsageError(
                f"{under} has started this, so it cannot work with --approve {approve}. "
                f"Use --approve {' or '.join(allowed)}."
            )
        if attended:
            raise UsageError(
                f"{under} has started this, so there is no user here to ask. "
                "Give a prompt, and no terminal: newel PROMPT < /dev/null > FILE."
            )
    lineage.grant(approve)
