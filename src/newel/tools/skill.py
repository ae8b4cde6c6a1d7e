"""``skill``: gives the model the instructions of a skill, or a file beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from msgspec import Meta

from newel.agent.ports import OnOutput, ToolResult
from newel.tools.base import Parameters, TypedTool

NAME: Final = "skill"


class SkillParameters(Parameters, frozen=True):
    name: Annotated[str, Meta(description="The name of the skill", min_length=1)]
    file: Annotated[
        str, Meta(description="A file of the skill, as its text names it, instead of the text")
    ] = ""
    arguments: Annotated[str, Meta(description="What the skill is to work on, if it takes arguments")] = ""


LoadSkill = Callable[[str, str, str], Awaitable[str]]
"""Returns what the model gets for a name, a file and arguments. Raises ``NewelError``."""


class SkillTool(TypedTool[SkillParameters]):
    """It reads only what belongs to a skill, which the user has installed or trusts, so it needs no approval."""

    name = NAME
    label = "Read Skill"
    description = "Read the instructions of a skill, or one of its files."
    read_only = True
    parameters = SkillParameters

    def __init__(self, load: LoadSkill) -> None:
        self._load = load

    async def serial_key(self, _: SkillParameters, /) -> None:
        return None

    async def preview(self, arguments: SkillParameters, /) -> str:
        return f"{arguments.name} {arguments.file or arguments.arguments}".rstrip()

    async def execute(self, arguments: SkillParameters, on_output: OnOutput, /) -> ToolResult:
        del on_output
        text = await self._load(arguments.name, arguments.file, arguments.arguments)
        return ToolResult(text, details={"name": arguments.name, "file": arguments.file})
