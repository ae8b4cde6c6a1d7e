"""The commands about sessions: begin, resume, name, branch and summarize them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newel.agent.errors import SessionInUse
from newel.agent.formatting import pluralize
from newel.agent.messages import AssistantMessage, UserMessage
from newel.terminal.commands import CommandContext
from newel.terminal.repl.replay import show_resumed
from newel.text.format import one_line, short_number

if TYPE_CHECKING:
    from newel.session.listing import SessionEntry


LISTED = 50
"""Sessions that ``/resume`` offers."""


async def clear(context: CommandContext, _: str) -> None:
    context.agent.new_session()
    context.say("New conversation. /resume returns to the previous one.")


async def compact(context: CommandContext, instructions: str) -> None:
    before = context.agent.totals().context
    if await context.agent.compact(instructions):
        context.say(f"Summarized {short_number(before)} tokens. The full conversation stays in the session.")
    else:
        context.say("There is nothing to summarize yet.")


async def session(context: CommandContext, argument: str) -> None:
    agent, manager = context.agent, context.agent.session
    verb, _, name = argument.partition(" ")
    if verb == "name":
        manager.set_name(name)
    elif argument:
        context.say("/session shows the session, /session name WORDS names it.")
        return
    path = manager.get_file_path()
    facts = [
        ("session", manager.get_id()),
        ("name", manager.get_name() or "none: /session name WORDS"),
        ("file", str(path) if path else "kept in memory only"),
        ("folder", agent.workspace.name),
        ("messages", str(agent.message_count)),
        ("model", " ".join(filter(None, (agent.state.model.id, agent.models.where)))),
        ("thinking", agent.state.thinking_level),
        ("approve", agent.approve),
        ("sandbox", agent.info.sandbox),
        *(("damage", line) for line in manager.damage),
    ]
    context.say("\n".join(f"{fact:<9} {one_line(value, 1_000)}" for fact, value in facts), "whole")


async def resume(context: CommandContext, session_id: str) -> None:
    agent = context.agent
    if not session_id:
        from newel.session.listing import list_sessions

        now = agent.session.get_id()
        sessions = list_sessions(context.home / "sessions", agent.workspace.name, limit=LISTED)
        others = [listed for listed in sessions if listed.id != now]
        if not others:
            context.say("There is no other session in this folder.")
            return
        rows = [f"{_named(listed)}  ({', '.join(_facts(listed))})" for listed in others]
        picked = await context.pick("Sessions in this folder, the latest first", rows)
        if picked is None:
            return
        session_id = others[picked].id
    try:
        agent.resume(session_id)
    except SessionInUse as error:
        context.say(f"This session is open {error.where}. Close it there, then /resume it.")
        return
    show_resumed(agent, context.ui.renderer)
    for damage in agent.session.damage:
        context.say(damage)


def _named(listed: SessionEntry) -> str:
    """A session's name, and its first message: both can be searched."""
    return " · ".join(filter(None, [listed.name, one_line(listed.first_text, 60)])) or listed.id[:8]


def _facts(listed: SessionEntry) -> list[str]:
    from newel.session.appender import writer_elsewhere

    elsewhere = writer_elsewhere(listed.path)
    return [
        pluralize(listed.messages, "message"),
        _ago(listed.modified),
        *([f"open in another Newel, pid {elsewhere.pid}"] if elsewhere else []),
    ]


async def branch(context: CommandContext, _: str) -> None:
    agent = context.agent
    entries = [
        (entry, message)
        for entry in agent.session.get_tree()
        if isinstance(message := entry.said(), UserMessage | AssistantMessage)
        and message.text
        and not (isinstance(message, UserMessage) and message.is_notice)
    ]
    if not entries:
        context.say("Nothing has been said yet.")
        return
    rows: list[str] = []
    for entry, message in entries:
        who = "you  " if isinstance(message, UserMessage) else "agent"
        aside = "" if entry.active else "  (another branch)"
        text = agent.session.typed_as(message) if isinstance(message, UserMessage) else message.text
        rows.append(f"{who}  {one_line(text, 70)}{aside}")
    picked = await context.pick("Go back to which message? One of yours returns to the prompt", rows)
    if picked is None:
        return
    entry, message = entries[picked]
    if isinstance(message, UserMessage):
        agent.branch(entry.parent_id)
        context.put_back(message)
    else:
        agent.branch(message.id)
    context.say("New branch. Later messages stay in the session: /branch.")


def _ago(seconds_since_1970: float) -> str:
    import time

    passed = max(time.time() - seconds_since_1970, 0)
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if passed >= unit:
            return f"{pluralize(int(passed // unit), name)} ago"
    return "just now"
