"""Runs git without running any program that the repository configures, as the repository may be untrusted."""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
import subprocess
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

from newel.agent.errors import WorkspaceError
from newel.workspace.disk import files
from newel.workspace.git_settings import MAX_SETTINGS, find_named_files
from newel.workspace.process.environment import child_env
from newel.workspace.process.own_programs import find_git, own_path

TIMEOUT_S: Final = 60.0
"""For one command."""

STALL_S: Final = 3.0
"""Until it is looked at whether git does anything: in a pipe's place, no answer ever comes."""

LOOK_S: Final = 0.5
"""How long git does nothing then."""

# A repository's own settings can start programs; a scan of a project that nobody trusts yet must not run them.
SAFE_OPTIONS: Final = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "core.hooksPath=/dev/null"),
)


_OF_A_REPOSITORY: Final = (
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE"),
)
"""Variables that name a repository, or parts of it. Git sets them for its hooks."""

SAFE_GIT: Final = (
    f"unset {' '.join(_OF_A_REPOSITORY)}; "
    f"GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL= git {' '.join(SAFE_OPTIONS)}"
)
"""The same as sh text; git's arguments follow."""


def safe_environment(folder: str, *, with_settings: bool = False) -> dict[str, str]:
    """Variables for git: no overrides of the repository, or with ``with_settings`` none but of settings; no optional locks, no prompts, no
    server.
    """
    kept = "GIT_CONFIG" if with_settings else "-"
    environ = {
        name: value
        for name, value in child_env(os.environ).items()
        if not name.startswith("GIT_") or name.startswith(kept)
    }
    own = {"PATH": own_path(folder), "GIT_ALLOW_PROTOCOL": ""}
    return environ | own | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def without_other_repository(environ: Mapping[str, str], folder: str) -> Mapping[str, str]:
    """``environ`` without git's variables for a repository, unless ``folder`` is in the one in which Newel was started.

    In a hook they are for the user's commit: git in a worktree, a copy or another project would change that commit.
    """
    if not any(name in environ for name in _OF_A_REPOSITORY):
        return environ
    try:
        started = os.path.realpath(os.getcwd())  # noqa: PTH109 — a text
    except OSError:  # it was deleted
        started = ""
    place = os.path.realpath(folder)
    top = find_repository(place)
    if place == started or (top is not None and top == find_repository(started)):
        return environ
    return {name: value for name, value in environ.items() if name not in _OF_A_REPOSITORY}


def git_command(folder: str, *args: str) -> list[str] | None:
    """The command for git in a folder; None if there is no git, or it would wait for a file. Use ``safe_environment`` with it."""
    git = find_git(folder)
    if git is None or _would_wait(folder):
        return None
    if _stalled and _stalled.get(_place_of(folder)) == _stamp(folder):
        return None
    return [git, *SAFE_OPTIONS, *args]


def run_git(
    folder: str,
    *args: str,
    stdin: bytes = b"",
    ok_codes: Collection[int] = (0,),
    with_settings: bool = False,
    index: str = "",
) -> bytes | None:
    """What git prints in a folder; None if its exit code is not one of ``ok_codes``, there is no git, or it would wait for a file. Only
    ``git config`` may have the user's settings of the environment (``with_settings``): they may name programs. ``index`` is another file
    than that of the repository. Blocks.
    """
    command = git_command(folder, *args)
    if command is None:
        return None
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=safe_environment(folder, with_settings=with_settings)
            | ({"GIT_INDEX_FILE": index} if index else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    with process:
        try:
            printed = _communicate(process, stdin)
        except subprocess.TimeoutExpired:
            process.kill()
            _stalled[_place_of(folder)] = _stamp(folder)
            return None
        except BaseException:
            process.kill()
            raise
    return printed if process.returncode in ok_codes else None


_stalled: Final[dict[str, tuple[int, ...]]] = {}
"""The repositories in which git has waited for something, with the stamp of their settings then. There it is not waited for again."""


def _communicate(process: subprocess.Popen[bytes], stdin: bytes) -> bytes:
    """Raises ``TimeoutExpired``, soon if git does nothing."""
    try:
        return process.communicate(stdin, timeout=STALL_S)[0]
    except subprocess.TimeoutExpired:
        ends = time.monotonic() + TIMEOUT_S - STALL_S
        while True:
            before = _work_of(process.pid)
            try:
                return process.communicate(timeout=LOOK_S)[0]
            except subprocess.TimeoutExpired:
                if time.monotonic() > ends or (before is not None and _work_of(process.pid) == before):
                    raise


def _work_of(pid: int) -> bytes | None:
    """The time that a waiting process has worked; None for one that works or waits for a disk, and where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return b" ".join(fields[11:13]) if fields[:1] == [b"S"] else None


def _place_of(folder: str) -> str:
    return find_repository(folder) or folder


def _stamp(folder: str) -> tuple[int, ...]:
    with contextlib.suppress(OSError):
        state = os.stat(f"{_place_of(folder)}/.git/config")  # noqa: PTH116 — a root may be any bytes
        return state.st_ino, state.st_size, state.st_mtime_ns
    return ()


def staged_files(folder: str, paths: Collection[str]) -> list[str]:
    """The files among ``paths``, which are relative to a folder of this machine, whose content in git's index is not that of the last
    commit. Blocks.
    """
    words = ("diff-index", "--cached", "--name-only", "--relative", "--no-renames", "-z", "HEAD", "--")
    names = (run_git(folder, *words) or b"").split(b"\0") if Path(folder).is_dir() else []
    return sorted(set(map(os.fsdecode, names)) & set(paths))


def find_repository(folder: str) -> str | None:
    """The top folder of the repository that contains a folder; None if there is none."""
    for place in (folder, *map(str, Path(folder).parents)):
        if os.path.lexists(os.path.join(place, ".git")):  # noqa: PTH118 — a root may be any bytes
            return place
    return None


_READ_FIRST: Final = (
    *("HEAD", "commondir", "config", "config.worktree", "index", "packed-refs", "shallow"),
    *("info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout", "objects/info/alternates"),
)
"""Files of a repository that git reads before it does anything, whatever they are."""

_MAX_POINTER: Final = 4096


def _would_wait(folder: str) -> bool:
    """Whether git, in a folder, would read a pipe or a device in place of a file of the repository: for ever, and so would each look at
    the project's files.
    """
    for place in (folder, *map(str, Path(folder).parents)):
        link = f"{place}/.git"
        if os.path.lexists(link):
            if _is_endless(link):
                return True
            folders = _folders_of(place, link)
            return any(map(_has_endless, folders)) or _names_endless(place, folders)
        if os.path.lexists(f"{place}/HEAD") and _has_endless(place):  # git takes it for a bare repository
            return True
    return False


def _folders_of(top: str, link: str) -> list[str]:
    """The folders of git for a working tree: its own, and that of the repository which it is linked to."""
    own = link
    if os.path.isfile(link):  # noqa: PTH113 — a root may be any bytes
        own = posixpath.join(top, _read_pointer(link).removeprefix("gitdir: "))
    shared = "" if _is_endless(f"{own}/commondir") else _read_pointer(f"{own}/commondir")
    return [own, posixpath.join(own, shared)] if shared else [own]


def _read_pointer(file: str) -> str:
    with contextlib.suppress(OSError), Path(file).open("rb") as opened:
        return os.fsdecode(opened.read(_MAX_POINTER)).rstrip("\n").replace("\0", "")
    return ""


def _has_endless(folder: str) -> bool:
    return any(_is_endless(f"{folder}/{name}") for name in _READ_FIRST)


def _names_endless(top: str, folders: list[str]) -> bool:
    """Whether the settings of a repository name something endless, as do those that they include."""
    settings = [f"{folder}/{name}" for folder in folders for name in ("config", "config.worktree")]
    home = os.path.expanduser("~")  # noqa: PTH111 — an unknown home stays as it is
    named = find_named_files(settings, home, _read_settings)
    return any(map(_is_endless, [*named.included, *(posixpath.join(top, path) for path in named.rules)]))


def _read_settings(file: str) -> bytes:
    with contextlib.suppress(OSError, ValueError):
        if not _is_endless(file):
            with Path(file).open("rb") as opened:
                return opened.read(MAX_SETTINGS)
    return b""


def _is_endless(path: str) -> bool:
    """Whether there is something, behind any links, that is neither a file nor a folder, nor always empty."""
    try:
        state = os.stat(path)  # noqa: PTH116 — as above
    except (OSError, ValueError):
        return False
    is_ordinary = stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)
    return not (is_ordinary or os.path.samestat(state, os.stat(os.devnull)))  # noqa: PTH116 — as above


class RunGit(Protocol):
    """See the function ``run_git``."""

    def __call__(
        self, folder: str, *args: str, stdin: bytes = b"", ok_codes: Collection[int] = (0,)
    ) -> bytes | None: ...


class GitBackend(Protocol):
    """Git on one host, and the few files of a repository that git itself cannot transfer."""

    @property
    def run_git(self) -> RunGit: ...

    def read_file(self, path: str, /) -> bytes | None:
        """The content of a regular file; None if there is none, or a link in its path: a hostile repository would have it lead to a key."""
        ...

    def write_file(self, path: str, data: bytes, /) -> None:
        """Create or replace a file, and its folder."""
        ...


class LocalGit:
    """``GitBackend`` of this machine."""

    run_git = staticmethod(run_git)

    def read_file(self, path: str, /) -> bytes | None:
        with contextlib.suppress(OSError, WorkspaceError):
            descriptor, _ = files.open_regular(path, nofollow=True)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()
        return None

    def write_file(self, path: str, data: bytes, /) -> None:
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def copy_repository(at: GitBackend, top: str, copy: str, *, inside: str) -> bool:
    """Create a repository in the folder ``copy`` with the history, branches and index of the one in ``top``; the caller copies
    the files. Commits in the copy stay there: it shares the other's objects, writes its own, and has no remotes. ``inside``
    is the only folder to be checked out ("" for all). False if git fails. Blocks.
    """
    form = at.run_git(top, "rev-parse", "--show-object-format")
    if (
        form is None
        or at.run_git(copy, "init", "--quiet", f"--object-format={form.decode().strip()}") is None
    ):
        return False
    refs = at.run_git(top, "for-each-ref", "--format=update %(refname) %(objectname)")
    index = None if refs is None else at.run_git(top, "ls-files", "--stage", "--full-name", "-z")
    if refs is None or index is None:  # or git waits for a pipe, once: each call takes the whole time limit
        return False
    _share_objects(at, top, copy)
    done = [at.run_git(copy, "update-ref", "--stdin", stdin=refs)]
    _set_head(at, top, copy)
    settings = at.run_git(top, "config", "--local", "-z", "--get-regexp", _COPIED_SETTINGS) or b""
    for pair in settings.split(b"\0")[:-1]:
        name, _, value = os.fsdecode(pair).partition("\n")
        at.run_git(copy, "config", "--local", name, value)
    done.append(at.run_git(copy, "update-index", "-z", "--index-info", stdin=index))
    if inside:
        others = _paths_outside(index, os.fsencode(inside) + b"/")
        done.append(at.run_git(copy, "update-index", "--skip-worktree", "-z", "--stdin", stdin=others))
    return None not in done


_COPIED_SETTINGS: Final = r"^(user\.|core\.(autocrlf|eol|filemode|ignorecase|excludesfile|symlinks))"
"""Settings that determine how git reads and commits files."""


def _share_objects(at: GitBackend, top: str, copy: str) -> None:
    def of(name: str) -> str:
        answer = at.run_git(top, "rev-parse", "--git-path", name) or b""
        return posixpath.normpath(posixpath.join(top, os.fsdecode(answer.removesuffix(b"\n"))))

    git_folder = f"{copy}/.git"
    at.write_file(f"{git_folder}/objects/info/alternates", os.fsencode(of("objects")) + b"\n")
    for name in ("shallow", "info/exclude"):
        if (content := at.read_file(of(name))) is not None:
            at.write_file(f"{git_folder}/{name}", content)


def _set_head(at: GitBackend, top: str, copy: str) -> None:
    branch = at.run_git(top, "symbolic-ref", "--quiet", "HEAD")
    if branch is not None:
        at.run_git(copy, "symbolic-ref", "HEAD", branch.decode().strip())
    elif commit := at.run_git(top, "rev-parse", "--verify", "--quiet", "HEAD"):
        at.run_git(copy, "update-ref", "--no-deref", "HEAD", commit.decode().strip())


def _paths_outside(index: bytes, prefix: bytes) -> bytes:
    paths = (entry.partition(b"\t")[2] for entry in index.split(b"\0")[:-1])
    return b"".join(path + b"\0" for path in paths if not path.startswith(prefix))
