"""Reads in the text of git's settings which files they name, without git: it would wait for one that is a pipe."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MAX_SETTINGS: Final = 64 << 10
"""Bytes of a file of git's settings."""

MAX_INCLUDED: Final = 50
"""Files of git's settings that others include."""

_SETTING: Final = (
    rb"(?im)(?:^|\])[^\S\n]*+(path|hookspath|excludesfile|attributesfile)[^\S\n]*+=[^\S\n]*+\"?([^\"\n;#]+)"
)


class NamedFiles(NamedTuple):
    """What settings name: the files that they include, under whatever condition, the folders of hooks, and files of rules. Those of hooks
    and rules may be relative: to the top folder of the working tree.
    """

    included: list[str]
    hooks: list[str]
    rules: list[str]


def find_named_files(files: Iterable[str], home: str, read: Callable[[str], bytes]) -> NamedFiles:
    """What files of settings name, and those that they include. ``read`` gives the beginning of a file, nothing of one that is not
    regular.
    """
    found = NamedFiles([], [], [])
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        for name, value in re.findall(_SETTING, read(file)):
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
