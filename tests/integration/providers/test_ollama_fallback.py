"""If these fail, a model on a host cannot be used where the tunnel is blocked."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.abc
import pytest

from newel.agent.errors import (
    ConnectionFailed,
    HostUnreachable,
    ProviderError,
    RequestRejected,
    WorkspaceError,
)
from newel.agent.ports import Model, ToolSpec
from newel.providers.ollama.model_info import ModelMissing
from newel.providers.ollama.remote import RemoteOllama
from newel.providers.retry import Retrying
from tests.integration.providers.raw import BASH, ask
from tests.standins.ollama_program import OllamaProgram
from tests.standins.ollama_server import OllamaServer
from tests.standins.programs import LocalPrograms

pytestmark = pytest.mark.anyio

PHI3 = Model("phi3")


class Host:
    """A host with both: the tunnel's server answers "API", the program "program"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tunnels = True
        self.server: OllamaServer | None = None
        program = OllamaProgram(
            folder / "bin", script=[{"trigger": "Hi", "answer": "program"}], registry=["llama9"]
        )
        self.provider = RemoteOllama(self.tunnel, LocalPrograms(program.folder))

    def listen(self) -> None:
        self.server = OllamaServer(script=[{"trigger": "Hi", "answer": "API"}], path=str(self.folder / "s"))

    def stop(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None
        (self.folder / "s").unlink(missing_ok=True)

    async def tunnel(self, port: int) -> str:
        if not self.tunnels:
            raise WorkspaceError("The host forwards no ports.")
        return str(self.folder / "s")

    async def answer(self) -> str:
        return (await ask(self.provider, model=PHI3, tools=[]))[0].text


@pytest.fixture
def host() -> Generator[Host]:
    with TemporaryDirectory(prefix="newel-") as folder:
        made = Host(Path(folder))
        yield made
        made.stop()


async def test_the_api_is_preferred_and_status_says_so(host: Host) -> None:
    host.listen()
    assert host.provider.way is None
    assert await host.answer() == "API"
    assert (host.provider.way, host.provider.reason) == ("forwarded /api/chat", "")
    assert await host.provider.models() == ["phi3:latest", "llama3.2:latest"]
    assert await host.provider.window("phi3") == 32_768
    await host.provider.aclose()


@pytest.mark.parametrize("tunnels", [True, False], ids=["nobody listens", "no tunnel"])
async def test_without_the_api_the_program_answers_and_status_says_why(host: Host, tunnels: bool) -> None:
    host.tunnels = tunnels
    assert await host.answer() == "program"
    assert host.provider.way == "ollama run"
    assert ("No connection to Ollama on user@box" if tunnels else "forwards no ports") in host.provider.reason
    assert await host.provider.models() == ["phi3:latest"]
    assert await host.provider.window("phi3") == 4_096


async def test_a_port_without_a_listener_is_reported(host: Host) -> None:
    """As with ssh: a connection to a forwarded port succeeds, and is closed at once."""

    async def close(stream: anyio.abc.SocketStream) -> None:
        await stream.aclose()

    async with (
        await anyio.create_unix_listener(str(host.folder / "s")) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, close)
        assert await host.answer() == "program"
        tasks.cancel_scope.cancel()
    assert host.provider.reason == "The connection to Ollama on user@box broke: it was closed."


async def test_a_host_that_does_not_return_is_reported_at_once_and_not_awaited_again(host: Host) -> None:
    """Each attempt takes as long as the connection's timeout."""
    tried = 0

    async def tunnel(_: int) -> str:
        nonlocal tried
        tried += 1
        raise HostUnreachable("box does not answer.")

    there = RemoteOllama(tunnel, LocalPrograms(host.folder / "bin"))
    with pytest.raises(ProviderError, match="box does not answer"):
        await ask(Retrying(there, base_delay=0.01), model=PHI3, tools=[])
    assert tried == 1


async def test_a_broken_tunnel_is_reported_and_the_next_attempt_recovers(host: Host) -> None:
    host.listen()
    await host.answer()
    host.stop()
    with pytest.raises(ConnectionFailed):
        await host.answer()
    assert await host.answer() == "program"


async def test_an_agent_waits_for_an_ollama_that_is_restarted_and_goes_on(host: Host) -> None:
    """Its tools need the API. Else a restart of two seconds ends the run, and every later one."""
    host.listen()
    assert (await ask(host.provider, model=PHI3))[0].text == "API"
    host.stop()
    for _ in range(2):  # an error that is worth another attempt
        with pytest.raises(ConnectionFailed):
            await ask(host.provider, model=PHI3)
    host.listen()
    assert (await ask(host.provider, model=PHI3))[0].text == "API"
    await host.provider.aclose()


@pytest.mark.parametrize("tools", [[], [BASH]], ids=["no program", "no tools"])
async def test_the_api_is_tried_again_after_the_program_has_failed(host: Host, tools: list[ToolSpec]) -> None:
    """Else a user who then starts Ollama gets the same error until the end of the conversation."""
    if not tools:
        host.provider = RemoteOllama(host.tunnel, LocalPrograms(host.folder / "nothing"))
    with pytest.raises(RequestRejected, match="Its API was not reached"):
        await ask(host.provider, model=PHI3, tools=tools)
    host.listen()
    assert (await ask(host.provider, model=PHI3, tools=tools))[0].text == "API"
    await host.provider.aclose()


async def test_a_tunnel_on_another_port_is_found(host: Host) -> None:
    host.listen()
    assert await host.answer() == "API"
    host.stop()
    host.folder = host.folder / "again"
    host.folder.mkdir()
    host.listen()
    assert await host.answer() == "API"
    await host.provider.aclose()


@pytest.mark.parametrize("listens", [True, False], ids=["API", "program"])
async def test_a_missing_model_is_downloaded_on_request(host: Host, listens: bool) -> None:
    if listens:
        host.listen()
        assert host.server
        host.server.registry.append("llama9")
    told: list[str] = []

    async def tell(words: str) -> None:
        told.append(words)

    with pytest.raises(ProviderError, match="file does not exist"):
        await host.provider.pull("nope", tell)
    with pytest.raises(ModelMissing, match="ollama pull llama9"):
        await ask(host.provider, model=Model("llama9"), tools=[])
    await host.provider.pull("llama9", tell)
    assert told[-1] == "success"
    assert (await ask(host.provider, model=Model("llama9"), tools=[]))[0].text
    await host.provider.aclose()
