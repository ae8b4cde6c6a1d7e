"""``todo``: the model's list of steps, which the user sees while it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from newel.agent.messages import AppMessage, ToolResultMessage
from newel.agent.ports import OnOutput, ToolResult
from newel.tools.aliases import TODO_ALIASES
from newel.tools.base import Parameters, TypedTool, rename

NAME: Final = "todo"
Status = Literal["pending", "in_progress", "done"]

_STATUSES: Final = {"completed": "done", "complete": "done", "in-progress": "in_progress", "todo": "pending"}
"""Other agents' words."""


class TodoItem(Parameters, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=300)]
    status: Status


class TodoParameters(Parameters, frozen=True):
    items: Annotated[list[TodoItem], Meta(description="The whole list, in order", max_length=50)]


class TodoTool(TypedTool[TodoParameters]):
    """The list is kept in the details of its last result: nothing else has to remember it."""

    name = NAME
    label = "Update Todo List"
    description = (
        "Show the user your steps for a task with several. Send the whole list again when a step begins or is done. "
        "Only one step is in_progress. Not for short tasks."
    )
    read_only = True
    parameters = TodoParameters

    def parse(self, arguments: dict[str, Any], /) -> TodoParameters:
        arguments = rename(arguments, self.spec.argument_aliases)
        if isinstance(items := arguments.get("items"), list):
            arguments = {**arguments, "items": [_plain(item) for item in cast("list[Any]", items)]}
        return super().parse(arguments)

    async def serial_key(self, _: TodoParameters, /) -> str:
        return NAME

    async def preview(self, arguments: TodoParameters, /) -> str:
        return as_text(arguments.items)

    async def execute(self, arguments: TodoParameters, on_output: OnOutput, /) -> ToolResult:
        del on_output
        items = arguments.items
        return ToolResult(
            f"The user sees it: {progress(items)}.", details={"items": msgspec.to_builtins(items)}
        )


def _plain(item: Any) -> Any:
    """An item under our names: models know those of other agents."""
    if not isinstance(item, dict):
        return item
    fields = rename(cast("dict[str, Any]", item), TODO_ALIASES)
    status = fields.get("status")
    return {
        name: _STATUSES.get(status, status) if name == "status" and isinstance(status, str) else value
        for name, value in fields.items()
        if name in {"text", "status"}
    }


def items_of(details: Mapping[str, Any]) -> Sequence[TodoItem]:
    """The list in the details of a result; empty if there is none."""
    try:
        return msgspec.convert(details.get("items", []), list[TodoItem])
    except msgspec.ValidationError:
        return ()


def current_items(messages: Sequence[AppMessage]) -> Sequence[TodoItem]:
    """The list as a conversation left it."""
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage) and message.tool_name == NAME and not message.is_error:
            return items_of(message.details)
    return ()


def progress(items: Sequence[TodoItem]) -> str:
    """``2 of 5 done``."""
    return f"{sum(item.status == 'done' for item in items)} of {len(items)} done"


def as_text(items: Sequence[TodoItem]) -> str:
    """One line for each item: ``done: Read the parser``."""
    return "\n".join(f"{item.status}: {item.text}" for item in items)
