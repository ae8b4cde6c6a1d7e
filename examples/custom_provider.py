"""An agent on a model of yours: anything that can complete a conversation.

    python examples/custom_provider.py "How long is this?"

This one counts words and needs no server. ``Retrying`` repeats a request that fails with a transient error.
"""

from __future__ import annotations

import sys

import anyio

import newel
from newel.agent.events import AgentEvent, MessageUpdate, TextDelta
from newel.agent.messages import AssistantMessage, TextContent, Usage, UserMessage
from newel.agent.ports import ModelRequest, OnDelta


class WordCounter:
    """A ``newel.agent.ports.Provider``: it passes on deltas as they arrive, and returns the whole message."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        prompts = [message.text for message in request.messages if isinstance(message, UserMessage)]
        words = prompts[-1].split()
        text = f"That prompt has {len(words)} words."
        for word in text.split(" "):
            await on_delta(TextDelta(f"{word} " if word != "words." else word))
        usage = Usage(input=sum(len(prompt.split()) for prompt in prompts), output=5)
        return AssistantMessage(content=[TextContent(text)], model=request.model.id, usage=usage, cost=0.0)


def show(event: AgentEvent, /) -> None:
    if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta):
        print(event.assistant_message_event.delta, end="", flush=True)


async def main(prompt: str) -> None:
    config = newel.RunConfig(
        model=newel.Model("word-counter"),
        transform=newel.Transformer(),
        tools=newel.coding_tools(
            newel.LocalWorkspace(".")
        ),  # for models that call tools; this one calls none
    )
    agent = newel.Agent(newel.ProviderTransport(newel.Retrying(WordCounter())), config)
    agent.subscribe(show)
    end = await agent.prompt(prompt)
    print(f"\n{end.reason}: {end.usage.total} tokens")


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]))
