"""The commands of ``newel``."""

from __future__ import annotations

from functools import partial
from typing import Final

from newel.config.keymap import actions
from newel.context.prompt_templates import reachable_names
from newel.terminal.commands import CommandContext, CommandTable, SlashCommand
from newel.terminal.repl.background_commands import bashes
from newel.terminal.repl.clipboard_commands import copy
from newel.terminal.repl.look_commands import keys, theme
from newel.terminal.repl.model_commands import agent_mode, model, thinking
from newel.terminal.repl.permission_commands import approve, implement, permissions
from newel.terminal.repl.rewind_commands import rewind
from newel.terminal.repl.session_commands import branch, clear, compact, resume, session
from newel.terminal.repl.slash_hints import ALIASES, HINTS, WORDS
from newel.terminal.repl.transcript_commands import cost, export, hooks, show, tools
from newel.terminal.review.commands import decide, decide_by_name, redo, rollback, show_review, undo
from newel.text.format import one_line

BETWEEN_GROUPS: Final = ("", "")


async def show_help(context: CommandContext, _: str) -> None:
    rows = [
        (f"/{name} {template.hint}".rstrip(), one_line(template.description, 100))
        for name, template in reachable_names(context.agent.templates, COMMANDS).items()
    ]
    rows += [
        BETWEEN_GROUPS,
        ("!command", "run a command in the terminal; the model gets its output with your next message"),
        ("!!command", "run a command that the model does not get; !! alone discards those not sent yet"),
        ("@path", "attach a file"),
        ("# words", "the agent notes them in AGENTS.md, for all later conversations; also /remember"),
    ]
    if context.ui.reads_keys:
        rows += [("\\ at the end", "Enter begins a new line"), BETWEEN_GROUPS]
    rows += [
        (", ".join(context.keymap.labels("input", action)), does)
        for action, does in actions("input").items()
        if context.ui.reads_keys and context.keymap.names("input", action)
    ]
    context.say(COMMANDS.help(rows, context.ui.columns()))


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
    SlashCommand("compact", "[WORDS]", "summarize the conversation to free context", compact),
    SlashCommand(
        "session", "[name WORDS]", "show this session, its model and modes; or name it", session, at_once=True
    ),
    SlashCommand("resume", "[ID]", "resume an earlier session of this folder", resume),
    SlashCommand("rewind", "", "go back to before a prompt, with the files; also Esc Esc", rewind),
    SlashCommand("branch", "", "go back to any message, of other branches too", branch),
    SlashCommand(
        "export", "[FILE]", "write the session into this folder, as .md or .html, with secrets masked", export
    ),
    SlashCommand("copy", "[N]", "copy the last answer, or its Nth block of code", copy, at_once=True),
    SlashCommand("cost", "", "show the tokens and cost of this conversation", cost, at_once=True),
    SlashCommand("tools", "", "list the model's tools", tools, at_once=True),
    SlashCommand("hooks", "", "list the hooks: when they run, and how they last went", hooks, at_once=True),
    SlashCommand(
        "approve", "[MODE]", "choose the approval mode: what runs without asking", approve, at_once=True
    ),
    SlashCommand("implement", "[auto]", "implement the plan, asking before changes or not", implement),
    SlashCommand(
        "permissions",
        "[revoke ID|--all]",
        "list the rules for calls, or revoke kept ones",
        permissions,
        at_once=True,
    ),
    SlashCommand(
        "bashes", "[ID|end ID]", "list the commands in the background: show or end one", bashes, at_once=True
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
    SlashCommand("undo", "[CHECKPOINT]", "undo the last run; again: the one before", undo),
    SlashCommand("redo", "[CHECKPOINT]", "redo what the last undo has undone, step by step", redo),
    SlashCommand("rollback", "[CHECKPOINT [HUNK …]]", "restore files to their state before a run", rollback),
    SlashCommand("theme", "[NAME]", "choose the theme, with a preview", theme),
    SlashCommand("keys", "", "list what the keys do, and where they are set", keys, at_once=True),
    SlashCommand("stop", "", "stop before the next request; Esc stops at once", stop, at_once=True),
    SlashCommand("quit", "", "quit", leave, at_once=True),
    aliases=ALIASES,
    words=WORDS,
    hints=HINTS,
)
