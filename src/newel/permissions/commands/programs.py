"""What is known of programs: ``programs.toml``."""

from __future__ import annotations

import tomllib
from functools import cache, cached_property
from importlib import resources
from typing import Literal

import msgspec


class ReadingProgram(msgspec.Struct, frozen=True):
    """``names`` of programs, or of subcommands of git. ``short`` are letters of options, ``long`` names, both without a value that is a
    path. ``valued`` are those of them, with their dashes, that take the next word as their value if none is attached. ``operands``: what
    the other arguments are; a ``pattern`` is followed by paths. ``recurses``: the letters of the options with which it reads what is in
    folders; ``*`` if it always does.
    """

    names: list[str]
    short: str = ""
    long: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: Literal["paths", "pattern", "text", "none", "one path"] = "paths"
    recurses: str = ""


class Programs(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """The table. Its comments say what each key holds; ``programs`` and ``git`` are those that only read."""

    starters: frozenset[str]
    shells: frozenset[str]
    evaluating: frozenset[str]
    interpreters: frozenset[str]
    asked_each_time: frozenset[str]
    versions: frozenset[str]
    find: frozenset[str]
    families: dict[str, str]
    programs: list[ReadingProgram]
    git: list[ReadingProgram]

    @cached_property
    def reading(self) -> dict[str, ReadingProgram]:
        return {name: program for program in self.programs for name in program.names}

    @cached_property
    def reading_git(self) -> dict[str, ReadingProgram]:
        return {name: program for program in self.git for name in program.names}


@cache
def programs() -> Programs:
    """Loaded for the first command that has to be judged."""
    text = resources.files("newel.permissions.commands").joinpath("programs.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Programs)
