"""Shell scripts that manage a copy of a project on a host."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from newel.workspace.mirror.port import FileContent, Layout
from newel.workspace.ssh.port import quote
from newel.workspace.ssh.snapshots.rooted_shell import batches

LEASE: Final = ".newel-lease"
"""The file in a copy's folder whose time is the last sign of use."""

GONE: Final = ".gone"
_GIVEN: Final = ".newel-given"
_BUSY: Final = ".newel-busy"
"""Contains the ID of the process that updates the copy; that stops if the file is gone or has another ID."""
_ENDING: Final = ".newel-ending"
"""The same, for a process that was told to stop."""

_WORDS: Final = 64_000
"""Bytes of names to pass to one program, which every system accepts."""

_PRELUDE: Final = """\
newel_me=$(exec sh -c 'echo "$PPID"')
{ echo "$newel_me" >"$place/.newel-busy"; } 2>&1 || exit 1
trap 'rm -f -- "$place/.newel-busy"' 0
set -C
newel_in() { # parts: enters the folder of the copy, made writable; replaces anything on the way that is not a real folder
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
newel_out() { # ./names: removes them; a folder that was just made is empty
  [ "$made" ] || rm -rf -- "$@" || newel_force "$@"
}
newel_force() { # paths without a leading dash: removes them, even unwritable folders; follows no link
  find "$@" -type d -exec chmod u+rwx {} \\;
  rm -rf -- "$@" 2>&1
}
newel_copy() { # files of the project: copies them here; prints the unreadable ones
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
newel_write() { # first byte (from 1) and length in $given, mode, name: creates a file with that part
  { if [ "$2" = 0 ]; then :; else tail -c "+$1" -- "$given" | head -c "$2"; fi >"$4" && chmod -- "$3" "$4"; } 2>&1
}
"""

_SWEEP: Final = (
    "(for f in ./.*" + GONE + '; do rm -rf -- "$f" || '
    '{ find "$f" -type d -exec chmod u+rwx {} \\; ; rm -rf -- "$f"; }; done) </dev/null >/dev/null 2>&1 &'
)
"""Removes released copies, in the background."""


Command = Callable[[str, Sequence[str]], str]
"""Makes the command for some names in a folder."""


class MirrorScripts:
    """The requests about one copy. ``looks`` prints how the files ``"$@"`` are."""

    def __init__(self, layout: Layout, looks: str) -> None:
        self._layout = layout
        self._looks = looks
        self._copies, self._name = posixpath.split(layout.place)
        self.contents_file = f"{layout.place}/{_GIVEN}"
        """The file that receives the contents to write."""
        project = quote(layout.project.rstrip("/"))
        self._before = (
            f"place={quote(layout.place)} project={project} given={quote(self.contents_file)}\n{_PRELUDE}"
        )

    def copy(self, paths: Iterable[str]) -> str:
        """Copy project files to the same paths in the copy."""
        return self._each_folder(
            paths,
            lambda folder, names: (
                f"newel_out {_relative_paths(names)} && newel_copy "
                + " ".join(f'"$project"/{quote(posixpath.join(folder, name))}' for name in names)
            ),
        )

    def remove(self, paths: Iterable[str]) -> str:
        return self._each_folder(paths, lambda _, names: f"newel_out {_relative_paths(names)}")

    def clear(self, paths: Iterable[str]) -> str:
        """Make the parents of these files real folders."""
        return self._each_folder(paths, lambda _folder, _names: ":")

    def write(self, contents: dict[str, FileContent]) -> str:
        """Write files; ``contents_file`` has their contents, in this order."""
        at = 1

        def commands(folder: str, names: Sequence[str]) -> Iterator[str]:
            nonlocal at
            yield f"newel_out {_relative_paths(names)}"
            for name in names:
                data, mode = contents[posixpath.join(folder, name)]
                if stat.S_ISLNK(mode):
                    yield f"ln -s -- {quote(os.fsdecode(data))} {_relative_paths([name])}"
                else:
                    yield f"newel_write {at} {len(data)} {mode:04o} {_relative_paths([name])}"
                at += len(data)

        return self._each_folder(contents, lambda folder, names: " && ".join(commands(folder, names)))

    def acquire(self) -> str:
        """Renew the lease and print its facts; before them ``made`` if there was none, so that the copy is empty now. Or print only
        ``busy`` while an update whose connection was lost is still ending.
        """
        copies, name = quote(self._copies), quote(self._name)
        lease, busy, ending = (f"{name}/{suffix}" for suffix in (LEASE, _BUSY, _ENDING))
        return (
            f"cd -P -- {copies}; [ -f ./{busy} ] && mv -f -- ./{busy} ./{ending}; "
            f'if read -r p <./{ending} && kill -0 "$p"; then echo busy .//; exit 0; fi; rm -f -- ./{ending}; '
            f"(umask 077; mkdir -p -- {copies}) 2>&1 && cd -P -- {copies} 2>&1 && {{ [ -f ./{lease} ] || {{ {self._make()} && echo made .//; }}; }} && "
            f"touch -- ./{lease} 2>&1 && set -- .//{lease} && {self._looks}"
        )

    def renew(self) -> str:
        return f"touch -c -- {quote(f'{self._layout.place}/{LEASE}')}"

    def leases(self) -> str:
        """Print the facts of all leases, and start to remove released copies."""
        return (
            f"cd -P -- {quote(self._copies)} && {{ {_SWEEP} set --; "
            f'for f in */{LEASE}; do set -- "$@" ".//$f"; done; {self._looks}; }}'
        )

    def release(self) -> str:
        name = quote(self._name)
        return f"(cd -P -- {quote(self._copies)} && mv -- ./{name} ./.{name}{GONE} && {{ {_SWEEP} }}) >/dev/null 2>&1"

    def sweep(self, stale: Iterable[tuple[str, str]]) -> str:
        """Remove copies whose leases have not changed since they were listed."""
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


def _relative_paths(names: Iterable[str]) -> str:
    return " ".join(f"./{quote(name)}" for name in names)


def _by_folder(paths: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Group names by folder; a folder with many names comes several times."""
    split = (posixpath.split(path) for path in paths)
    for folder, pairs in groupby(split, key=itemgetter(0)):
        length = len(folder) + 2
        names = (name for _, name in pairs)
        for batch in batches(names, (lambda name, length=length: length + len(name), _WORDS)):
            yield folder, batch
