"""If these fail, a model that cannot be loaded leaves a process behind, or a message that does not help."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from newel.agent.errors import ProviderError, RequestRejected, ServerFailed
from newel.agent.ports import Model
from newel.providers.llamacpp import client, process
from newel.providers.llamacpp.client import LlamaCpp
from tests import model_owner
from tests.gguf_file import gguf
from tests.integration.providers.raw import ask
from tests.processes import children, ends, read_proc

pytestmark = pytest.mark.anyio

STANDINS = Path(__file__).resolve().parents[3] / "standins" / "llama_cpp"

Make = Callable[..., LlamaCpp]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """``make(name)`` makes a client of a small file; the stand-in for llama.cpp does what the name says."""
    monkeypatch.setenv("PYTHONPATH", str(STANDINS))
    monkeypatch.setattr(sys, "path", [str(STANDINS), *sys.path])

    def make(name: str, on_progress: process.OnProgress | None = None) -> LlamaCpp:
        (tmp_path / name).write_bytes(gguf())
        return LlamaCpp(tmp_path / name, on_progress=on_progress)

    return make


async def failure(server: LlamaCpp, name: str) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        await ask(server, model=Model(name))
    assert server.process is None
    await server.aclose()
    return raised.value


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken.gguf", "broken.gguf cannot be loaded: invalid magic characters"),
        ("huge.gguf", "There is too little memory for huge.gguf: insufficient memory"),
        ("killed.gguf", "was killed, as the system does when memory runs out"),
        ("new.gguf", "uses instructions that this processor does not have"),
        ("aborts.gguf", r"crashed \(signal 6\): GGML_ASSERT\(n > 0\) failed"),
        ("other.gguf", "has no attribute 'ui'"),
    ],
)
async def test_a_model_that_cannot_be_loaded_is_reported_with_the_reason(
    make: Make, name: str, words: str
) -> None:
    """llama.cpp's own exception says only that something is wrong."""
    error = await failure(make(name), name)
    assert isinstance(error, RequestRejected)  # it would fail again
    with pytest.raises(RequestRejected, match=words):
        raise error


async def test_a_missing_extra_is_reported_with_the_command(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PACKAGE", "xllamacpp_is_missing")
    server = make("any.gguf")
    with pytest.raises(
        RequestRejected, match=r"`\./run uv tool install '\.\[local\]'.*pip install '\.\[local\]'"
    ):
        await server.models()
    with pytest.raises(RequestRejected, match=r"\[local\]"):
        await server.window("any.gguf")
    assert "extra `local`" in str(await failure(server, "any.gguf"))


async def test_another_model_is_refused_instead_of_being_replaced(make: Make) -> None:
    """Otherwise a wrong name goes unnoticed: llama.cpp answers to any."""
    error = await failure(make("any.gguf"), "llama3.2")
    assert "has no model 'llama3.2', only 'any.gguf'" in str(error)


async def test_the_model_is_described_without_being_loaded(make: Make) -> None:
    server = make("slow.gguf")
    assert await server.models() == ["slow.gguf"]
    assert await server.window("slow.gguf") == 2_048
    assert await server.is_priced("slow.gguf")
    assert server.process is None
    await server.aclose()


async def test_waiting_is_reported_and_can_be_cancelled(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a large model looks like a hang, and Ctrl+C leaves its process behind."""
    monkeypatch.setattr(process, "PROGRESS_S", 0.05)
    told: list[str] = []
    scope = anyio.CancelScope()

    async def on_progress(message: str) -> None:
        told.append(message)
        if len(told) == 2:
            scope.cancel()

    server = make("slow.gguf", on_progress)
    with scope:
        await ask(server, model=Model("slow.gguf"))
    assert len(told) == 2
    assert "loading slow.gguf" in told[1]
    assert server.process is None
    await server.aclose()


async def test_loading_takes_no_longer_than_its_timeout(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PROGRESS_S", 0.05)
    monkeypatch.setattr(process, "LOAD_TIMEOUT_S", 0.2)
    error = await failure(make("slow.gguf"), "slow.gguf")
    assert isinstance(error, ServerFailed)
    assert "was not loaded within" in str(error)


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux_only
def test_a_loading_process_ends_with_a_killed_parent(make: Make, tmp_path: Path) -> None:
    """Otherwise it keeps gigabytes of memory until the model is loaded. No thread can watch meanwhile."""
    make("slow.gguf")
    command = [sys.executable, model_owner.__file__, str(tmp_path / "slow.gguf")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "str\n"
        (pid,) = children(parent.pid, "server_main")
        parent.kill()
    assert ends(pid)


async def test_nothing_of_llama_cpp_is_imported_here(make: Make) -> None:
    """Otherwise each Newel pays for it with 50 MB and a slow start."""
    await failure(make("broken.gguf"), "broken.gguf")
    assert "xllamacpp" not in sys.modules


@linux_only
async def test_the_key_is_in_no_command_line_and_no_environment(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every program of the user, and each of the agent's commands, can ask the model."""

    def fixed_key(_: int) -> str:
        return "key-0123456789abcdef"

    monkeypatch.setattr("secrets.token_urlsafe", fixed_key)
    monkeypatch.setenv("LLM_AUTH_TOKEN", "sk-of-another-server")
    shown: list[str] = []
    scope = anyio.CancelScope()

    async def on_progress(_: str) -> None:
        for pid in children(os.getpid(), "server_main"):
            shown.extend(read_proc(pid, name) for name in ("cmdline", "environ"))
        scope.cancel()

    monkeypatch.setattr(process, "PROGRESS_S", 0.3)
    server = make("slow.gguf", on_progress)
    with scope:
        await ask(server, model=Model("slow.gguf"))
    assert "server_main" in shown[0]
    assert not [text for text in shown if "key-0123456789abcdef" in text or "sk-of-another-server" in text]
    await server.aclose()
