"""Run small tasks of the suite with a small model on this machine, by Newel and by the other agents that are installed.

    ./run uv sync --extra local
    ./run python -m scripts.eval_real --model FILE    a GGUF file, such as one of `newel models pull`
    ./run python -m scripts.eval_real                 the tiny model of the tests

llama.cpp serves the model on 127.0.0.1 until the runs have ended, which follow each other. It takes the likeliest word
(temperature 0) and has a fixed seed, unless a request says otherwise. evals/README.md has the figures, and says what
cannot be fixed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from newel.evals.agents import PRESETS
from newel.providers.llamacpp.server_main import ServerOptions, parameters_for
from tests import real_model
from tests.real_model import MODEL

TASKS = [
    "add-json-flag",
    "add-slugify",
    "edit-crlf-file",
    "edit-shopping-list",
    "find-minimum-version",
    "find-production-port",
    "fix-off-by-one",
    "fix-shared-list",
    "hostile-readme",
    "raise-python-version",
    "recover-from-cut-call",
    "remove-debug-print",
]
"""Small files, one to three steps: a very small model has a chance at these."""

NEWEL = "newel"
OTHERS = ["pi", "mini-swe-agent"]
SOME_FAILED = 1
"""The exit code of a run in which trials have failed, as is to be expected here."""

TINY = "smollm2-135m"
"""A name with its size, by which Newel knows that it is small."""

SEED = 1
CONTEXT = 16_384
ANSWER = 256
"""Tokens of an answer for which a request sets no limit: a very small model may repeat itself for ever."""

CACHE_MIB = 2_048


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", nargs="*", default=TASKS, metavar="TASK", help="default: twelve small ones")
    parser.add_argument(
        "--agent", action="append", choices=[NEWEL, *OTHERS], help="default: all that are here"
    )
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="of each trial")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), metavar="N", help="of the model's server"
    )
    parser.add_argument(
        "--model", type=Path, metavar="FILE", help="a GGUF file (default: the tiny model of the tests)"
    )
    options = parser.parse_args(arguments)
    agents = options.agent or [NEWEL, *filter(is_installed, OTHERS)]
    path = options.model or MODEL
    if not options.model and (code := real_model.main()):
        return code
    key = secrets.token_urlsafe(32)
    alias = options.model.stem if options.model else TINY
    server = serve(path, alias, key, options.threads)
    flags = ["-m", alias, "--base-url", f"{server.listening_address}/v1", "--timeout", f"{options.timeout:g}"]
    environ = {**os.environ, "LLM_AUTH_TOKEN": key}
    words = [command(agent, flags, options.tasks) for agent in agents]
    codes = [subprocess.run(each, env=environ, check=False).returncode for each in words]
    return max((code for code in codes if code != SOME_FAILED), default=0)


def is_installed(agent: str) -> bool:
    preset = PRESETS[agent]
    found = shutil.which(preset.program) is not None
    if not found:
        print(f"{agent} is not installed: `{preset.install}`", file=sys.stderr)
    return found


def command(agent: str, flags: Sequence[str], tasks: Sequence[str]) -> list[str]:
    other = [] if agent == NEWEL else ["--agent", agent]
    return [sys.executable, "-m", "newel", "eval", "run", *other, *flags, *tasks]


def serve(path: Path, alias: str, key: str, threads: int) -> Any:
    """A server of the model, as Newel starts it, that lives as long as the returned object."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait take no time from the agents
    xllamacpp: Any = import_module("xllamacpp")  # it has no types
    options = ServerOptions(str(path), alias, key, CONTEXT, CACHE_MIB, threads)
    parameters: Any = parameters_for(xllamacpp, options)
    parameters.n_predict = ANSWER
    parameters.sampling.seed = SEED
    parameters.sampling.temp = 0.0
    return xllamacpp.Server(parameters)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
