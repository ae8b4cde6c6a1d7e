"""If these fail, somebody who has just installed Newel has to read a manual before the first answer."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

KEY = "sk-typed-0123456789abcdef"
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


@contextmanager
def server_with_key(*, list_is_open: bool) -> Generator[str]:
    """The address of a server that accepts no other key than ``KEY``; many servers list their models without one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            self._answer(json.dumps({"data": [{"id": "alpha"}]}).encode(), is_open=list_is_open)

        def do_POST(self) -> None:  # the library's name
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(STREAM, is_open=False, kind="text/event-stream")

        def _answer(self, body: bytes, *, is_open: bool, kind: str = "application/json") -> None:
            if not is_open and self.headers["Authorization"] != f"Bearer {KEY}":
                self.send_error(401)
                return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the library's name
            """Requests are no output of a test."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.fixture
def newel(with_model: Make) -> Newel:
    """A Newel without a model. Its server is only known to the user."""
    newel = with_model(scenario("", {"content": "Hello from the model."}))
    for name in ("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"):
        del newel.environ[name]
    return newel


def on_screen(newel: Newel, *words: str, columns: int = 100) -> Tmux:
    return Tmux([str(BIN / "newel"), *words], newel.project, newel.environ, columns=columns)


def config(newel: Newel) -> Path:
    return newel.home / ".newel" / "config.toml"


def answer_to_the_end(screen: Tmux, newel: Newel, key: str = "") -> None:
    """Choose the server of the test; leave the last question open."""
    screen.wait_for("Number, 1 to ")
    last = max(
        int(line.split()[0]) for line in screen.text.split("\n") if line.strip().endswith("another address")
    )
    screen.type(str(last), "Enter")
    screen.wait_for("\nAddress:")
    screen.type(f"{newel.server.url}/v1", "Enter")
    screen.wait_for("Key for")
    screen.type(key, "Enter")


def test_a_newcomer_is_asked_and_then_answered(newel: Newel) -> None:
    with on_screen(newel) as screen:
        screen.wait_for("No model is configured.\nSet one up now? [Y/n]")
        screen.answer("", "Enter")
        answer_to_the_end(screen, newel)
        screen.wait_for("Save? [Y/n]")
        assert "one request of a few tokens" in screen.text
        assert not config(newel).exists()
        screen.type("", "Enter")
        screen.wait_for("Enter sends")
        screen.type("hi", "Enter")
        screen.wait_for("Hello from the model.")
    assert config(newel).read_text() == f'base_url = "{newel.server.url}/v1"\nmodel = "mock-model"\n'
    assert stat.S_IMODE(config(newel).stat().st_mode) == 0o600


def test_a_server_can_be_named_and_another_answer_is_explained(newel: Newel) -> None:
    with on_screen(newel, "setup") as screen:
        screen.wait_for("Number, 1 to ")
        screen.type("nothing", "Enter")
        screen.wait_for("or a part of one name.")
        screen.type("Another", "Enter")
        screen.wait_for("Address of the server")


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_an_address_can_be_entered_at_once(newel: Newel, scheme: str) -> None:
    with on_screen(newel, "setup") as screen:
        screen.wait_for("Number, 1 to ")
        screen.type(newel.server.url.replace("http://", scheme), "Enter")
        screen.wait_for("Key for http://")
        screen.type("", "Enter")
        screen.wait_for("Save? [Y/n]")


def test_the_chosen_server_is_used_even_where_another_programs_key_is_exported(newel: Newel) -> None:
    """Otherwise the code goes to a vendor that the user has not chosen."""
    newel.environ["ANTHROPIC_API_KEY"] = "sk-of-another-program"
    with on_screen(newel, "setup") as screen:
        answer_to_the_end(screen, newel)
        screen.wait_for("Save? [Y/n]")
        screen.type("", "Enter")
        screen.wait_for_end()
        assert "precedence" not in screen.text
    with on_screen(newel) as screen:
        screen.wait_for("Enter sends")
        screen.type("hi", "Enter")
        screen.wait_for("Hello from the model.")


def test_the_settings_that_are_there_stay_and_the_old_servers_key_goes(newel: Newel) -> None:
    config(newel).parent.mkdir()
    before = '# Mine.\nbase_url = "https://old.example/v1"\napi_key = "sk-old-0123456789abcdef"\n\n[limits]\nmaxTurns = 5 # enough\n'
    config(newel).write_text(before)
    with on_screen(newel, "setup") as screen:
        answer_to_the_end(screen, newel)
        screen.wait_for("Save? [Y/n]")
        assert "belongs to the earlier server or key: api_key" in screen.text
        screen.type("", "Enter")
        screen.wait_for_end()
        assert "sk-old" not in screen.text
    after = before.replace("https://old.example/v1", f"{newel.server.url}/v1")
    after = after.replace('api_key = "sk-old-0123456789abcdef"\n', 'model = "mock-model"\n')
    assert config(newel).read_text() == after


@pytest.mark.parametrize("keys", [("C-c",), ("C-d",)])
def test_leaving_before_the_end_writes_nothing(newel: Newel, keys: tuple[str, ...]) -> None:
    with on_screen(newel, "setup") as screen:
        answer_to_the_end(screen, newel)
        screen.wait_for("Save? [Y/n]")
        screen.type("", *keys)
        screen.wait_for_end()
        assert "Traceback" not in screen.text
    assert not config(newel).exists()
    assert not (newel.home / ".newel" / "keys.json").exists()


@pytest.mark.parametrize(("command", "question"), [("newel setup", "Number, 1 to "), ("newel", "Set one up")])
def test_the_shells_prompt_begins_its_own_line_after_ctrl_c(
    newel: Newel, command: str, question: str
) -> None:
    with Tmux(["sh"], newel.project, newel.environ | {"PS1": "$ "}, columns=100) as screen:
        screen.type(command, "Enter")
        screen.wait_for(question)
        screen.type("", "C-c")
        screen.wait_for("^C\n")
        assert screen.text.split("\n")[-1] in {"$", "#"}


def test_a_server_that_is_down_is_named_and_another_can_be_chosen(newel: Newel) -> None:
    with on_screen(newel, "setup") as screen:
        screen.wait_for("Number, 1 to ")
        screen.type(
            next(line.split()[0] for line in screen.text.split("\n") if "another address" in line), "Enter"
        )
        screen.wait_for("\nAddress:")
        screen.type("api.example", "Enter")
        screen.wait_for("must begin with http://")
        screen.type("http://127.0.0.1:9/v1", "Enter")
        screen.wait_for("Key for")
        screen.type("", "Enter")
        screen.wait_for(
            "Asking http://127.0.0.1:9/v1 for its models …"
        )  # a slow server lets the user wait here
        screen.wait_for("nothing listens there")
        screen.wait_for("Number, 1 to ", times=2)


def test_a_key_is_typed_unseen_and_kept_for_its_server(newel: Newel) -> None:
    with on_screen(newel, "setup") as screen:
        answer_to_the_end(screen, newel, "k\u00e9y")
        screen.wait_for("This is not an API key")
        screen.type(KEY, "Enter")
        screen.wait_for("Save? [Y/n]")
        screen.type("", "Enter")
        screen.wait_for_end()
        assert KEY not in screen.text
    newel("hi")
    assert "authorization" in newel.server.requests[-1]["headers"]
    assert KEY not in config(newel).read_text()
    assert KEY in (config(newel).parent / "keys.json").read_text()


@pytest.mark.parametrize("list_is_open", [True, False])
def test_after_a_key_that_the_server_rejects_another_one_is_asked_for(
    newel: Newel, *, list_is_open: bool
) -> None:
    """Advice about variables and options does not help somebody who is asked for the key."""
    with server_with_key(list_is_open=list_is_open) as address, on_screen(newel, "setup") as screen:
        screen.wait_for("Number, 1 to ")
        screen.type(address, "Enter")
        screen.wait_for("Key for")
        screen.type("sk-wrong-0123456789", "Enter")
        screen.wait_for("rejected the API key (401)")
        screen.wait_for("Key for", times=2)
        assert "LLM_AUTH_TOKEN" not in screen.text
        screen.type(KEY, "Enter")
        screen.wait_for("alpha answers with this key")
        screen.wait_for("Save? [Y/n]")
        screen.type("", "Enter")
        screen.wait_for_end()
    assert KEY in (config(newel).parent / "keys.json").read_text()
    assert "sk-wrong" not in (config(newel).parent / "keys.json").read_text()


def test_no_word_is_cut_in_a_narrow_terminal(newel: Newel) -> None:
    words: dict[int, list[str]] = {}
    for columns in (40, 200):
        with on_screen(newel, "setup", columns=columns) as screen:
            answer_to_the_end(screen, newel)
            screen.wait_for("Save? [Y/n]")
            words[columns] = screen.text.partition("To be saved")[0].split()  # a path may be too long
    assert words[40] == words[200]


@pytest.mark.parametrize("is_in_file", [True, False])
def test_of_several_models_one_is_chosen_where_the_error_was(with_model: Make, is_in_file: bool) -> None:
    newel = with_model(scenario("", {"content": "Hello from the model."}) | {"models": ["alpha", "beta"]})
    del newel.environ["LLM_DEFAULT_MODEL"]
    if is_in_file:
        config(newel).parent.mkdir()
        config(newel).write_text(f'base_url = "{newel.environ.pop("LLM_BASE_URL")}"\n')
    with on_screen(newel, "hi") as screen:
        screen.wait_for("No model is chosen. Which one of")
        screen.wait_for("(Enter: leave)")
        screen.type("", "Down", "Enter")  # an arrow, as in other lists
        screen.wait_for("(Enter: leave)", times=2)
        assert "Use it anyway?" not in screen.text
        screen.type("beta", "Enter")
        screen.wait_for("Hello from the model.")
    assert newel.requests[-1]["model"] == "beta"
    assert (config(newel).exists() and 'model = "beta"' in config(newel).read_text()) == is_in_file
    if not is_in_file:
        assert "beta" in newel("hi").stderr  # a script is told the names


def test_a_model_of_ollama_is_tried_and_the_next_step_named(with_model: Make) -> None:
    script = scenario("", {"content": "Hello."}) | {"models": ["qwen3:8b"], "ollama_version": "0.12.9"}
    newel = with_model(script)
    for name in ("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"):
        del newel.environ[name]
    address = newel.server.url.replace("http://", "ollama://")
    with on_screen(newel, "setup") as screen:
        screen.wait_for("Number, 1 to ")
        screen.type("another", "Enter")
        screen.wait_for("\nAddress:")
        screen.type(address, "Enter")
        screen.wait_for("Key for")
        screen.type("", "Enter")
        screen.wait_for("Number, or a part of the name")
        screen.type("qwen3:8b", "Enter")
        screen.wait_for("qwen3:8b answers without a key")
        screen.wait_for("Save? [Y/n]")
        screen.type("", "Enter")
        screen.wait_for("To begin, in the folder of a project: newel")
        screen.wait_for_end()
    tried = [each for each in newel.server.requests if each["path"] == "/api/chat"]
    assert [each["body"]["model"] for each in tried] == ["qwen3:8b"]


def test_in_a_pipe_it_says_how_a_script_does_it(newel: Newel) -> None:
    ran = newel("setup")
    assert ran.returncode == 2
    assert "newel config set base_url URL" in ran.stderr
    unset = newel("hi").stderr
    assert "No model is configured" in unset
    assert "newel setup" in unset


def test_an_invalid_file_is_named_before_any_question(newel: Newel) -> None:
    config(newel).parent.mkdir()
    config(newel).write_text("model = \n")
    with on_screen(newel, "setup", columns=200) as screen:
        screen.wait_for_end()
        assert "config.toml, line 1" in screen.text
        assert "Number" not in screen.text
