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
    "decide": "decide",
    "keep": "decide",
    "reject": "decide",
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
}
"""Which module holds a command; its function there is ``command_<name>(arguments) -> exit code``."""

HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "the agent",
        (
            ("newel", "a conversation in the terminal"),
            ("newel PROMPT", "one task: the answer goes to standard output"),
            ("newel agent CONTRACT", "an agent that works alone until a contract is met"),
            ("newel agents", "the runs of such agents, and their logs"),
            ("newel web", "the workbench in the browser: chats, agents, tools"),
            ("newel jexida", "an agent for one host over SSH, with a model there"),
            ("newel demo", "a scripted run: no key, no model, no set-up"),
        ),
    ),
    (
        "its changes",
        (
            ("newel review", "show pending changes, and those of the last runs"),
            ("newel decide", "keep or reject pending changes, hunk by hunk"),
            ("newel keep, newel reject", "the same by hunk or by file, for scripts"),
            ("newel undo", "undo the changes of the last run"),
            ("newel checkpoints", "list the runs that can be undone"),
            ("newel rollback CHECKPOINT", "undo a run, or some of its hunks"),
            ("newel trace [JOB]", "what happened in review jobs, step by step"),
        ),
    ),
    (
        "sessions",
        (
            ("newel sessions", "list this folder's sessions"),
            ("newel export SESSION", "write a session as Markdown or HTML"),
            ("newel import FILE", "import a session file of pi"),
        ),
    ),
    (
        "settings, servers and hosts",
        (
            ("newel doctor", "show the settings, their origin, and test them"),
            ("newel trust", "list, trust and refuse model servers"),
            ("newel mcp", "list, add, remove, test and trust MCP servers"),
            ("newel hosts", "list, add, remove and test SSH hosts"),
        ),
    ),
)
"""Each command in a group of its own kind, for the help of ``newel``."""


def help_text() -> str:
    width = max(len(words) for _, rows in HELP for words, _ in rows) + 2
    groups = (
        "\n".join([f"{title}:", *(f"  {words:<{width}}{says}" for words, says in rows)])
        for title, rows in HELP
    )
    return "\n\n".join(groups)


def run(name: str, arguments: Sequence[str]) -> int:
    refuse_decision(name, arguments)
    module = import_module(f"newel.cli.{MODULES[name]}")
    return int(getattr(module, f"command_{name}")(arguments))
