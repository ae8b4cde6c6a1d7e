"""Path patterns, with the same meaning for listing and searching."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Final

LONGEST: Final = 400
"""Characters of a pattern."""

ALTERNATIVES: Final = 100
"""Patterns that the braces of one may expand to."""

_SYSTEM_FILES: Final = frozenset({"desktop.ini", "ehthumbs.db", "thumbs.db"})
"""Files that Windows hides, in lower case."""

_FOLDERS: Final = "**"
_WILD: Final = frozenset("*?[{")


def left_out(name: str) -> bool:
    """Whether a file or folder of this name belongs to git or the system, and is never shown."""
    return is_git(name) or name.lower() in _SYSTEM_FILES


def is_git(name: str) -> bool:
    """Whether it names git's folder; some file systems ignore case, and trailing dots and spaces."""
    return name.casefold().rstrip(". ") == ".git"


def is_text(name: str) -> bool:
    """Whether a name is valid UTF-8; otherwise it contains surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class Glob:
    """A pattern of relative paths, with ``/`` between their parts.

    ``*``, ``?`` and ``[a-z]`` match within one name, ``**`` matches any number of folders, ``{a,b}`` either
    alternative. A pattern without ``/`` matches at any depth; one that ends with a plain name also matches the
    files in a folder of that name. As in a shell, wildcards do not match a leading dot. Raises ``ValueError``
    with a message for the author of the pattern.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > LONGEST:
            raise ValueError(f"a glob has at most {LONGEST} characters")
        if "\0" in pattern or not is_text(pattern):
            raise ValueError("a glob contains characters that no file name can have")
        parts = [part for part in pattern.split("/") if part not in {"", "."}]
        if ".." in parts:
            raise ValueError("a glob must not leave the project with `..`")
        if "/" not in pattern:
            parts.insert(0, _FOLDERS)
        if not parts or pattern.endswith("/"):
            parts.append(_FOLDERS)
        few = list(islice(_alternatives("/".join(parts)), ALTERNATIVES + 1))
        if len(few) > ALTERNATIVES:
            raise ValueError(f"the braces of a glob expand to more than {ALTERNATIVES} patterns")
        plain = list(takewhile(_WILD.isdisjoint, parts[:-1]))
        self.base = "/".join(plain)
        """The folder that contains every matching path; empty for the root."""
        self.names_hidden = any(
            part.startswith(".") for name in few for part in name.split("/")[len(plain) :]
        )
        """Whether it matches hidden names below ``base``."""
        self._patterns = [pattern for name in few for pattern in _patterns(name)]

    def matches(self, path: str) -> bool:
        """Whether a file's path matches. Files in ``.git`` and system files never do."""
        names = path.split("/")
        return not any(map(left_out, names)) and any(
            _matches_names(names, pattern) for pattern in self._patterns
        )


class _Name:
    """A part of a pattern: matches one name, or as ``**`` any number."""

    def __init__(self, part: str) -> None:
        import fnmatch

        self.repeats = part == _FOLDERS
        self._dotted = part.startswith(".")
        # The translation takes linear time for any pattern; it supports one of the two signs of a negated class.
        self._regex = re.compile(fnmatch.translate(part.replace("[^", "[!")))

    def fits(self, name: str) -> bool:
        return name.startswith(".") == self._dotted and self._regex.match(name) is not None


def _patterns(whole: str) -> Iterator[list[_Name]]:
    parts = [part for part in whole.split("/") if part]
    yield [_Name(part) for part in parts]
    if parts and _WILD.isdisjoint(parts[-1]):
        yield [_Name(part) for part in (*parts, _FOLDERS)]


def _matches_names(names: Sequence[str], pattern: Sequence[_Name]) -> bool:
    """Match name by name; keeps all positions in the pattern that the names so far can reach."""
    # Positions instead of backtracking: patterns come from models, and `**/a*/` six times in a row must not take seconds.
    places = _skip_wildcards({0}, pattern)
    for name in names:
        reached: set[int] = set()
        for place in places:
            if place < len(pattern) and pattern[place].fits(name):
                reached.add(place + 1)
                if pattern[place].repeats:
                    reached.add(place)
        places = _skip_wildcards(reached, pattern)
    return len(pattern) in places


def _skip_wildcards(places: set[int], pattern: Sequence[_Name]) -> set[int]:
    """Add the positions after each ``**`` that matches no folder; the last one matches at least a file."""
    for place in range(len(pattern) - 1):
        if place in places and pattern[place].repeats:
            places.add(place + 1)
    return places


def _alternatives(pattern: str) -> Iterator[str]:
    """Expand braces. Raises ``ValueError`` for an unclosed one."""
    opened = pattern.find("{")
    if opened < 0:
        yield pattern
        return
    depth, start, parts = 0, opened + 1, list[str]()
    for end in range(opened, len(pattern)):
        character = pattern[end]
        depth += (character == "{") - (character == "}")
        if (character == "," and depth == 1) or depth == 0:
            parts.append(pattern[start:end])
            start = end + 1
        if depth == 0:
            for part in parts:
                yield from _alternatives(pattern[:opened] + part + pattern[start:])
            return
    raise ValueError("the glob has a `{` without a `}`")
