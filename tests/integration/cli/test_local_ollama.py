"""If these fail, a local model forgets the start of a conversation, or its API stays unknown to the user."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.integration.providers.raw import RawServer, http
from tests.standins.ollama_server import LLAMA, OllamaServer
from tests.support import Newel

Make = Callable[..., Newel]


@pytest.fixture
def ollama() -> Iterator[OllamaServer]:
    server = OllamaServer({"llama3.2:latest": LLAMA}, [{"trigger": "Say it", "answer": "Said."}])
    yield server
    server.close()


@pytest.fixture
def newel(with_model: Make, ollama: OllamaServer) -> Newel:
    made = with_model()
    made.environ["LLM_BASE_URL"] = f"ollama://127.0.0.1:{ollama.port}"
    made.environ["LLM_DEFAULT_MODEL"] = "llama3.2"
    return made


def test_a_long_prompt_is_not_cut_because_a_large_enough_context_is_requested(
    newel: Newel, ollama: OllamaServer
) -> None:
    beginning = "The password is herring."
    done = newel(f"{beginning}\n{'Once upon a time. ' * 2_000}\nSay it")
    assert "Said." in done.stdout, done.stderr
    assert ollama.requests[0]["options"]["num_ctx"] > 8_192
    assert beginning in ollama.seen[0][-1]["content"]


def test_a_missing_model_is_reported_with_the_command_to_get_it(newel: Newel) -> None:
    done = newel("Say it", "--model", "nope")
    assert done.returncode == 1
    assert "ollama pull nope" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("model", "words"),
    [("llama3.2", "No problems found."), ("nope", "ollama pull"), ("", "No problems found.")],
)
def test_doctor_reports_the_api_the_models_and_what_to_do(newel: Newel, model: str, words: str) -> None:
    done = newel("doctor", LLM_DEFAULT_MODEL=model)
    assert "/api/chat" in done.stdout
    assert "llama3.2:latest" in done.stdout
    assert words in done.stdout


def test_doctor_warns_that_ollama_behind_chat_completions_drops_messages(newel: Newel) -> None:
    """The usual setting of users who do not know the other one."""
    listed = http(b'{"version": "0.33.0", "data": [{"id": "llama3.2"}], "models": [{"name": "llama3.2"}]}')
    server = RawServer([listed])
    try:
        done = newel("doctor", LLM_BASE_URL=server.url)
        assert "!! asked by" not in done.stdout
        assert f"LLM_BASE_URL=ollama://127.0.0.1:{server.port}" in done.stdout
    finally:
        server.close()
    assert "LLM_BASE_URL=ollama://" not in newel("doctor", LLM_BASE_URL=f"{newel.server.url}/v1").stdout


def test_doctor_explains_how_to_start_a_server_that_does_not_run(newel: Newel, ollama: OllamaServer) -> None:
    ollama.close()
    done = newel("doctor")
    assert done.returncode == 1
    assert "Check that the server is running" in done.stdout


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ollama://", "must begin with"),
        ("ollama://host:x", "not a valid address"),
        ("ollama+http://host", "must begin with"),
    ],
)
def test_an_invalid_address_is_reported(newel: Newel, url: str, words: str) -> None:
    done = newel("Say it", LLM_BASE_URL=url)
    assert done.returncode == 1
    assert words in done.stderr


def test_a_program_can_use_ollama_through_chat_completions(newel: Newel, with_model: Make) -> None:
    """Ollama has chat completions too."""
    url = newel.server.url.replace("http://", "ollama://")
    script = "import newel; print(newel.chat([{'role': 'user', 'content': 'how are you'}])['object'])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=newel.environ | {"LLM_BASE_URL": url},
        cwd=newel.project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "chat.completion\n", done.stderr
