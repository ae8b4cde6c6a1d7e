"""The instructions that Newel's process executes up to its first request: a count that depends on neither load nor clock.

    python benchmarks/instructions.py                     without the sandbox, and in it
    python benchmarks/instructions.py --steps             also for each step: a run of 50 less one of 10, divided by 40. Without the
                                                          sandbox only: valgrind refuses `pidfd_open`, and without it none starts
    python benchmarks/instructions.py --checkout ../main  of another checkout, with its own .venv

Needs valgrind. Prints millions of instructions, in a folder and a home of an earlier run. Two runs of the same code differ by less than 1
in 1,000; compare counts of the same Python only. What other processes execute is not counted, and neither is the kernel.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

VALGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]

UP_TO_REQUEST = """
import asyncio.selector_events, os, sys
asyncio.selector_events._SelectorSocketTransport.write = lambda *_: os._exit(0)
from newel.cli.main import main
from newel.review.tracking import early_scan
early_scan._START_S = 60  # as on a fast machine, where the request is sent before the scan begins
sys.exit(main())
"""
"""Ends where the first bytes would be sent."""

WHOLE = "import sys; from newel.cli.main import main; sys.exit(main())"

MODES = {"without the sandbox": ["--sandbox", "off"], "in the sandbox": []}

FEW, MANY = 10, 50


def count(checkout: Path, program: str, options: list[str], steps: int) -> float:
    """Millions of instructions of the second run in a folder."""
    with tempfile.TemporaryDirectory(prefix="newel-bench-") as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        project.mkdir()
        server = subprocess.Popen(
            [sys.executable, str(HERE / "model_server.py"), f"{folder}/log", str(steps)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "LLM_BASE_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}/v1",
            "LLM_AUTH_TOKEN": "none",
            "LLM_DEFAULT_MODEL": "m",
        }
        python = str(checkout / ".venv/bin/python")
        command = [python, "-c", program, "--approve", "auto", "--renderer", "console", *options, "Run."]
        try:
            subprocess.run(command, cwd=project, env=environ, capture_output=True, check=True)
            counted = subprocess.run(
                [*VALGRIND, *command], cwd=project, env=environ, capture_output=True, text=True, check=True
            )
        finally:
            server.terminate()
            server.wait()
    found = re.search(r"I +refs: +([0-9,]+)", counted.stderr)
    if found is None:
        sys.exit(counted.stderr)
    return int(found[1].replace(",", "")) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", action="store_true", help="also count for each step, which takes minutes")
    parser.add_argument("--checkout", type=Path, default=HERE.parent, help="the checkout that is measured")
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    for name, words in MODES.items():
        print(f"{name}: start {count(checkout, UP_TO_REQUEST, words, 1):.0f}", end="", flush=True)
        if options.steps and words:
            few, many = (count(checkout, WHOLE, words, steps) for steps in (FEW, MANY))
            print(f", step {(many - few) / (MANY - FEW):.2f}", end="")
        print()


if __name__ == "__main__":
    main()
