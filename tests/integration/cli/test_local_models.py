"""If these fail, a model cannot be downloaded by its name, or the user does not learn why."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from newel.cli import local_models
from newel.providers.catalog.downloadable_models import DOWNLOADABLE
from newel.providers.llamacpp.model_store import ModelStore
from tests.gguf_file import gguf
from tests.model_mirror import ModelMirror, model_mirror
from tests.served import wait_until
from tests.support import Newel
from tests.tmux import Tmux

Make = Callable[..., Newel]

STANDINS = Path(__file__).resolve().parents[2] / "standins" / "llama_cpp"
FIRST = DOWNLOADABLE[0]
BEGIN = 3_000_000
"""Bytes of the first model that the mirror has."""


@pytest.fixture
def newel(with_model: Make) -> Newel:
    return with_model()


@pytest.fixture
def mirror(newel: Newel) -> Iterator[ModelMirror]:
    """A mirror that has the begin of the first model, and then sends no more."""
    with model_mirror(bytes(BEGIN)) as server:
        server.size, server.hang = FIRST.size, True
        newel.environ["NEWEL_MODELS_URL"] = server.url
        yield server


def partial(newel: Newel) -> Path:
    return newel.home / ".newel" / "models" / f"{FIRST.name}.gguf.part"


def has_begun(newel: Newel) -> bool:
    return partial(newel).exists() and partial(newel).stat().st_size == BEGIN


def test_the_models_are_listed_without_a_server(newel: Newel) -> None:
    newel.environ["LLM_BASE_URL"] = "llamacpp:no-such-model"
    ran = newel("models", "pull")
    assert ran.returncode == 0
    assert all(len(line) <= 80 for line in ran.stdout.splitlines())
    for model in DOWNLOADABLE:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(f"{model.name} "))
        assert model.licence in line
        assert f"{model.size / 1e9:.1f} GB" in line
        assert model.sha256 in ran.stdout


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["pull", "qwen2.5-coder-7"], 2, "Did you mean qwen2.5-coder-7b"),
        (["pull", "../../x"], 2, "no model '../../x'"),
        (["pull", "model.gguf"], 2, "--file model.gguf"),
        (["pull", "--file", "none.gguf"], 1, "There is no model file"),
        (["pull", "--file", "page.gguf"], 1, "is not a GGUF file"),
        (["pull", "--file", "page.gguf", "../x"], 2, "is not a model's name"),
        (["pull", "--verify"], 2, "--verify needs the NAME"),
        (["remove", "none"], 1, "There is no pulled model 'none'"),
        (["remove", "../x"], 2, "is not a model's name"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(newel: Newel, words: list[str], code: int, reason: str) -> None:
    (newel.project / "page.gguf").write_text("<html>")
    ran = newel("models", *words)
    assert ran.returncode == code
    assert reason in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("way", ["server", "proxy"])
def test_without_a_network_the_message_says_so(newel: Newel, way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nothing = f"http://127.0.0.1:{taken.getsockname()[1]}"
    environ = {"NEWEL_MODELS_URL": nothing} if way == "server" else {"HTTPS_PROXY": nothing}
    ran = newel("models", "pull", FIRST.name, **environ)
    assert ran.returncode == 1
    host = "127.0.0.1" if way == "server" else "huggingface.co"
    message = ran.stderr.splitlines()[-1]
    assert message.startswith(f"newel: No connection to {host}")
    assert len(ran.stderr.splitlines()) == 2


@pytest.mark.parametrize("url", ["http://models.example", "nonsense", "ftp://127.0.0.1", "file:///etc"])
def test_a_mirror_without_encryption_is_refused(newel: Newel, url: str) -> None:
    ran = newel("models", "pull", FIRST.name, NEWEL_MODELS_URL=url)
    assert ran.returncode == 1
    assert ran.stderr.startswith("newel: NEWEL_MODELS_URL must begin with https://")


def test_a_killed_download_continues(newel: Newel, mirror: ModelMirror) -> None:
    with newel.start("models", "pull", FIRST.name) as process:
        wait_until(lambda: has_begun(newel), "the first bytes")
        process.kill()
        process.wait()
    mirror.statuses = [404]
    ran = newel("models", "pull", FIRST.name)
    assert mirror.ranges_asked == ["", f"bytes={BEGIN}-"]
    assert ran.returncode == 1
    assert "has no file" in ran.stderr
    assert has_begun(newel)


def test_outside_a_terminal_progress_is_one_line(newel: Newel, mirror: ModelMirror) -> None:
    with newel.start("models", "pull", FIRST.name) as process:
        wait_until(lambda: has_begun(newel), "the first bytes")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert stdout == ""
    assert stderr.splitlines() == [
        f"newel: Downloading {FIRST.name} (Apache-2.0): 1.1 GB from 127.0.0.1.",
        f"newel: Stopped at 3.0 MB of 1.1 GB. To continue: newel models pull {FIRST.name}",
    ]
    assert mirror.ranges_asked == [""]


def test_a_terminal_shows_a_bar_until_the_user_stops(newel: Newel, mirror: ModelMirror) -> None:
    with Tmux(["newel", "models", "pull", FIRST.name], newel.project, newel.environ) as screen:
        screen.wait_for("0.0/1.1 GB")
        wait_until(lambda: has_begun(newel), "the first bytes")
        screen.type("", "C-c")
        screen.wait_for_end()
        assert "Stopped at 3.0 MB of 1.1 GB" in screen.text
        assert all(len(line) <= 80 for line in screen.text.splitlines())
    assert mirror.ranges_asked == [""]


def test_a_download_ends_with_the_command_that_uses_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a small file in place of the first model: the real ones have gigabytes."""
    data = gguf()
    model = msgspec.structs.replace(FIRST, size=len(data), sha256=hashlib.sha256(data).hexdigest())
    store = ModelStore(tmp_path / "models")
    with model_mirror(data) as server:
        monkeypatch.setenv(local_models.MODELS_URL, server.url)
        stored = local_models.pull(store, model)
        local_models.explain_use(stored, tmp_path)
        assert f"newel --base-url llamacpp:{FIRST.name}" in capsys.readouterr().out
        local_models.pull(store, model)
        assert "is here already (complete" in capsys.readouterr().err
        assert len(server.requests) == 1
        os.truncate(store.path(FIRST.name), 10)
        local_models.pull(store, model)
    assert "downloaded again" in capsys.readouterr().err
    assert store.path(FIRST.name).read_bytes() == data


def test_a_users_file_is_used_by_its_name(newel: Newel) -> None:
    """Also if a default model is set, which is that of another server. The model keeps its own name, which tells its size."""
    (newel.project / "tiny-1b.gguf").write_bytes(gguf())
    ran = newel("models", "pull", "--file", "tiny-1b.gguf", "mine")
    assert ran.returncode == 0, ran.stderr
    assert "llamacpp:mine" in ran.stdout
    listed = newel("models", "--base-url", "llamacpp:mine", PYTHONPATH=str(STANDINS))
    assert "* tiny-1b.gguf" in listed.stdout, listed.stderr
    assert "mine  " in newel("models", "pull").stdout
    removed = newel("models", "remove", "mine")
    assert "is still there" in removed.stdout
    gone = newel("models", "--base-url", "llamacpp:mine", PYTHONPATH=str(STANDINS))
    assert gone.returncode == 1
    assert "`newel models pull` lists models" in gone.stderr


def test_a_name_of_a_users_file_is_not_overwritten_by_a_download(newel: Newel, mirror: ModelMirror) -> None:
    (newel.project / "mine.gguf").write_bytes(gguf())
    newel("models", "pull", "--file", "mine.gguf", FIRST.name)
    ran = newel("models", "pull", FIRST.name)
    assert ran.returncode == 1
    assert f"newel models remove {FIRST.name}" in ran.stderr
    assert mirror.requests == []
