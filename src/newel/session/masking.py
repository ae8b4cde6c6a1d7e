"""Masks recognizable secrets in exports of sessions, logs and traces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from newel.agent.formatting import pluralize
from newel.agent.messages import AppMessage
from newel.session.reader import SessionData
from newel.text.json import to_json
from newel.workspace.process.environment import is_secret

SHORTEST_SECRET: Final = 6
"""Characters: a shorter value could be part of any word."""

_START: Final = r"(?:\b|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))"
"""Of a word, also behind a line break or the like that is escaped, as in JSON."""

KEY: Final = (
    rf"(?=[sprghxA]){_START}(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|hf|AKIA|ASIA|AIza)[-_]?[A-Za-z0-9_-]{{16,}}"
    r"|(?i:bearer) +[A-Za-z0-9._~+/-]{16,}=*"
)
"""Keys with a known prefix."""

_LONGER: Final = (
    rf"|(?=e){_START}eyJ[A-Za-z0-9_-]{{8,}}\.eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|(?<=://)[^\s/?#:@]*:[^\s/?#@]+(?=@)"
)
"""JSON web tokens, private keys, and credentials in a URL."""

_SHAPES: Final = re.compile(KEY + _LONGER)

MASK: Final = "[masked]"


def secret_values(named: Mapping[str, str]) -> list[str]:
    """The values of variables or headers whose names are those of secrets."""
    return [
        value
        for name, value in named.items()
        if is_secret(name.replace("-", "_"))
        or name.lower() in {"authorization", "proxy-authorization", "cookie"}
    ]


def spellings(secrets: Sequence[str]) -> dict[str, str]:
    """The secrets by how a text may spell them, plain and as JSON escapes them; the longest first, as one may be a part of another."""
    values = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
    spelled = {to_json(value).decode()[1:-1]: value for value in values} | {value: value for value in values}
    return {text: spelled[text] for text in sorted(spelled, key=len, reverse=True)}


class Masker:
    """Replaces ``secrets``, and values that look like one, by ``[masked]``. ``found`` are all values that it replaced."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._spellings = spellings(secrets)
        self.found: set[str] = set()

    def text(self, text: str) -> str:
        for spelling, secret in self._spellings.items():
            if spelling in text:
                self.found.add(secret)
                text = text.replace(spelling, MASK)
        return _SHAPES.sub(self._mask, text)

    def _mask(self, match: re.Match[str]) -> str:
        self.found.add(match[0])
        return MASK

    def session(self, data: SessionData) -> SessionData:
        """Mask the secrets in messages, calls and results. Images stay unchanged."""
        messages = msgspec.convert(
            [self._part(message) for message in msgspec.to_builtins(data.messages)], list[AppMessage]
        )
        name = None if data.name is None else self.text(data.name)
        return msgspec.structs.replace(data, messages=messages, name=name)

    def _part(self, part: dict[str, Any]) -> dict[str, Any]:
        """A message, or a part of one."""
        names = _IMAGE if part.get("type") == "image" else _NAMES
        return {key: value if key in names else self._field(key, value) for key, value in part.items()}

    def _field(self, key: str, value: Any) -> Any:
        if key in _PARTS and isinstance(value, list):
            return [self._part(part) for part in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return self._any(value)

    def _any(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._any(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
            case dict():
                return {self._any(key): self._any(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
            case _:
                return value

    def summary(self) -> str:
        """The number of masked values, for the user; empty if there are none."""
        count = len(self.found)
        return f"{pluralize(count, 'secret value')} masked. Use --unmasked to keep them." if count else ""


_NAMES: Final = frozenset({"id", "role", "type", "timestamp", "toolCallId"})
"""Fields that identify messages and calls."""

_IMAGE: Final = _NAMES | {"data", "content"}

_PARTS: Final = frozenset({"content", "images", "attachments"})
