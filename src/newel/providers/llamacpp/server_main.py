"""The server's process: loads one model with ``xllamacpp`` and serves it on 127.0.0.1 until its standard input ends.

It reads ``ServerOptions`` from its standard input and writes one ``ServerReport`` to its standard output, each a line of JSON. The
key passes through the pipe because command lines and environments are readable for other processes. llama.cpp logs to standard
error. When Newel ends, however it does, the kernel closes the pipe.

``xllamacpp`` holds the interpreter's lock while it loads a model, so no thread can watch the pipe meanwhile; on Linux the kernel
then ends the process.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from newel.workspace.secrecy import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LOG_BYTES: Final = 2**20
"""The log holds errors only; a server that runs for weeks must not fill the disk."""

HOST: Final = "127.0.0.1"

CPU_BATCH: Final = 128
"""Tokens of a prompt that a processor reads at once. A cancelled request ends after its batch; larger ones are not faster there."""

_PR_SET_PDEATHSIG: Final = 1
_ERRORS_ONLY: Final = 1


class ServerOptions(msgspec.Struct, frozen=True):
    """``context`` is in tokens; ``cache_mib`` is memory for earlier conversations; ``alias`` is the model's name in the API."""

    path: str
    alias: str
    key: str
    context: int
    cache_mib: int
    threads: int


class ServerReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """``url`` is the server's address, empty if the model could not be loaded: ``problem`` says why."""

    url: str = ""
    problem: str = ""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for Newel
    hide_secrets()
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_LOG_BYTES, MAX_LOG_BYTES))
    reports = os.dup(1)
    os.dup2(2, 1)
    options = msgspec.json.decode(_read_line(), type=ServerOptions)
    _end_with_parent(signal.SIGKILL)
    if not select.select([0], [], [], 0)[0]:  # readable means closed: the parent is gone already
        server, report = _load(options)
        _end_with_parent(0)
        os.write(reports, msgspec.json.encode(report) + b"\n")
        if server is None:
            return  # llama.cpp writes the rest of its log when the process exits
        while os.read(0, 4096):
            pass
    os._exit(0)  # nothing is worth the time to tear the model down


def _load(options: ServerOptions) -> tuple[object | None, ServerReport]:
    """Load the model. The server runs as long as the returned object lives."""
    try:
        xllamacpp: Any = import_module("xllamacpp")  # it has no types
    except ImportError as error:
        return None, ServerReport(problem=f"the package xllamacpp cannot be loaded: {error}")
    try:
        server = xllamacpp.Server(parameters_for(xllamacpp, options))
    except (RuntimeError, AttributeError) as error:  # the log says more
        return None, ServerReport(problem=str(error))
    return server, ServerReport(url=server.listening_address)


def parameters_for(xllamacpp: Any, options: ServerOptions) -> object:
    """Return the parameters of the library's server."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = options.path
    parameters.model_alias = {options.alias}
    parameters.n_ctx = options.context
    parameters.cache_ram_mib = options.cache_mib
    if not any(device["type"].name.endswith("GPU") for device in xllamacpp.get_device_info()):
        parameters.n_batch = parameters.n_ubatch = CPU_BATCH
    parameters.n_parallel = 1  # each slot would get only a part of the context
    parameters.fit_params = False  # it loads the model twice, and may choose another context
    parameters.use_jinja = True
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = options.threads
    parameters.hostnames = [HOST]
    parameters.port = 0
    parameters.api_keys = [options.key]
    parameters.ui = parameters.endpoint_slots = False
    parameters.verbosity = _ERRORS_ONLY
    return parameters


def _read_line() -> bytes:
    """Read a line without buffering, so that ``select`` sees what follows."""
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := os.read(0, 65536)):
            os._exit(0)
        line += piece
    return line


def _end_with_parent(number: int) -> None:
    """Have the kernel send this signal when the thread that started this process ends; 0 for none."""
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):
        prctl: Callable[..., int] = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


if __name__ == "__main__":
    main()
