"""Messages of your application in a conversation: some for the model, some for the user alone.

    LLM_BASE_URL=… LLM_DEFAULT_MODEL=… python examples/custom_messages.py "Is the title of the report good?"

A ``CustomMessage`` has a kind and any JSON. The model sees the kinds that the transformer has a text for.
"""

from __future__ import annotations

import os
import sys
from contextlib import aclosing

import anyio

import newel
from newel.agent.messages import AssistantMessage, CustomMessage


def describe_artifact(message: CustomMessage) -> str:
    return f"[The user changed the file {message.data['filename']}:]\n{message.data['content']}"


async def main(prompt: str) -> None:
    server = newel.OpenAIChat(base_url=os.environ["LLM_BASE_URL"], api_key=os.environ.get("LLM_AUTH_TOKEN"))
    config = newel.RunConfig(
        model=newel.Model(os.environ["LLM_DEFAULT_MODEL"]),
        transform=newel.Transformer({"artifact": describe_artifact}),
        system_prompt="You help with a report. Be brief.",
    )
    async with aclosing(server):
        agent = newel.Agent(newel.ProviderTransport(newel.Retrying(server)), config)
        report = {"filename": "report.md", "content": "# Seven ways to count to six"}
        await agent.append_message(CustomMessage("artifact", report))
        await agent.append_message(CustomMessage("notification", {"text": "The report is saved."}))
        await agent.prompt(prompt)
    for message in agent.state.messages:
        match message:
            case CustomMessage():
                print(f"[{message.name}]", message.data.get("text") or message.data["filename"])
            case AssistantMessage():
                print(message.text)
            case _:
                pass


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]))
