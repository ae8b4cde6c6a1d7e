"""What is wrong in a file of settings, by the name that its setting has there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from newel.agent.errors import ConfigError

_PLACED: Final = re.compile(r"(?s)(?P<what>.*) - at `\$\.(?P<where>.*)`")
_UNNAMED: Final = "[...]"
"""Stands in msgspec's words for the name of an entry, where the names are the user's own."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def refused(
    path: Path, error: Exception, written: Mapping[str, Any], kind: type[msgspec.Struct]
) -> ConfigError:
    """For an error that came of reading what is ``written`` in a file as a ``kind``."""
    what = _what(error, written, kind)
    return ConfigError(f"{path}: {what}. Correct the file, or move it away to use the defaults.")


def _what(error: Exception, written: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    """``remote.routines.logs: what is wrong``."""
    found = _PLACED.fullmatch(str(error))
    if found is None:
        return str(error)
    where = found["where"]
    table, is_entry, inside = where.partition(_UNNAMED)
    if is_entry:
        where = f"{table}.{_key(_entry(str(error), table.split('.'), written, kind))}{inside}"
    return f"{where}: {found['what']}"


def _entry(said: str, table: list[str], written: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    """The name of the entry that, alone in its table, is refused in the same words."""
    entries: Any = written
    for name in table:
        entries = entries[name]
    for entry, value in cast("dict[str, Any]", entries).items():
        alone: dict[str, Any] = {entry: value}
        for name in reversed(table):
            alone = {name: alone}
        try:
            msgspec.convert(alone, kind)
        except msgspec.ValidationError as error:
            if str(error) == said:
                return entry
    return _UNNAMED


def _key(name: str) -> str:
    """As TOML has it."""
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
