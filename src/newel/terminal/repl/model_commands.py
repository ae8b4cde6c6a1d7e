"""The commands about the model that answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from newel.agent.errors import NewelError
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.providers.routing import read_agent_mode
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandContext
from newel.terminal.model_names import expand_model_name, listed_models
from newel.text.format import one_line, short_number

if TYPE_CHECKING:
    from newel.providers.listed_models import ModelDetails

NAME_COLUMNS = 44


async def model(context: CommandContext, argument: str) -> None:
    agent = context.agent
    name = await (_resolve(context, argument) if argument else _pick_model(context))
    if name is None:
        return
    agent.set_model(name)
    name = agent.state.model.id
    note = await _unlisted_note(agent, name) if argument else ""
    context.say(f"The next prompt goes to {one_line(name)}.{note}")


async def _pick_model(context: CommandContext) -> str | None:
    """One of the server's models; None if the user chooses none, or there are none."""
    models, current = await context.agent.models.list_details(), context.agent.state.model.id
    if not models:
        context.say(
            f"The server lists no models. {one_line(current)} is in use; /model NAME switches to another."
        )
        return None
    names = [model.name for model in models]
    selected = names.index(current) if current in names else 0
    picked = await context.pick(_title("Models", models), _rows(models, current), selected)
    return None if picked is None else names[picked]


async def _resolve(context: CommandContext, typed: str) -> str | None:
    """The model that was meant: the typed name may be a part of others, or that of a model which the server does not list. None if the user
    chooses none.
    """
    agent = context.agent
    name = await expand_model_name(agent, typed)
    names = await listed_models(agent)
    if name in names or agent.models.describe(name).id != name:
        return name
    if not any(name.lower() in listed.lower() for listed in names):
        return name
    near = [known for known in await agent.models.list_details() if name.lower() in known.name.lower()]
    rows = [*_rows(near, agent.state.model.id), f"{one_line(name)}  (the server does not list it)"]
    picked = await context.pick(_title(f"Models with {one_line(name, 40)} in their names", near), rows)
    return None if picked is None else [*(known.name for known in near), name][picked]


def _title(words: str, models: Sequence[ModelDetails]) -> str:
    is_priced = any(model.input_price is not None for model in models)
    return f"{words} · context in tokens, $ per million tokens in / out" if is_priced else words


def _rows(models: Sequence[ModelDetails], current: str) -> list[str]:
    """A row for each model, in columns. A detail that no model has gets no column."""
    columns = zip(*(_cells(model, current) for model in models), strict=True)
    padded = [[cell.ljust(_width(column)) for cell in column] for column in columns if any(column)]
    return ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]


def _cells(model: ModelDetails, current: str) -> tuple[str, ...]:
    return (
        one_line(model.name),
        short_number(model.context_window) if model.context_window else "",
        model.price,
        "thinking" if model.thinking else "",
        "(in use)" if model.name == current else "",
    )


def _width(column: Sequence[str]) -> int:
    """Of the longest cell. A very long name does not push the prices of the others out of sight."""
    return min(max(map(len, column)), NAME_COLUMNS)


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
    model = " ".join(filter(None, (agent.state.model.id, agent.models.where)))
    return f"The agent mode is {agent.state.agent_mode}: requests go to {one_line(model)}."
