"""A model's file: checks before it is loaded, and the size of the context that the memory allows."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import RequestRejected
from newel.providers.llamacpp.gguf import GgufError, GgufHeader, read_header
from newel.text.format import format_size

DEFAULT_MAX_CONTEXT: Final = 32_768
"""The maximum context in tokens, unless the model's settings set another one: it takes memory, and reading a long prompt takes a
processor minutes.
"""

MIN_CONTEXT: Final = 4_096
"""The smallest context that an agent can work in, in tokens."""

CONTEXT_STEP: Final = 256
"""llama.cpp rounds the context up to a multiple of this."""

BATCH: Final = 512
"""Tokens that llama.cpp evaluates at once, by default."""

FIXED_BYTES: Final = 128 * 2**20
"""Memory for the process, and for buffers that do not depend on the model."""

MAX_CACHE_BYTES: Final = 2 * 2**30
"""Memory for conversations that are not the current one."""

_PART = r"-(\d{5})-of-(\d{5})\.gguf$"
_AVAILABLE = r"(?m)^MemAvailable:\s+(\d+) kB$"


class MemoryPlan(msgspec.Struct, frozen=True):
    """The context of a model in tokens, and the memory for the states of earlier conversations in MiB."""

    context: int
    cache_mib: int


class ModelFile(msgspec.Struct, frozen=True):
    """A checked GGUF file. ``size`` is in bytes, of all parts if it is split."""

    path: Path
    size: int
    header: GgufHeader

    @property
    def name(self) -> str:
        return self.path.name

    def plan(self, requested: int | None, available: int | None) -> MemoryPlan:
        """Choose the context: the ``requested`` one, else the largest that fits into the ``available`` bytes of memory (None if
        unknown), up to ``DEFAULT_MAX_CONTEXT``; never more than the model was trained for.

        Raises ``RequestRejected`` if the memory is too small.
        """
        kv_bytes = self.header.kv_bytes
        trained = self.header.context_length or requested or DEFAULT_MAX_CONTEXT
        wanted = min(requested or DEFAULT_MAX_CONTEXT, trained)
        fixed = self.size + FIXED_BYTES + 4 * BATCH * self.header.vocabulary
        if available is None:
            return MemoryPlan(_round_up(wanted), MAX_CACHE_BYTES // 2**20)
        least = wanted if requested else min(wanted, MIN_CONTEXT)
        needed = fixed + _round_up(least) * kv_bytes
        if needed > available:
            raise RequestRejected(_too_little(self.name, needed, available, least))
        if kv_bytes and not requested:
            wanted = min(wanted, max(least, (available - fixed) // kv_bytes // CONTEXT_STEP * CONTEXT_STEP))
        context = _round_up(wanted)
        spare = max(0, available - fixed - context * kv_bytes)
        return MemoryPlan(context, min(MAX_CACHE_BYTES, spare // 2) // 2**20)


def load_model_file(path: Path) -> ModelFile:
    """Check a file and all its parts. Raises ``RequestRejected`` if it cannot be a model."""
    header, size = _check(path)
    if header.parts > 1:
        parts = _parts(path, header.parts)
        size = sum(_check(part)[1] for part in parts)
    return ModelFile(path, size, header)


def available_memory() -> int | None:
    """The memory in bytes that programs can take without swapping; on systems that do not report it, all memory. None if unknown."""
    with suppress(OSError):
        if found := re.search(_AVAILABLE, Path("/proc/meminfo").read_text(encoding="ascii")):
            return int(found[1]) * 1024
    with suppress(OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _check(path: Path) -> tuple[GgufHeader, int]:
    """Return a file's header and size."""
    try:
        if path.is_dir():
            raise RequestRejected(
                f"{path} is a folder. Name a model file in it, such as llamacpp:{path}/model.gguf."
            )
        size = path.stat().st_size
        header = read_header(path)
    except FileNotFoundError as error:
        raise RequestRejected(_missing(path)) from error
    except OSError as error:
        raise RequestRejected(f"The model file {path} cannot be read: {error.strerror}.") from error
    except GgufError as error:
        raise RequestRejected(f"The file {path} {error}. Download the model as a GGUF file again.") from error
    if size < header.expected_size:
        raise RequestRejected(
            f"The model file {path} is incomplete: it has {format_size(size)} of {format_size(header.expected_size)}. "
            "Download it again."
        )
    return header, size


def _missing(path: Path) -> str:
    with suppress(OSError):
        return f"There is no model file {path.readlink()}, to which {path} leads. Move it back, or pull it again."
    return (
        f"There is no model file {path}. Check the path or name after `llamacpp:`; `newel models pull` lists models to "
        "download."
    )


def _parts(path: Path, count: int) -> list[Path]:
    """The files of a split model, of which ``path`` must be the first."""
    found = re.search(_PART, path.name)
    if not found or int(found[1]) != 1 or int(found[2]) != count:
        raise RequestRejected(
            f"The model file {path} is one of {count} parts. Keep their names, and use the one that ends in "
            f"-00001-of-{count:05}.gguf."
        )
    stem = path.name[: found.start()]
    return [path.with_name(f"{stem}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]


def _round_up(tokens: int) -> int:
    return (tokens + CONTEXT_STEP - 1) // CONTEXT_STEP * CONTEXT_STEP


def _too_little(name: str, needed: int, available: int, context: int) -> str:
    return (
        f"{name} needs {format_size(needed)} of memory with a context of {context:,} tokens, and {format_size(available)} is "
        "available. Close other programs, use a smaller model, or set a smaller context_window for it."
    )
