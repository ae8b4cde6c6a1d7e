"""What the user has configured as a secret, wherever: no export may hold it."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from newel.mcp.server_config import load_servers
from newel.session.masking import secret_values
from newel.storage.files import read_regular
from newel.workspace.process.environment import is_secret


def configured_secrets(home: Path, cwd: Path, environ: Mapping[str, str]) -> list[str]:
    """Of the environment, of Newel's folder ``home``, whether or not it is in use, and of tool servers. Never raises."""
    found = secret_values(environ)
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found += _in_settings(tomllib.loads(read_regular(home / "config.toml").decode()))
    servers, _ = load_servers(home=home, cwd=cwd)
    for server in servers:
        found += [*secret_values(server.env), *secret_values(server.headers)]
    return found


def _in_settings(table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _in_settings(value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, str) and is_secret(name):
            yield value
