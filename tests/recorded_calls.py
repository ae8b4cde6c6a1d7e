"""Run a command of Newel and record which of its functions are entered between two signals.

``python -m tests.recorded_calls FILE COMMAND [ARGUMENT ...]``. SIGUSR1 begins, SIGUSR2 ends and writes FILE: a JSON list of
``"package/module.py:qualified.name"`` in the order of first entry, from all threads.
"""

from __future__ import annotations

import inspect
import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import newel
from tests.forked import COMMANDS

SOURCES = str(Path(newel.__file__).parent) + "/"


class Recording:
    """A profile function; a dict keeps the order of first entries."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._entered: dict[str, None] = {}
        self._is_active = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED  # else the body of a module or class
        if self._is_active and event == "call" and is_function and code.co_filename.startswith(SOURCES):
            file = code.co_filename.removeprefix(SOURCES)
            name = ".".join(
                part for part in code.co_qualname.split(".") if part[0] != "<"
            )  # <locals>, <lambda>
            self._entered.setdefault(f"{file}:{name}")

    def start(self, *_: object) -> None:
        self._is_active = True

    def stop(self, *_: object) -> None:
        self._is_active = False
        part = self._output.with_suffix(".part")
        part.write_text(json.dumps(list(self._entered)))
        part.rename(self._output)


def main() -> None:
    file, command, *arguments = sys.argv[1:]
    recording = Recording(Path(file))
    signal.signal(signal.SIGUSR1, recording.start)
    signal.signal(signal.SIGUSR2, recording.stop)
    threading.setprofile(recording)  # before any thread starts: a running thread cannot get it
    sys.setprofile(recording)
    sys.argv = [command, *arguments]
    sys.exit(COMMANDS[command].load()())


if __name__ == "__main__":
    main()
