"""Many agents at once: contracts with a verdict after each step, beside a bare loop of the same requests.

    python benchmarks/agents.py [--agents 200] [--steps 100]

Each agent runs on the job engine, with a journal on disk, a session and a log, for ``--steps`` steps of ``bash
{"command": "true k"}``; after each, a model gives a verdict. The floor makes the same requests to the same server and
starts as many shells, with as many conversations at once, but stores nothing. ``CPU``: seconds of the agents and their
shells. ``RSS``: peak MiB of the process of the agents. ``busy``: how many cores the rest of the machine used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent


async def agents(base_url: str, count: int, steps: int, folder: Path) -> None:
    """Run the agents through the workbench, as the page does."""
    import anyio

    from newel.app.agent_place import open_agent_place
    from newel.app.web_server import open_workbench
    from newel.config.settings import Flags, load_settings
    from newel.runs.models import Contract

    environ = {"NEWEL_HOME": str(folder / "home")}
    project = folder / "project"
    project.mkdir()
    settings = load_settings(Flags(base_url=base_url, model="m"), cwd=project, environ=environ)
    took, states = 0.0, set[str]()
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(open_agent_place(settings, attended=True))
        workbench = await open_workbench(place, stack, ephemeral=False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(workbench.run)
            tabs = [(await workbench.open_agent()).state for _ in range(count)]
            began = time.monotonic()
            for tab in tabs:
                await workbench.tab(tab.id).start(Contract(text="Run the steps.", max_turns=steps + 10))
            while any(  # noqa: ASYNC110 — a tenth of a second is nothing here
                tab.status == "running" for tab in workbench.tabs
            ):
                await anyio.sleep(0.1)
            took = time.monotonic() - began
            states = {str(tab.status) for tab in workbench.tabs}
            tasks.cancel_scope.cancel()
    assert states == {"completed"}, [(tab.status, tab.reason) for tab in workbench.tabs][:3]
    print(json.dumps({"seconds": took}))


async def floor(base_url: str, count: int, steps: int) -> None:
    """The same conversations with httpx2 and a shell for each step."""
    import httpx2

    began = time.monotonic()
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(verify=False, trust_env=False, limits=limits, timeout=600) as client:

        async def ask(messages: list[str]) -> bytes:
            body = f'{{"model":"m","stream":true,"messages":[{",".join(messages)}]}}'
            return (await client.post(base_url + "/chat/completions", content=body.encode())).content

        async def converse() -> None:
            messages = [json.dumps({"role": "user", "content": "Run the steps."})]
            question = json.dumps(
                {"role": "user", "content": "After so many tool calls: is the contract fulfilled?"}
            )
            for step in range(steps):
                await ask(messages)
                shell = await asyncio.create_subprocess_exec(
                    "/bin/sh", "-c", f"true {step}", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
                )
                await shell.communicate()
                function = {"name": "bash", "arguments": json.dumps({"command": f"true {step}"})}
                call = {"id": f"call_{step}", "type": "function", "function": function}
                messages.append(json.dumps({"role": "assistant", "content": "Next.", "tool_calls": [call]}))
                messages.append(f'{{"role":"tool","tool_call_id":"call_{step}","content":""}}')
                await ask([*messages, question])

        await asyncio.gather(*(converse() for _ in range(count)))
    print(json.dumps({"seconds": time.monotonic() - began}))


def busy_seconds() -> float:
    """CPU seconds of all cores since the machine started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) / os.sysconf("SC_CLK_TCK")


def measure(what: str, count: int, steps: int) -> tuple[float, float, float, float]:
    """Seconds, CPU seconds, peak MiB and busy cores of one variant, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="newel-bench-") as folder:
        server = subprocess.Popen(
            [sys.executable, str(HERE / "model_server.py"), str(Path(folder, "log")), str(steps)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        before, own, began = busy_seconds(), sum(os.times()[:4]), time.monotonic()
        words = [what, "--url", f"http://127.0.0.1:{port}/v1", "--agents", str(count), "--steps", str(steps)]
        run = subprocess.run(
            [sys.executable, __file__, *words, "--folder", folder],
            capture_output=True,
            text=True,
            check=False,
        )
        server.terminate()
        server.wait()
        if run.returncode:
            sys.exit(run.stderr)
        costs = next(line.split()[1:] for line in run.stderr.splitlines() if line.startswith("cost "))
        seconds = json.loads(run.stdout)["seconds"]
        others = (busy_seconds() - before) - (sum(os.times()[:4]) - own)
        return seconds, float(costs[1]), float(costs[0]), max(0.0, others / (time.monotonic() - began))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["agents", "floor"], help=argparse.SUPPRESS)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what:
        run = agents(options.url, options.agents, options.steps, options.folder)
        asyncio.run(run if options.what == "agents" else floor(options.url, options.agents, options.steps))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"cost {peak} {sum(os.times()[:4])}", file=sys.stderr)
        return
    print(f"{'':10}{'agents':>8}{'steps':>7}{'seconds':>9}{'CPU':>7}{'RSS MiB':>9}{'busy':>6}")
    for what in ("floor", "agents"):
        seconds, cpu, peak, busy = measure(what, options.agents, options.steps)
        print(
            f"{what:10}{options.agents:>8}{options.steps:>7}{seconds:>9.1f}{cpu:>7.1f}{peak:>9.0f}{busy:>6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
