"""The location of a remote workspace: user, host, port and path, validated before any program sees them."""

from __future__ import annotations

import re
import shlex
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.port import SCHEME

_PORTS: Final = range(1, 65_536)
_LONGEST: Final = 255

_HOST: Final = re.compile(r"[^\W_][\w.-]*|_[\w.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[\w.-]+)?")
"""A name, an alias of ssh_config, or an IP address. No character that is special to a shell or to ssh."""

_USER: Final = re.compile(r"[\w.][\w.@+-]*\$?|[\w.][\w.@+-]*\\?[\w.@+-]+")
"""Also ``me@example.org`` and ``DOMAIN\\me``, as in user directories."""

FORMS: Final = "user@host:/path, host:/path, host, or ssh://user@host:port/path"


class Target(msgspec.Struct, frozen=True):
    """``user`` and ``port`` are None if ssh's configuration decides. ``path`` is absolute, or relative to the home on the host
    (also with a leading ``~``); None is the home.
    """

    host: str
    user: str | None = None
    port: int | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        _check("host", self.host, _HOST)
        if self.user is not None:
            _check("user", self.user, _USER)
        if self.port is not None and self.port not in _PORTS:
            raise WorkspaceError(f"{self.port} is not a valid port. Use a number from 1 to {_PORTS[-1]}.")
        if self.path is not None and "\0" in self.path:
            raise WorkspaceError("The path on the host contains a NUL character.")

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse user input; see ``FORMS``. Raises ``WorkspaceError`` with the reason if it is invalid."""
        if text.startswith(SCHEME):
            where, slash, path = text.removeprefix(SCHEME).partition("/")
            user, host, rest = _split(where)
            port = _port(rest, text) if rest else None
            return cls(
                unquote(host),
                unquote(user) if user else user,
                port,
                unquote(path if path.startswith("~/") else slash + path, errors="surrogateescape") or None,
            )
        user, host, path = _split(text)
        return cls(host, user, None, path.removeprefix(":") or None)

    @property
    def ssh_args(self) -> list[str]:
        """Arguments for ssh: options first, then ``--`` and the host."""
        return [
            *(["-l", self.user] if self.user else []),
            *(["-p", str(self.port)] if self.port else []),
            *("--", self.host),
        ]

    @property
    def from_home(self) -> str:
        """The path as an argument of ``cd`` in the home on the host."""
        home, slash, rest = (self.path or ".").partition("/")
        return f".{slash}{rest}" if home == "~" else self.path or "."

    @property
    def login(self) -> str:
        """``user@host``."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def ssh_command(self) -> str:
        """The command that a user types to log in without Newel."""
        port = ["-p", str(self.port)] if self.port else []
        return shlex.join(["ssh", *port, self.login])

    @property
    def url(self) -> str:
        """``ssh://user@host:port/path``, with the known parts."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        return f"{SCHEME}{user}{host}{port}{_in_url(self.path) if self.path else ''}"


def _in_url(path: str) -> str:
    """``/~/`` is the home, as in other programs' URLs; a folder that is really called ``~`` is escaped."""
    if not path.startswith("/"):
        path = path.removeprefix("~").removeprefix("/")
        return f"/~/{quote(path.encode(errors='surrogateescape'))}"
    escaped = quote(path.encode(errors="surrogateescape"))
    return escaped.replace("/~/", "/%7E/", 1) if escaped.startswith("/~/") else escaped


def _split(text: str) -> tuple[str | None, str, str]:
    """User, host, and the rest with its colon. The user may contain an ``@``, a host in brackets colons."""
    # The path may contain any character, so find the end of the host first.
    bracketed = re.match(r"(?:([^\[\]/:]*)@)?\[([^\[\]]*)\](:.*)?\Z", text, re.DOTALL)
    if bracketed:
        return bracketed[1], bracketed[2], bracketed[3] or ""
    where, colon, rest = text.partition(":")
    user, at, host = where.rpartition("@")
    return user if at else None, host, colon + rest


def _port(rest: str, text: str) -> int:
    digits = rest.removeprefix(":")
    if not re.fullmatch(r"[0-9]{1,5}", digits):
        raise WorkspaceError(f"{text!r} is not a valid host: {digits!r} is not a port. Write {FORMS}.")
    return int(digits)


def _check(what: str, value: str, allowed: re.Pattern[str]) -> None:
    if not value:
        raise WorkspaceError(f"The {what} is empty. Write {FORMS}.")
    if len(value) > _LONGEST or not allowed.fullmatch(value):
        why = (
            "it begins with a dash, so ssh would read it as an option"
            if value.startswith("-")
            else "it is too long"
            if len(value) > _LONGEST
            else "it contains invalid characters"
        )
        raise WorkspaceError(f"{value!r} is not a valid {what}: {why}. Write {FORMS}.")
