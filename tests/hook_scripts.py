"""Hooks of a test: the files that configure them, and scripts that write down what they get."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.support import Newel


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


def logs(newel: Newel, log: Path) -> str:
    return program(newel.home, f"open({str(log)!r}, 'a').write(json.dumps(given) + chr(10))", "log.py")
