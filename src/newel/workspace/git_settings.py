"""Reads in the text of git's settings which files they name, without git: it would wait for one that is a pipe."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

MAX_SETTINGS: Final = 64 << 10
"""Bytes of a file of git's settings."""

MAX_INCLUDED: Final = 50
"""Files of git's settings that others include."""

_SETTING: Final = (
    rb"(?im)(?:^|\])[^\S\n]*+(path|hookspath|excludesfile|attributesfile)[^\S\n]*+=[^\S\n]*+\"?([^\"\n;#]+)"
)

_PROGRAMS: Final = (
    rb"(?im)(?:^|\])[^\S\n]*+(?:askpass|clean|cmd|command|credentialhelper|defaultkeycommand|difffilter|driver|editor|external"
    rb"|fsmonitor|helper|packobjectshook|pager|process|program|smudge|sshcommand|textconv)[^\S\n]*+=((?:[^\n\\]|\\[\s\S])*+)"
)
"""Settings with a command: the filters of ``git add``, and more."""

_BETWEEN: Final = rb"[\s\"'\\`;|&<>()$={}!]+"
"""What separates the words of a command, or cannot be in the name of a program."""

_SCRIPTS: Final = (b".bash", b".js", b".pl", b".py", b".rb", b".sh")

MAX_PROGRAMS: Final = 50
"""Words of commands that are looked at."""


class NamedFiles(NamedTuple):
    """What settings name: the files that they include, under whatever condition, the folders of hooks, files of rules, and words of
    commands that may be programs. All but the first may be relative: to the top folder of the working tree.
    """

    included: list[str]
    hooks: list[str]
    rules: list[str]
    programs: list[str]


def find_named_files(files: Iterable[str], home: str, read: Callable[[str], bytes]) -> NamedFiles:
    """What files of settings name, and those that they include. ``read`` gives the beginning of a file, nothing of one that is not
    regular.
    """
    found = NamedFiles([], [], [], [])
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        text = read(file)
        words = (word for command in re.findall(_PROGRAMS, text) for word in re.split(_BETWEEN, command))
        files = (os.fsdecode(word) for word in words if b"/" in word or word.endswith(_SCRIPTS))
        found.programs.extend(islice(files, MAX_PROGRAMS - len(found.programs)))
        for name, value in re.findall(_SETTING, text):
            path = os.fsdecode(value).strip()
            path = home + path[1:] if path == "~" or path.startswith("~/") else path
            match name.lower():
                case b"path":
                    path = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
                    if path not in found.included and len(found.included) < MAX_INCLUDED:
                        found.included.append(path)
                        waiting.append(path)
                case b"hookspath":
                    found.hooks.append(path)
                case _:
                    found.rules.append(path)
    return found
