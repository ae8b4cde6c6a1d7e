"""Finds the sessions of other agents on this machine, and tells whose a file is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast, get_args

import msgspec

from newel.agent.errors import SessionError
from newel.session.file_format import UNREADABLE
from newel.session.imports.claude import Commands, import_claude, is_claude
from newel.session.imports.codex import import_codex, is_codex
from newel.session.imports.common import Entry, ImportedSession, text_of
from newel.session.imports.pi import import_pi
from newel.storage.files import open_regular
from newel.text.sanitize import plain_line

ForeignAgent = Literal["claude", "codex", "pi"]

AGENTS: Final[Sequence[ForeignAgent]] = get_args(ForeignAgent)

HEAD: Final = 512 * 1024
"""Bytes of a file in which its folder and its first prompt are looked for."""

_FIRST_LINE: Final = 64 * 1024 * 1024

_IMPORT: Final[dict[ForeignAgent, Callable[[Path, Path], ImportedSession]]] = {
    "claude": import_claude,
    "codex": import_codex,
    "pi": import_pi,
}


class ForeignSession(msgspec.Struct, frozen=True):
    """A session of another agent. ``modified`` is in seconds since 1970; ``cwd`` and ``first_text`` are empty if they are not known."""

    agent: ForeignAgent
    path: Path
    modified: float
    cwd: str
    first_text: str


class _File(NamedTuple):
    modified: float
    path: Path
    agent: ForeignAgent


def import_file(source: Path, directory: Path, agent: ForeignAgent | None = None) -> ImportedSession:
    """Import a session file, by default one of the agent whose it seems to be. Raises ``SessionError``."""
    return _IMPORT[agent or _agent_of(source)](source, directory)


def foreign_sessions(
    agents: Sequence[ForeignAgent], environ: Mapping[str, str], cwd: str | None
) -> Iterator[ForeignSession]:
    """The sessions of agents in a folder, in all for None, latest first. Files that cannot be read are skipped."""
    files = [_File(_modified(path), path, each) for each in agents for path in _files(each, environ)]
    files.sort(key=lambda file: file.modified, reverse=True)
    for modified, path, agent in files:
        try:
            folder, first_text = _glance(path, agent)
        except (OSError, *UNREADABLE):
            continue
        if cwd is None or folder == cwd:
            yield ForeignSession(agent, path, modified, folder, plain_line(first_text))


def _files(agent: ForeignAgent, environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 — of this environment
    if agent == "claude":
        root = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"
        # Those of subagents are apart.
        yield from (path for path in root.glob("*/*.jsonl") if not path.name.startswith("agent-"))
    elif agent == "codex":
        root = Path(environ.get("CODEX_HOME") or home / ".codex")
        yield from root.glob("sessions/**/rollout-*.jsonl")
        yield from root.glob("archived_sessions/rollout-*.jsonl")
    else:
        root = Path(environ.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
        yield from root.glob("sessions/*/*.jsonl")


def _agent_of(source: Path) -> ForeignAgent:
    try:
        with open_regular(source) as stream:
            first: Any = json.loads(stream.readline(_FIRST_LINE).decode(errors="replace"))
    except OSError as error:
        raise SessionError(f"{source} cannot be read: {error.strerror}.") from error
    except UNREADABLE:
        first = None
    entry = cast("Entry", first) if isinstance(first, dict) else {}
    if entry.get("type") == "session":
        return "pi"
    if is_codex(entry):
        return "codex"
    if is_claude(entry):
        return "claude"
    raise SessionError(
        f"{source} is not a session file of Claude Code, codex or pi that Newel knows. Name the agent if it is one: "
        "newel import claude FILE."
    )


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0


def _glance(path: Path, agent: ForeignAgent) -> tuple[str, str]:
    """The folder and the first prompt of a session."""
    folder, prompt, commands = "", "", Commands()
    with open_regular(path) as stream:
        for raw in stream.read(HEAD).split(b"\n"):
            try:
                entry: Any = json.loads(raw)
            except UNREADABLE:
                continue
            if not isinstance(entry, dict):
                continue
            of = cast("Entry", entry)
            payload: Any = of.get("payload") if agent == "codex" else of
            if isinstance(payload, dict):
                folder = folder or text_of(cast("Entry", payload), "cwd")
                commands.add(cast("Entry", payload))
                prompt = prompt or commands.of_prompt(of) or _prompt(cast("Entry", payload))
            if folder and prompt:
                break
    return folder, prompt


def _prompt(entry: Entry) -> str:
    """The text of an entry that is a prompt of the user's own."""
    message: Any = entry.get("message", entry)
    if not isinstance(message, dict) or entry.get("isMeta") or entry.get("isSidechain"):
        return ""
    fields = cast("Entry", message)
    content: Any = fields.get("content") if fields.get("role") == "user" else None
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        content = " ".join(text_of(cast("Entry", part), "text") for part in parts if isinstance(part, dict))
    text = content if isinstance(content, str) else ""
    return "" if re.match(r"\s*(?:<|# AGENTS\.md|Caveat:)", text) else text
