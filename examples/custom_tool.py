"""An agent with a tool of yours beside its own.

    python examples/custom_tool.py "Fix ticket 7"

The tool looks up tickets. Its parameters are a struct: the schema for the model and the checks come from it.
"""

from __future__ import annotations

import sys
from typing import Annotated

from msgspec import Meta

import newel
from newel.agent.ports import OnOutput, ToolResult

TICKETS = {7: "The greeting lacks an exclamation mark.", 8: "The logo is blurred."}


class TicketParameters(newel.Parameters, frozen=True):
    number: Annotated[int, Meta(description="The ticket's number", ge=1)]


class TicketTool(newel.TypedTool[TicketParameters]):
    name = "ticket"
    label = "Ticket"
    description = "Read a ticket of the issue tracker."
    read_only = True  # it needs no approval, and may run again after a crash
    parameters = TicketParameters

    async def serial_key(self, arguments: TicketParameters, /) -> str | None:
        return None  # calls may overlap

    async def preview(self, arguments: TicketParameters, /) -> str:
        return f"read ticket {arguments.number}"

    async def execute(self, arguments: TicketParameters, on_output: OnOutput, /) -> ToolResult:
        if arguments.number not in TICKETS:
            raise newel.NewelError(
                f"There is no ticket {arguments.number}."
            )  # the model gets this as the result
        return ToolResult(TICKETS[arguments.number])


if __name__ == "__main__":
    print(newel.ask(" ".join(sys.argv[1:]), tools=[TicketTool()], progress=True).text)
