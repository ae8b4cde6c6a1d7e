"""The commands that show what has happened: calls, costs, tools, and exports."""

from __future__ import annotations

import itertools
from pathlib import Path

from newel.agent.formatting import pluralize
from newel.agent.messages import AssistantMessage, ToolResultMessage
from newel.terminal.commands import CommandContext
from newel.terminal.renderers.transcript import unfold
from newel.text.format import format_columns, one_line, usage_line
from newel.workspace.port import Workspace


async def show(context: CommandContext, number: str) -> None:
    """``/show 2`` is the call before the last one."""
    back = int(number) if number.isdecimal() and int(number) else 1
    messages = context.agent.history()
    calls = [call for message in messages.of(AssistantMessage) for call in message.tool_calls]
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
    context.say((line or "No tokens used yet.") + (unknown if line else ""))


async def hooks(context: CommandContext, _: str) -> None:
    """``/hooks``."""
    from newel.hooks.hook_listing import NO_HOOKS, hook_lines

    context.say("\n".join(hook_lines(context.agent.hooks(), of_conversation=True)) or NO_HOOKS)


async def tools(context: CommandContext, _: str) -> None:
    rows = [
        (
            one_line(tool.spec.name, 60).ljust(7),
            f"{one_line(tool.label)}{'' if tool.read_only else ' (changes things)'}",
        )
        for tool in context.agent.state.tools
    ]
    context.say(format_columns(rows, context.ui.columns()))
