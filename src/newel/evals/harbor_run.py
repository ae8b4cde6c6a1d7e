"""Newel in the environment of a Harbor task: how it is installed and started there, and what its events tell.

Only the standard library is needed: Harbor loads this beside its own packages, some of which do not go together with
Newel's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

EVENTS: Final = "newel.jsonl"
"""The events of JSON mode, in the folder of the agent's logs."""

ERRORS: Final = "newel-stderr.txt"
INSTALLED: Final = "/installed-agent"
"""The folder in the environment that Harbor makes for agents."""

API_OF_FORMAT: Final = {
    "openai_chat_completions": "chat",
    "openai_responses": "responses",
    "anthropic_messages": "anthropic",
    "google_generate_content": "gemini",
}
"""Newel's names for the formats of APIs that Harbor knows. Without a format, the address tells it."""

_PATH: Final = 'export PATH="$HOME/.local/bin:$PATH"'


class EventTotals(NamedTuple):
    """What a run has used. ``input_tokens`` are with cached ones; ``cost`` is in US dollars, None if a price is
    unknown.
    """

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None


def own_wheel() -> Path | None:
    """The wheel from which this module is loaded, if it is in one: ``PYTHONPATH`` may name it."""
    return next((place for place in Path(__file__).parents if place.suffix == ".whl"), None)


def install_command(wheel: str) -> str:
    """A script that installs Newel for the user of the environment. ``wheel`` is a path there.

    Changes are not recorded: nobody will undo them, and a task may work in a folder of any size, or in all of the
    system.
    """
    return "\n".join([
        "set -eu",
        _PATH,
        "command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh",
        f"uv tool install --quiet --force --python '>=3.11' {shlex.quote(wheel)}",
        "mkdir -p ~/.newel",
        "[ -e ~/.newel/config.toml ] || printf '[review]\\nrecord = false\\n' >~/.newel/config.toml",
        "newel --version",
    ])  # fmt: skip


def run_command(prompt: str, logs: str, flags: str) -> str:
    """A shell command that gives Newel a prompt, without questions and without a sandbox of its own: the environment
    is one. ``flags`` are further words for the shell. If it fails, the end of its errors and its last event, which
    has the reason, are what Harbor sees.
    """
    events, errors = shlex.quote(f"{logs}/{EVENTS}"), shlex.quote(f"{logs}/{ERRORS}")
    run = f"newel --json --approve auto --sandbox off {flags} -- {shlex.quote(prompt)}"
    return (
        f"{_PATH}; {run} </dev/null >{events} 2>{errors} "
        f"|| {{ status=$?; {{ tail -c 4000 {errors}; tail -n 1 {events}; }} >&2; exit $status; }}"
    )


def model_environ(model: str, connection: Mapping[str, str], api_format: str | None) -> dict[str, str]:
    """The environment for a model; ``connection`` has the server and its key in Newel's variables. Raises
    ``ValueError`` without a server.
    """
    if not connection.get("LLM_BASE_URL"):
        raise ValueError(
            f"Newel does not know the server of the model {model}. Name it: --base-url URL, or --ae LLM_BASE_URL=URL."
        )
    environ = {**connection, "LLM_DEFAULT_MODEL": model, "LLM_SMALL_FAST_MODEL": model}
    if api := API_OF_FORMAT.get(api_format or ""):
        environ["LLM_API"] = api
    return environ


def read_totals(text: str) -> EventTotals | None:
    """What the events of a run tell; None if there were no requests. A run that was ended has no ``result``: its
    messages count then.
    """
    events = [event for line in text.splitlines() if (event := _decode(line))]
    used = [event for event in events if event.get("type") == "result"]
    if not used:
        messages = [_dict(event.get("message")) for event in events if event.get("type") == "message_end"]
        used = [message for message in messages if message.get("role") == "assistant"]
    usages = [_dict(each.get("usage")) for each in used]
    if not any(usages):
        return None
    costs = [each.get("cost") for each in used]
    known = [float(cost) for cost in costs if isinstance(cost, int | float)]
    return EventTotals(
        input_tokens=_total(usages, "input"),
        cached_tokens=_total(usages, "cacheRead"),
        output_tokens=_total(usages, "output"),
        cost=sum(known) if len(known) == len(costs) else None,
    )


def _decode(line: str) -> dict[str, Any]:
    try:
        return _dict(json.loads(line))
    except ValueError:  # cut off, when the run was ended
        return {}


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _total(usages: list[dict[str, Any]], name: str) -> int:
    return sum(int(usage.get(name) or 0) for usage in usages)
