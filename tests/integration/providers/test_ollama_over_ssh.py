"""If these fail, a model on a real SSH host cannot be used."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from newel.agent.messages import UserMessage
from newel.agent.ports import Model
from newel.providers.ollama.cli import ProgramEnded
from newel.providers.ollama.remote import RemoteOllama
from newel.providers.retry import Retrying
from newel.workspace.ssh.connection import SshConnection, connected
from newel.workspace.ssh.target import Target
from tests.integration.providers.raw import ask
from tests.sshd import Sshd, served
from tests.standins.ollama_program import OllamaProgram
from tests.standins.ollama_server import OllamaServer

pytestmark = pytest.mark.anyio

PHI3 = Model("phi3")


class Programs:
    """The hosts with ``ollama`` on their PATH."""

    place = "user@box"

    def __init__(self, connection: SshConnection, folder: Path) -> None:
        self._connection = connection
        self._path = f"PATH={folder}:/usr/bin:/bin"

    async def run_program(
        self, argv: Sequence[str], /, *, stdin: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        return await self._connection.run_program(
            ["env", self._path, *argv], stdin=stdin, on_stdout=on_stdout
        )


@pytest.fixture
def server() -> Generator[OllamaServer]:
    made = OllamaServer(script=[{"trigger": "Hi", "answer": "API"}])
    yield made
    made.close()


@asynccontextmanager
async def model_on(host: Sshd, port: int) -> AsyncGenerator[RemoteOllama]:
    program = OllamaProgram(host.folder / "ollama", script=[{"trigger": "Hi", "answer": "program"}])
    async with connected(Target("host"), config=str(host.config)) as connection:
        there = RemoteOllama(connection.tunnel, Programs(connection, program.folder), port=port)
        yield there
        await there.aclose()


def rights_of_others(path: str) -> list[int]:
    """The permissions of others on a socket and its folder; nothing if it does not exist."""
    socket = Path(path)
    return [each.stat().st_mode & 0o077 for each in (socket, socket.parent)] if socket.is_socket() else []


async def test_the_api_is_reached_over_the_connection_and_again_after_a_loss(
    sshd: Sshd, server: OllamaServer
) -> None:
    async with model_on(sshd, server.port) as there:
        assert (await ask(there, model=PHI3, tools=[]))[0].text == "API"
        assert there.way == "forwarded /api/chat"
        sshd.drop()
        patient = Retrying(there, base_delay=0.01)  # the first request may still use the lost connection
        assert (await ask(patient, model=PHI3, tools=[]))[0].text == "API"
        assert there.way == "forwarded /api/chat"


async def test_no_other_user_of_this_machine_can_use_the_tunnel(sshd: Sshd, server: OllamaServer) -> None:
    async with connected(Target("host"), config=str(sshd.config)) as connection:
        path = await connection.tunnel(server.port)
        assert await connection.tunnel(server.port) == path
        assert rights_of_others(path) == [0, 0]
    assert rights_of_others(path) == []


async def test_a_long_prompt_reaches_the_program_on_a_host_without_a_server(sshd: Sshd) -> None:
    closed = OllamaServer()
    closed.close()
    prompt = "Hi, " + "ä 'quoted' \"$HOME\" `id`\n" * 20_000
    async with model_on(sshd, closed.port) as there:
        message, _ = await ask(there, model=Model("phi3"), tools=[], messages=[UserMessage(prompt)])
        assert message.text == "I have nothing to say to that."  # its context is smaller
        assert there.way == "ollama run"
        assert "Ollama on user@box" in there.reason
    assert prompt.endswith(OllamaProgram(sshd.folder / "ollama").prompts[-1][-4_000:])


async def test_a_host_that_forbids_forwarding_is_used_through_its_program(server: OllamaServer) -> None:
    with served("AllowTcpForwarding no") as host:
        async with model_on(host, server.port) as there:
            assert (await ask(there, model=PHI3, tools=[]))[0].text == "program"
            assert there.way == "ollama run"
    assert server.requests == []
