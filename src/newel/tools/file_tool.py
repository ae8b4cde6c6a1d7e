"""The base of ``read``, ``write`` and ``edit``: one file of a workspace, and what the model saw of it last."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, TypeVarTuple

import anyio.to_thread
import msgspec

from newel.agent.errors import ToolError, WorkspaceError
from newel.agent.ports import OnOutput, Preview, ToolResult, Touch
from newel.tools.base import Parameters, ParsedTool
from newel.workspace.port import DirectoryEntry, Workspace, check_path

if TYPE_CHECKING:
    from newel.diff.unified import DiffBlock

BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""

DIFF_SHOWN: Final = 200_000
"""Characters of a diff in a result; a preview is complete."""

MAX_FOLLOWED_BYTES: Final = 1 << 20
"""What a hook makes of a larger file is not shown to the model."""

MAX_FOLLOWED_DIFF: Final = 8_000
"""Characters of such a change. Of a longer one, reading the file again tells more."""


def encode_text(text: str, argument: str) -> bytes:
    """The text as UTF-8. Raises ``ToolError`` for half a surrogate pair, which JSON allows but UTF-8 does not."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        broken = f"\\u{ord(text[error.start]):04x}"
        raise ToolError(
            f"{argument} contains {broken}, half of a surrogate pair, which is not a character."
        ) from error


def is_other_encoding(content: bytes) -> bool:
    """Whether a text is in Latin-1, say. One with characters of UTF-8 and stray bytes beside them counts as UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode(errors="replace").replace("\ufffd", "").isascii()
    return False


MAX_FILES: Final = 10_000
"""Beyond that, the files seen longest ago count as never seen."""

MAX_PRINTED: Final = 50_000
"""Lines of commands' output; beyond that, those printed longest ago count as never printed."""


class FileTracker:
    """Content hashes by resolved path, set by ``read``, ``write`` and ``edit``.

    A file that the model has never seen may be overwritten: the user asked for it. One that has changed since the model saw it
    may not, even if a command of the same agent changed it: the model does not know the result. Lines that commands printed are
    remembered, too, by their hashes: models read files with ``cat``.
    """

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._printed = OrderedDict[int, None]()  # the first of a dict takes long to find after deletions

    def saw(self, path: str, sha256: str) -> None:
        self._seen.pop(path, None)
        self._seen[path] = sha256
        if len(self._seen) > MAX_FILES:
            del self._seen[next(iter(self._seen))]

    def last_seen(self, path: str) -> str | None:
        return self._seen.get(path)

    def printed(self, output: str) -> None:
        """The model was shown this output of a command."""
        for line in output.splitlines():
            key = hash(line.strip())
            self._printed[key] = None
            self._printed.move_to_end(key)
        while len(self._printed) > MAX_PRINTED:
            self._printed.popitem(last=False)

    def was_printed(self, content: bytes) -> bool:
        """Whether commands have printed every line of this content. Where they were printed does not matter."""
        lines = content.decode(errors="replace").splitlines()
        return all(hash(line.strip()) in self._printed for line in lines if line.strip())


def entry_label(entry: DirectoryEntry) -> str:
    """A directory entry as text; bytes that are not UTF-8 become question marks."""
    return entry.name.encode(errors="replace").decode() + ("/" if entry.kind == "directory" else "")


async def not_found(workspace: Workspace, path: str, requested: str) -> ToolError:
    """The error for a missing file: which part of its path is missing, and similar names."""
    import difflib

    folder, missing = PurePath(path).parent, PurePath(path).name
    while (info := await workspace.stat(str(folder))) is None and folder != folder.parent:
        folder, missing = folder.parent, folder.name
    display = str(folder.relative_to(root) if folder.is_relative_to(root := workspace.root) else folder)
    if info is None or info.kind != "directory":
        return ToolError(f"File not found: {requested}. '{display}' is not a directory.")
    names = {entry.name.lower(): entry_label(entry) for entry in await workspace.list(str(folder))}
    near = [names[name] for name in difflib.get_close_matches(missing.lower(), names, n=5)]
    hint = f" Similar names: {', '.join(near)}." if near else ""
    return ToolError(f"File not found: {requested}. There is no '{missing}' in '{display}'.{hint}")


MAX_INLINE_BYTES: Final = 64 * 1024
"""Up to this size, processing a content takes less time than handing it to a thread."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def run_in_thread_if_large(size: int, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Call a pure function on ``size`` bytes, in a thread if they are many. A cancelled caller does not wait for its end."""
    if size <= MAX_INLINE_BYTES:
        return function(*arguments)
    return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


class FileParameters(Parameters, frozen=True):
    """Base of parameters that name one file."""

    file_path: str


F = TypeVar("F", bound=FileParameters)


class FileTool(ParsedTool[F]):
    def __init__(self, workspace: Workspace, tracker: FileTracker) -> None:
        self._workspace = workspace
        self._tracker = tracker

    def parse(self, arguments: dict[str, Any], /) -> F:
        parsed = super().parse(arguments)
        try:
            check_path(parsed.file_path)
        except WorkspaceError as error:
            raise self.invalid(f"argument `file_path`: {str(error).removesuffix('.')}") from error
        return parsed

    async def serial_key(self, arguments: F, /) -> str:
        """Calls about one file run one after the other, whatever name they use for it."""
        return await self._workspace.resolve(arguments.file_path)


class FileEdit(msgspec.Struct, frozen=True):
    """A prepared change of a file: ``expect`` is the SHA-256 of the content that it was made from, or ``ABSENT``; ``data`` is
    the new content. ``old`` has the lines before it, None for a new file, and ``blocks`` the difference.
    """

    expect: str
    data: bytes
    old: list[bytes] | None
    blocks: list[DiffBlock[bytes]]
    matches: int = 1
    """The number of texts that were replaced."""

    @property
    def size(self) -> int:
        """Bytes of the new content and lines of the old: a measure of the work that a diff is."""
        return len(self.data) + len(self.old or ())

    def preview(self, name: str) -> str:
        """The complete change, for the user who decides about it."""
        from newel.diff.unified import describe_diff

        return describe_diff(name, self.old, self.blocks)

    def diff(self, name: str) -> str:
        from newel.diff.unified import unified_diff

        return unified_diff(name, self.old, self.blocks, limit=DIFF_SHOWN)

    @property
    def lines_changed(self) -> int:
        """Lines removed or added; a changed line counts once."""
        return sum(max(block.end - block.start, len(block.new)) for block in self.blocks)

    @property
    def first_line(self) -> int:
        """The number of the first line that differs, counted from 1."""
        return self.blocks[0].start + 1


class ChangeCall(Generic[F]):
    """A change of one file, bound to the file's real path, and after a preview to exactly that change. Implements
    ``newel.agent.ports.PlannedCall``.
    """

    def __init__(self, tool: ChangingTool[F], arguments: F, path: str) -> None:
        self.touches = (Touch(path, arguments.file_path, writes=True),)
        self._tool = tool
        self._arguments = arguments
        self._path = path
        self._previewed: FileEdit | None = None

    async def preview(self) -> Preview:
        change = self._previewed = await self._tool.prepare(self._arguments, self._path)
        text = await run_in_thread_if_large(change.size, change.preview, self._arguments.file_path)
        touch = Touch(
            self._path,
            self._arguments.file_path,
            writes=True,
            before=change.expect,
            after=sha256(change.data),
        )
        return Preview(text, (touch,))

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        del on_output
        # What the user saw is written, or nothing: `apply` refuses if the file has changed since.
        change = self._previewed or await self._tool.prepare(self._arguments, self._path)
        return await self._tool.apply(change, self._arguments, self._path)


class ChangingTool(FileTool[F]):
    """A tool that changes the content of one file."""

    read_only = False

    async def plan(self, arguments: F, /) -> ChangeCall[F]:
        return ChangeCall(self, arguments, await self._workspace.resolve(arguments.file_path))

    async def known_content(self, name: str, /) -> bytes | None:
        """The content of a file; None if it is not what the model knows, or long. Raises ``NewelError``."""
        path = await self._workspace.resolve(name)
        content = await self._workspace.read_bytes(path, size=MAX_FOLLOWED_BYTES + 1)
        is_known = self._tracker.last_seen(path) == sha256(content)
        return content if is_known and len(content) <= MAX_FOLLOWED_BYTES else None

    async def show_change(self, name: str, before: bytes, /) -> str:
        """The diff from ``before`` to the file as it is now. It is for the model, which knows the file then. Empty if nothing has changed,
        if the diff would not show everything, or if the name leads to another file by now. Raises ``NewelError``.
        """
        from newel.diff.unified import compare, split_lines, unified_diff

        path = await self._workspace.resolve(name)
        if self._tracker.last_seen(path) != sha256(before):
            return ""
        after = await self._workspace.read_bytes(path, size=MAX_FOLLOWED_BYTES + 1)
        if after == before or len(after) > MAX_FOLLOWED_BYTES or is_other_encoding(after):
            return ""
        old = split_lines(before)
        blocks = await run_in_thread_if_large(len(before) + len(after), compare, old, split_lines(after))
        diff = unified_diff(name, old, blocks)
        if len(diff) > MAX_FOLLOWED_DIFF:
            return ""
        self._tracker.saw(path, sha256(after))
        return diff

    @abstractmethod
    async def prepare(self, arguments: F, path: str, /) -> FileEdit:
        """The change of the file at the real ``path``. Changes nothing; raises ``NewelError`` if the change is not possible."""

    @abstractmethod
    async def apply(self, change: FileEdit, arguments: F, path: str, /) -> ToolResult:
        """Write the change, if the file is still what it was made from. Raises ``StaleFile``."""


def sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
