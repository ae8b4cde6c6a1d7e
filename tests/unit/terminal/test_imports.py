"""If this fails, every start of the program waits for screens that it may never show."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"rich", "prompt_toolkit", "markdown_it", "pygments", "httpx2", "json_repair", "PIL", "difflib"}


@pytest.mark.parametrize(
    "module", ["renderers.console", "rpc.server", "print_mode", "simple_repl", "repl.repl"]
)
def test_a_renderer_imports_only_what_it_uses(module: str) -> None:
    code = (
        f"import sys, newel.terminal.{module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(loaded.split())
