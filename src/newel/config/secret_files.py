"""Secrets in files, as Docker and Kubernetes mount them: ``LLM_AUTH_TOKEN_FILE`` has the path of a file with the ``LLM_AUTH_TOKEN``."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final

from newel.agent.errors import ConfigError

SECRETS: Final = (
    "NEWEL_ENGINE",
    "NEWEL_WEB_TOKEN",
    "LLM_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "PGPASSWORD",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
)
"""The variables that can be in a file. Where they are withheld from commands, so are the paths (``is_withheld``)."""

MOST_BYTES: Final = 65_536


def read_secret_files(environ: MutableMapping[str, str]) -> None:
    """Set the variables whose ``_FILE`` is set, unless they are set themselves. The end of the last line is not part of a secret. Raises
    ``ConfigError`` for a file that cannot be read, or that has no text.
    """
    for name in SECRETS:
        path = environ.get(f"{name}_FILE")
        if path and not environ.get(name):
            environ[name] = _read(f"{name}_FILE", path)


def with_secret_files(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables after ``read_secret_files``, for a program whose own stay as they are."""
    complete = dict(environ)
    read_secret_files(complete)
    return complete


def _read(variable: str, path: str) -> str:
    from pathlib import Path

    from newel.storage.files import read_regular

    try:
        text = read_regular(Path(path), MOST_BYTES).decode().rstrip("\r\n")
    except OSError as error:
        raise ConfigError(
            f"The file of {variable}, {path}, cannot be read: {error.strerror}. Mount the secret there, or correct {variable}."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"The file of {variable}, {path}, is not UTF-8 text.") from error
    if not text or "\0" in text:
        raise ConfigError(f"The file of {variable}, {path}, is empty. Write the secret into it.")
    return text
