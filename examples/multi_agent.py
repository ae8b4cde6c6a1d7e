"""One agent as another's tool: a lead that writes, and a reviewer that only reads.

    python examples/multi_agent.py "Write a hello world, and have it reviewed"

The reviewer has a conversation of its own, so its reading does not fill the lead's context.
"""

from __future__ import annotations

import sys
from typing import Annotated

import anyio
from msgspec import Meta

import newel
from newel.agent.ports import OnOutput, ToolResult


class ReviewParameters(newel.Parameters, frozen=True):
    question: Annotated[
        str, Meta(description="What the reviewer should look at, with the names of the files")
    ]


class ReviewerTool(newel.TypedTool[ReviewParameters]):
    name = "ask_reviewer"
    label = "Reviewer"
    description = "Ask a second agent, which can read the project's files and changes none, for its opinion."
    read_only = True
    parameters = ReviewParameters

    def __init__(self) -> None:
        self.cost = 0.0

    async def serial_key(self, arguments: ReviewParameters, /) -> str | None:
        return "reviewer"  # one after the other

    async def preview(self, arguments: ReviewParameters, /) -> str:
        return f"ask the reviewer: {arguments.question}"

    async def execute(self, arguments: ReviewParameters, on_output: OnOutput, /) -> ToolResult:
        # Cancelling the lead cancels this. An error becomes the tool's result.
        opinion = await newel.aask(arguments.question, approve="read-only", ephemeral=True, max_turns=20)
        self.cost += opinion.cost or 0.0
        return ToolResult(opinion.text, is_error=opinion.reason != "done")


async def main(prompt: str) -> None:
    reviewer = ReviewerTool()
    answer = await newel.aask(prompt, tools=[reviewer], progress=True)
    print(f"changed: {', '.join(file.file_path for file in answer.changes) or 'nothing'}")
    print(f"cost: ${(answer.cost or 0.0) + reviewer.cost:.4f}, with ${reviewer.cost:.4f} for the reviewer")


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]))
