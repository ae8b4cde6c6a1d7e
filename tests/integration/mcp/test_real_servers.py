"""If these fail, popular MCP servers do not work, or only in part."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from newel.mcp.server_config import ServerConfig
from newel.mcp.types import ElicitAnswer, ElicitRequest
from tests.integration.mcp.rogues import Started, call, status
from tests.nodejs import NODE, SERVERS, packages
from tests.requirements import require_program

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
"""More time than a test takes: the first one may have to wait for npm."""

SCRIPTS = Path(sys.executable).parent


def server(name: str, command: str, *args: str) -> ServerConfig:
    return ServerConfig(
        name=name, origin=Path("/etc/mcp_config.json"), level="user", command=command, args=args
    )


@pytest.fixture
def everything() -> ServerConfig:
    return server(
        "everything",
        NODE,
        str(packages(SERVERS) / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"),
        "stdio",
    )


@pytest.fixture
def filesystem(tmp_path: Path) -> ServerConfig:
    script = str(packages(SERVERS) / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js")
    return server("filesystem", NODE, script, str(tmp_path))


async def test_text_images_resources_and_structured_results_arrive(
    started: Started, everything: ServerConfig
) -> None:
    async with started(everything) as manager:
        result, _ = await call(manager, "everything__echo", message="hello")
        assert result.output == "Echo: hello"
        result, _ = await call(manager, "everything__get-tiny-image")
        assert [image.mime_type for image in result.images] == ["image/png"]
        result, _ = await call(manager, "everything__get-structured-content", location="New York")
        assert result.details["structured"] == json.loads(result.output)
        result, _ = await call(manager, "everything__get-resource-links", count=2)
        assert result.output.count("[resource ") == 2
        result, _ = await call(
            manager, "everything__get-resource-reference", resourceType="Text", resourceId=1
        )
        assert "demo://resource/dynamic/text/1" in result.output


@pytest.mark.slow  # see test_rogues.py
async def test_progress_is_shown_while_a_tool_runs(started: Started, everything: ServerConfig) -> None:
    async with started(everything) as manager:
        name = "everything__trigger-long-running-operation"
        result, shown = await call(manager, name, duration=0.8, steps=4)
        assert "completed" in result.output
        assert shown.endswith("4/4\n")


async def test_a_server_learns_the_folder_of_the_project(
    started: Started, everything: ServerConfig, tmp_path: Path
) -> None:
    async with started(everything) as manager:
        result, _ = await call(manager, "everything__get-roots-list")
        assert tmp_path.as_uri() in result.output


async def test_a_partly_filled_form_gets_the_servers_defaults(
    started: Started, everything: ServerConfig
) -> None:
    async def elicit(request: ElicitRequest) -> ElicitAnswer:
        assert request.schema is not None
        return ElicitAnswer(action="accept", content={"name": "Ada"})

    async with started(everything) as manager:
        result, _ = await call(manager, "everything__trigger-elicitation-request", elicit)
        assert "Name: Ada" in result.output
        assert "Favorite Integer: 42" in result.output


async def test_a_tool_error_is_an_error_for_the_model(started: Started, everything: ServerConfig) -> None:
    async with started(everything) as manager:
        result, _ = await call(manager, "everything__get-sum", a="no number", b=2)
        assert result.is_error
        assert "expected number" in result.output


async def test_files_are_written_and_read_through_a_server(
    started: Started, filesystem: ServerConfig, tmp_path: Path
) -> None:
    target = str(tmp_path / "a.txt")
    async with started(filesystem) as manager:
        result, _ = await call(manager, "filesystem__write_file", path=target, content="naïve\n")
        assert not result.is_error
        assert await anyio.Path(target).read_text() == "naïve\n"
        result, _ = await call(manager, "filesystem__read_text_file", path=target)
        assert "naïve" in result.output
        keys = {tool.spec.name: await tool.serial_key({}) for tool in manager.tools()}
        assert keys["filesystem__read_text_file"] is None
        assert keys["filesystem__write_file"] is not None


@pytest.mark.slow  # two more real servers; the tests beside it use one
async def test_the_git_and_time_servers_answer(started: Started, tmp_path: Path) -> None:
    await anyio.run_process([require_program("git"), "init", "-q", "-b", "trunk", str(tmp_path)])
    git = server("git", str(SCRIPTS / "mcp-server-git"))
    clock = server("time", str(SCRIPTS / "mcp-server-time"))
    async with started(git, clock) as manager:
        result, _ = await call(manager, "git__git_status", repo_path=str(tmp_path))
        assert "trunk" in result.output
        result, _ = await call(manager, "time__convert_time", **NOON)
        assert "21:00" in result.output


NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}


@pytest.mark.slow  # see test_http.py
async def test_the_same_works_over_http(
    started: Started, everything: ServerConfig, http: Callable[..., str]
) -> None:
    config = ServerConfig(
        name="remote", origin=Path("/etc/mcp_config.json"), level="user", url=http(everything)
    )

    async def elicit(_: ElicitRequest) -> ElicitAnswer:
        return ElicitAnswer(action="accept", content={"name": "Ada"})

    async with started(config) as manager:
        assert status(manager, "remote").state == "active", status(manager, "remote")
        result, _ = await call(manager, "remote__echo", message="hello")
        assert result.output == "Echo: hello"
        name = "remote__trigger-long-running-operation"
        result, shown = await call(manager, name, duration=0.8, steps=4)
        assert "completed" in result.output
        assert shown.endswith("4/4\n")
        result, _ = await call(manager, "remote__trigger-elicitation-request", elicit)
        assert "Name: Ada" in result.output


@pytest.fixture
def http(unused_port: int) -> Any:
    """Starts the server with everything over HTTP; returns its address."""
    processes: list[subprocess.Popen[str]] = []

    def start(everything: ServerConfig) -> str:
        process = subprocess.Popen(
            [everything.command or "", everything.args[0], "streamableHttp"],
            env={"PORT": str(unused_port), "PATH": "/usr/bin:/bin"},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        assert process.stderr is not None
        while "listening" not in process.stderr.readline():
            assert process.poll() is None
        return f"http://127.0.0.1:{unused_port}/mcp"

    yield start
    for process in processes:
        with process:
            process.kill()


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
