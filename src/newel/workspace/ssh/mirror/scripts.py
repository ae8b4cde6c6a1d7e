"""What a host is told to do with a copy of a project, as sh text."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from newel.workspace.mirror.port import FileContent, Layout
from newel.workspace.ssh.port import quote

LEASE: Final = ".newel-lease"
"""The file in the folder of a copy whose time tells when it was last known to be in use."""

GONE: Final = ".gone"
_GIVEN: Final = ".newel-given"
_BUSY: Final = ".newel-busy"
"""Holds the number of the process that works in the copy; without the file, or with another number in it, that stops."""
_ENDING: Final = ".newel-ending"
"""The same of one that was told to stop."""

_WORDS: Final = 64_000
"""Bytes of names that one program is given: no system takes less."""

_PRELUDE: Final = """\
newel_me=$(exec sh -c 'echo "$PPID"')
{ echo "$newel_me" >"$place/.newel-busy"; } 2>&1 || exit 1
trap 'rm -f -- "$place/.newel-busy"' 0
set -C
newel_in() { # parts: into the folder of the copy, as one that may be written; what is no folder there, or a link, gives way
  read -r newel_f <"$place/.newel-busy" && [ "$newel_f" = "$newel_me" ] || { echo ': it was stopped'; return 1; }
  cd -P -- "$place" 2>&1 || return
  newel_p=$place made=
  for newel_f do
    newel_p=$newel_p/$newel_f made=
    if [ -L "./$newel_f" ] || ! [ -d "./$newel_f" ]; then
      rm -f -- "./$newel_f" 2>&1 && mkdir -- "./$newel_f" 2>&1 || return
      made=1
    fi
    [ -w "./$newel_f" ] && [ -x "./$newel_f" ] || chmod -- u+rwx "./$newel_f" 2>&1 || return
    cd -P -- "./$newel_f" 2>&1 || return
    [ "$PWD" = "$newel_p" ] || { echo ': a link stands in the way'; return 1; }
  done
}
newel_out() { # ./names: have nothing there; in a folder that was just made, nothing is
  [ "$made" ] || rm -rf -- "$@" || newel_force "$@"
}
newel_force() { # paths that do not begin with a dash: remove them and what may not be written; no link is followed
  find "$@" -type d -exec chmod u+rwx {} \\;
  rm -rf -- "$@" 2>&1
}
newel_copy() { # files of the project: copy them to here; which may not be read is printed
  cp -RPp -- "$@" . 2>/dev/null && return
  for newel_f do # which of them was it?
    rm -rf -- "./${newel_f##*/}" 2>&1 || return
    cp -RPp -- "$newel_f" . 2>/dev/null || cp -RP -- "$newel_f" . 2>/dev/null && continue
    rm -rf -- "./${newel_f##*/}"
    if [ -e "$newel_f" ] && ! [ -r "$newel_f" ]; then
      printf 'shut .//%s\\n' "${newel_f#"$project"/}"
    elif [ -e "$newel_f" ] || [ -L "$newel_f" ]; then
      cp -RP -- "$newel_f" . 2>&1 || return
    fi
  done
}
newel_write() { # where, counted from 1, and how much of what was given, mode, name: a new file of that
  { if [ "$2" = 0 ]; then :; else tail -c "+$1" -- "$given" | head -c "$2"; fi >"$4" && chmod -- "$3" "$4"; } 2>&1
}
"""

_SWEEP: Final = (
    "(for f in ./.*" + GONE + '; do rm -rf -- "$f" || '
    '{ find "$f" -type d -exec chmod u+rwx {} \\; ; rm -rf -- "$f"; }; done) </dev/null >/dev/null 2>&1 &'
)
"""Removes what is no longer used; nobody waits for it."""


Command = Callable[[str, Sequence[str]], str]
"""What is to be done in a folder with some names of it."""


class MirrorScripts:
    """The requests about one copy. ``looks`` prints how the files ``"$@"`` are."""

    def __init__(self, layout: Layout, looks: str) -> None:
        self._layout = layout
        self._looks = looks
        self._copies, self._name = posixpath.split(layout.place)
        self.given = f"{layout.place}/{_GIVEN}"
        """The file for what is sent."""
        project = quote(layout.project.rstrip("/"))
        self._before = f"place={quote(layout.place)} project={project} given={quote(self.given)}\n{_PRELUDE}"

    def copy(self, paths: Iterable[str]) -> str:
        """Copy files of the project, each to where it belongs in the copy."""
        return self._each_folder(
            paths,
            lambda folder, names: (
                f"newel_out {_here(names)} && newel_copy "
                + " ".join(f'"$project"/{quote(posixpath.join(folder, name))}' for name in names)
            ),
        )

    def remove(self, paths: Iterable[str]) -> str:
        return self._each_folder(paths, lambda _, names: f"newel_out {_here(names)}")

    def clear(self, paths: Iterable[str]) -> str:
        """Let the folders of these files be folders."""
        return self._each_folder(paths, lambda _folder, _names: ":")

    def write(self, contents: dict[str, FileContent]) -> str:
        """Write files; their contents are in ``given``, in this order."""
        at = 1

        def commands(folder: str, names: Sequence[str]) -> Iterator[str]:
            nonlocal at
            yield f"newel_out {_here(names)}"
            for name in names:
                data, mode = contents[posixpath.join(folder, name)]
                if stat.S_ISLNK(mode):
                    yield f"ln -s -- {quote(os.fsdecode(data))} {_here([name])}"
                else:
                    yield f"newel_write {at} {len(data)} {mode:04o} {_here([name])}"
                at += len(data)

        return self._each_folder(contents, lambda folder, names: " && ".join(commands(folder, names)))

    def acquire(self) -> str:
        """Print how the lease is, just renewed; before that ``made`` if there was none, so that the copy is empty now. Or only
        ``busy``, if an update that nobody waits for any more, as its connection was lost, still does its last.
        """
        copies, name = quote(self._copies), quote(self._name)
        lease, busy, ending = (f"{name}/{each}" for each in (LEASE, _BUSY, _ENDING))
        return (
            f"cd -P -- {copies}; [ -f ./{busy} ] && mv -f -- ./{busy} ./{ending}; "
            f'if read -r p <./{ending} && kill -0 "$p"; then echo busy .//; exit 0; fi; rm -f -- ./{ending}; '
            f"(umask 077; mkdir -p -- {copies}) 2>&1 && cd -P -- {copies} 2>&1 && {{ [ -f ./{lease} ] || {{ {self._make()} && echo made .//; }}; }} && "
            f"touch -- ./{lease} 2>&1 && set -- .//{lease} && {self._looks}"
        )

    def renew(self) -> str:
        return f"touch -c -- {quote(f'{self._layout.place}/{LEASE}')}"

    def leases(self) -> str:
        """Print how all leases are, and begin to remove what was let go of."""
        return (
            f"cd -P -- {quote(self._copies)} && {{ {_SWEEP} set --; "
            f'for f in */{LEASE}; do set -- "$@" ".//$f"; done; {self._looks}; }}'
        )

    def release(self) -> str:
        name = quote(self._name)
        return f"(cd -P -- {quote(self._copies)} && mv -- ./{name} ./.{name}{GONE} && {{ {_SWEEP} }}) >/dev/null 2>&1"

    def sweep(self, stale: Iterable[tuple[str, str]]) -> str:
        """Remove copies whose leases are still as they were seen."""
        moved = "\n".join(
            f"set -- .//{quote(name)}/{LEASE}; case $({self._looks}) in {quote(facts)}\\ .//*) "
            f"mv -- ./{quote(name)} ./.{quote(name)}{GONE};; esac"
            for name, facts in stale
        )
        return f"cd -P -- {quote(self._copies)} || exit\n{moved}\n{_SWEEP}"

    def _make(self) -> str:
        name = quote(self._name)
        return (
            f"rm -rf -- ./{name} 2>&1 && mkdir -m 700 -- ./{name} 2>&1 && mkdir -p -- {quote(self._layout.root)} 2>&1 "
            f"&& : >./{name}/{LEASE}"
        )

    def _each_folder(self, paths: Iterable[str], command: Command) -> str:
        lines = [self._before]
        for folder, names in _by_folder(paths):
            parts = posixpath.relpath(posixpath.join(self._layout.root, folder), self._layout.place)
            into = " ".join(map(quote, parts.split("/")))
            lines.append(f"newel_in {into} && {command(folder, names)} || exit 1")
        return "\n".join(lines)


def _here(names: Iterable[str]) -> str:
    return " ".join(f"./{quote(name)}" for name in names)


def _by_folder(paths: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Names with the folder that they are in, a folder several times if it has many."""
    split = (posixpath.split(path) for path in paths)
    for folder, pairs in groupby(split, key=lambda pair: pair[0]):
        names: list[str] = []
        size = 0
        for _, name in pairs:
            size += len(folder) + len(name) + 2
            if size > _WORDS and names:
                yield folder, names
                names, size = [], 0
            names.append(name)
        yield folder, names
