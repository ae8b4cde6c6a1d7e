"""If these fail, a container cannot get its secrets from files, or a command of the model gets them, too."""

from __future__ import annotations

from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from newel.config.secret_files import SECRETS
from newel.permissions.secret_values import VARIABLES
from newel.workspace.process.environment import is_withheld
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

KEY = "a-key-from-a-file"


@pytest.fixture
def newel(with_model: Make) -> Newel:
    """A user whose key is in a file, behind a link as Kubernetes mounts it."""
    made = with_model(
        scenario("hello", bash("env; cat $LLM_AUTH_TOKEN_FILE"), {"content": "Hello back."}),
    )
    del made.environ["LLM_AUTH_TOKEN"]
    (made.home / "..data").write_text(f"{KEY}\n")
    (made.home / "key").symlink_to("..data")
    made.environ["LLM_AUTH_TOKEN_FILE"] = str(made.home / "key")
    return made


@pytest.fixture
def heard(newel: Newel) -> Generator[list[str]]:
    """What a server gets as keys, which refuses all of them."""
    got: list[str] = []

    class RefusingHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            got.append(self.headers["Authorization"])
            self.send_error(401)

    with ThreadingHTTPServer(("127.0.0.1", 0), RefusingHandler) as server:
        newel.environ["LLM_BASE_URL"] = f"http://127.0.0.1:{server.server_port}/v1"
        Thread(target=server.serve_forever, daemon=True).start()
        yield got
        server.shutdown()


def test_the_key_in_a_file_reaches_the_server(newel: Newel, heard: list[str]) -> None:
    newel("hello")
    assert {*heard} == {f"Bearer {KEY}"}


def test_a_variable_of_the_environment_precedes_its_file(newel: Newel, heard: list[str]) -> None:
    newel("hello", LLM_AUTH_TOKEN="mine")
    assert {*heard} == {"Bearer mine"}


def test_a_command_of_the_model_gets_neither_the_key_nor_its_path(newel: Newel) -> None:
    newel("hello").check_returncode()
    (result,) = (each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool")
    assert "PATH=" in result
    assert KEY not in result
    assert "_FILE" not in result


def test_a_tool_of_the_model_does_not_read_the_file(with_model: Make) -> None:
    newel = with_model(
        scenario(
            "look",
            {"tool_calls": [{"function": {"name": "read", "arguments": {"path": "deploy.txt"}}}]},
            {"content": "I have looked."},
        )
    )
    del newel.environ["LLM_AUTH_TOKEN"]
    (newel.project / "deploy.txt").write_text(KEY)
    newel("look", LLM_AUTH_TOKEN_FILE=str(newel.project / "deploy.txt")).check_returncode()
    (result,) = (each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool")
    assert KEY not in result


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory. Mount the secret there, or correct"),
        (b"\n", "is empty. Write the secret into it."),
        (b"\xff\xfe", "is not UTF-8 text."),
    ],
    ids=["missing", "empty", "binary"],
)
def test_a_file_without_a_secret_is_a_clear_error(newel: Newel, content: bytes | None, said: str) -> None:
    path = newel.home / "absent"
    if content is not None:
        path.write_bytes(content)
    done = newel("hello", LLM_AUTH_TOKEN_FILE=str(path))
    assert done.returncode == 1
    assert done.stderr.startswith(f"newel: The file of LLM_AUTH_TOKEN_FILE, {path}, {said}")
    assert not newel.requests


@pytest.mark.parametrize("name", SECRETS)
def test_every_secret_and_its_path_stay_with_newel(name: str) -> None:
    assert is_withheld(name)
    assert is_withheld(f"{name}_FILE")
    assert f"{name}_FILE" in {row.pattern for row in VARIABLES}
    settings = Path(__file__).parents[3] / "docs" / "settings.md"
    assert f"`{name}_FILE`" in settings.read_text()
