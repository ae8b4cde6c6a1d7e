"""If these fail, users choose a model by wrong sizes or prices, or do not see which models they can choose."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from newel.text.format import PROMPT
from tests.standins.ollama_server import OllamaServer
from tests.support import Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]


class PublicServer:
    """A server in the Internet, whose address leads to this proxy: models of private servers have no public prices."""

    URL = "http://llm.example/v1"

    def __init__(self) -> None:
        self.status = 200
        self.answer: object = {"data": []}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(outer.answer).encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name is the library's
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.environ = {
            "HTTP_PROXY": f"http://127.0.0.1:{self._server.server_port}",
            "LLM_BASE_URL": self.URL,
        }
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def public() -> Iterator[PublicServer]:
    server = PublicServer()
    yield server
    server.close()


def write_settings(newel: Newel, text: str) -> None:
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel" / "config.toml").write_text(text)


def rows(output: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in map(json.loads, output.splitlines())}


def test_the_servers_models_are_listed_and_the_one_in_use_is_marked(with_model: Make) -> None:
    ran = with_model({"models": ["other-model"], "scenarios": []})("models")
    assert ran.returncode == 0
    header, *lines = ran.stdout.splitlines()
    assert header.split() == [
        "model",
        "context",
        "output",
        "$",
        "in",
        "$",
        "out",
        "tools",
        "thinking",
        "images",
    ]
    assert lines == ["* mock-model", "  other-model"]


def test_a_private_server_has_no_public_prices(with_model: Make) -> None:
    """Otherwise a local model would look as if it cost money."""
    ran = with_model({"models": ["gpt-4o"], "scenarios": []})("models", "--json", "gpt-4o")
    assert rows(ran.stdout)["gpt-4o"]["inputPrice"] is None


def test_facts_come_from_the_settings_then_the_server_then_the_catalogue(
    with_model: Make, public: PublicServer
) -> None:
    newel = with_model()
    write_settings(newel, '[models."gpt-4o"]\nmax_output = 1000\ninput_price = 7\noutput_price = 8\n')
    public.answer = {
        "data": [
            {"id": "gpt-4o", "context_length": 99_000, "top_provider": {"max_completion_tokens": 2000}},
            {"id": "openai/gpt-4o", "supported_parameters": ["max_tokens"]},
            {"id": "unheard-of"},
        ]
    }
    ran = newel("models", "--json", **public.environ, LLM_DEFAULT_MODEL="gpt-4o")
    found = rows(ran.stdout)
    assert found["gpt-4o"] == {
        "name": "gpt-4o",
        "contextWindow": 99_000,
        "maxOutput": 1000,
        "inputPrice": 7,
        "outputPrice": 8,
        "hasTiers": False,
        "tools": True,
        "thinking": None,
        "images": True,
        "inUse": True,
    }
    assert found["openai/gpt-4o"]["contextWindow"] == 128_000
    assert found["openai/gpt-4o"]["inputPrice"] == 2.5
    assert found["openai/gpt-4o"]["tools"] is False
    unknown = found["unheard-of"]
    assert {unknown[name] for name in unknown if name not in {"name", "inUse", "hasTiers"}} == {None}


def test_a_model_in_use_that_is_not_listed_is_shown_all_the_same(with_model: Make) -> None:
    """Gateways serve unlisted models; otherwise their users would think that another one is in use."""
    ran = with_model(scenario("hello", {"content": "Hi."}))("models", LLM_DEFAULT_MODEL="hidden")
    assert ran.stdout.splitlines()[1:] == ["* hidden", "  mock-model"]


def test_a_filter_selects_names(with_model: Make) -> None:
    newel = with_model({"models": ["alpha-1", "beta-1"], "scenarios": []})
    assert newel("models", "ALPHA").stdout.splitlines()[1:] == ["  alpha-1"]
    none = newel("models", "gamma")
    assert none.returncode == 0
    assert none.stdout == "No model's name contains 'gamma'.\n"
    assert newel("models", "gamma", "--json").stdout == ""


def test_the_catalogue_is_listed_without_a_server(with_model: Make) -> None:
    newel = with_model()
    ran = newel("models", "--all", "anthropic/claude-opus-4-5")
    assert newel.server.requests == []
    _, line, *_ = ran.stdout.splitlines()
    assert line.split() == ["anthropic/claude-opus-4-5", "200k", "64k", "5", "25", "yes", "yes", "yes"]
    tiers = newel("models", "--all", "anthropic/claude-haiku-5-5").stdout
    assert " 0.1+ " in tiers
    assert newel("models", "--all", "text-embedding").stdout.startswith("No model's name contains")


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_a_list_is_reported_in_one_sentence(
    with_model: Make, public: PublicServer, status: int
) -> None:
    public.status = status
    ran = with_model()("models", **public.environ)
    assert ran.returncode == 0
    assert ran.stderr == f"newel: {public.URL} has no list of models. Name one with --model.\n"
    assert ran.stdout.splitlines()[1:] == ["* mock-model"]


def test_a_vendor_without_a_list_has_the_models_of_the_catalogue(
    with_model: Make, public: PublicServer
) -> None:
    url = "http://me.openai.azure.com/openai"
    ran = with_model()("models", "--base-url", url, **public.environ | {"LLM_DEFAULT_MODEL": ""})
    assert ran.returncode == 0
    assert ran.stderr == f"newel: {url} lists no models. These are the vendor's, by the built-in catalogue:\n"
    assert len(ran.stdout.splitlines()) > 10


def test_a_wrong_key_is_an_error(with_model: Make, public: PublicServer) -> None:
    """Otherwise the catalogue's models would hide it."""
    public.status, public.answer = 401, {"error": {"message": "no such key"}}
    ran = with_model()("models", **public.environ)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert "no such key" in ran.stderr


def test_hostile_names_cannot_write_to_the_terminal(with_model: Make) -> None:
    newel = with_model({"models": ["evil\x1b[2J\n\u202egpt\u200b"], "scenarios": []})
    line = newel("models", "evil").stdout.splitlines()[1]
    assert line == "  evil␛[2J␊<U+202E>gpt<U+200B>"
    assert "\x1b" not in newel("models", "evil", "--json").stdout


def test_a_narrow_terminal_gets_names_on_lines_of_their_own(with_model: Make) -> None:
    """Otherwise the columns of a wrapped table are illegible, or names are cut that users must type."""
    newel = with_model()
    command = ["newel", "models", "--all", "anthropic/claude-opus-4-5"]
    with Tmux(command, newel.project, newel.environ, columns=60) as screen:
        screen.wait_for_end()
        lines = screen.text.splitlines()
    assert "  anthropic/claude-opus-4-5" in lines
    assert "200k" in lines[lines.index("  anthropic/claude-opus-4-5") + 1]
    assert all(len(line) <= 60 for line in lines)


# -- aliases ------------------------------------------------------------------------------------------

FAMILY = ["claude-opus-4-1", "anthropic/claude-opus-4.5", "claude-opus-4-5-20251101", "claude-opus-3-preview"]


def model_asked(newel: Newel) -> str:
    [request] = newel.requests
    return request["model"]


def test_an_alias_is_the_newest_listed_model_of_its_family(with_model: Make) -> None:
    newel = with_model({"models": FAMILY, **scenario("hello", {"content": "Hi."})})
    assert newel("-m", "opus", "hello").returncode == 0
    assert model_asked(newel) == "claude-opus-4-5-20251101"


def test_a_listed_model_has_precedence_over_an_alias(with_model: Make) -> None:
    newel = with_model({"models": [*FAMILY, "opus"], **scenario("hello", {"content": "Hi."})})
    assert newel("-m", "opus", "hello").returncode == 0
    assert model_asked(newel) == "opus"


def test_an_alias_without_its_family_stays_as_it_is(with_model: Make) -> None:
    newel = with_model(scenario("hello", {"content": "Hi."}))
    assert newel("-m", "opus", "hello").returncode == 0
    assert model_asked(newel) == "opus"


def test_an_alias_of_the_user_has_the_facts_of_its_model(with_model: Make) -> None:
    newel = with_model({"models": FAMILY, **scenario("hello", {"content": "Hi."})})
    write_settings(
        newel,
        '[models."opus"]\nalias_of = "mock-model"\n[models."mock-model"]\ninput_price = 1\noutput_price = 1\n',
    )
    assert newel("-m", "opus", "--max-cost", "5", "hello").returncode == 0
    assert model_asked(newel) == "mock-model"
    assert "* mock-model" in newel("models", "-m", "opus").stdout


def test_an_alias_cannot_have_facts_of_its_own(with_model: Make) -> None:
    newel = with_model()
    write_settings(newel, '[models."fast"]\nalias_of = "mock-model"\nmax_output = 5\n')
    ran = newel("models")
    assert ran.returncode == 1
    assert "alias_of must be alone" in ran.stderr


def test_an_alias_can_be_chosen_in_a_conversation(with_model: Make) -> None:
    newel = with_model({"models": FAMILY, **scenario("hello", {"content": "Hi."})})
    with Tmux(["newel"], newel.project, newel.environ, columns=100) as screen:
        screen.wait_for(PROMPT)
        screen.type("/model opus", "Enter")
        screen.wait_for("The next prompt goes to claude-opus-4-5-20251101.")
        screen.type("hello", "Enter")
        screen.wait_for("Hi.")
    assert model_asked(newel) == "claude-opus-4-5-20251101"


def test_a_model_is_chosen_in_a_conversation_by_what_it_costs(with_model: Make, public: PublicServer) -> None:
    newel = with_model()
    public.answer = {"data": [{"id": "gpt-4o"}, {"id": "o3"}, {"id": "unheard-of"}]}
    environ = newel.environ | public.environ | {"LLM_DEFAULT_MODEL": "gpt-4o"}
    with Tmux(["newel"], newel.project, environ, columns=100) as screen:
        screen.wait_for(PROMPT)
        screen.type("/model", "Enter")
        screen.wait_for("Models · context in tokens, $ per million tokens in / out")
        screen.wait_for("unheard-of")
        assert f"{PROMPT} gpt-4o      128k  $2.5 / $10            (in use)\n" in screen.text
        assert "  o3          200k  $2 / $8     thinking\n" in screen.text
        screen.type("o3", "Enter")
        screen.wait_for("The next prompt goes to o3.")


def test_a_newcomer_chooses_a_model_by_what_it_costs(with_model: Make, public: PublicServer) -> None:
    newel = with_model()
    public.answer = {"data": [{"id": "gpt-4o"}, {"id": "o3"}, {"id": "unheard-of"}]}
    proxy = {"HTTP_PROXY": public.environ["HTTP_PROXY"]}
    environ = {name: value for name, value in newel.environ.items() if not name.startswith("LLM_")} | proxy
    with Tmux(["newel", "setup"], newel.project, environ, columns=100) as screen:
        screen.wait_for("Number, 1 to ")
        screen.type(public.URL, "Enter")
        screen.wait_for("Key for")
        screen.type("", "Enter")
        screen.wait_for("a part of the name")
        assert "   1  gpt-4o      128k · $2.5 / $10 per M\n" in screen.text
        assert "   2  o3          200k · $2 / $8 per M · thinking\n   3  unheard-of\n" in screen.text
        screen.type("", "C-c")


def test_an_alias_can_be_chosen_by_a_program(with_model: Make) -> None:
    newel = with_model({"models": FAMILY, **scenario("hello", {"content": "Hi."})})
    requests = '{"type":"set_model","model":"opus"}\n{"type":"message","content":"hello"}\n'
    assert newel("--json", stdin=requests).returncode == 0
    assert model_asked(newel) == "claude-opus-4-5-20251101"


def test_doctor_tests_the_model_that_an_alias_stands_for(with_model: Make) -> None:
    """Otherwise it would report a problem that there is not."""
    ran = with_model({"models": FAMILY, "scenarios": []})("doctor", "--model", "opus")
    assert "claude-opus-4-5-20251101 answers with this key" in ran.stdout


def test_ollama_reports_what_its_models_can_do(with_model: Make) -> None:
    newel = with_model()
    server = OllamaServer(
        {"vision:latest": {"capabilities": ["vision"], "context_length": 8192}, "old:latest": {}}
    )
    try:
        ran = newel("models", "--json", LLM_BASE_URL=f"ollama://127.0.0.1:{server.port}")
        named = newel("models", LLM_BASE_URL=f"ollama://127.0.0.1:{server.port}", LLM_DEFAULT_MODEL="vision")
    finally:
        server.close()
    vision = rows(ran.stdout)["vision:latest"]
    assert (vision["contextWindow"], vision["tools"], vision["images"]) == (8192, False, True)
    assert rows(ran.stdout)["old:latest"]["tools"] is None
    assert "* vision:latest" in named.stdout
