"""The YAML between two lines ``---`` with which a Markdown file begins.

Most files state a few texts on a line each; these are read here. PyYAML takes about 20 ms to load, so it reads the others only. What both
can read, they read alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

MAX_CHARACTERS: Final = 32_000
"""Of the YAML. More is no description any more."""

_BLOCK = r"(?s)---[ \t]*\n(?P<fields>.*?)(?:^---[ \t]*(?:\n|\Z))"
_UNCLOSED = r"---[ \t]*\n(?:name|description):"
"""A line ``---`` may also be a rule between paragraphs, which is not followed by such a field."""
_FIELD = r"(?P<name>[A-Za-z][\w-]*):(?: +(?P<value>.*))?"
_QUOTED = r""""(?P<double>[^"\\]*)"|'(?P<single>[^']*)'"""
_LOOSE = r"(?m)^(?P<name>[A-Za-z][\w-]*): +(?P<value>[^\s\"'|>#](?:.*[^ \t\n])?)[ \t]*$"
_NO_PLAIN_TEXT = r":(?: |\Z)| #|\A[\[{&*!%@`?-]"

NO_END: Final = "the line `---` that ends it is missing"

_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False}
_NOT_TEXT: Final = frozenset({"yes", "no", "on", "off", "null", "y", "n"})
"""Words that YAML does not read as text, in some spelling."""


class FrontMatter(msgspec.Struct, frozen=True):
    """``lines`` are the numbers of the lines of the ``fields``. ``body`` is the text behind it. ``problem`` is why there are no fields
    although the file begins with some, at the line ``problem_line``.
    """

    body: str
    fields: Mapping[str, Any] = {}
    lines: Mapping[str, int] = {}
    problem: str = ""
    problem_line: int = 1

    def text(self, name: str) -> str:
        """A field that is a text; empty for others."""
        value = self.fields.get(name)
        return value.strip() if isinstance(value, str) else ""

    @property
    def hint(self) -> str:
        """What arguments it takes: ``argument-hint: [issue]`` is a list in YAML."""
        value = self.fields.get("argument-hint")
        if isinstance(value, list):
            return f"[{', '.join(map(str, cast('list[object]', value)))}]"
        return self.text("argument-hint")

    def line_of(self, name: str) -> int:
        return self.lines.get(name, 1)


def split_front_matter(text: str) -> FrontMatter:
    """Read the front matter of a text. It need not have one."""
    text = text.replace("\r\n", "\n")
    found = re.match(_BLOCK, text, re.MULTILINE)
    if found is None:
        is_open = re.match(_UNCLOSED, text) is not None
        return FrontMatter(text, problem=NO_END if is_open else "")
    source, body = found["fields"], text[found.end() :]
    if len(source) > MAX_CHARACTERS:
        return FrontMatter(body, problem=f"it has more than {MAX_CHARACTERS:,} characters of YAML")
    lines = {
        field[1]: number
        for number, line in enumerate(source.split("\n"), 2)
        if (field := re.match(r"([A-Za-z][\w-]*):(?:\s|\Z)", line))
    }
    fields = _read_plain(source)
    if fields is None:
        try:
            fields = _read_yaml(source)
        except _YamlError as error:
            return FrontMatter(body, lines=lines, problem=str(error), problem_line=error.line)
    return FrontMatter(body, fields, lines)


def _read_plain(source: str) -> dict[str, Any] | None:
    """The fields, if each is on a line and what it says can be read in one way only; else None."""
    fields: dict[str, Any] = {}
    for line in source.split("\n"):
        if not line.isprintable():
            return None
        if not line.strip(" ") or line.startswith("#"):
            continue
        field = re.fullmatch(_FIELD, line.rstrip(" "))
        if field is None or field["name"] in fields:
            return None
        name, value = field["name"], field["value"] or ""
        if _is_special(name):
            return None
        if quoted := re.fullmatch(_QUOTED, value):
            fields[name] = quoted["double"] if quoted["single"] is None else quoted["single"]
        elif value.lower() in _WORDS:
            if value not in _WORDS:
                return None
            fields[name] = _WORDS[value]
        elif not value[:1].isalpha() or _is_special(value) or re.search(r":(?: |\Z)| #", value):
            return None
        else:
            fields[name] = value
    return fields


def _is_special(word: str) -> bool:
    return word.lower() in _NOT_TEXT


class _YamlError(ValueError):
    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


def _read_yaml(source: str) -> dict[str, Any]:
    """Read any YAML. A text with a colon, or in brackets (``argument-hint: [issue] [priority]``), without quotation marks is common, and is
    read as meant. Raises ``_YamlError``.
    """
    try:
        fields = _load_yaml(source)
    except _YamlError as error:
        try:
            fields = _load_yaml(
                re.sub(_LOOSE, lambda field: f"{field['name']}: {_quote(field['value'])}", source)
            )
        except _YamlError:
            raise error from None
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise _YamlError("it is not a list of fields such as `name: …`", 2)
    return {name: value for name, value in cast("dict[Any, Any]", fields).items() if isinstance(name, str)}


def _quote(value: str) -> str:
    return "'" + value.replace("'", "''") + "'" if re.search(_NO_PLAIN_TEXT, value) else value


def _load_yaml(source: str) -> object:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = cast("Iterator[yaml.Event]", yaml.parse(source, loader))  # pyright: ignore[reportUnknownMemberType] — not typed
        alias = next((event for event in events if isinstance(event, yaml.AliasEvent)), None)
        if alias is None:
            return yaml.load(source, loader)  # noqa: S506 — both loaders are safe
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _YamlError(error.problem or "it is not valid YAML", mark.line + 2 if mark else 1) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _YamlError(f"it is not valid YAML: {str(error).partition(chr(10))[0]}", 1) from None
    # A few lines of aliases stand for more than any memory holds.
    raise _YamlError("it has an alias, such as `*name`", alias.start_mark.line + 2)
