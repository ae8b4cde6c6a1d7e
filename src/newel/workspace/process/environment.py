"""The environment of the agent's commands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping
from typing import Final

SENSITIVE: Final = (
    "(^|_)(TOKEN|SECRETS?|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY|MNEMONIC|BEARER|AUTHORIZATION|SEED_PHRASE)(_|$)"
    "|PASSWORD(_|$)|_(KEYS?|PAT|AUTH|PASS|PWD|PW|PEM|AUTH_CONFIG|SERVICE_ACCOUNT_JSON)$|(^|_)(JWT|COOKIE|DBPASS|KEY_ID)$"
    "|(^|_)WEBHOOK(_URL)?$|^OTEL_.*_HEADERS$"
    "|(API|ACCESS|AUTH|PRIVATE|SECRET|SIGNING|ENCRYPTION)_?KEYS?[0-9]*(_|$)|(TOKEN|SECRET|SSHPASS|BINDPW)$"
)
"""Matches names of secrets in upper case. Valid as a POSIX extended and as a Python regular expression."""

DROPPED: Final = frozenset(
    {
        "BASH_ENV",  # a non-interactive bash would run this file before the command
        "ENV",  # the same for sh
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
    }
)
"""Variables that make a shell run another file first, or force colours."""

_OF_THE_AGENT: Final = ("LLM_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "NEWEL_ENGINE", "NEWEL_FLEET_")
"""Prefixes of the variables that configure the agent's own model, and the database and store of its fleet: keys, and URLs with passwords.
"""

UNATTENDED: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Configures programs to run without a terminal."""

COPIES: Final = {"UV_LINK_MODE": "copy"}
"""Has uv copy from its cache: as hard links, files of a project would be those of all projects."""


def is_secret(name: str) -> bool:
    """Whether a variable of this name usually holds a secret.

    ``OPENAI_API_KEY``, ``GH_TOKEN``, ``AWS_ACCESS_KEY_ID``, ``PGPASSWORD`` do; ``AWS_REGION``,
    ``SSH_AUTH_SOCK``, ``TOKENIZERS_PARALLELISM``, ``PWD`` do not.
    """
    return re.search(SENSITIVE, name.upper()) is not None


def is_withheld(name: str) -> bool:
    """Whether a variable of this name stays with the agent: a secret, or part of its own connection."""
    return is_secret(name) or name.upper().startswith(_OF_THE_AGENT)


def child_env(
    environ: Mapping[str, str],
    extra: Mapping[str, str] | None = None,
    *,
    keep: Collection[str] = (),
) -> dict[str, str]:
    """The environment of a command: ``environ`` without secrets, made fit for a run without a terminal.

    A command is written by a model and its output goes back to one, so that neither may hold the user's
    keys, nor anything else of the agent's own connection. A password within the value of a variable with
    another name passes, as in ``HTTPS_PROXY``, ``PIP_INDEX_URL`` or ``DATABASE_URL``: without them no command
    could reach the network, install a package or run a test. ``keep`` names variables that pass although they
    look like secrets; ``extra`` is added as it is, last.
    """
    allowed = {
        name: value
        for name, value in environ.items()
        if name in keep or not (name in DROPPED or is_withheld(name))
    }
    return COPIES | allowed | UNATTENDED | dict(extra or {})


_BY_UV: Final = frozenset({"UV", "UV_RUN_RECURSION_DEPTH"})
"""Variables that `uv run` sets for the program."""


def without_own_python(
    environ: Mapping[str, str], folder: str, *, prefix: str = sys.prefix, package: str = __file__
) -> Mapping[str, str]:
    """``environ`` without Newel's own virtual environment, in which `pip`, `pytest` and `python` would be Newel's.

    It stays where it is the user's: around ``folder`` (the user works on Newel in its checkout), or activated with Newel
    installed in it. ``prefix`` is the environment that Newel runs in, ``package`` where a module of Newel is.
    """
    if prefix == sys.base_prefix:
        return environ
    prefix_path = os.path.realpath(prefix)
    holder = os.path.dirname(prefix_path)  # noqa: PTH120 — a text, for the watchdog does without pathlib
    if _is_in(os.path.realpath(folder), holder):
        return environ
    source = os.path.realpath(package)
    is_installed = _is_in(source, prefix_path)
    # uv run activates it; with UV_PROJECT_ENVIRONMENT it may be one that the user's project shares with Newel.
    by_uv = "UV_RUN_RECURSION_DEPTH" in environ and not (is_installed and "UV_PROJECT_ENVIRONMENT" in environ)
    of_a_checkout = _is_in(source, holder) and not is_installed
    is_active = os.path.realpath(environ.get("VIRTUAL_ENV", "/")) == prefix_path
    if is_active and not (by_uv or of_a_checkout):
        return environ
    remaining = {name: value for name, value in environ.items() if name not in _BY_UV}
    if is_active:
        for name in ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PYTHONHOME"):
            remaining.pop(name, None)
    if path := remaining.get("PATH"):
        programs = os.path.join(prefix_path, "bin")  # noqa: PTH118 — as above
        remaining["PATH"] = os.pathsep.join(
            entry for entry in path.split(os.pathsep) if os.path.realpath(entry) != programs
        )
    return remaining


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
