"""The cost of a run beside the model: start, steps, growth, memory, with the floor beside it.

    just bench                        100 steps and 1,000 steps, the floors included
    python benchmarks/steps.py -n 100 --runs 3 [--command '.venv/bin/newel …']

Each figure is the median of the runs. ``start``: from exec to the first request. ``step``: from an answer's last byte
to the next request's last byte: agent and tool, without the server. ``growth``: the last ten steps relative to the
first ten. ``memory``: the process tree's peak, sampled. ``busy``: how many cores the rest of the machine used; do not
trust a row with more than 0.1.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
NEWEL = [str(HERE.parent / ".venv/bin/newel"), "--approve", "auto", "--renderer", "console", "Run the steps."]


class Row(NamedTuple):
    """One run; times in milliseconds, memory in MiB."""

    start: float
    step: float
    growth: float
    memory: float
    busy: float


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += tree(int(child))
    return found


def resident(pid: int) -> float:
    """MiB of a process tree. A child counts from 0.1 s on: before its exec it shows its parent's pages."""
    total = 0
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        for each in tree(pid):
            fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
            if each == pid or uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK") > 0.1:
                total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # it has ended meanwhile
        pass
    return total / 2**20


def busy_seconds() -> float:
    """CPU seconds of all cores since the machine started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) / os.sysconf("SC_CLK_TCK")


def children_seconds() -> float:
    """CPU seconds of the ended child processes."""
    times = os.times()
    return times.children_user + times.children_system


def measure(command: list[str], steps: int) -> Row:
    """Run a command against the scripted model, in a fresh home and folder."""
    with tempfile.TemporaryDirectory(prefix="newel-bench-") as folder:
        log, project = Path(folder, "log"), Path(folder, "project")
        project.mkdir()  # outside of the project, where changes are recorded
        started, busy_before, own_before = time.monotonic(), busy_seconds(), children_seconds()
        server = subprocess.Popen(
            [sys.executable, str(HERE / "model_server.py"), str(log), str(steps)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        base_url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "LLM_BASE_URL": base_url,
            "LLM_AUTH_TOKEN": "none",
            "LLM_DEFAULT_MODEL": "m",
        }
        try:
            began = time.monotonic_ns()
            run = subprocess.Popen(
                [word.replace("{base_url}", base_url) for word in command],
                cwd=project,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            peak = 0.0
            while run.poll() is None:
                peak = max(peak, resident(run.pid))
                time.sleep(0.02)
        finally:
            server.terminate()
            server.wait()
        if run.returncode:
            sys.exit(f"{shlex.join(command)} ended with {run.returncode}")
        rows = [[int(field) for field in line.split("\t")] for line in log.read_text().splitlines()]
        others = (busy_seconds() - busy_before) - (children_seconds() - own_before)
        gaps = [(later[1] - earlier[2]) / 1e6 for earlier, later in itertools.pairwise(rows)]
        growth = statistics.median(gaps[-10:]) / statistics.median(gaps[:10])
        busy = max(0.0, others / (time.monotonic() - started))
        return Row((rows[0][1] - began) / 1e6, statistics.median(gaps), growth, peak, busy)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--command", help="measure this in place of newel")
    options = parser.parse_args()
    floor = [sys.executable, str(HERE / "floor.py")]
    commands = {
        "newel": shlex.split(options.command) if options.command else NEWEL,
        "floor: httpx2 + sh": [*floor, "httpx2", "{base_url}"],
        "floor: sockets + sh": [*floor, "sockets", "{base_url}"],
    }
    print(f"{'':22}{'steps':>6}{'start ms':>10}{'step ms':>9}{'growth':>8}{'MiB':>7}{'busy':>6}")
    for steps in options.n:
        for name, command in commands.items():
            measure(command, 1 if steps < 2 else 2)  # warm-up: caches and first-run set-up are not measured
            rows = [measure(command, steps) for _ in range(options.runs)]
            middle = Row(*(statistics.median(column) for column in zip(*rows, strict=True)))
            print(
                f"{name:22}{steps:>6}{middle.start:>10.0f}{middle.step:>9.2f}{middle.growth:>8.2f}"
                f"{middle.memory:>7.0f}{middle.busy:>6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
