"""If these fail, one damaged file of Newel's makes a command crash, hang or lose other data."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mock_llm_server import running
from tests.properties import one_pair_in
from tests.support import Newel, bash, scenario

LEDGER: Final = ["review", "checkpoints", "undo", "keep --all", "go"]
SESSIONS: Final = ["sessions", "-c go", "export {session}", "go"]
JOBS: Final = ["agents", "agent go --max-turns 1"]
SERVERS: Final = ["mcp list", "mcp trust s --yes", "mcp add t -- true", "go"]
EVERY: Final = ["go", "review", "sessions", "mcp list", "agents", "doctor", "trace", "hosts"]

FILES: Final[Mapping[str, list[str]]] = {
    "config.toml": EVERY,
    "hosts.toml": ["hosts", "hosts add y u@h:/p", "go", "review --host x"],
    "mcp_config.json": SERVERS,
    "mcp_trust.json": SERVERS,
    "mcp_state.json": SERVERS,
    "permissions.json": ["go", "permissions", "permissions add bash", "permissions revoke --all"],
    "sandbox_servers.json": ["--sandbox workspace go"],
    "sandbox_tested.json": ["--sandbox workspace go"],
    "trust.json": ["go", "trust", "mcp list"],
    "history": ["go"],
    "sessions/*/*.jsonl": SESSIONS,
    "review/*/ledger.db": LEDGER,
    "review/*/ledger.lock": LEDGER,
    "review/*/left_out.json": LEDGER,
    "review/*/last_run.json": LEDGER,
    "review/*/files.index": LEDGER,
    "review/*/0123456789abcdef0123456789abcdef.running": LEDGER,
    "jobs/*/journal.db": JOBS,
    "jobs/*/owner.lock": JOBS,
    "traces/0123.jsonl": ["trace", "trace 0123"],
    "copies/p-0123abcd/.newel-lock": ["review", "--approve review go"],
    "sessions": SESSIONS,
    "review": LEDGER,
    "jobs": JOBS,
    "copies": ["review", "--approve review go"],
    "logs": JOBS,
    "project:.env": EVERY,
    "project:.mcp.json": SERVERS,
    "project:mcp_config.json": SERVERS,
    "project:AGENTS.md": ["go"],
    "project:.newel": EVERY,
    "project:.gitignore": LEDGER,
    "project:.newel/permissions.toml": ["go", "permissions", "--approve plan go"],
}
"""Files of Newel's folder, and of the project, with the commands that read them."""

Break = Callable[[Path], None]


def contents(data: bytes) -> Break:
    def put(path: Path) -> None:
        _away(path)
        path.write_bytes(data)

    return put


def _away(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def cut(path: Path) -> None:
    data = path.read_bytes() if path.is_file() else b""
    contents(data[: len(data) // 2] or b"{")(path)


def folder(path: Path) -> None:
    _away(path)
    path.mkdir()
    (path / "inside").touch()


def fifo(path: Path) -> None:
    _away(path)
    os.mkfifo(path)


def link_to_itself(path: Path) -> None:
    _away(path)
    path.symlink_to(path.name)


def endless(path: Path) -> None:
    _away(path)
    path.symlink_to("/dev/zero")


def unreadable(path: Path) -> None:
    if path.exists():
        path.chmod(0)


DAMAGE: Final[Mapping[str, Break]] = {
    "nothing": contents(b""),
    "binary": contents(bytes(range(256)) * 64),
    "deep": contents(b"[" * 200_000),
    "list": contents(b"[1, 2]\n"),
    "types": contents(b'{"mcpServers": 3, "trusted": [], "servers": "x", "run": 1, "type": 7}\n'),
    "cut": cut,
    "folder": folder,
    "fifo": fifo,
    "loop": link_to_itself,
    "endless": endless,
    "unreadable": unreadable,
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A used Newel home: a session, a ledger, a journal, servers, hosts."""
    steps = scenario("go", bash("echo 1 >> one"), {"content": "Done."})
    with running(steps, strict=False) as server:
        newel = Newel(tmp_path_factory.mktemp("used"), server)
        newel("go")
        newel("agent", "go", "--max-turns", "1")
        newel("hosts", "add", "x", "u@127.0.0.1:/p")
        newel("mcp", "add", "s", "--", "true")
        (newel.home / ".newel" / "config.toml").write_text('approve = "auto"\n')
        (newel.home / ".newel" / "history").write_text("\n# 2026\n+go\n")
        yield newel


RAISED = re.compile(r"\w(Error|Exception): ")
"""How Python prints an exception; `Error: ` alone is how Newel begins a message."""


@pytest.mark.slow  # a campaign: each kind of damage in each file, up to eight processes for each
@pytest.mark.parametrize(("name", "damage"), one_pair_in(6, FILES, DAMAGE))
def test_garbage_in_newels_files_gives_messages_and_no_traceback(
    name: str, damage: str, template: Newel, tmp_path: Path
) -> None:
    used = template.home.parent
    newel = Newel(tmp_path, template.server)
    for part in ("home", "project"):
        shutil.rmtree(tmp_path / part)
        shutil.copytree(used / part, tmp_path / part)
    home = newel.home / ".newel"
    for kind in ("sessions", "review", "jobs"):
        for each in (home / kind).iterdir():
            each.rename(each.with_name(each.name.replace(_named(used), _named(tmp_path))))
    session = newel.sessions[0].stem.partition("_")[2][:8]
    root, _, pattern = name.rpartition(":")
    base = newel.project if root else home
    for path in _targets(base, pattern):
        path.parent.mkdir(parents=True, exist_ok=True)
        DAMAGE[damage](path)
    problems: list[str] = []
    for words in FILES[name]:
        done = newel(*words.format(session=session).split())
        said = done.stdout + done.stderr
        if "Traceback" in said or "Errno" in said or "Internal" in said or RAISED.search(said):
            problems.append(f"{words}: {said[-600:]}")
        if done.returncode not in {0, 1, 2} or (done.returncode and not done.stderr + done.stdout):
            problems.append(f"{words}: exit code {done.returncode}: {said[-300:]}")
    assert problems == []
    assert (newel.project / "one").read_text().startswith("1\n1\n")


def _named(folder: Path) -> str:
    return str(folder).replace("/", "-").strip("-")


def _targets(base: Path, pattern: str) -> list[Path]:
    """The existing files, or the missing one."""
    if "*" not in pattern:
        return [base / pattern]
    if found := sorted(base.glob(pattern)):
        return found
    above, _, name = pattern.rpartition("/")
    return [each / name for each in sorted(base.glob(above))[:1]]
