"""A command's output in bounded memory: captured for the result, spilled to a file, shown live."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import time
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

import msgspec

from newel.workspace.port import OnOutput, Workspace

PREFIX: Final = "newel-output-"
SUFFIX: Final = ".txt"

KEPT: Final = 7 * 24 * 60 * 60
"""Seconds to keep the file of a long output; older ones are removed when another is created."""

TOGETHER: Final = 512 * 1024 * 1024
"""Bytes of all these files; the oldest are removed first."""

ON_HOST: Final = ".newel/outputs"
"""The folder for these files in the home of a host's user."""

FEW: Final = 50
"""Files on a host; each has one result."""

LOOKED_THROUGH: Final = 10_000
"""Names of a folder to check for these files."""


class OutputLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one command's output in bytes: of each stream in memory, and of the file for the whole,
    which is made in ``spill_dir`` (by default the system's folder for temporary files).
    """

    output: int = 1_000_000
    spill: int = 64 * 1024 * 1024
    spill_dir: str | None = None


class OutputSink(Protocol):
    """Where a process's output goes: ``stream`` is ``stdout`` or ``stderr``."""

    @property
    def due(self) -> float:
        """When ``flush`` has something to do next, on the event loop's clock."""
        ...

    def add(self, stream: str, chunk: bytes, /) -> None: ...

    async def flush(self, now: float, /, *, final: bool = False) -> None:
        """Pass on output that is due; ``final``: all of it."""
        ...

    def close(self) -> None: ...


class Capture:
    """One stream: all of it up to ``limit`` bytes, beyond that its head and tail of half that each."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def truncated(self) -> bool:
        return self.size > self.limit

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        room = self.limit - len(self._head) if not self._tail else 0
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self, where: str) -> str:
        """The stream as text; ``where`` ends the note in place of the omitted part."""
        if not self.truncated:
            return self._head.decode(errors="replace")
        tail = (self._head + self._tail)[-self._half :]
        # The decoder holds back a character that the cut split; its rest at the start of the tail is skipped.
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(self._head[: self._half])
        start = next((index for index in range(min(4, len(tail))) if tail[index] & 0xC0 != 0x80), 0)
        left_out = self.size - 2 * self._half
        return f"{head}\n[… {left_out:,} bytes omitted; {where} …]\n{tail[start:].decode(errors='replace')}"


class Spill:
    """Both streams in order of arrival: in memory until ``open``, then in a file of at most ``cap`` bytes that only its owner
    can read.

    A full disk truncates the file, but never fails the command.
    """

    def __init__(self, directory: str | None, cap: int) -> None:
        self.path: str | None = None
        self._directory = directory
        self._cap = cap
        self._written = 0
        self._early = bytearray()
        self._file: int | None = None
        self._problem = ""

    @property
    def where(self) -> str:
        """Where the whole output is, or how much of it, and why not all."""
        if self.path is None:
            return f"the whole output could not be saved: {self._problem}"
        if self._problem:
            return f"the first {self._written:,} bytes of all output are in {self.path}, then {self._problem}"
        return f"the whole output is in {self.path}"

    def add(self, chunk: bytes) -> None:
        if self._file is not None:
            self._write(chunk)
        elif not self._problem:
            self._early += chunk

    def open(self) -> None:
        """Create the file with the output so far. Idempotent."""
        if self._file is not None or self._problem:
            return
        import tempfile

        try:
            folder = _prepare_folder(self._directory)
            self._file, self.path = tempfile.mkstemp(prefix=PREFIX, suffix=SUFFIX, dir=folder)
        except OSError as error:
            self._problem = error.strerror or str(error)
        else:
            self._write(self._early)
        self._early = bytearray()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, chunk: bytes | bytearray) -> None:
        if self._problem or self._file is None:
            return
        rest = memoryview(chunk)[: self._cap - self._written]
        if len(rest) < len(chunk):
            self._problem = "the file was full"
        try:
            while rest:
                written = os.write(self._file, rest)
                self._written += written
                rest = rest[written:]
        except OSError as error:
            self._problem = error.strerror or str(error)


def spill_folder() -> str:
    """The default folder for these files: a private one in the system's temporary folder."""
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"newel-{os.geteuid()}")  # noqa: PTH118 — a text for the system


def save_spill(text: str, directory: str | None = None) -> str:
    """Save a text in such a file, and return its path; the same for the same text. Raises ``OSError``."""
    import tempfile

    data = text.encode(errors="replace")
    folder = _prepare_folder(directory)
    path = Path(folder) / _name(data)
    descriptor, name = tempfile.mkstemp(prefix=PREFIX, suffix=SUFFIX, dir=folder)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 — a descriptor, not a path
            file.write(data)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return str(path)


async def save_spill_on_host(workspace: Workspace, folder: str, text: str) -> str:
    """As ``save_spill``, in a folder of a host, where the ``FEW`` newest files stay. Raises ``WorkspaceError``."""
    data = text.encode(errors="replace")
    path = f"{folder}/{_name(data)}"
    await workspace.write_bytes(path, data, mode=0o600)
    spills = [
        f"{folder}/{entry.name}" for entry in await workspace.list(folder) if entry.name.startswith(PREFIX)
    ]
    if len(spills) > FEW:
        infos = zip(await workspace.stats(spills), spills, strict=True)
        for _, old in sorted((info.modified_ns, entry) for info, entry in infos if info is not None)[:-FEW]:
            await workspace.remove(old)
    return path


def _name(data: bytes) -> str:
    import hashlib

    return f"{PREFIX}{hashlib.sha256(data).hexdigest()[:16]}{SUFFIX}"


def _prepare_folder(directory: str | None) -> str:
    """Create the folder, writable by this user only, and remove old files from it."""
    folder = Path(directory or spill_folder())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if directory is None and (not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid()):
        raise PermissionError(f"{folder} belongs to another user")
    if directory is None and status.st_mode & 0o077:
        folder.chmod(0o700)
    purge(str(folder))
    return str(folder)


def purge(directory: str) -> None:
    """Remove outputs older than a week, and the oldest ones above the total size. Errors are ignored."""
    files: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in islice(entries, LOOKED_THROUGH):
            if entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX):
                with contextlib.suppress(OSError):
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
                        files.append((info.st_mtime, info.st_size, entry.path))
    oldest = time.time() - KEPT
    room = TOGETHER
    for modified, size, path in sorted(files, reverse=True):
        room -= size
        if room < 0 or modified < oldest:
            with contextlib.suppress(OSError):
                Path(path).unlink()


class LiveOutput:
    """Passes output on while a command runs: at most ten pieces a second of at most 64 KiB each, so that a flood of output
    neither slows the command nor swamps its readers.
    """

    interval = 0.1
    budget = 65_536

    def __init__(self, on_output: OnOutput) -> None:
        self.due = float("inf")
        self._on_output = on_output
        self._last = float("-inf")
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")
        }
        self._pieces: list[str] = []
        self._room = self.budget
        self._skipped = 0

    def add(self, stream: str, chunk: bytes) -> None:
        decoder = self._decoders[stream]
        if len(chunk) > self._room:
            self._skipped += len(chunk) - self._room
            chunk = chunk[: self._room]
            self._pieces.append(decoder.decode(chunk))
            decoder.reset()
        else:
            self._pieces.append(decoder.decode(chunk))
        self._room -= len(chunk)
        self.due = self._last + self.interval

    async def flush(self, now: float, *, final: bool = False) -> None:
        """Pass on the pending output; ``final``: also an incomplete character."""
        if final:
            self._pieces += [decoder.decode(b"", final=True) for decoder in self._decoders.values()]
        text = "".join(self._pieces)
        if self._skipped:
            text += f"\n[… {self._skipped:,} bytes not shown here …]\n"
        self._pieces.clear()
        self._room, self._skipped = self.budget, 0
        self._last, self.due = now, float("inf")
        if text:
            await self._on_output(text)


class Output:
    """Distributes a command's output to the result, the file and the screens."""

    def __init__(self, limits: OutputLimits, on_output: OnOutput | None) -> None:
        self.stdout = Capture(limits.output)
        self.stderr = Capture(limits.output)
        self.spill = Spill(limits.spill_dir, limits.spill)
        self.live = LiveOutput(on_output) if on_output else None

    def add(self, stream: str, chunk: bytes) -> None:
        capture = self.stdout if stream == "stdout" else self.stderr
        capture.add(chunk)
        self.spill.add(chunk)
        if capture.truncated:
            self.spill.open()
        if self.live:
            self.live.add(stream, chunk)

    @property
    def due(self) -> float:
        return self.live.due if self.live else float("inf")

    async def flush(self, now: float, *, final: bool = False) -> None:
        if self.live and (final or now >= self.live.due):
            await self.live.flush(now, final=final)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a network file system may report a full disk only here
            self.spill.close()


def is_spill(folder: str, path: str) -> bool:
    """Whether a real path is a file with a long output in ``folder``."""
    place, _, name = path.rpartition("/")
    return name.startswith(PREFIX) and name.endswith(SUFFIX) and place == folder
