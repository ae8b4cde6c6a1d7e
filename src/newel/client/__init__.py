"""A client of ``newel rpc``: drives Newel in a process of its own.

    from newel.client import RpcClient

    async with RpcClient("--approve", "auto", cwd="/src/shop") as newel:
        result = await newel.run("Fix the failing test")
        print(result.text, result.end.cost)

    with BlockingRpcClient(cwd="/src/shop") as newel:      # without an event loop
        print(newel.run("Explain this project").text)

There is a method for each command; docs/rpc.md describes them. All errors are ``RpcClientError``.
"""

from __future__ import annotations

from newel.client.blocking import BlockingRpcClient
from newel.client.rpc_client import RpcClient
from newel.client.streams import (
    ClientEvent,
    CommandFailed,
    CommandTimedOut,
    EventsLost,
    OtherEvent,
    ProcessEnded,
    RpcClientError,
    RpcEventStream,
    RunResult,
)

__all__ = [
    "BlockingRpcClient",
    "ClientEvent",
    "CommandFailed",
    "CommandTimedOut",
    "EventsLost",
    "OtherEvent",
    "ProcessEnded",
    "RpcClient",
    "RpcClientError",
    "RpcEventStream",
    "RunResult",
]
