"""Stands in for the package ``xllamacpp`` in the server's process: the name of the model decides how loading goes.

Found before the real one when this folder is on PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import SimpleNamespace
from typing import Any

LOG = """0.00.012.027 E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'
0.00.012.038 E llama_model_load: error loading model: failed to load model from x.gguf
"""
NO_MEMORY = (
    "0.19.421.653 E ggml_aligned_malloc: insufficient memory (attempted to allocate 2197265.62 MB)\n"
    "0.19.421.676 E srv    load_model: failed to create_context\n"
)


def get_device_info() -> list[dict[str, Any]]:
    """This machine has no graphics card."""
    return [{"type": SimpleNamespace(name="GGML_BACKEND_DEVICE_TYPE_CPU")}]


class CommonParams(SimpleNamespace):
    """The parameters that the server sets."""

    def __init__(self) -> None:
        super().__init__(
            model=SimpleNamespace(),
            cpuparams=SimpleNamespace(),
            cpuparams_batch=SimpleNamespace(),
        )


class Server:
    """Loads nothing and serves nothing."""

    listening_address = "http://127.0.0.1:9"

    def __init__(self, parameters: Any) -> None:
        match next(iter(parameters.model_alias)):
            case "broken.gguf":
                sys.stderr.write(LOG)
                raise RuntimeError("Failed to init server, please check the input params.")
            case "huge.gguf":
                sys.stderr.write(NO_MEMORY)
                raise RuntimeError("Failed to init server, please check the input params.")
            case "killed.gguf":
                os.kill(os.getpid(), signal.SIGKILL)
            case "new.gguf":
                os.kill(os.getpid(), signal.SIGILL)
            case "aborts.gguf":
                os.write(1, b"GGML_ASSERT(n > 0) failed\n")  # it writes to both
                os.kill(os.getpid(), signal.SIGABRT)
            case "other.gguf":
                raise AttributeError("'CommonParams' object has no attribute 'ui'")
            case "slow.gguf":
                time.sleep(600)
            case _:
                pass
