"""If these fail, Newel's files or exports reveal the user's keys or conversations to others."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.terminal.conftest import Terminal
from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]

PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n-----END OPENSSH PRIVATE KEY-----"
SECRETS = {
    "configured": "own-key-of-the-file-77",
    "environment": "hunter2-of-the-environment",
    "server": "mcp-value-0815",
    "openai": "sk-proj-abcdefghijklmnopqrstuvwx",
    "github": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
    "address": "joe:opensesame",
    "pem": "b3BlbnNzaC1rZXktdjE",
}
SAID = "\n".join([*list(SECRETS.values())[:7], f"https://{SECRETS['address']}@host/x", PEM])


@pytest.fixture
def newel(with_model: Make) -> Newel:
    """A conversation with secrets in messages, calls and results."""
    steps = scenario("go", bash(f"cat <<'END'\n{SAID}\nEND"), {"content": f"It says {SAID}"})
    newel = with_model(steps)
    home = newel.home / ".newel"
    home.mkdir()
    (home / "config.toml").write_text(f'api_key = "{SECRETS["configured"]}"\n')
    (home / "mcp_config.json").write_text(
        json.dumps({"mcpServers": {"s": {"command": "x", "env": {"API_TOKEN": SECRETS["server"]}}}})
    )
    del newel.environ["LLM_AUTH_TOKEN"]
    newel.environ["DEPLOY_PASSWORD"] = SECRETS["environment"]
    return newel


def plain(text: str) -> str:
    return text.replace("\\", "").replace("<wbr>", "")


@pytest.mark.parametrize("options", [[], ["--html"]])
def test_an_export_masks_secrets_unless_requested(options: list[str], newel: Newel) -> None:
    assert newel("go").returncode == 0
    identity = newel.sessions[0].stem.partition("_")[2][:8]
    done = newel("export", identity, *options)
    assert [name for name, secret in SECRETS.items() if secret in plain(done.stdout)] == []
    assert "It says [masked]" in plain(done.stdout)
    assert done.stderr == f"newel: {len(SECRETS)} secret values masked. Use --unmasked to keep them.\n"
    whole = newel("export", identity, *options, "--unmasked")
    assert [name for name, secret in SECRETS.items() if secret not in plain(whole.stdout)] == []
    assert whole.stderr == ""


def test_an_export_from_a_conversation_masks_secrets(newel: Newel) -> None:
    env = newel.environ | {"TERM": "xterm-256color"}
    terminal = Terminal([str(BIN / "newel"), "--renderer", "console"], newel.project, 120, 60, env)
    try:
        terminal.wait_for("newel ")
        terminal.send("go\r")
        terminal.wait_for("It says")
        terminal.send("/export talk.md\r")
        terminal.wait_for("secret values masked. Use --unmasked to keep them.")
        terminal.send("/export --unmasked whole.md\r")
        terminal.wait_for("Written: " + str(newel.project / "whole.md"))
    finally:
        terminal.close()
    masked, whole = (plain((newel.project / name).read_text()) for name in ("talk.md", "whole.md"))
    assert [name for name, secret in SECRETS.items() if secret in masked] == []
    assert [name for name, secret in SECRETS.items() if secret not in whole] == []


def open_to_others(folder: Path) -> list[str]:
    """The files that others may read, with their permission bits."""
    found = [folder, *folder.rglob("*")]
    modes = [(path, path.lstat()) for path in found if not path.is_symlink()]
    return [
        f"{path.relative_to(folder)} {stat.filemode(info.st_mode)}"
        for path, info in modes
        if info.st_mode & 0o077 and not stat.S_ISSOCK(info.st_mode)
    ]


def test_no_file_of_newel_is_readable_by_others_whatever_the_umask(with_model: Make) -> None:
    newel = with_model(
        scenario("go", bash("mkdir node_modules; touch node_modules/a b"), {"content": "Done."})
    )
    before = os.umask(0)
    try:
        for words in (["go"], ["--approve", "review", "go"], ["agent", "go", "--max-turns", "1"], ["review"]):
            newel(*words)
        newel("mcp", "add", "s", "--", "true")
        newel("mcp", "list")
    finally:
        os.umask(before)
    assert open_to_others(newel.home / ".newel") == []


def test_an_open_home_is_closed_and_one_with_foreign_files_is_not_touched(with_model: Make) -> None:
    newel = with_model()
    home = newel.home / ".newel"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    (home / "sessions").mkdir()
    (home / "sessions").chmod(0o755)
    assert newel("how are you").returncode == 0
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    elsewhere = newel.home / "shared"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    newel("sessions", NEWEL_HOME=str(elsewhere))
    newel("sessions", NEWEL_HOME=str(newel.home))
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
    assert newel.home.stat().st_mode & 0o055
