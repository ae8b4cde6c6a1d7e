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

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.+?)`")

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def settings_error(
    path: Path, error: Exception, written: Mapping[str, Any], kind: type[msgspec.Struct]
) -> ConfigError:
    """For an error that came of reading what is ``written`` in a file as a ``kind``."""
    what = _what(error, written, kind)
    return ConfigError(
        f"{path}{_line_of(path, str(error))}: {what}{_meant(str(error), kind)}. Correct the file, or move it away to use the defaults."
    )


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


def _line_of(path: Path, said: str) -> str:
    """``:7``, the first line that an unknown setting can be on."""
    found = _UNKNOWN.match(said)
    if found is None:
        return ""
    own = re.compile(rf"\s*\[*\s*[\"']?{re.escape(found['name'])}[\"']?\s*[=.\]]")
    try:
        lines = path.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    return next((f":{number}" for number, line in enumerate(lines, 1) if own.match(line)), "")


def _meant(said: str, kind: type[msgspec.Struct]) -> str:
    """A setting at the top of the file that an unknown one there is near to."""
    from difflib import get_close_matches

    found = _UNKNOWN.fullmatch(said)
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    near = get_close_matches(found["name"], names, n=1) if found else []
    return f" (did you mean `{near[0]}`?)" if near else ""


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
