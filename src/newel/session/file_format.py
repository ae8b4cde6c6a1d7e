r"""The lines of a session file.

A session is a file of JSON lines, only ever appended to:

    {"type":"metadata","id":…,"timestamp":…,"cwd":…,"config":{…}}     the first line
    {"type":"message","message":{…}}           continues the message line before it; "typed": how the user wrote it
    {"type":"branch","from":"<message id>"}    what follows continues that message; null: starts again
    {"type":"name","name":"…"}                 the session's name; the last one counts
    {"type":"queued","id":…,"text":"…"}        waits to be sent; a message line with its id sends it
    {"type":"unqueued","ids":[…]}              these no longer wait
    {"type":"not_started","calls":[…]}         while the user is asked: the tool calls that have not started; the last line counts

Lines of other types are ignored. Lines end with ``\n``, never with another line separator.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal, cast

import msgspec
from msgspec import field

from newel.agent.errors import SessionError
from newel.agent.messages import AppMessage, Attachment, UserMessage, Wire

BLOCK = 1024 * 1024
"""Bytes of a file that are in memory at a time, unless a line is longer."""

MAX_LINE = 128 * 1024 * 1024
"""Bytes of the longest line: bounds the memory that a hostile file takes."""


class SessionMetadata(Wire, frozen=True, omit_defaults=False, tag_field="type", tag="metadata"):
    """The header of a session. ``cwd`` is the project's folder, empty in a damaged file."""

    id: str
    timestamp: str
    cwd: str
    config: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def parent(self) -> str:
        """The session of the agent whose subagent had this one; empty for all others."""
        parent = self.config.get("parent")
        return parent if isinstance(parent, str) else ""

    def is_of(self, cwd: str) -> bool:
        """Whether the session is of a project, as far as is known. A file has the name of its folder as text, which need not be one."""
        return self.cwd in {"", cwd} or self.cwd == _as_text(cwd)


class MessageLine(Wire, frozen=True, tag_field="type", tag="message"):
    """``typed`` is how the user wrote the message, unless that is its text: ``/template`` and ``@files`` become something else."""

    message: AppMessage
    typed: str = ""


class BranchLine(Wire, frozen=True, tag_field="type", tag="branch"):
    from_id: str | None = field(name="from")


class NameLine(Wire, frozen=True, tag_field="type", tag="name"):
    name: str


class QueuedLine(Wire, frozen=True, tag_field="type", tag="queued"):
    """A message or a command as it was typed, and the images that were pasted into it. Its ``id`` becomes the message's."""

    id: str
    text: str
    images: list[Attachment] = field(default_factory=list[Attachment])


class UnqueuedLine(Wire, frozen=True, tag_field="type", tag="unqueued"):
    ids: list[str]


class NotStartedLine(Wire, frozen=True, tag_field="type", tag="not_started"):
    """The ids of tool calls. One that starts afterwards is taken off by another line, on the disk, before it starts."""

    calls: list[str]


Line = SessionMetadata | MessageLine | BranchLine | NameLine | QueuedLine | UnqueuedLine | NotStartedLine

_TYPES = frozenset({"metadata", "message", "branch", "name", "queued", "unqueued", "not_started"})
_ROLES = frozenset({"user", "assistant", "toolResult", "custom"})
_AROUND = b"\0\r\n\t \xef\xbb\xbf"
"""Bytes ignored around a line's JSON: white space, a byte order mark, NULs that a power cut left."""

Condition = Literal["exact", "foreign", "broken"]
"""How a line was read: ``exact`` as Newel writes it, so that it decodes to the same each time; ``foreign`` as another program does;
``broken`` with replaced characters."""

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""The errors of the decoders."""


@cache
def _decoder() -> msgspec.json.Decoder[Line]:
    return msgspec.json.Decoder(Line)


def encode_line(line: Line) -> bytes:
    """Encode a line with its line end. Lone surrogates become U+FFFD. Raises ``SessionError`` for values that are not JSON, too
    deep or too long.
    """
    try:
        try:
            data = msgspec.json.encode(line)
        except UnicodeEncodeError:
            data = _without_halves(msgspec.to_builtins(line))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SessionError(f"A message cannot be saved: it is not plain JSON ({error}).") from error
    if len(data) >= MAX_LINE:
        raise SessionError(f"A message of {len(data):,} bytes cannot be saved; the limit is {MAX_LINE:,}.")
    return data + b"\n"


def is_foreign(first: bytes) -> bool:
    """Whether another program wrote the file: its first line is intact JSON of an unknown type."""
    import json

    try:
        value: Any = json.loads(first.strip(_AROUND).decode(errors="replace"))
    except (ValueError, RecursionError):  # damaged, perhaps
        return False
    kind = cast("dict[str, Any]", value).get("type") if isinstance(value, dict) else None
    return not isinstance(kind, str) or kind not in _TYPES


def read_line(raw: bytes, *, number: int, timestamp: str) -> tuple[Line | None, Condition]:
    """Decode a line, and tell its condition. None for an empty line and an unknown type.

    Lines of other programs are accepted: a message without an id gets one from its line ``number``, and the session's
    ``timestamp``; a message with an unknown role becomes a custom one. Invalid UTF-8 and lone surrogates become U+FFFD. Raises
    the errors of ``UNREADABLE``.
    """
    condition: Condition = "foreign"
    try:
        line = _decoder().decode(raw)
        if not isinstance(line, MessageLine) or _has_identity(raw, line.message):
            return line, "exact"
    except msgspec.ValidationError:  # JSON, but not as Newel writes it
        pass
    except UNREADABLE:
        if raw.isspace():
            return None, "exact"
        condition = "broken"
    return _read_loosely(raw, number=number, timestamp=timestamp), condition


def _has_identity(raw: bytes, message: AppMessage) -> bool:
    """Whether the line has the ids and the time: missing ones would be new at each reading. They stand behind the long texts."""
    if raw.rfind(message.timestamp.encode()) < 0 or raw.rfind(message.id.encode()) < 0:
        return False
    attachments = message.attachments if isinstance(message, UserMessage) else ()
    return not attachments or all(raw.rfind(each.id.encode()) >= 0 for each in attachments)


def _read_loosely(raw: bytes, *, number: int, timestamp: str) -> Line | None:
    import json

    value: Any = json.loads(raw.strip(_AROUND).decode(errors="replace"))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - the caller knows a bad line by ValueError
    line = cast("dict[str, Any]", value)
    kind: Any = line.get("type")
    if not isinstance(kind, str):
        raise ValueError("no type")  # noqa: TRY004 - as above
    if kind not in _TYPES:
        return None
    if kind == "message" and isinstance(line.get("message"), dict):
        line["message"] = _complete(line["message"], number=number, timestamp=timestamp)
    if kind == "metadata":
        line = {"timestamp": timestamp, "cwd": "", **line}
    return _decoder().decode(_without_halves(line))


def _complete(message: dict[str, Any], *, number: int, timestamp: str) -> dict[str, Any]:
    defaults = {"id": f"line-{number}", "timestamp": timestamp}
    role = message.get("role")
    if role == "toolResult":
        return {**defaults, "toolName": "", "isError": False, **message}
    if isinstance(role, str) and role not in _ROLES:
        existing = {key: message[key] for key in defaults if isinstance(message.get(key), str)}
        data = {key: value for key, value in message.items() if key != "role" and key not in existing}
        return {**defaults, **existing, "role": "custom", "name": role, "data": data}
    return {**defaults, **message}


def _without_halves(value: Any) -> bytes:
    import json

    return _as_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def _as_text(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_SECRET = ("key", "token", "secret", "passw", "credential", "auth")
_USER_INFO = r"(?<=://)[^/@\s]*@"


def public_config(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration without secrets: entries with such names, and credentials in URLs. Numbers are kept."""
    public: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            public[key] = public_config(cast("dict[str, Any]", value))
        elif isinstance(value, int | float | None) or not any(word in key.lower() for word in _SECRET):
            public[key] = re.sub(_USER_INFO, "", value) if isinstance(value, str) else value
    return public
