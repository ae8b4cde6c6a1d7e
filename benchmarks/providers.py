"""What a step costs with each provider: CPU time of this process for one request and its answer.

    ./run python -m benchmarks.providers [--steps 200] [--runs 3]

The conversation grows by an answer with a call and its result at each step, as an agent's does. A scripted server on loopback, in a
process of its own, speaks all the APIs. *step* is the median of the last tenth of the steps, in milliseconds of CPU time, *growth* its
ratio to the median of the second tenth. *plain POST* sends bodies of the same size with the same HTTP client and reads the answer unparsed:
the floor.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from newel.agent.messages import Message, ToolResultMessage, UserMessage
from newel.agent.ports import Model, ModelRequest, ProviderEvent
from newel.providers.http.client import HttpClient
from newel.providers.model_server import ModelServer
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace
from tests.integration.providers.contract import PROVIDERS

CALL = {"tool_calls": [{"function": {"name": "bash", "arguments": {"command": "true"}}}]}
RESULT = "x" * 200
Step = Callable[[int], Awaitable[None]]


async def ignore(_: ProviderEvent) -> None:
    """Nothing is shown."""


def steps_of(server: ModelServer) -> Step:
    tools = [tool.spec for tool in coding_tools(LocalWorkspace("/"))]
    history: list[Message] = [UserMessage("Go.")]

    async def step(_: int) -> None:
        request = ModelRequest(Model("mock-model"), "You are an agent.", history, tools)
        answer = await server.complete(request, ignore)
        history.append(answer)
        history.extend(
            ToolResultMessage(call.id, call.name, RESULT, is_error=False) for call in answer.tool_calls
        )

    return step


def posts(url: str) -> Step:
    client = HttpClient(f"{url}/v1", headers={"Content-Type": "application/json"}, timeout=10)
    head = {"model": "mock-model", "stream": True}
    turn: dict[str, object] = {"role": "assistant", "content": "x" * 120}

    async def step(number: int) -> None:
        messages = [{"role": "user", "content": "Go."}]
        body = json.dumps({**head, "messages": messages}).encode()[:-2]
        more = json.dumps([turn, {"role": "user", "content": RESULT}]).encode()[1:-1]
        body += b"".join(b"," + more for _ in range(number)) + b"]}"
        async with client.request("POST", "/chat/completions", body) as response:
            await response.read(1 << 20)

    return step


async def measure(step: Step, count: int) -> list[float]:
    """CPU milliseconds of each step."""
    spent: list[float] = []
    for number in range(count):
        began = time.process_time()
        await step(number)
        spent.append((time.process_time() - began) * 1000)
    return spent


async def run(url: str, count: int, runs: int) -> None:
    print(f"{'':18} {'step ms':>8} {'growth':>7}")
    rows: list[tuple[str, Callable[[], Step]]] = [("plain POST", lambda: posts(url))]
    rows += [
        (each.name, lambda each=each: steps_of(each.connect(url, 10.0, each.name))) for each in PROVIDERS
    ]
    for name, begin in rows:
        last: list[float] = []
        first: list[float] = []
        for _ in range(runs):
            spent = await measure(begin(), count)
            tenth = count // 10
            first += spent[tenth : 2 * tenth]
            last += spent[-tenth:]
        step = statistics.median(last)
        print(f"{name:18} {step:8.2f} {step / statistics.median(first):7.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of a step with each provider.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    script = {
        "scenarios": [{"name": "go", "trigger": "Go", "steps": [{"response": CALL}] * (arguments.steps + 1)}]
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scenarios.json")
        file.write_text(json.dumps(script))
        command = [sys.executable, "-m", "mock_llm_server", "--port", "0", "--scenarios", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            try:
                assert server.stdout is not None
                line = server.stdout.readline()
                url = next(word for word in line.split() if word.startswith("http")).rstrip("/.")
                anyio.run(run, url.removesuffix("/v1"), arguments.steps, arguments.runs)
            finally:
                server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
