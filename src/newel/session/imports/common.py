"""What the imports share: the entries of a file of JSON lines, and the file that is written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from newel.agent.errors import SessionError
from newel.agent.messages import AppMessage, ImageContent, TextContent, ToolCall, new_id, now
from newel.session import paths
from newel.session.file_format import (
    MAX_LINE,
    UNREADABLE,
    Line,
    MessageLine,
    NameLine,
    SessionMetadata,
    encode_line,
)
from newel.session.message_tree import MessageTree
from newel.session.reader import Damage
from newel.storage.files import make_private, open_regular, project_folder, replace_file
from newel.text.sanitize import plain_line
from newel.tools.aliases import ARGUMENT_ALIASES, TOOL_ALIASES
from newel.tools.base import rename
from newel.tools.selection import OWN_NAMES

Entry = dict[str, Any]

ODD = (KeyError, TypeError, AttributeError, ValueError, OverflowError, msgspec.ValidationError)
"""What an entry raises that has not the shape that it should have."""

_OURS: Final = {alias: name for name in reversed(OWN_NAMES) for alias in (name, *TOOL_ALIASES.get(name, ()))}


class ImportedSession(msgspec.Struct, frozen=True):
    """The file of an imported session; ``damage`` describes the lines of the original that could not be read, and what was left out."""

    path: Path
    id: str
    damage: list[str]


class AlreadyImported(SessionError):
    """The session has been imported before, as ``session_id``."""

    def __init__(self, path: Path, session_id: str) -> None:
        super().__init__(
            f"This session was already imported, as {path}. Continue it with `newel --session {session_id}`, or delete that file to import "
            "it again."
        )
        self.path = path
        self.session_id = session_id


class OmissionCounts:
    """Counts what of a session is not imported on purpose."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, what: str) -> None:
        self._counts[what] += 1

    def report(self) -> list[str]:
        return [f"left out: {what} ({count:,})" for what, count in self._counts.items()]


def read_entries(source: Path, damage: Damage) -> list[tuple[int, Entry]]:
    """The entries of a file, with the numbers of their lines. Raises ``SessionError``."""
    try:
        with open_regular(source) as stream:
            return list(_entries(iter(lambda: stream.readline(MAX_LINE), b""), damage))
    except OSError as error:
        raise SessionError(f"{source} cannot be read: {error.strerror}.") from error


def _entries(raw_lines: Iterator[bytes], damage: Damage) -> Iterator[tuple[int, Entry]]:
    for number, raw in enumerate(raw_lines, 1):
        if raw.isspace():
            continue
        try:
            value = json.loads(raw.decode(errors="replace"))
        except UNREADABLE:
            value = None
        if isinstance(value, dict):
            yield number, cast("Entry", value)
        else:
            damage.add(f"line {number:,}: it cannot be read")


def message_lines(messages: Iterable[AppMessage], name: str = "") -> list[Line]:
    """The lines of a conversation without branches: ids are made unique, and lost results filled in."""
    history = MessageTree()
    for message in messages:
        unused = history.unused_id(message.id)
        whole = message if unused == message.id else msgspec.structs.replace(message, id=unused)
        for piece in history.repair(whole):
            history.add(piece)
    lines: list[Line] = [MessageLine(message) for message in history.active()]
    return [*lines, NameLine(plain_line(name))] if name.strip() else lines


def write_session(directory: Path, metadata: SessionMetadata, lines: Iterable[Line], source: Path) -> Path:
    """Write the file of an imported session. Raises ``SessionError``, and ``AlreadyImported``."""
    lines = list(lines)
    if not any(isinstance(line, MessageLine) for line in lines):
        raise SessionError(f"There is nothing to import in {source}: it has no messages.")
    path = project_folder(directory, metadata.cwd) / paths.file_name(metadata)
    existing = path if path.exists() else paths.find_exact(directory, metadata.cwd, metadata.id)
    if existing is not None:
        raise AlreadyImported(existing, metadata.id)
    try:
        make_private(path.parent)
        replace_file(path, b"".join(map(encode_line, [metadata, *lines])))
    except OSError as error:
        raise SessionError(f"The session cannot be imported to {path}: {error.strerror}.") from error
    return path


def make_metadata(session_id: str, timestamp: str, cwd: str, config: Mapping[str, Any]) -> SessionMetadata:
    """A header from what another program wrote: nothing of it chooses a path."""
    return SessionMetadata(
        id=session_id if re.fullmatch(r"[\w-]{1,64}", session_id, re.ASCII) else new_id(),
        timestamp=timestamp,
        cwd=cwd.replace("\0", ""),
        config=dict(config),
    )


def own_call(call_id: str, name: str, arguments: Any) -> ToolCall:
    """A call of a tool under Newel's names, if it has such a tool."""
    ours = _OURS.get(name, name)
    given = cast("Entry", arguments) if isinstance(arguments, dict) else {"input": arguments}
    return ToolCall(id=call_id, name=ours, arguments=rename(given, ARGUMENT_ALIASES.get(ours, {})))


def plain(content: list[TextContent | ImageContent]) -> str | list[TextContent | ImageContent]:
    """The content of a message: texts alone are one text."""
    texts = [part.text for part in content if isinstance(part, TextContent)]
    return "\n\n".join(texts) if len(texts) == len(content) else content


def text_of(entry: Entry, field: str) -> str:
    """A field of an entry that is a text; empty for anything else."""
    value = entry.get(field)
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def time_of(entry: Entry) -> str:
    """The time of an entry as Newel writes it, on which names of files and comparisons rely; now, if it has none."""
    try:
        time = datetime.fromisoformat(text_of(entry, "timestamp")).astimezone(UTC)
    except (ValueError, OverflowError):
        return now()
    return time.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
