"""What the sandbox costs: the first command, each further one, and the self-test.

    ./run python -m benchmarks.sandbox [--runs 100]

Times are in milliseconds, the median and the 95th percentile. The floor is the same command (``bash -c true``) without the sandbox.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import anyio

from newel.workspace.local import LocalWorkspace
from newel.workspace.sandbox.policy import SandboxPolicy
from newel.workspace.sandbox.sandbox import Sandbox


def show(name: str, times: list[float]) -> None:
    ordered = sorted(times)
    print(f"{name:<24}{statistics.median(ordered):8.2f}{ordered[int(len(ordered) * 0.95)]:8.2f}")


async def time_commands(workspace: LocalWorkspace, runs: int) -> list[float]:
    times: list[float] = []
    for _ in range(runs):
        began = time.perf_counter()
        await workspace.run("true")
        times.append((time.perf_counter() - began) * 1000)
    return times


async def main(runs: int, home: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        policy = SandboxPolicy(home=home, writable=[root], readable=[sys.base_prefix, sys.prefix])
        print(f"{'':<24}{'median':>8}{'95 %':>8}")
        show("floor", await time_commands(LocalWorkspace(root), runs))
        firsts: list[float] = []
        tests: list[float] = []
        for _ in range(max(3, runs // 10)):
            sandbox = Sandbox(lambda: policy)
            workspace = LocalWorkspace(root, find_launcher=lambda _, one=sandbox: one)
            firsts += await time_commands(workspace, 1)
            began = time.perf_counter()
            if failures := sandbox.test():
                raise SystemExit(f"The sandbox does not hold: {failures}")
            tests.append((time.perf_counter() - began) * 1000)
            sandbox.close()
        show("first command", firsts)
        show("self-test", tests)
        sandbox = Sandbox(lambda: policy)
        workspace = LocalWorkspace(root, find_launcher=lambda _: sandbox)
        await workspace.run("true")
        show("command in the sandbox", await time_commands(workspace, runs))
        sandbox.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    anyio.run(main, parser.parse_args().runs, str(Path.home()))
