"""The commands about the model that answers."""

from __future__ import annotations

from typing import get_args

from newel.agent.errors import NewelError
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.providers.routing import read_agent_mode
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandContext
from newel.terminal.model_names import expand_model_name, listed_models
from newel.text.format import one_line


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


def switch_thinking_level(agent: CodingAgent) -> None:
    """Switch to the next level; after the highest comes the lowest."""
    levels = get_args(ThinkingLevel)
    agent.set_thinking_level(levels[(levels.index(agent.state.thinking_level) + 1) % len(levels)])


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
