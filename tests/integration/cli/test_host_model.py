"""If these fail, a user on a host gets another model than announced, or none without a reason."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import httpx2
import pytest

from newel.agent.errors import HostUnreachable
from newel.app.hosts import SSH_CONFIG, open_host
from newel.app.workbench_agents import open_agent_factory
from newel.config.settings import Flags, load_settings
from newel.providers.discovery import discover
from tests.integration.providers.raw import RawServer, http
from tests.processes import COMMAND_SECONDS
from tests.sshd import Sshd, served
from tests.standins.ollama_program import OllamaProgram
from tests.standins.ollama_server import LLAMA, OllamaServer
from tests.support import Newel, scenario

Make = Callable[..., Newel]
Remote = Callable[..., Newel]

CALLS = [
    ("change it", "read", {"file_path": "app.py"}),
    ("2\ttwo", "edit", {"file_path": "app.py", "old_string": "two", "new_string": "TWO"}),
    ("Replaced 1 occurrence", "write", {"file_path": "new.txt", "content": "made\n"}),
    ("new.txt (5 bytes)", "bash", {"command": "cat app.py new.txt; echo all $((40 + 2))"}),
]
"""A task for all tools: each call is made when the model sees what the one before it said."""

LAST = {"trigger": "all 42", "answer": "Done by the host's model."}
BY_API = [
    {"trigger": words, "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
    for words, name, arguments in CALLS
] + [LAST]


@pytest.fixture
def project(sshd: Sshd, request: pytest.FixtureRequest) -> Path:
    folder = sshd.project(request.node.name.translate(str.maketrans("[]", "__")))
    (folder / "app.py").write_bytes(b"one\ntwo\nthree\n")
    sshd.give(folder / "app.py")
    return folder


@pytest.fixture
def remote(with_model: Make, sshd: Sshd) -> Remote:
    """Makes a Newel whose settings have no server, only a ``[remote.model]``."""

    def make(**model: object) -> Newel:
        newel = with_model()
        for name in ("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"):
            del newel.environ[name]
        newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
        if model:
            home = newel.home / ".newel"
            home.mkdir()
            lines = [f"{key} = {json.dumps(value)}\n" for key, value in model.items()]
            (home / "config.toml").write_text("[remote.model]\n" + "".join(lines))
        return newel

    return make


@pytest.fixture
def ollama() -> Iterator[OllamaServer]:
    server = OllamaServer({"llama3.2:latest": LLAMA}, BY_API)
    yield server
    server.close()


@pytest.fixture
def program(sshd: Sshd) -> Iterator[OllamaProgram]:
    """The host's ``ollama``, for the duration of the test."""
    before = set(sshd.bin.iterdir()) if sshd.bin.exists() else set[Path]()
    (sshd.bin / "ollama.calls").unlink(missing_ok=True)  # those of other tests with the same host
    yield OllamaProgram(sshd.bin)
    for path in set(sshd.bin.iterdir()) - before:
        path.unlink()


@pytest.fixture
def closed() -> int:
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_done(project: Path) -> bool:
    changed = (project / "app.py").read_bytes() == b"one\nTWO\nthree\n"
    return changed and (project / "new.txt").read_bytes() == b"made\n"


def test_the_model_on_a_host_works_there_with_every_tool(
    remote: Remote, project: Path, ollama: OllamaServer
) -> None:
    newel = remote(port=ollama.port)
    done = newel("--host", f"host:{project}", "--approve", "auto", "--max-turns", "6", "change it")
    assert (done.returncode, LAST["answer"] in done.stdout) == (0, True), done.stdout + done.stderr
    assert is_done(project)
    assert list(newel.project.iterdir()) == []
    assert ollama.requests[0]["tools"]
    assert newel.requests == []


def test_an_agent_warns_that_a_model_without_an_api_has_no_tools(
    remote: Remote, project: Path, program: OllamaProgram, closed: int
) -> None:
    done = remote(port=closed)("--host", f"host:{project}", "change it")
    assert done.returncode == 1
    assert "`ollama run` offers none" in done.stderr
    assert f"Its API was not reached on port {closed}" in done.stderr
    assert program.prompts == []


def test_one_shot_runs_and_programs_learn_that_the_hosts_model_answers(
    remote: Remote, project: Path, ollama: OllamaServer, program: OllamaProgram
) -> None:
    """Otherwise a small model there is taken for the one configured here."""
    newel, ask = remote(port=ollama.port), '{"type":"get_state"}\n'
    place = f"host:{project}"
    assert (
        newel("-q", "--host", place, "all 42").stderr
        == "newel: The model is llama3.2:latest on host (forwarded /api/chat).\n"
    )
    state = json.loads(newel("--host", place, "--json", stdin=ask).stdout.splitlines()[-1])
    assert (state["model"], state["where"]) == ("llama3.2:latest", "on host (forwarded /api/chat)")
    program.set(default="Well.")
    done = newel("--host", place, "--through", "run", "--model", "phi3", "--json", "hello")
    assert done.stderr == "newel: The model is phi3 on host (ollama run).\n"
    newel.environ |= {"LLM_BASE_URL": newel.server.url + "/v1", "LLM_DEFAULT_MODEL": "mock-model"}
    assert json.loads(newel("--json", stdin=ask).stdout.splitlines()[-1])["where"] == ""
    assert newel("-q", "hello").stderr == ""


@pytest.mark.parametrize(("model", "words"), [("llama3.2", LAST["answer"]), ("nope", "ollama pull nope")])
def test_in_the_browser_the_hosts_model_answers_or_the_page_says_how_to_get_one(
    remote: Remote, project: Path, ollama: OllamaServer, model: str, words: str
) -> None:
    newel = remote(port=ollama.port, name=model)
    with newel.start("web", "--port", "0", "--host", f"host:{project}", "--approve", "auto") as process:
        assert process.stdout
        url, _, token = process.stdout.readline().strip().partition("/#token=")
        try:
            with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=20) as client:
                told = client.post(f"{url}/chat", json={"message": "change it"}).text
        finally:
            process.terminate()
    data = [json.loads(line.removeprefix("data: ")) for line in told.split("\n") if line.startswith("data: ")]
    assert words in "".join(each.get("content", "") + each.get("message", "") for each in data)
    assert is_done(project) is (model == "llama3.2")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--through", "run"], "llama3.2:latest, phi3:latest"),
        (["--model", "nope"], "ollama pull nope"),
        (["--model", "nope", "--through", "run"], "ollama pull nope"),
    ],
)
def test_without_a_model_name_the_available_ones_or_a_remedy_are_listed(
    remote: Remote, project: Path, program: OllamaProgram, flags: list[str], words: str
) -> None:
    program.set(models={"llama3.2": {}, "phi3": {}})
    newel = remote()
    done = newel("--host", f"host:{project}", *flags, "change it")
    assert done.returncode == 1
    assert words in done.stdout + done.stderr


def test_a_connection_lost_during_an_answer_recovers_and_the_work_is_done(
    remote: Remote, ollama: OllamaServer
) -> None:
    begun = {"trigger": "Replaced 1 occurrence", "answer": "I am about", "fault": "hang", "times": 1}
    ollama.script = [step | begun if step["trigger"] == begun["trigger"] else step for step in BY_API]
    with served() as host:
        folder = host.project("shop")
        (folder / "app.py").write_bytes(b"one\ntwo\nthree\n")
        host.give(folder / "app.py")
        newel = remote(port=ollama.port)
        newel.environ["NEWEL_SSH_CONFIG"] = str(host.config)
        with newel.start("--host", f"host:{folder}", "--approve", "auto", "change it") as process:
            until(lambda: len(ollama.requests) == 3)
            host.drop()
            said = "".join(process.communicate(timeout=COMMAND_SECONDS))
        assert LAST["answer"] in said, said
        assert is_done(folder)


def test_no_local_key_is_sent_to_a_model_on_a_host(with_model: Make, sshd: Sshd, project: Path) -> None:
    told = {
        "version": "0.33.0",
        "models": [{"name": "phi3"}],
        "message": {"content": "From there."},
        "done": True,
    }
    server = RawServer([http(json.dumps(told).encode())])
    try:
        newel = with_model()
        newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
        (newel.home / ".newel").mkdir()
        settings = f'api_key = "sk-mine-too"\n[remote.model]\nport = {server.port}\n'
        (newel.home / ".newel" / "config.toml").write_text(settings)
        done = newel("--host", f"host:{project}", "Say it")
        assert "From there." in done.stdout, done.stderr
        sent = b"".join(head + body for head, body in server.requests)
        assert b"/api/chat" in sent
        assert b"sk-" not in sent
        assert newel.requests == []
    finally:
        server.close()


@pytest.mark.slow  # seconds of waiting
@pytest.mark.anyio
async def test_listing_models_while_the_host_is_lost_gets_an_answer(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent waits for a host, a user does not."""
    with served() as host:
        OllamaProgram(host.bin)
        newel = remote(through="run")
        monkeypatch.setenv(SSH_CONFIG, str(host.config))
        flags = Flags(host=f"host:{host.project('shop')}")
        settings = load_settings(flags, cwd=newel.project, environ={"NEWEL_HOME": str(newel.home / ".newel")})
        async with (
            open_host(settings.cwd, settings.host) as place,
            open_agent_factory(settings, place, ephemeral=True, attended=False) as factory,
        ):
            assert await factory.list_models() == ["phi3:latest"]
            assert place.connection is not None
            lost = anyio.Event()
            with place.connection.listening(lambda state: None if state.is_connected else lost.set()):
                host.stop()
                await lost.wait()
            with anyio.fail_after(8), pytest.raises(HostUnreachable, match="Newel is reconnecting"):
                await factory.list_models()


def test_a_host_without_ollama_is_named_with_a_remedy(remote: Remote, closed: int) -> None:
    with served() as host:
        newel = remote(port=closed)
        newel.environ["NEWEL_SSH_CONFIG"] = str(host.config)
        done = newel("--host", f"host:{host.project('shop')}", "hello")
    assert done.returncode == 1
    assert "`ollama` was not found on" in done.stderr
    assert "Install it there" in done.stderr
    assert f"port {closed}" in done.stderr


def test_without_any_model_the_host_and_this_machine_are_both_named(remote: Remote) -> None:
    if anyio.run(discover):
        pytest.skip("a model server runs on this machine")
    with served("AllowTcpForwarding no") as host:
        newel = remote()
        newel.environ["NEWEL_SSH_CONFIG"] = str(host.config)
        done = newel("--host", f"host:{host.project('shop')}", "hello")
    assert done.returncode == 1
    assert "`ollama` was not found on" in done.stderr
    assert "no server was found on this machine" in done.stderr
    assert "LLM_BASE_URL" in done.stderr


def test_a_configured_server_takes_precedence_over_the_hosts_model(
    with_model: Make, sshd: Sshd, project: Path, program: OllamaProgram
) -> None:
    newel = with_model(
        scenario(
            "say it",
            {"content": "From here."},
        )
    )
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    done = newel("--host", f"host:{project}", "say it")
    assert "From here." in done.stdout
    assert program.calls == []
