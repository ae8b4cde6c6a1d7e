"""Tries each forbidden act in a sandbox of its own: ``forbidden_child FOLDER whole|partial``. Prints the acts as JSON, with what went
wrong.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import anyio

from tests.unit.workspace.sandbox.test_sandbox import FORBIDDEN, Place, outside_of


async def problems(place: Place, act: str) -> list[str]:
    before = outside_of(place)
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = FORBIDDEN[act]
        for name, value in {
            "{home}": str(place.home),
            "{base}": str(place.base),
            "{project}": str(place.project),
            "{port}": str(server.getsockname()[1]),
            "{pid}": str(os.getpid()),
        }.items():
            command = command.replace(name, value)
        done = await place.run(command)
    found = [] if done.exit_code else ["it succeeded"]
    found += ["it showed a secret"] if "secret" in done.stdout else []
    return found + (["it changed files"] if outside_of(place) != before else [])


async def main(folder: Path, kind: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for number, act in enumerate(FORBIDDEN):
        base = folder / str(number)
        base.mkdir()
        place = Place(base, is_partial=kind == "partial")
        found[act] = await problems(place, act)
        for sandbox in place.opened:
            sandbox.close()
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(anyio.run(main, Path(os.path.realpath(sys.argv[1])), sys.argv[2])))
