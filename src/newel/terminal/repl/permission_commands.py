"""The commands about what runs without asking."""

from __future__ import annotations

import contextlib
from typing import Final, get_args

from newel.agent.errors import NewelError, UsageError
from newel.permissions.approval import ApprovalMode
from newel.session.coding_agent import CannotChangeMode, CodingAgent
from newel.terminal.commands import CommandContext, rewrite_commands, slash_command
from newel.text.format import format_columns, one_line

IN_TURN: Final[tuple[ApprovalMode, ...]] = ("ask", "auto", "plan")
"""The modes between which a key switches. To review, an agent works in a copy of the project, which begins with the session."""

IMPLEMENT = "Implement the plan."
"""The prompt after a plan, which Enter sends."""


async def approve(context: CommandContext, mode: str) -> None:
    agent = context.agent
    modes = f"Modes: {', '.join(get_args(ApprovalMode))}."
    if mode and mode not in get_args(ApprovalMode):
        context.say(f"There is no mode {one_line(mode, 40)}. {modes}")
        return
    try:
        for valid in get_args(ApprovalMode):
            if valid == mode:
                agent.set_approve(valid)
    except NewelError as error:
        context.say(str(error))
        return
    context.say(f"Approval mode: {agent.approve}. {'' if mode else modes}".rstrip())


def switch_approval_mode(agent: CodingAgent) -> None:
    """Switch to the next mode of ``IN_TURN`` that is possible here. Raises ``CannotChangeMode`` if none is."""
    at = IN_TURN.index(agent.approve) + 1 if agent.approve in IN_TURN else 0
    *further, last = IN_TURN[at:] + IN_TURN[: max(at - 1, 0)]
    for mode in further:
        with contextlib.suppress(CannotChangeMode):
            agent.set_approve(mode)
            return
    agent.set_approve(last)


async def implement(context: CommandContext, mode: str) -> None:
    """``/implement`` asks before each change, ``/implement auto`` does not."""
    agent = context.agent
    if mode not in {"", "ask", "auto"}:
        raise UsageError("Usage: /implement [ask|auto]")
    if agent.approve != "plan":
        context.say("There is no plan to implement. /approve plan begins one.")
        return
    agent.set_approve("auto" if mode == "auto" else "ask")
    context.say(
        "Calls run without asking from now on."
        if mode == "auto"
        else "Each change is asked about from now on."
    )
    context.ui.restore_input(IMPLEMENT)


async def permissions(context: CommandContext, argument: str) -> None:
    """``/permissions``, ``/permissions revoke ID`` or ``/permissions revoke --all``."""
    from newel.permissions.listing import NO_RULES, describe_revoked, rule_columns

    book = context.agent.rules
    action, _, name = argument.partition(" ")
    if action == "add":
        raise UsageError("`newel permissions add RULE` in a shell adds a rule.")
    if action not in {"", "list", "revoke"} or (action == "revoke") != bool(name.strip()):
        raise UsageError("Usage: /permissions [revoke ID|--all]")
    if book is None:
        context.say(NO_RULES)
    elif action == "revoke":
        revoked = describe_revoked(book.revoke(None if name.strip() == "--all" else [name.strip()]))
        context.say(rewrite_commands(revoked, slash_command))
    else:
        rows = book.rows()
        for problem in book.problems():
            context.say(problem)
        context.say(format_columns(rule_columns(rows), context.ui.columns()) if rows else NO_RULES)
