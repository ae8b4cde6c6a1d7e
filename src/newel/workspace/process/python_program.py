"""What another Python needs to run a module of Newel: the interpreter, the compiled code, and a file in memory that hands it over."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO


def own_python() -> str:
    """This process's interpreter, without a virtual environment."""
    return os.path.realpath(sys.executable)


def code_of(module: ModuleType) -> Any:
    """A program, compiled as it is in this process: compiling it takes 3 ms."""
    from importlib.abc import InspectLoader  # with its base classes, it is slow to load

    loader = module.__loader__
    assert isinstance(loader, InspectLoader)  # noqa: S101 — that of any module with a file
    return loader.get_code(module.__name__)


def in_memory(data: bytes) -> BinaryIO:
    """A file that has no name, with these bytes, at its begin."""
    file = os.fdopen(nameless_file(), "wb+")
    file.write(data)
    file.flush()
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return file


def nameless_file() -> int:
    """A descriptor of a file in memory, or of an unlinked one where the system has no memfd."""
    if sys.platform == "linux":
        return os.memfd_create("newel")
    import tempfile

    descriptor, path = tempfile.mkstemp()
    Path(path).unlink()
    return descriptor
