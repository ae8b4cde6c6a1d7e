"""If these fail, ``newel mcp`` hides a broken server, or starts a project's server before the user trusts it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.forked import start
from tests.integration.mcp.rogues import ROGUE
from tests.support import BIN


class Mcp:
    """``newel mcp`` in a temporary project."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "NEWEL_HOME": str(self.home)}
        with start([str(BIN / "newel"), "mcp", *words], cwd=self.project, env=environ) as process:
            said = process.communicate(timeout=60)
            return subprocess.CompletedProcess(process.args, process.wait(), *said)

    def project_file(self, way: str) -> None:
        entry = {"command": sys.executable, "args": ["-IS", str(ROGUE), way]}
        (self.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))


@pytest.fixture
def mcp(tmp_path: Path) -> Mcp:
    return Mcp(tmp_path)


def servers(path: Path) -> Any:
    return json.loads(path.read_text())["mcpServers"]


def test_a_server_is_added_listed_tested_and_removed(mcp: Mcp) -> None:
    added = mcp("add", "mine", "--env", "KEY=a=b", "--", sys.executable, "-IS", str(ROGUE), "plain")
    assert added.returncode == 0, added.stderr
    file = mcp.home / "mcp_config.json"
    assert servers(file)["mine"]["env"] == {"KEY": "a=b"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "mine" in mcp("list").stdout
    tried = mcp("test", "mine")
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "mine: active" in tried.stdout
    assert "act  Acts." in tried.stdout
    assert mcp("remove", "mine").returncode == 0
    assert servers(file) == {}
    assert "No servers yet" in mcp("list").stdout


def test_a_url_is_added_with_its_headers(mcp: Mcp) -> None:
    mcp("add", "far", "--header", "Authorization: Bearer ${KEY}", "https://far.example/mcp")
    entry = servers(mcp.home / "mcp_config.json")["far"]
    assert entry == {
        "type": "http",
        "url": "https://far.example/mcp",
        "headers": {"Authorization": "Bearer ${KEY}"},
    }


def test_other_content_of_the_file_stays(mcp: Mcp) -> None:
    mcp.home.mkdir()
    file = mcp.home / "mcp_config.json"
    file.write_text('{"other": [1], "mcpServers": {"a": {"command": "a", "theirs": true}}}')
    mcp("add", "b", "--", "b")
    whole = json.loads(file.read_text())
    assert whole["other"] == [1]
    assert whole["mcpServers"]["a"] == {"command": "a", "theirs": True}


def test_a_broken_file_is_not_overwritten(mcp: Mcp) -> None:
    mcp.home.mkdir()
    (mcp.home / "mcp_config.json").write_text("{ mine")
    done = mcp("add", "b", "--", "b")
    assert done.returncode == 1
    assert "so it was not changed" in done.stderr
    assert (mcp.home / "mcp_config.json").read_text() == "{ mine"


@pytest.mark.parametrize(
    "words",
    [
        ("remove", "nobody"),
        ("test", "nobody"),
        ("trust", "nobody"),
        ("add", "x", "--env", "novalue", "--", "c"),
        ("add", "x", "--header", "A: b", "--", "c"),
        ("add", "x", "http://h/", "more"),
        ("add", "x", "--", "c\udcff"),
    ],
)
def test_invalid_arguments_are_refused(mcp: Mcp, words: tuple[str, ...]) -> None:
    done = mcp(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("newel: ")
    assert not (mcp.home / "mcp_config.json").exists()


def test_a_projects_server_is_shown_exactly_and_waits_for_confirmation(mcp: Mcp) -> None:
    mcp.project_file("plain")
    assert "untrusted" in mcp("list").stdout
    tried = mcp("test", "theirs")
    assert tried.returncode == 1
    assert "newel mcp trust theirs" in tried.stdout
    asked = mcp("trust", "theirs")
    assert asked.returncode == 2
    assert f"-IS {ROGUE} plain" in asked.stdout
    assert mcp("trust", "theirs", "--yes").returncode == 0
    assert mcp("test", "theirs").returncode == 0
    mcp.project_file("other")
    assert "untrusted" in mcp("list").stdout


NOSY = {
    "command": "server",
    "args": ["--key", "${OPENAI_API_KEY:-none}"],
    "cwd": "${workspaceFolder}/inner",
    "env": {"MODE": "fa\u200bst", "DEPLOY_TOKEN": "hush-literal", "USED": "${env:AWS_PROFILE}"},
}


@pytest.mark.parametrize("words", [("list",), ("test",), ("test", "theirs"), ("trust", "theirs")])
def test_the_question_names_the_variables_and_shows_no_secret(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hush-environment")
    (mcp.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": NOSY}}))
    shown = mcp(*words).stdout
    assert "server --key '${OPENAI_API_KEY:-none}'" in shown
    assert f"in {mcp.project}/inner" in shown
    assert "given AWS_PROFILE, DEPLOY_TOKEN, MODE, OPENAI_API_KEY, USED" in shown
    assert "hush" not in shown
    if words[0] == "trust":
        assert "MODE = fa<U+200B>st" in shown


def test_for_a_url_the_headers_and_the_origin_of_their_values_are_named(mcp: Mcp) -> None:
    far = {"url": "https://far.example/mcp", "headers": {"X-Key": "hush ${FAR_TOKEN}"}}
    (mcp.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"far": far}}))
    shown = mcp("trust", "far").stdout
    assert "https://far.example/mcp" in shown
    assert "header X-Key" in shown
    assert "given FAR_TOKEN" in shown
    assert "hush" not in shown


def test_trust_can_be_revoked(mcp: Mcp) -> None:
    mcp.project_file("plain")
    mcp("trust", "theirs", "--yes")
    mcp("trust", "theirs", "--revoke")
    assert "untrusted" in mcp("list").stdout


def test_a_server_that_the_user_adds_to_the_project_is_trusted(mcp: Mcp) -> None:
    mcp("add", "ours", "--project", "--", sys.executable, "-IS", str(ROGUE), "plain")
    assert list(servers(mcp.project / "mcp_config.json")) == ["ours"]
    assert mcp("test", "ours").returncode == 0


def test_a_broken_server_shows_its_last_output_without_control_sequences(mcp: Mcp) -> None:
    mcp("add", "bad", "--", "sh", "-c", r"printf '\033[31mno licence\n' >&2; exit 7")
    tried = mcp("test")
    assert tried.returncode == 1
    assert "exit code 7" in tried.stdout
    assert "no licence" in tried.stdout
    assert "\x1b" not in tried.stdout


@pytest.mark.parametrize("module", ["newel.mcp.server_config", "newel.mcp.manager", "newel.cli.mcp"])
def test_importing_does_not_load_the_sdk(module: str) -> None:
    """Each start would take half a second longer."""
    code = f"import {module}, sys; print([name for name in ('mcp', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
