"""The commands of ``newel``."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from newel.agent.errors import NewelError, SessionInUse, UsageError
from newel.agent.formatting import pluralize
from newel.agent.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.permissions.approval import ApprovalMode
from newel.providers.routing import read_agent_mode
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import (
    CommandContext,
    CommandTable,
    SlashCommand,
    rewrite_commands,
    slash_command,
)
from newel.terminal.model_names import expand_model_name, listed_models
from newel.terminal.repl.slash_hints import HINTS
from newel.terminal.review.commands import decide, decide_by_name, rollback, show_review, undo
from newel.text.format import describe_call, format_columns, one_line, short_number, usage_line
from newel.workspace.port import Workspace

if TYPE_CHECKING:
    from newel.session.listing import SessionEntry

LISTED = 20
"""Sessions that ``/resume`` offers."""
IMPLEMENT = "Carry out the plan."
"""The prompt after a plan, which Enter sends."""

SHOWN = 100_000
"""Characters of a call's input or output that ``/show`` prints."""


async def show_help(context: CommandContext, _: str) -> None:
    rows = [(f"/{name}", template.description) for name, template in context.agent.templates.items()]
    rows += [
        ("!command", "run a command; the model does not see it"),
        ("@path", "attach a file"),
        ("Enter, Tab", "during a run: send a message now, or after the run"),
        ("Alt+Enter", "a new line"),
        ("Esc, Ctrl+C", "stop what runs; Ctrl+C again or Ctrl+D leaves"),
        ("Ctrl+O", "show the last call in full"),
    ]
    context.say(COMMANDS.help(rows, context.ui.columns()))


async def clear(context: CommandContext, _: str) -> None:
    context.agent.new_session()
    context.say("New conversation. /resume returns to the previous one.")


async def model(context: CommandContext, argument: str) -> None:
    agent, name = context.agent, argument
    if not name:
        names = await agent.list_models()
        current = agent.state.model.id
        rows = [f"{one_line(listed)}{'  (in use)' if listed == current else ''}" for listed in names]
        if not rows:
            context.say(
                f"The server names no models. {one_line(current)} is in use; /model NAME switches to another."
            )
            return
        picked = await context.pick("Models", rows, names.index(current) if current in names else 0)
        if picked is None:
            return
        name = names[picked]
    agent.set_model(await expand_model_name(agent, name))
    name = agent.state.model.id
    note = await _unlisted_note(agent, name) if argument else ""
    context.say(f"The next prompt goes to {one_line(name)}.{note}")


async def _unlisted_note(agent: CodingAgent, name: str) -> str:
    """A note on a model's name that the server does not list. It is used all the same: gateways serve unlisted models."""
    names = await listed_models(agent)
    return (
        " The server does not list it; /model shows the models it lists."
        if names and name not in names
        else ""
    )


async def thinking(context: CommandContext, level: str) -> None:
    for valid in get_args(ThinkingLevel):
        if valid == level:
            context.agent.set_thinking_level(valid)
    now = context.agent.state.thinking_level
    levels = ", ".join(get_args(ThinkingLevel))
    unknown = f"There is no level {one_line(level, 40)}. " if level not in {"", now} else ""
    context.say(f"Thinking is {now}." if level == now else f"{unknown}Thinking is {now}. Levels: {levels}.")


async def agent_mode(context: CommandContext, name: str) -> None:
    agent = context.agent
    modes = f"Modes: {', '.join(get_args(AgentMode))}."
    if not name:
        context.say(f"{_working_mode(agent)} {modes}")
        return
    if name not in get_args(AgentMode):
        context.say(f"There is no mode {one_line(name, 40)}. {_working_mode(agent)} {modes}")
        return
    try:
        await agent.set_agent_mode(read_agent_mode(name))
    except NewelError as error:
        context.say(f"{error}\n{_working_mode(agent)}")
        return
    context.say(_working_mode(agent))


def _working_mode(agent: CodingAgent) -> str:
    model = " ".join(filter(None, (agent.state.model.id, agent.where)))
    return f"The agent mode is {agent.state.agent_mode}: requests go to {one_line(model)}."


async def compact(context: CommandContext, instructions: str) -> None:
    before = context.agent.totals().context
    if await context.agent.compact(instructions):
        context.say(f"Summarised {short_number(before)} tokens. The full conversation stays in the session.")
    else:
        context.say("There is nothing to summarise yet.")


async def session(context: CommandContext, argument: str) -> None:
    manager = context.agent.session
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
        ("folder", context.agent.workspace.name),
        ("messages", str(len(context.agent.state.messages))),
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
        rows = [
            f"{listed.name or one_line(listed.first_text, 60) or listed.id[:8]}"
            f"  ({', '.join(_facts(listed))})"
            for listed in others
        ]
        picked = await context.pick("Sessions in this folder, the latest first", rows)
        if picked is None:
            return
        session_id = others[picked].id
    try:
        agent.resume(session_id)
    except SessionInUse as error:
        context.say(f"This session is open {error.where}. Close it there, then /resume it.")
        return
    context.say("\n".join([recap(agent), *agent.session.damage]))


def _facts(listed: SessionEntry) -> list[str]:
    from newel.session.appender import writer_elsewhere

    elsewhere = writer_elsewhere(listed.path)
    return [
        pluralize(listed.messages, "message"),
        _ago(listed.modified),
        *([f"open in another Newel, pid {elsewhere.pid}"] if elsewhere else []),
    ]


def recap(agent: CodingAgent) -> str:
    """A summary of a resumed conversation."""
    messages = agent.state.messages
    name = agent.session.get_name() or agent.session.get_id()[:8]
    lines = [f"Resumed {name}: {pluralize(len(messages), 'message')}."]
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            lines.append(f"Your last message: {one_line(message.text)}")
            break
    return "\n".join(lines)


async def branch(context: CommandContext, _: str) -> None:
    agent = context.agent
    entries = [
        (entry, entry.message)
        for entry in agent.session.get_tree()
        if isinstance(entry.message, UserMessage | AssistantMessage) and entry.message.text
    ]
    if not entries:
        context.say("Nothing has been said yet.")
        return
    rows: list[str] = []
    for entry, message in entries:
        who = "you  " if isinstance(message, UserMessage) else "agent"
        aside = "" if entry.active else "  (another branch)"
        rows.append(f"{who}  {one_line(message.text, 70)}{aside}")
    picked = await context.pick("Go back to which message? One of yours returns to the prompt", rows)
    if picked is None:
        return
    entry, message = entries[picked]
    if isinstance(message, UserMessage):
        agent.branch(entry.parent_id)
        context.ui.restore_input(message.text)
    else:
        agent.branch(message.id)
    context.say("New branch. Later messages stay in the session: /branch.")


UNMASKED = "--unmasked"


async def export(context: CommandContext, target: str) -> None:
    from newel.session.export import export_session, local_target
    from newel.session.masking import Masker

    data = context.agent.session.get_data()
    if data is None:
        context.say("Nothing has been said yet.")
        return
    arguments = target.split()
    unmasked = UNMASKED in arguments
    target = target.replace(UNMASKED, "", 1).strip() if unmasked else target
    masker = Masker(context.agent.secrets())
    data = data if unmasked else masker.session(data)
    workspace = context.agent.workspace
    path = (
        local_target(workspace, target)
        if target
        else _free(workspace, f"newel-{context.agent.session.get_id()[:8]}")
    )
    export_session(data, path)
    context.say(f"Written: {path}", "whole")
    if masker.found:
        context.say(masker.summary())


def _free(workspace: Workspace, name: str) -> Path:
    """An unused file name for an export: an earlier export is the user's and is not overwritten."""
    from newel.session.export import local_target

    numbered = (f"{name}.md" if number == 1 else f"{name}-{number}.md" for number in itertools.count(1))
    return next(path for candidate in numbered if not (path := local_target(workspace, candidate)).exists())


async def cost(context: CommandContext, _: str) -> None:
    totals = context.agent.totals()
    window = context.agent.window()
    line = usage_line(totals.usage, totals.cost, context=totals.context, window=window)
    unknown = "" if totals.cost is not None else " · the price of this model is not known"
    context.say((line or "Nothing has been used yet.") + (unknown if line else ""))


async def tools(context: CommandContext, _: str) -> None:
    rows = [
        (
            one_line(tool.spec.name, 60).ljust(7),
            f"{one_line(tool.label)}{'' if tool.read_only else ' (changes things)'}",
        )
        for tool in context.agent.state.tools
    ]
    context.say(format_columns(rows, context.ui.columns()))


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


async def implement(context: CommandContext, mode: str) -> None:
    """``/implement`` asks before each change, ``/implement auto`` does not."""
    agent = context.agent
    if mode not in {"", "ask", "auto"}:
        raise UsageError("Usage: /implement [ask|auto]")
    if agent.approve != "plan":
        context.say("There is no plan to carry out. /approve plan begins one.")
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


async def show(context: CommandContext, number: str) -> None:
    """``/show 2`` is the call before the last one."""
    back = int(number) if number.isdecimal() and int(number) else 1
    messages = context.agent.state.messages
    calls = [
        call for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls
    ]
    if back > len(calls):
        verb = "is" if len(calls) == 1 else "are"
        context.say(
            f"There {verb} {pluralize(len(calls), 'call') if calls else 'no calls'} in this conversation."
        )
        return
    call = calls[-back]
    results = (
        message
        for message in reversed(messages)
        if isinstance(message, ToolResultMessage) and message.tool_call_id == call.id
    )
    context.say(unfold(call, next(results, None)))


def unfold(call: ToolCall, result: ToolResultMessage | None) -> str:
    """A call's whole input and output, as text."""
    parts = [describe_call(call.name, call.arguments)]
    for name, value in call.arguments.items():
        text = str(value)
        parts.append(f"{name}:\n{_indent(text)}" if "\n" in text else f"{name}: {text}")
    if result is None:
        parts.append("No result yet.")
    else:
        diff = result.details.get("diff")
        parts += [_indent(diff)] if isinstance(diff, str) and diff else []
        parts.append(f"result{' (failed)' if result.is_error else ''}:\n{_indent(result.output)}")
    return "\n".join(parts)


async def stop(context: CommandContext, _: str) -> None:
    if not context.agent.state.is_streaming:
        context.say("Nothing is running.")
        return
    context.agent.stop()
    context.say("Stopping before the next request.")


async def leave(context: CommandContext, _: str) -> None:
    context.ui.leave()


COMMANDS: CommandTable[CommandContext] = CommandTable(
    SlashCommand("help", "", "list the commands", show_help, at_once=True),
    SlashCommand("clear", "", "start a new conversation", clear),
    SlashCommand("model", "[NAME]", "choose the model", model),
    SlashCommand("thinking", "[LEVEL]", "show or set how much the model reasons", thinking),
    SlashCommand("agent-mode", "[MODE]", "show or set which model works", agent_mode, at_once=True),
    SlashCommand("compact", "[WORDS]", "summarise the conversation to free context", compact),
    SlashCommand("session", "[name WORDS]", "show or name this session", session, at_once=True),
    SlashCommand("resume", "[ID]", "resume an earlier session of this folder", resume),
    SlashCommand("branch", "", "go back to an earlier message", branch),
    SlashCommand("export", "[FILE]", "write the session as .md or .html, with secrets masked", export),
    SlashCommand("cost", "", "show the tokens and cost of this conversation", cost, at_once=True),
    SlashCommand("tools", "", "list the model's tools", tools, at_once=True),
    SlashCommand(
        "approve", "[MODE]", "show or set the approval mode: what runs without asking", approve, at_once=True
    ),
    SlashCommand("implement", "[auto]", "carry out the plan, asking before changes or not", implement),
    SlashCommand(
        "permissions",
        "[revoke ID|--all]",
        "list the rules for calls, or revoke kept ones",
        permissions,
        at_once=True,
    ),
    SlashCommand("show", "[N]", "show the last tool call in full, or the Nth last", show, at_once=True),
    SlashCommand(
        "review",
        "[CHECKPOINT]",
        "show pending changes, and the latest runs of agents",
        show_review,
    ),
    SlashCommand("decide", "", "keep or reject pending changes, hunk by hunk", decide),
    SlashCommand(
        "keep",
        "HUNK|FILE|--all",
        "keep pending changes: write them to the files",
        partial(decide_by_name, "keep"),
    ),
    SlashCommand("reject", "HUNK|FILE|--all", "reject pending changes", partial(decide_by_name, "reject")),
    SlashCommand("undo", "[CHECKPOINT]", "undo the changes of the last run, or of another", undo),
    SlashCommand("rollback", "[CHECKPOINT]", "restore files to their state before a run", rollback),
    SlashCommand("stop", "", "stop before the next request; Esc stops at once", stop, at_once=True),
    SlashCommand("quit", "", "quit", leave, at_once=True),
    alias="exit",
    hints=HINTS,
)


def _indent(text: str) -> str:
    more = len(text) - SHOWN
    if more > 0:
        text = f"{text[:SHOWN]}\n… {pluralize(more, 'more character')}"
    return "\n".join(f"    {line}" for line in text.rstrip("\n").split("\n"))


def _ago(seconds_since_1970: float) -> str:
    import time

    passed = max(time.time() - seconds_since_1970, 0)
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if passed >= unit:
            return f"{pluralize(int(passed // unit), name)} ago"
    return "just now"
