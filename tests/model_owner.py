"""A program that asks a model file, to be killed: ``python model_owner.py FILE``.

It writes a line whenever it has waited for the model for a moment, and for each piece of the answer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from newel.agent.messages import UserMessage
from newel.agent.ports import Model, ModelRequest
from newel.providers.llamacpp import process
from newel.providers.llamacpp.client import LlamaCpp


async def main(path: Path) -> None:
    process.PROGRESS_S = 0.5
    server = LlamaCpp(path, on_progress=write)
    request = ModelRequest(Model(path.name), "", [UserMessage("Count to a thousand.")])
    await server.complete(request, write)


async def write(message: object) -> None:
    sys.stdout.write(f"{type(message).__name__}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
