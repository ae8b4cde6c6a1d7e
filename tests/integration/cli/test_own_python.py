"""If these fail, commands use Newel's own Python, and the project's tests fail for no reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import COMMAND_SECONDS
from tests.support import Newel, bash, scenario

LOOK = (
    "for _ in $(seq 150); do [ -e ~/.newel/found ] && break; sleep 0.1; done; "  # Newel goes on without a slow server
    "command -v python3 tool-of-newel; echo env=$VIRTUAL_ENV uv=$UV$UV_RUN_RECURSION_DEPTH; echo found=$(tool-of-newel)"
)
MAIN = "import sys; from newel.cli.main import main; sys.exit(main())"
SERVER = """
import json, pathlib, shutil, sys
pathlib.Path(__file__).with_name("found").write_text(str(shutil.which("tool-of-newel")))
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        result = {"tools": []} if asked["method"] == "tools/list" else info
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""

UV_RUN = {"UV": "/usr/bin/uv", "UV_RUN_RECURSION_DEPTH": "1"}


def seen(newel: Newel, holder: Path, cwd: Path, **environ: str) -> tuple[str, str]:
    """What a command and an MCP server find, if Newel runs in ``holder/.venv``."""
    own = holder / ".venv"
    venv.create(own, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(own)}))
    paths = [str(Path(__file__).parents[3] / "src"), sysconfig.get_paths()["purelib"]]
    (site / "newel.pth").write_text("\n".join(paths))
    tool = own / "bin" / "tool-of-newel"
    tool.write_text("#!/bin/sh\necho yes\n")
    tool.chmod(0o755)
    cwd.mkdir(parents=True, exist_ok=True)
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel" / "server.py").write_text(SERVER)
    servers = {"s": {"command": sys.executable, "args": [str(newel.home / ".newel" / "server.py")]}}
    (newel.home / ".newel" / "mcp_config.json").write_text(json.dumps({"mcpServers": servers}))
    ran = subprocess.run(
        [own / "bin" / "python", "-c", MAIN, "look"],
        cwd=cwd,
        env=newel.environ | {"PATH": f"{own}/bin:{os.defpath}"} | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return newel.requests[-1]["messages"][-1]["content"], (newel.home / ".newel" / "found").read_text()


@pytest.fixture
def newel(with_model: Callable[..., Newel]) -> Newel:
    return with_model(scenario("look", bash(LOOK), {"content": "Done."}))


def test_under_uv_run_commands_use_the_users_python(newel: Newel, tmp_path: Path) -> None:
    holder = tmp_path / "checkout"
    command, server = seen(newel, holder, newel.project, VIRTUAL_ENV=str(holder / ".venv"), **UV_RUN)
    assert "tool-of-newel\n" not in command
    assert "env= uv=\n" in command
    assert "found=\n" in command
    assert str(holder) not in command
    assert server == "None"


@pytest.mark.slow  # as `uv run` does, from another folder
def test_under_uv_run_with_a_separate_environment_commands_use_the_users_python(
    newel: Newel, tmp_path: Path
) -> None:
    """Otherwise `UV_PROJECT_ENVIRONMENT=… ./run newel` runs the project's tests with Newel's packages."""
    holder = tmp_path / "environments"
    own = str(holder / ".venv")
    command, server = seen(
        newel, holder, newel.project, VIRTUAL_ENV=own, UV_PROJECT_ENVIRONMENT=own, **UV_RUN
    )
    assert "env= uv=\n" in command
    assert "found=\n" in command
    assert server == "None"


@pytest.mark.slow  # like the next two a Python of its own, which imports everything
def test_as_an_installed_tool_commands_use_the_users_python(newel: Newel, tmp_path: Path) -> None:
    command, _ = seen(newel, tmp_path / "tools", newel.project, VIRTUAL_ENV="/somewhere/else")
    assert "found=\n" in command
    assert "env=/somewhere/else" in command  # an environment that the user activated is theirs


@pytest.mark.slow
def test_in_newels_own_checkout_commands_use_its_environment(newel: Newel, tmp_path: Path) -> None:
    holder = tmp_path / "checkout"
    folder = holder / "src" / "newel"
    command, server = seen(newel, holder, folder, VIRTUAL_ENV=str(holder / ".venv"), **UV_RUN)
    assert "found=yes" in command
    assert f"env={holder}/.venv uv=/usr/bin/uv1" in command
    assert server == "None"  # a server of the user's is none of the project


@pytest.mark.slow
def test_an_environment_that_the_user_activated_stays(newel: Newel, tmp_path: Path) -> None:
    """As with `poetry run` and virtualenvwrapper: the project's environment is elsewhere, with Newel installed in it."""
    holder = tmp_path / "environments"
    command, _ = seen(newel, holder, newel.project, VIRTUAL_ENV=str(holder / ".venv"))
    assert "found=yes" in command
    assert f"env={holder}/.venv" in command
