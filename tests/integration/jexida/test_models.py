"""If these fail, another model answers than the user chose, or one is downloaded without consent."""

from __future__ import annotations

from pathlib import Path

import pytest

from mock_llm_server import running
from newel.terminal.jexida.protocol import AnswerReply, render
from tests.integration.jexida.served_host import Begin, command, configure, output_of_pipe
from tests.integration.jexida.test_repl import TAB
from tests.sshd import Sshd, served
from tests.standins.ollama_program import OllamaProgram
from tests.standins.ollama_server import OllamaServer
from tests.support import scenario


def test_another_model_of_the_host_answers_from_the_next_prompt_on(
    sshd: Sshd, tmp_path: Path, begin: Begin
) -> None:
    server = OllamaServer(script=[{"trigger": "hi", "answer": "Hello."}])
    try:
        configure(tmp_path, server.port)
        terminal = begin(sshd)
        terminal.wait_for("phi3 · up")
        terminal.send("/model\r")
        terminal.wait_for("phi3:latest      in use\nllama3.2:latest\n")
        terminal.send("/model lla" + TAB + "\r")
        terminal.wait_for("The next prompt goes to llama3.2:latest.")
        terminal.wait_for("model  llama3.2:latest · forwarded /api/chat")
        terminal.send("hi\r")
        terminal.wait_for("│ Hello. ")
        terminal.wait_for("llama3.2:latest · up")
        terminal.send("/clear\r")
        terminal.wait_for(f"{sshd.user}@host · llama3.2:latest · /help")
    finally:
        server.close()
    assert [request["model"] for request in server.requests] == ["llama3.2:latest"]
    (session,) = tmp_path.glob(".newel/sessions/*/*.jsonl")
    assert '"model":"llama3.2:latest"' in session.read_text()


@pytest.mark.slow  # seconds of waiting
def test_a_missing_model_is_downloaded_only_after_confirmation(
    sshd: Sshd, tmp_path: Path, begin: Begin
) -> None:
    program = OllamaProgram(
        sshd.bin, models={"phi3:latest": {}}, registry=["qwen3"], default=render(AnswerReply("Hello."))
    )
    before = len(program.calls)
    terminal = begin(sshd, "--through", "run")
    terminal.wait_for("phi3 · up")
    terminal.send("/model\r")
    terminal.wait_for("phi3:latest  in use")
    terminal.send("/model qwen3\r")
    terminal.wait_for("Download qwen3 there now?")
    terminal.answer("n\r")
    terminal.wait_for("does not have the model 'qwen3'. Get it there: ollama pull qwen3\nphi3 stays in use.")
    assert not [call for call in program.calls[before:] if call["argv"][0] == "pull"]
    terminal.send("/model qwen3\r")
    terminal.wait_for("Download qwen3 there now?")
    terminal.answer("y\r")
    terminal.wait_for("The next prompt goes to qwen3.")
    terminal.send("hi\r")
    terminal.wait_for("│ Hello. ")
    assert ["qwen3" in call["argv"] for call in program.calls[before:] if "seen" in call] == [True]


@pytest.mark.slow  # seconds of waiting
def test_a_remote_server_lists_its_models(sshd: Sshd, tmp_path: Path, begin: Begin) -> None:
    with running(scenario("hi", {"content": render(AnswerReply("Hello."))})) as server:
        llm = {"LLM_BASE_URL": f"{server.url}/v1", "LLM_DEFAULT_MODEL": "mock-model"}
        terminal = begin(sshd, "--through", "api", **llm)
        terminal.wait_for("mock-model · up")
        terminal.send("/model\r")
        terminal.wait_for("mock-model  in use")
        terminal.send("/model other\r")
        terminal.wait_for("model  other · API of 127.0.0.1")
        terminal.send("hi\r")
        terminal.wait_for("│ Hello. ")
        assert server.requests[-1]["body"]["model"] == "other"


def test_if_models_cannot_be_listed_the_reason_is_shown_and_the_model_stays(
    tmp_path: Path, begin: Begin
) -> None:
    with served() as host:
        host.stop()
        terminal = begin(host)
        terminal.wait_for("phi3 · not connected")
        for number, typed in enumerate(["/model", "/model qwen3"], 2):
            terminal.send(typed + "\r")
            terminal.wait_for(lambda number=number: terminal.screen.text.count("Error: ") == number)
        terminal.wait_for("phi3 · not connected")


def test_without_a_user_a_missing_model_is_reported_and_not_downloaded(sshd: Sshd, tmp_path: Path) -> None:
    program = OllamaProgram(sshd.bin, models={"phi3:latest": {}}, registry=["qwen3"])
    before = len(program.calls)
    said = output_of_pipe(command(sshd, "--through", "run"), tmp_path, "/model qwen3\n/model two words\n")
    assert "does not have the model 'qwen3'. Get it there: ollama pull qwen3\nphi3 stays in use." in said
    assert "Error: 'two words' is not a valid model name." in said
    assert not [call for call in program.calls[before:] if call["argv"][0] == "pull"]
