"""The commands beside the agent itself, each in a module of its own and loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from newel.permissions.nested import refuse_decision

MODULES = {
    "demo": "demo",
    "doctor": "doctor",
    "sessions": "sessions",
    "export": "sessions",
    "import": "sessions",
    "review": "review",
    "checkpoints": "review",
    "decide": "deciding",
    "keep": "deciding",
    "reject": "deciding",
    "undo": "undo",
    "rollback": "undo",
    "trace": "trace",
    "web": "web",
    "agent": "agents",
    "agents": "agents",
    "hosts": "hosts",
    "jexida": "jexida",
    "trust": "trust",
    "mcp": "mcp",
    "mcp-conformance": "mcp_conformance",
}
"""Which module holds a command; its function there is ``command_<name>(arguments) -> exit code``, with ``_`` for ``-``."""

HIDDEN = frozenset({"mcp-conformance"})
"""For a test suite of others, not for people."""


def run(name: str, arguments: Sequence[str]) -> int:
    refuse_decision(name, arguments)
    module = import_module(f"newel.commands.{MODULES[name]}")
    return int(getattr(module, f"command_{name.replace('-', '_')}")(arguments))
