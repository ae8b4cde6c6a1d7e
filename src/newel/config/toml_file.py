"""Settings files in TOML: the valid values, and a problem for each other one, with its line and the name of the setting."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast, get_args

import msgspec

from newel.agent.errors import NewelError
from newel.text.toml import line_of_key
from newel.text.type_errors import describe_type_error

S = TypeVar("S", bound=msgspec.Struct)

LIKENESS: Final = 0.75
"""Of a name that was probably meant: ``enabled`` is no slip for ``readable``."""

_PLACED: Final = re.compile(r"(?s)(?P<what>.*) - at `\$(?P<where>.*)`")
_UNKNOWN: Final = re.compile(r"(?s)Object contains unknown field `(.*)`")
_SYNTAX: Final = re.compile(r"(?s)(?P<what>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class Problem(NamedTuple):
    """``message`` names the file and the line, without a full stop; ``consequence`` is a sentence."""

    message: str
    consequence: str


class LoadedToml(NamedTuple, Generic[S]):
    """``settings`` has the defaults for missing and invalid values, ``written`` is the content of the file."""

    settings: S
    written: dict[str, Any]
    problems: list[Problem]


def read_toml(path: Path, data: bytes, defaults: S) -> LoadedToml[S]:
    """Read the content of a file; ``defaults`` are settings whose values all have one. Never raises."""

    def unreadable(line: int, what: str) -> LoadedToml[S]:
        return LoadedToml(defaults, {}, [Problem(f"{path}, line {line}: {what}", "The defaults are used.")])

    try:
        written, text = parse_toml(data)
    except TomlError as error:
        return unreadable(error.line, str(error))
    reader = _TomlReader(path, text)
    return LoadedToml(reader.section(defaults, written, ()), written, reader.problems)


class TomlError(NewelError):
    """Data that is not TOML. ``line`` counts from 1."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def parse_toml(data: bytes) -> tuple[dict[str, Any], str]:
    """The values in a file, and its text. Raises ``TomlError``."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TomlError(f"byte 0x{data[error.start]:02x} is not UTF-8 text", line) from error
    try:
        return tomllib.loads(text), text
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        match = _SYNTAX.fullmatch(str(error))
        line = int(match["line"]) if match and match["line"] else text.count("\n") + 1
        raise TomlError(match["what"] if match else str(error), line) from error


class _TomlReader:
    """Takes the valid values, and reports all others."""

    def __init__(self, path: Path, text: str) -> None:
        self.problems: list[Problem] = []
        self._path = path
        self._text = text

    def section(self, defaults: S, raw: dict[str, Any], at: tuple[str, ...]) -> S:
        fields = {field.encode_name: field for field in msgspec.structs.fields(defaults)}
        taken: dict[str, Any] = {}
        for name, value in raw.items():
            path = (*at, name)
            if name not in fields:
                self._report(path, f"unknown setting{_suggestion(name, list(fields))}", "It is ignored.")
                continue
            field = fields[name]
            if not isinstance(before := getattr(defaults, field.name), msgspec.Struct | dict):
                self._convert(taken, field.name, value, field.type, path)
            elif not isinstance(value, dict):
                self._report(path, "it must be a table", "The defaults are used.")
            elif isinstance(before, msgspec.Struct):
                taken[field.name] = self.section(before, cast("dict[str, Any]", value), path)
            else:
                entries = taken[field.name] = cast("dict[str, Any]", {})
                for key, entry in cast("dict[str, Any]", value).items():
                    kind = field.type.__args__[1]
                    self._convert(entries, key, entry, kind, (*path, key), otherwise="It is ignored.")
        return msgspec.structs.replace(defaults, **taken)

    def _convert(
        self,
        taken: dict[str, Any],
        name: str,
        value: object,
        kind: Any,
        at: tuple[str, ...],
        *,
        otherwise: str = "The default is used.",
    ) -> None:
        try:
            taken[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            key = ""
            match = _PLACED.fullmatch(str(error))
            what, inside = (match["what"], match["where"]) if match else (str(error), "")
            if unknown := _UNKNOWN.fullmatch(what):
                key = unknown[1]
                what = f"unknown setting `{key}`{_suggestion(key, _fields(kind))}"
            elif isinstance(value, str) and not inside and what.startswith("Expected `array"):
                what += f"; write {json.dumps(_as_list(value, kind), ensure_ascii=False)}"
            what = describe_type_error(what, kind, table="a table")
            self._report(at, what[:1].lower() + what[1:], otherwise, inside, key)

    def _report(
        self, at: tuple[str, ...], what: str, consequence: str, inside: str = "", key: str = ""
    ) -> None:
        """``inside`` is the place within a value: ``.variables[0]``, ``key`` the key there that is on the line."""
        name = ".".join(map(_key, at)) + inside
        line = line_of_key(self._text, (*at, *re.findall(r"\w+", inside), *filter(None, [key])))
        self.problems.append(Problem(f"{self._path}, line {line}: {name}: {what}", consequence))


def _as_list(text: str, kind: Any) -> list[str]:
    """The list that was probably meant: of a command its words."""
    import shlex

    is_command = any(isinstance(each, msgspec.Meta) and each.extra for each in get_args(kind))
    try:
        return shlex.split(text) if is_command else [text]
    except ValueError:  # a quote is open
        return [text]


def _fields(kind: Any) -> list[str]:
    """The names in a table of this type, or of those in a list of it."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [field.encode_name for field in msgspec.structs.fields(kind)]
    return [name for each in get_args(kind) for name in _fields(each)]


def _suggestion(name: str, valid: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, valid, n=1, cutoff=LIKENESS)
    return f" (did you mean `{near[0]}`?)" if near else f"; valid settings are {', '.join(valid)}"


def _key(name: str) -> str:
    """The key in TOML."""
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
