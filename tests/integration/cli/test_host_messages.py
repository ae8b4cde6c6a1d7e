"""If these fail, a user on a host does not know what is local and what is remote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.requirements import require_program
from tests.sshd import Sshd
from tests.standins.ollama_server import PHI3, OllamaServer
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

WITHOUT_BASH = (
    *(
        "sh",
        "ls",
        "cat",
        "head",
        "tail",
        "cp",
        "mv",
        "ln",
        "rm",
        "mkdir",
        "chmod",
        "find",
        "readlink",
        "stat",
    ),
    *("sha256sum", "env", "id", "uname", "date"),
)
"""Programs of a host that has no other shell than sh."""


def configure(newel: Newel, model: str, more: str = "") -> None:
    """Write ``[remote.model]``, unless empty, and more settings."""
    home = newel.home / ".newel"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text((f"[remote.model]\n{model}\n" if model else "") + more)


@pytest.fixture
def project(sshd: Sshd, request: pytest.FixtureRequest) -> Path:
    return sshd.project(request.node.name)


def test_a_host_test_names_the_model_that_would_be_used(with_model: Make, sshd: Sshd, project: Path) -> None:
    newel = with_model()
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    done = newel("hosts", "test", f"host:{project}")
    assert f"mock-model of {newel.server.url}/v1 (environment: LLM_*)" in done.stdout
    server = OllamaServer({"phi3:latest": PHI3})
    try:
        configure(newel, f'port = {server.port}\nname = "phi3"')
        done = newel("hosts", "test", f"host:{project}")
        assert "ok model        phi3, on the host" in done.stdout
        assert "forwarded /api/chat" in done.stdout
        done = newel("hosts", "test", f"host:{project}", "--model", "qwen3")
        assert done.returncode == 1
        assert "ollama pull qwen3" in done.stdout
        server.models.clear()
        done = newel("hosts", "test", f"host:{project}")
        assert done.returncode == 1
        assert "has no model. Get one there" in done.stdout
    finally:
        server.close()


def test_the_configured_host_is_available_as_remote(with_model: Make, sshd: Sshd, project: Path) -> None:
    newel = with_model(scenario("make it", bash("echo made > made.txt"), {"content": "Done."}))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    there = f'host = "host"\nuser = "{sshd.user}"\ndirectory = "{project.name}"'
    configure(newel, "", f"[remote.connection]\n{there}\n")
    assert f"remote  ssh://{sshd.user}@host/~/{project.name}" in newel("hosts", "list").stdout
    done = newel("--host", "remote", "--approve", "auto", "make it")
    assert done.returncode == 0, done.stderr
    assert (project / "made.txt").read_text() == "made\n"
    assert "made.txt" in newel("review", "--host", "remote").stdout
    assert str(project) in newel("hosts", "test", "remote").stdout


def test_the_model_learns_the_shell_of_its_commands(with_model: Make, sshd: Sshd, project: Path) -> None:
    """Otherwise it writes commands that sh does not understand."""
    folder = sshd.folder / "bin-without-bash"
    folder.mkdir()
    for name in WITHOUT_BASH:
        (folder / name).symlink_to(require_program(name))
    plain = sshd.login("plain", f'PATH={folder}; export PATH; eval "$SSH_ORIGINAL_COMMAND"')
    newel = with_model(scenario("hello", {"content": "Hello."}))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    for place, shell in ((plain, "sh"), ("own", "bash")):
        done = newel("--host", f"{place}:{project}", "hello")
        assert done.returncode == 0, done.stderr
        assert f"\nShell: {shell}\n" in newel.requests[-1]["messages"][0]["content"]


def test_work_on_a_host_warns_that_mcp_servers_run_locally(
    with_model: Make, sshd: Sshd, project: Path
) -> None:
    newel = with_model(scenario("hello", {"content": "Hello."}))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    servers = {"time": {"command": "false"}, "off": {"command": "false", "disabled": True}}
    configure(newel, "")
    (newel.home / ".newel" / "mcp_config.json").write_text(json.dumps({"mcpServers": servers}))
    words = "MCP servers run on this machine, not on the host: time."
    assert newel("--host", f"host:{project}", "hello").stderr.count(words) == 1
    assert "on this machine" not in newel("hello").stderr
