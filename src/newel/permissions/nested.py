"""Restrictions of a Newel that an agent's command has started: it makes no decisions, and may do no more than that agent.

A command runs with the user's rights, so an agent could keep its own changes, or start another agent with more rights. This
stops an agent that tries; on Linux also one that hides where its command comes from (``newel.workspace.process.process_mark``). Only
a sandbox stops a malicious one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from newel.agent.errors import UsageError
from newel.workspace.process import process_mark

DECIDES: Final[Mapping[str, Sequence[str]]] = {
    "decide": (),
    "keep": (),
    "reject": (),
    "undo": (),
    "redo": (),
    "forget": (),
    "rollback": (),
    "trust": (),
    "keys": ("set", "remove"),
    "config": ("set", "unset", "edit"),
    "setup": (),
    "permissions": ("add", "revoke"),
    "mcp": ("add", "add-json", "remove", "trust"),
    "skills": ("trust",),
    "hosts": ("add", "remove"),
    "hooks": ("trust",),
}
"""The commands with which the user decides, with their deciding actions; none means all actions."""

MAY_START: Final[Mapping[str, Sequence[str]]] = {
    "auto": ("auto", "ask", "review", "plan", "read-only"),
    "review": ("review", "plan", "read-only"),
    "plan": ("plan", "read-only"),
}
"""The approval modes that an agent may start, by its own. Under ``ask``, the user would not be asked for the other agent's calls."""


def refuse_decision(command: str, arguments: Sequence[str]) -> None:
    """Raises ``UsageError`` for a command that decides, if an agent has started this process."""
    actions = DECIDES.get(command)
    if actions is None or process_mark.inherited_rights() is None:
        return
    action = next((name for name in arguments if name in actions), "")
    if {"-h", "--help"}.isdisjoint(arguments) and (action or not actions):
        raise UsageError(
            f"`newel {command}{f' {action}' if action else ''}` is a decision of the user, so it does not work in a command that "
            "an agent, or `!` in a conversation, has started. Run it in another terminal."
        )


def enter(approve: str, *, attended: bool) -> None:
    """Set the rights of this process's agents to ``approve``. ``attended`` means that a user answers questions.

    Raises ``UsageError`` if the agent that started this process has fewer rights.
    """
    above = process_mark.inherited_rights()
    if above is not None and above != "auto":
        allowed = MAY_START.get(above, ("read-only",))
        starter = f"An agent with --approve {above}" if above else "An agent"
        if approve not in allowed:
            raise UsageError(
                f"{starter} has started this Newel, so it cannot run with --approve {approve}. "
                f"Use --approve {' or '.join(allowed)}."
            )
        if attended:
            raise UsageError(
                f"{starter} has started this Newel, so there is no user to ask. "
                "Give a prompt and no terminal: `newel PROMPT < /dev/null > FILE`."
            )
    process_mark.grant(approve)
