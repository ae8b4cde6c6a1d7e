"""Variables of the environment that choose a mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from newel.agent.errors import ConfigError
from newel.agent.ports import AgentMode
from newel.workspace.sandbox.policy import INSIDE, SandboxMode

AGENT_MODE = "NEWEL_AGENT_MODE"
SANDBOX = "NEWEL_SANDBOX"


def read_modes(environ: Mapping[str, str]) -> dict[str, str | None]:
    """The modes by the names of their settings, None for one that is not chosen. Raises ``ConfigError``."""
    # A Newel in a sandbox has no other one: it is in that of its starter.
    is_inside = environ.get(SANDBOX) == INSIDE
    sandbox = "off" if is_inside else _chosen(environ, SANDBOX, get_args(SandboxMode))
    return {"agent_mode": _chosen(environ, AGENT_MODE, get_args(AgentMode)), "sandbox": sandbox}


def _chosen(environ: Mapping[str, str], variable: str, choices: tuple[str, ...]) -> str | None:
    mode = environ.get(variable)
    if mode and mode not in choices:
        raise ConfigError(
            f"environment: {variable} is {mode[:40]!r}, but must be one of {', '.join(choices)}."
        )
    return mode
