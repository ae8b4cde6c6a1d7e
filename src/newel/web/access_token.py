"""The token of a server: chosen by the user, or saved for the project, so that an open page reconnects after a restart.

The file of a saved token is protected like an SSH key: a link, a second name, another owner, or permissions for others mean
that it may have leaked, and it is refused. A token is replaced after ``LIFETIME``, or at once with ``--new-token``.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path

from newel.agent.errors import ConfigError
from newel.storage.files import make_private, replace_file
from newel.web.security import is_loopback

TOKEN_VARIABLE = "NEWEL_WEB_TOKEN"  # noqa: S105 — the variable's name
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,256}")
LIFETIME = 30 * 24 * 3600.0
"""Seconds after which a start makes a new token."""
_MAX_BYTES = 512
_REMEDY = "Remove it, or start with --new-token, and open the printed address."


def is_token(text: str) -> bool:
    """Whether a text can be a token."""
    return _TOKEN.fullmatch(text) is not None


def choose_token(host: str, requested: str | None, load: Callable[[], str] | None = None) -> str:
    """The token for this start: the requested one, else the result of ``load``, else a new one of 192 bits. Raises
    ``ConfigError`` if the requested one is invalid, or is missing although other machines can connect.
    """
    if not requested:
        if is_loopback(host):
            return load() if load is not None else secrets.token_urlsafe(24)
        raise ConfigError(
            f"Serving on {host} lets other machines in. Set {TOKEN_VARIABLE} to a secret of at least 32 "
            f"characters first, for example the output of: openssl rand -hex 24"
        )
    if not is_token(requested):
        raise ConfigError(
            f"{TOKEN_VARIABLE} must have 32 to 256 letters, digits, '-' or '_'; it has {len(requested)} characters."
        )
    return requested


def load_token(path: Path, *, new: bool = False) -> str:
    """The token in a file. A missing one is created; with ``new`` it is replaced. Raises ``ConfigError`` if the file cannot be
    trusted, and ``OSError`` if it cannot be written.
    """
    if not new and (token := _read(path)) is not None:
        return token
    token = secrets.token_urlsafe(24)
    make_private(path.parent)
    replace_file(path, f"{token}\n".encode(), sync=True)
    return token


def _read(path: Path) -> str | None:
    """The saved token; None if there is none, or it is too old."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"The token in {path} cannot be read: {error.strerror}. {_REMEDY}") from error
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1 or info.st_uid != os.geteuid():
            raise ConfigError(f"{path} is not a file of yours alone, so its token may have leaked. {_REMEDY}")
        if info.st_mode & 0o077:
            raise ConfigError(
                f"Others may read or write {path} (mode {stat.S_IMODE(info.st_mode):o}), so its token may have leaked. "
                f"{_REMEDY}"
            )
        if not 0 <= time.time() - info.st_mtime < LIFETIME:
            return None
        token = file.read(_MAX_BYTES).decode(errors="replace").strip()
    if not is_token(token):
        raise ConfigError(f"{path} contains no token. {_REMEDY}")
    return token
