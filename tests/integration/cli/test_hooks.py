"""If these fail, hooks that were written for Claude Code do not work in Newel, or a guard that the user has set up lets a call through."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

DONE = {"content": "Done."}

BLOCK_RM = """\
#!/bin/bash
# .claude/hooks/block-rm.sh
COMMAND=$(jq -r '.tool_input.command')

if echo "$COMMAND" | grep -q 'rm -rf'; then
  jq -n '{
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision: "deny",
      permissionDecisionReason: "Destructive command blocked by hook"
    }
  }'
else
  exit 0  # no decision; normal permission flow applies
fi
"""
"""From the documentation of Claude Code, unchanged."""


def write(arguments: dict[str, Any], tool: str = "write") -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": tool, "arguments": arguments}}]}


def hook(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": command, **more}


def group(*hooks: dict[str, Any], matcher: str | None = None) -> dict[str, Any]:
    return {"hooks": [*hooks], **({} if matcher is None else {"matcher": matcher})}


def users(newel: Newel, **events: list[dict[str, Any]]) -> None:
    """The user's own hooks."""
    home = newel.home / ".newel"
    home.mkdir(exist_ok=True)
    (home / "hooks.json").write_text(json.dumps({"hooks": events}, indent=2))


def of_project(newel: Newel, file: str = ".claude/settings.json", **events: list[dict[str, Any]]) -> None:
    path = newel.project / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": events}, indent=2))


def program(folder: Path, source: str, name: str = "hook.py") -> str:
    """A hook in Python that gets its input as ``given``; its command."""
    path = folder / name
    path.write_text(f"import json, os, sys\ngiven = json.load(sys.stdin)\n{source}\n")
    return f"{sys.executable} {path}"


def logged(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def test_a_hook_from_the_documentation_of_claude_code_works_unchanged(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("rm -rf build"), bash("echo fine"), DONE))
    (newel.project / "build").mkdir()
    script = newel.home / "block-rm.sh"
    script.write_text(BLOCK_RM)
    script.chmod(0o755)
    users(newel, PreToolUse=[group(hook(str(script), **{"if": "Bash(rm *)"}), matcher="Bash")])
    done = newel("go")
    assert "Destructive command blocked by hook" in results(newel)[0]
    assert "fine" in results(newel)[1]
    assert (newel.project / "build").is_dir(), done.stderr
