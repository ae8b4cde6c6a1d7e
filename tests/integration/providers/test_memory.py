"""If these fail, a hostile model server exhausts the agent's memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.providers.raw import STREAM_HEAD, Handler, Serve, chunk, floods

PROGRAM = """
import resource, sys, anyio
from newel.agent.errors import NewelError
from newel.agent.messages import UserMessage
from newel.agent.ports import Model, ModelRequest
from newel.providers.openai.chat import OpenAIChat

async def ignore(delta): pass

async def main():
    provider = OpenAIChat(base_url=sys.argv[1], api_key=None)
    try:
        await provider.complete(ModelRequest(Model("m"), "", [UserMessage("Hi")]), ignore)
    except NewelError as error:
        print(type(error).__name__)
    await provider.aclose()

anyio.run(main)
if sys.platform == "linux":  # ru_maxrss counts the parent's memory there
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(int(peak.split()[1]) // 1024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024**2)
"""

MEGABYTE = 2**20


@pytest.mark.slow  # a hundred megabytes, parsed
@pytest.mark.timeout(
    120
)  # a hundred megabytes of comments take half of the usual time without any other load
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(floods(STREAM_HEAD, b"x" * MEGABYTE), id="one line"),
        pytest.param(floods(STREAM_HEAD, b"\n" * MEGABYTE), id="empty lines"),
        pytest.param(floods(STREAM_HEAD, b": ping\n\n" * 131072), id="comments"),
        pytest.param(floods(STREAM_HEAD, b"data: x\n" * 131072), id="one event of many lines"),
        pytest.param(floods(STREAM_HEAD, chunk(content="x" * MEGABYTE)), id="text"),
        pytest.param(floods(b"HTTP/1.1 200 OK\r\n\r\n{", b" " * MEGABYTE), id="JSON without a type"),
        pytest.param(floods(b"HTTP/1.1 500 No\r\n\r\n", b"x" * MEGABYTE), id="a refusal"),
    ],
)
def test_a_hundred_megabytes_of_junk_cost_little_memory(answer: Handler, serve: Serve) -> None:
    """Otherwise a server, or an impostor, can exhaust the machine's memory."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, serve(answer).url], capture_output=True, text=True, check=True
    )
    error, megabytes = done.stdout.split()
    assert error in ("BadResponse", "ServerFailed")
    assert int(megabytes) < 150
