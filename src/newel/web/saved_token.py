"""The token that a project's server keeps from one start to the next, so that an open page goes on after a restart.

It lies in a file of the user's own, in the manner of an SSH key: a link, a second name, another owner, or rights for others
mean that it may be known, and it is refused. What leaked does not open the server for ever: a token is replaced after
``LIFETIME``, or at once by ``--new-token``.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from pathlib import Path

from newel.agent.errors import ConfigError
from newel.storage.files import make_private, replace_file
from newel.web.access import is_token

LIFETIME = 30 * 24 * 3600.0
"""Seconds after which a start makes a new token."""
_LONGEST = 512
_REMEDY = "Remove it, or start with --new-token, and use the address that is printed then."


def kept_token(path: Path, *, new: bool = False) -> str:
    """The token of a file, which is made if need be; with ``new`` another takes its place. Raises ``ConfigError`` where
    the file cannot be trusted, and ``OSError`` where none can be written.
    """
    if not new and (token := _read(path)) is not None:
        return token
    token = secrets.token_urlsafe(24)
    make_private(path.parent)
    replace_file(path, f"{token}\n".encode(), sync=True)
    return token


def _read(path: Path) -> str | None:
    """The token that is kept; None where there is none, or it is too old."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"The token in {path} cannot be read: {error.strerror}. {_REMEDY}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != os.geteuid():
            raise ConfigError(f"{path} is not a file of yours alone, so its token may be known. {_REMEDY}")
        if found.st_mode & 0o077:
            raise ConfigError(
                f"Others may read or write {path} (mode {stat.S_IMODE(found.st_mode):o}), so its token may be known. "
                f"{_REMEDY}"
            )
        if not 0 <= time.time() - found.st_mtime < LIFETIME:
            return None
        token = file.read(_LONGEST).decode(errors="replace").strip()
    if not is_token(token):
        raise ConfigError(f"{path} holds no token. {_REMEDY}")
    return token
