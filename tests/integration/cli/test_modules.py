"""If these fail, each start loads modules that it does not need, or ``python -m newel`` does not work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.requirements import require_program
from tests.support import Newel

LOADED_WHEN_USED = {
    "difflib",
    "json",
    "newel.app.mcp_servers",
    "newel.config.toml_file",
    "newel.context.nested_instructions",
    "newel.diff.patience",
    "newel.diff.unified",
    "newel.mcp.server_config",
    "newel.permissions.commands.parse",
    "newel.providers.anthropic.client",
    "newel.providers.catalog.model_catalog",
    "newel.providers.gemini.client",
    "newel.providers.llamacpp.client",
    "newel.providers.ollama.client",
    "newel.providers.openai.responses",
    "newel.providers.openai.stream",
    "newel.providers.response_reader",
    "newel.review.model.file_review",
    "newel.review.undo_notices",
    "newel.session.reader",
    "newel.terminal.review.hunk_format",
    "newel.terminal.review.run_format",
    "newel.terminal.run_result",
    "newel.terminal.shown_command",
    "newel.tools.text_replace",
    "newel.workspace.background",
    "newel.workspace.process.runner",
    "newel.workspace.sandbox.git_broker",
    "newel.workspace.sandbox.network_proxy",
    "newel.workspace.sandbox.sandbox",
    "newel.workspace.snapshots.port",
    "sqlite3",
    "termios",
    "unicodedata",
}


@pytest.mark.parametrize("module", ["newel", "newel.cli.main"])
def test_newel_runs_as_a_module(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("newel ")


@pytest.mark.parametrize("sandbox", ["off", "workspace"])
def test_the_first_request_does_not_wait_for_unneeded_modules(
    with_model: Callable[..., Newel], sandbox: str
) -> None:
    """Each module costs every start a fraction of a millisecond; these cost the most."""
    newel = with_model()
    if sandbox != "off":
        require_program("bwrap", "bubblewrap")
        newel("doctor", NEWEL_SANDBOX=sandbox)  # which tries what is forbidden
    done = newel("Say hello.", NEWEL_SANDBOX=sandbox, PYTHONPROFILEIMPORTTIME="1")
    imports = [
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    ]
    before = set(imports[: imports.index("httpcore2")])  # the last import before the request
    assert "newel.agent.loop" in before
    assert not before & LOADED_WHEN_USED
