"""Job folders of tests: git in them, and all that a copy must have."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")


def git(place: Path, *words: str, stdin: bytes = b"") -> bytes:
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        [*GIT, *words], cwd=place, check=False, capture_output=True, input=stdin, env=environ
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def make_source(folder: Path) -> Path:
    """A repository with a commit and a tag."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "shop.py").write_bytes(b"price = 1\n")
    (folder / ".gitignore").write_bytes(b"*.o\nnode_modules/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Shop")
    git(folder, "tag", "-a", "v1", "-m", "First")
    return folder


Seen = dict[bytes, tuple[int, bytes]]


def seen(root: Path) -> Seen:
    """Everything in a folder but its ``.git``: modes, and contents or targets."""
    found: Seen = {}
    top = os.fsencode(root)
    for place, folders, files in os.walk(top):
        if place == top and b".git" in folders:
            folders.remove(b".git")
        for name in (*folders, *files):
            path = place + b"/" + name
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                content = os.readlink(path)  # noqa: PTH115 — as above
            else:
                content = Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(mode) else b""
            found[path[len(top) + 1 :]] = mode, content
    return found


def git_state(work: Path) -> list[bytes]:
    """What git says of a clone: changes and staged content, branches, stashes, the current branch."""
    return [
        git(work, "status", "--porcelain=v2", "--branch", "-z"),
        git(work, "ls-files", "--stage", "-z"),
        git(work, "for-each-ref"),
        git(work, "stash", "list", "--format=%H %s", "--"),
        git(work, "log", "--all", "--format=%H", "--"),
        git(work, "diff", "--cached", "--no-ext-diff", "--"),
    ]
