"""The commands beside the agent itself, each in a module of its own and loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

MODULES = {
    "demo": "demo",
    "doctor": "doctor",
    "sessions": "sessions",
    "export": "sessions",
    "import": "sessions",
}
"""Which module holds a command; its function there is ``command_<name>(arguments) -> exit code``."""


def run(name: str, arguments: Sequence[str]) -> int:
    module = import_module(f"newel.commands.{MODULES[name]}")
    return int(getattr(module, f"command_{name}")(arguments))
