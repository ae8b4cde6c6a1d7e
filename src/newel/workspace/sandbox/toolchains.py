"""The part of the user's home folder that commands in a sandbox see: programs, their settings, and downloaded packages.

A list, because new programs keep keys in new places; and what the user's environment names: folders of ``PATH``, environments of Python.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from newel.workspace.sandbox.bubblewrap import PRIVATE
from newel.workspace.sandbox.policy import is_below
from newel.workspace.sandbox.sandbox_disk import SandboxDisk, literal

TOOLCHAINS: Final = (
    # Rust, Go, JVM
    ".cargo/bin",
    ".cargo/env",
    ".rustup",
    "go/bin",
    ".sdkman",
    ".jenv",
    # Python
    ".pyenv",
    ".local/share/uv",
    ".local/share/pipx",
    ".local/pipx",
    ".virtualenvs",
    ".local/share/virtualenvs",
    ".local/share/hatch/env",
    ".cache/pypoetry/virtualenvs",
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "micromamba",
    # JavaScript
    ".nvm",
    ".volta",
    ".local/share/fnm",
    ".nodenv",
    ".npm-global",
    ".local/share/pnpm",
    ".yarn",
    ".deno/bin",
    ".bun/bin",
    ".bun/install/global",
    # Ruby, Haskell, OCaml, .NET, and versions of everything
    ".rbenv",
    ".rvm",
    ".ghcup",
    ".cabal/bin",
    ".opam",
    ".dotnet",
    ".asdf",
    ".asdfrc",
    ".tool-versions",
    ".local/share/mise",
    ".config/mise/config.toml",
    # All
    ".local/bin",
    ".local/lib",
    "bin",
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
)
"""Below the home folder: programs and their settings, without keys."""

DOWNLOADS: Final = (
    ".cargo/registry",
    ".cargo/git",
    ".m2/repository",
    "go/pkg/mod",
)
"""Below the home folder: packages that were downloaded before."""

ENVIRONMENTS: Final = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that name an environment of Python which the user has activated."""

GIT_FILE: Final = r'(?im)^[^\S\n]*+(?:path|excludesfile|attributesfile|template)\s*=\s*"?(~?/[^"\n;#]+)'
"""A file that git's settings name."""

MAX_SETTINGS: Final = 64 << 10
"""Bytes of a file of git's settings."""

MAX_INCLUDED: Final = 20
"""Files of git's settings."""


def find_toolchains(home: str, environ: Mapping[str, str], disk: SandboxDisk) -> list[str]:
    """The paths that exist below a home folder, or another folder that is empty in a sandbox, as they are named: some may be links."""
    named = [f"{home}/{name}" for name in (*TOOLCHAINS, *DOWNLOADS)]
    named += _environments(environ, disk)
    named += _git_files([f"{home}/.gitconfig", f"{home}/.config/git/config"], home, disk)
    empty = [home, *PRIVATE]
    wanted = [path for path in dict.fromkeys(named) if is_below(path, empty) and path not in empty]
    return disk.match(map(literal, wanted))


def is_of_project(real: str, inside: list[str], disk: SandboxDisk) -> bool:
    """Whether a path of the project leads to where it may: in the project, or to an environment of Python elsewhere. A command may have put
    another link there, or the repository has.
    """
    environments = (real, posixpath.dirname(real))
    return is_below(real, inside) or any(disk.is_file(f"{place}/pyvenv.cfg") for place in environments)


def missing_links(
    paths: Iterable[str], shown: list[str], hidden: list[str], disk: SandboxDisk
) -> dict[str, str]:
    """Those of the paths that are, or lead through, links which a sandbox lacks that has what is ``shown``, such as ``~/.gitconfig`` of
    users who keep it in a repository; with the real paths.
    """
    links: dict[str, str] = {}
    for path in sorted(paths):
        real = disk.real(path)
        if real != path and is_below(real, shown) and not is_below(path, [*shown, *links, *hidden]):
            links[path] = real
    return links


def _environments(environ: Mapping[str, str], disk: SandboxDisk) -> Iterator[str]:
    for variable in ENVIRONMENTS:
        yield posixpath.normpath(environ.get(variable) or "/")
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = posixpath.normpath(folder or "/")
        yield path
        if disk.is_file(posixpath.normpath(f"{path}/../pyvenv.cfg")):
            yield posixpath.dirname(path)


def _git_files(files: Iterable[str], home: str, disk: SandboxDisk) -> list[str]:
    """The files that git's settings name, and those that these name: an identity is often in one of them."""
    found: list[str] = []
    waiting = list(files)
    while waiting and len(found) < MAX_INCLUDED:
        text = disk.read(waiting.pop(), MAX_SETTINGS).decode(errors="replace")
        for name in re.findall(GIT_FILE, text):
            path = posixpath.normpath(name.strip().replace("~", home, 1) if name[0] == "~" else name.strip())
            if path not in found and disk.is_file(path):
                found.append(path)
                waiting.append(path)
    return found
