"""Error messages about settings files, with the line and the name of the setting."""

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
"""The placeholder in msgspec's messages for the name of an entry in a mapping."""

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.+?)`")

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def settings_error(
    path: Path, error: Exception, written: Mapping[str, Any], kind: type[msgspec.Struct]
) -> ConfigError:
    """The error for a file whose content ``written`` is not a valid ``kind``."""
    problem = _problem(error, written, kind)
    return ConfigError(
        f"{path}{_line_of(path, str(error))}: {problem}{_suggestion(str(error), kind)}. "
        "Correct the file, or move it away to use the defaults."
    )


def _problem(error: Exception, written: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    """``remote.routines.logs: Expected `str`, got `int```."""
    found = _PLACED.fullmatch(str(error))
    if found is None:
        return str(error)
    where = found["where"]
    table, is_entry, inside = where.partition(_UNNAMED)
    if is_entry:
        where = f"{table}.{_key(_entry(str(error), table.split('.'), written, kind))}{inside}"
    return f"{where}: {found['what']}"


def _line_of(path: Path, message: str) -> str:
    """``:7``, the first line that can hold an unknown setting."""
    found = _UNKNOWN.match(message)
    if found is None:
        return ""
    own = re.compile(rf"\s*\[*\s*[\"']?{re.escape(found['name'])}[\"']?\s*[=.\]]")
    try:
        lines = path.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    return next((f":{number}" for number, line in enumerate(lines, 1) if own.match(line)), "")


def _suggestion(message: str, kind: type[msgspec.Struct]) -> str:
    """The top-level setting that resembles an unknown one."""
    from difflib import get_close_matches

    found = _UNKNOWN.fullmatch(message)
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    near = get_close_matches(found["name"], names, n=1) if found else []
    return f" (did you mean `{near[0]}`?)" if near else ""


def _entry(message: str, table: list[str], written: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    """The name of the entry that, alone in its table, causes the same message."""
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
            if str(error) == message:
                return entry
    return _UNNAMED


def _key(name: str) -> str:
    """The key in TOML."""
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
