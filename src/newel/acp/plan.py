"""``update_plan``: the model's plan, which clients show beside the conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from newel.acp import protocol as p
from newel.agent.ports import OnOutput, ToolResult
from newel.tools.base import Parameters, TypedTool


class PlanStep(msgspec.Struct, frozen=True):
    step: Annotated[str, Meta(min_length=1, max_length=500)]
    status: Literal["pending", "in_progress", "completed"]


class PlanParameters(Parameters, frozen=True):
    plan: Annotated[
        list[PlanStep], Meta(description="All steps in order, done ones too", min_length=1, max_length=50)
    ]


class PlanTool(TypedTool[PlanParameters]):
    """Passes the plan to ``send``."""

    name = "update_plan"
    label = "Update Plan"
    description = "Show the user your plan for a task of several steps, and again whenever a step is done. Not for short tasks."
    read_only = True
    parameters = PlanParameters

    def __init__(self, send: Callable[[p.Update], object]) -> None:
        self._send = send

    async def serial_key(self, _: PlanParameters, /) -> str:
        return "plan"

    async def preview(self, arguments: PlanParameters, /) -> str:
        return "\n".join(f"{step.status}: {step.step}" for step in arguments.plan)

    async def execute(self, arguments: PlanParameters, on_output: OnOutput, /) -> ToolResult:
        del on_output
        entries = [
            p.PlanEntry(content=step.step, status=step.status, priority="medium") for step in arguments.plan
        ]
        self._send(p.PlanUpdate(entries=entries))
        return ToolResult("The user sees the plan.")
