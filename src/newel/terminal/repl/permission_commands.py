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

_MEANINGS: Final[dict[ApprovalMode, str]] = {
    "auto": "everything runs unasked, {place}",
    "ask": "each change and command is shown first",
    "review": "no change reaches your files before you keep it",
    "plan": "it looks around, changes nothing and writes a plan",
    "read-only": "it looks around and changes nothing",
}
"""What the approval modes mean to a user; ``place`` is where commands run."""

IMPLEMENT = "Implement the plan."
"""The prompt after a plan, which Enter sends."""


def describe_mode(agent: CodingAgent, mode: ApprovalMode) -> str:
    place = {"off": "without a sandbox", "partial": "in a partial sandbox"}.get(
        agent.info.sandbox, "in a sandbox"
    )
    return _MEANINGS[mode].format(place=place)


async def approve(context: CommandContext, typed: str) -> None:
    """``/approve`` or ``/approve MODE``"""
    modes = get_args(ApprovalMode)
    if typed and typed not in modes:
        context.say(f"There is no mode {one_line(typed, 40)}. Modes: {', '.join(modes)}.")
        return
    agent = context.agent
    mode = modes[modes.index(typed)] if typed else await _pick_mode(context)
    if mode is None:
        return
    try:
        agent.set_approve(mode)
    except NewelError as error:
        context.say(str(error))
        return
    context.say(f"Approval mode: {agent.approve}.")


async def _pick_mode(context: CommandContext) -> ApprovalMode | None:
    """None if the user chooses none."""
    agent = context.agent
    modes: tuple[ApprovalMode, ...] = get_args(ApprovalMode)
    rows = [
        f"{mode:<9}  {describe_mode(agent, mode)}{'  (in use)' if mode == agent.approve else ''}"
        for mode in modes
    ]
    picked = await context.pick("Approval mode: what runs without asking", rows, modes.index(agent.approve))
    return None if picked is None else modes[picked]


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
