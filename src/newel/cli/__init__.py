"""The subcommands, each in a module of its own that is imported when it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

MODULES = {
    "demo": "demo",
    "docs": "docs",
    "doctor": "doctor",
    "models": "models",
    "sessions": "sessions",
    "export": "sessions",
    "import": "sessions",
    "review": "review",
    "checkpoints": "review",
    "decide": "decide",
    "keep": "decide",
    "reject": "decide",
    "undo": "undo",
    "redo": "undo",
    "rollback": "undo",
    "trace": "trace",
    "stats": "stats",
    "forget": "forget",
    "web": "web",
    "acp": "acp",
    "desktop": "desktop",
    "agent": "agents",
    "agents": "agents",
    "fleet": "fleet",
    "worker": "worker",
    "action": "action",
    "hosts": "hosts",
    "jexida": "jexida",
    "rpc": "rpc",
    "permissions": "permissions",
    "trust": "trust",
    "keys": "keys",
    "completion": "completion",
    "config": "config",
    "setup": "setup",
    "mcp": "mcp",
    "hooks": "hooks",
    "skills": "skills",
    "extensions": "extensions",
    "eval": "eval",
}
"""The module of each command; its function there is ``command_<name>(arguments) -> exit code``, with ``_`` for ``-``."""

HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "the agent",
        (
            ("newel", "start a conversation"),
            ("newel PROMPT", "start one with this prompt"),
            ("newel -p PROMPT", "run one task, print the answer and exit"),
            ("newel agent CONTRACT", "run an agent unattended until a contract is met"),
            ("newel agents", "list these agents, follow one, show its log"),
            ("newel fleet", "run contracts on the workers of many machines"),
            ("newel worker", "run jobs of a fleet on this machine"),
            ("newel web", "start the workbench in the browser"),
            ("newel acp", "serve an editor: Zed, JetBrains, Neovim, Emacs"),
            ("newel desktop [FOLDER]", "open the workbench in a window of its own"),
            ("newel jexida", "look after a host over SSH, with a model there"),
            ("newel rpc", "serve a program over JSON lines"),
            ("newel action", "run a prompt from the environment, in CI"),
            ("newel demo", "watch a scripted run; needs no model and no key"),
            ("newel eval", "measure what an agent gets done, on checked tasks"),
            ("newel docs [PAGE]", "read the documentation here, or search it"),
        ),
    ),
    (
        "changes",
        (
            ("newel review", "show pending changes, and the latest runs"),
            ("newel decide", "keep or reject pending changes, hunk by hunk"),
            ("newel keep, newel reject", "keep or reject hunks or files, for scripts"),
            ("newel undo", "undo the last run; again: the one before"),
            ("newel redo", "redo what an undo has undone"),
            ("newel checkpoints", "list the runs that can be undone"),
            ("newel rollback CHECKPOINT", "restore the files of a run as they were before"),
            ("newel trace [JOB]", "show review jobs and sessions, step by step"),
        ),
    ),
    (
        "sessions",
        (
            ("newel sessions", "list this folder's sessions"),
            ("newel export [SESSION]", "write a session as Markdown or HTML"),
            ("newel import [FILE]", "import sessions of Claude Code, codex and pi"),
            ("newel stats", "show the tokens, cost and time used"),
            ("newel forget FILE…", "delete what Newel has stored of files"),
        ),
    ),
    (
        "settings, servers and hosts",
        (
            ("newel setup", "choose a server, its key and a model; test them"),
            ("newel config", "show and change the settings"),
            ("newel completion SHELL", "print a script that completes commands"),
            ("newel doctor", "show the settings and their origin, and test them"),
            ("newel keys", "store, list and remove API keys"),
            ("newel models", "list the server's models, with sizes and prices"),
            ("newel models pull [NAME]", "download a model that runs on this machine"),
            ("newel trust", "list, trust and refuse model servers"),
            ("newel mcp", "list, add, remove, test and trust MCP servers"),
            ("newel hooks", "list, check and trust commands at named points"),
            ("newel skills", "list and check skills, trust those of a project"),
            ("newel extensions", "list and check Python extensions"),
            ("newel hosts", "list, add, remove and test SSH hosts"),
            ("newel permissions", "list, add and revoke rules for agents' calls"),
        ),
    ),
)
"""The commands by topic, for the help of ``newel``."""


def help_text() -> str:
    width = max(len(usage) for _, rows in HELP for usage, _ in rows) + 2
    groups = (
        "\n".join([f"{title}:", *(f"  {usage:<{width}}{says}" for usage, says in rows)])
        for title, rows in HELP
    )
    return "\n\n".join(groups)


"""For the MCP conformance suite, not for users."""


READS_HOME = frozenset(
    {
        *(
            "doctor",
            "sessions",
            "export",
            "review",
            "checkpoints",
            "trace",
            "stats",
            "agents",
            "hosts",
            "permissions",
        ),
        *("trust", "keys", "config", "mcp", "hooks", "skills", "extensions"),
    }
)
"""The commands that say what is in Newel's own folder."""


def _check_home(name: str, arguments: Sequence[str]) -> None:
    """Raises ``UsageError`` in a sandbox without Newel's folder: the command would report that nothing is there."""
    if "NEWEL_SANDBOX" not in os.environ or name not in READS_HOME:
        return
    from newel.agent.errors import UsageError
    from newel.config.settings import newel_home
    from newel.config.variables import SANDBOX
    from newel.workspace.sandbox.policy import INSIDE

    needs_none = {"-h", "--help", "check"}
    if os.environ[SANDBOX] != INSIDE or not needs_none.isdisjoint(arguments):
        return
    if not (home := newel_home(os.environ)).exists():
        raise UsageError(
            f"{home} cannot be seen in the sandbox of this command, so `newel {name}` cannot tell what is there. "
            "Run it in another terminal."
        )


def run(name: str, arguments: Sequence[str]) -> int:
    from newel.permissions.nested import refuse_decision

    refuse_decision(name, arguments)
    _check_home(name, arguments)
    module = import_module(f"newel.cli.{MODULES[name]}")
    return int(getattr(module, f"command_{name}")(arguments))
