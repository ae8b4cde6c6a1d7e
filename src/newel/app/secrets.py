"""The secrets that the user has configured: exports must not contain them."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from newel.agent.errors import ConfigError
from newel.config.keys import KeyStore
from newel.config.secret_files import with_secret_files
from newel.mcp.server_config import load_servers
from newel.session.masking import secret_values
from newel.storage.files import read_regular
from newel.workspace.process.environment import is_secret


def configured_secrets(home: Path, cwd: Path, environ: Mapping[str, str]) -> list[str]:
    """The secrets of the environment, of Newel's folder ``home``, and of tool servers. Never raises."""
    secrets = secret_values(environ)
    with contextlib.suppress(ConfigError):
        secrets = secret_values(with_secret_files(environ))
    with contextlib.suppress(OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        settings = tomllib.loads(read_regular(home / "config.toml").decode())
        secrets += _in_settings(settings)
        secrets += [str(value) for value in settings["otel"]["headers"].values()]
    secrets += [stored.key for stored in KeyStore(home).all() if stored.key]
    servers, _ = load_servers(home=home, cwd=cwd)
    for server in servers:
        secrets += [*secret_values(server.env), *secret_values(server.headers)]
    return secrets


def _in_settings(table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _in_settings(value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, str) and is_secret(name):
            yield value
