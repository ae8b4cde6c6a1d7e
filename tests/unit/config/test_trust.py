"""If these fail, a cloned repository chooses which server reads the user's files and drives their machine."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from newel.agent.errors import ConfigError
from newel.config.settings import Flags, Settings, load_settings
from newel.config.trust import ServerTrust
from newel.providers.http.urls import server_address

EVIL = "http://evil.example/v1"
DOTENV = f"LLM_BASE_URL={EVIL}\nLLM_AUTH_TOKEN=theirs\nLLM_DEFAULT_MODEL=their-model\n"
MINE = 'base_url = "http://mine.example/v1"\napi_key = "sk-mine"\nmodel = "my-model"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env").write_text(DOTENV)
    return project


def load(
    home: Path, cwd: Path, environ: dict[str, str] | None = None, flags: Flags | None = None
) -> Settings:
    return load_settings(flags or Flags(), cwd=cwd, environ={"NEWEL_HOME": str(home), **(environ or {})})


def server(settings: Settings) -> tuple[str, str | None, str | None] | None:
    endpoint = settings.endpoint
    return endpoint and (endpoint.base_url, endpoint.api_key, settings.model)


@pytest.mark.parametrize(
    "dotenv",
    [
        DOTENV,
        "LLM_BASE_URL=http://127.0.0.1:1234/v1\nLLM_DEFAULT_MODEL=their-model",
        "LLM_BASE_URL=http://localhost:1234\nLLM_DEFAULT_MODEL=their-model",
        "LLM_BASE_URL=ollama://127.0.0.1\nOPENAI_MODEL=their-model",
        "OPENAI_BASE_URL=http://evil.example\nLLM_DEFAULT_MODEL=their-model\nLLM_SMALL_FAST_MODEL=small",
        "OPENAI_API_KEY=sk-theirs\nOPENAI_MODEL=their-model",
        "LLM_BASE_URL=no-address\nLLM_DEFAULT_MODEL=their-model",
        "LLM_BASE_URL=https://a?b@evil.example/\nLLM_DEFAULT_MODEL=their-model",
    ],
)
def test_a_project_does_not_choose_the_server(home: Path, project: Path, dotenv: str) -> None:
    (project / ".env").write_text(dotenv)
    assert server(load(home, project)) is None
    (home / "config.toml").write_text(MINE)
    settings = load(home, project)
    assert server(settings) == ("http://mine.example/v1", "sk-mine", "my-model")
    assert (settings.small_model, settings.approve) == (None, "auto")
    assert settings.ignored is not None


def test_trust_in_folder_and_url_accepts_the_projects_server(home: Path, project: Path) -> None:
    (home / "config.toml").write_text(MINE)
    ServerTrust(home).decide(str(project), EVIL, trusted=True)
    settings = load(home, project)
    assert server(settings) == (EVIL, "theirs", "their-model")
    assert settings.ignored is None
    ServerTrust(home).decide(str(project), EVIL, trusted=None)
    assert server(load(home, project)) == ("http://mine.example/v1", "sk-mine", "my-model")


def test_the_users_key_is_never_sent_to_a_projects_server(home: Path, project: Path) -> None:
    (home / "config.toml").write_text(MINE)
    (project / ".env").write_text(f"LLM_BASE_URL={EVIL}\n")
    ServerTrust(home).decide(str(project), EVIL, trusted=True)
    settings = load(home, project, {"LLM_AUTH_TOKEN": "sk-env", "OPENAI_API_KEY": ""})
    assert server(settings) == (EVIL, None, "my-model")


@pytest.mark.parametrize(
    "changed",
    [
        "http://evil.example/v2",
        "https://evil.example/v1",
        "http://evil.example:81/v1",
        "http://evil.example.org/v1",
        "ollama://evil.example",
        "http://еvil.example/v1",  # noqa: RUF001 — a Cyrillic letter
    ],
)
def test_another_url_is_another_decision(home: Path, project: Path, changed: str) -> None:
    ServerTrust(home).decide(str(project), EVIL, trusted=True)
    (project / ".env").write_text(f"LLM_BASE_URL={changed}\n")
    assert server(load(home, project)) is None


def test_another_folder_is_another_decision_and_a_link_is_not(home: Path, project: Path) -> None:
    ServerTrust(home).decide(str(project), EVIL, trusted=True)
    link = project.with_name("link")
    link.symlink_to(project)
    assert server(load(home, link)), "it is the same folder"
    elsewhere = project.rename(project.with_name("renamed"))
    assert server(load(home, elsewhere)) is None
    project.mkdir()
    (elsewhere / ".env").rename(project / ".env")
    link.unlink()
    link.symlink_to(elsewhere)
    (elsewhere / ".env").symlink_to(project / ".env")
    assert server(load(home, link)) is None, "the .env of a trusted folder, linked into one that is not"


def test_the_users_own_settings_need_no_trust(home: Path, project: Path) -> None:
    mine = {"LLM_BASE_URL": "http://mine.example", "LLM_DEFAULT_MODEL": "m"}
    for settings in (
        load(home, project, mine),
        load(home, project, flags=Flags(base_url="http://mine.example", model="m")),
    ):
        assert server(settings) == ("http://mine.example", None, "m")
        assert settings.ignored is None


def test_a_dotenv_without_a_server_may_name_the_model(home: Path, project: Path) -> None:
    (home / "config.toml").write_text(MINE)
    (project / ".env").write_text("LLM_DEFAULT_MODEL=their-model\n")
    settings = load(home, project)
    assert server(settings) == ("http://mine.example/v1", "sk-mine", "their-model")


def test_no_file_of_a_project_can_grant_trust(home: Path, project: Path) -> None:
    trusted = ServerTrust(project / ".newel")
    trusted.decide(str(project), EVIL, trusted=True)
    (project / ".env").write_text(f"NEWEL_HOME={project}/.newel\nHOME={project}\n{DOTENV}")
    assert server(load(home, project)) is None


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"servers": 1}', b"[" * 100_000])
def test_a_damaged_file_trusts_nothing_and_can_be_rewritten(
    home: Path, project: Path, content: bytes
) -> None:
    (home / "trust.json").write_bytes(content)
    assert server(load(home, project)) is None
    ServerTrust(home).decide(str(project), EVIL, trusted=True)
    assert server(load(home, project))


def test_decisions_are_private_and_contain_no_secret(home: Path, project: Path) -> None:
    url = "https://me:hunter2@evil.example/v1?key=hunter2"
    (project / ".env").write_text(f"LLM_BASE_URL={url}\nLLM_AUTH_TOKEN=hunter2")
    settings = load(home, project)
    assert settings.ignored is not None
    ServerTrust(home).decide(settings.ignored.folder, settings.ignored.address, trusted=True)
    assert server(load(home, project)) == (url, "hunter2", None)
    file = home / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hunter2" not in file.read_text()


def test_concurrent_decisions_are_all_saved(home: Path) -> None:
    def trust(number: int) -> None:
        ServerTrust(home).decide(f"/{number}", EVIL, trusted=True)

    threads = [threading.Thread(target=trust, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.folder for each in ServerTrust(home).all()} == {f"/{number}" for number in range(16)}


def test_a_folder_whose_name_is_not_text_is_refused_with_a_message(home: Path, tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(ConfigError, match="Rename the folder"):
        ServerTrust(home).decide(folder, EVIL, trusted=True)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (" HTTPS://Me:Pw@Host.Example:8443/v1/?x=1 ", "https://host.example:8443/v1"),
        ("http://h/v1/chat/completions", "http://h/v1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("ollama://localhost", "ollama://localhost:11434"),
        ("ollama+https://box/api", "ollama+https://box"),
        ("https://аpi.openai.com/v1", "https://xn--pi-6kc.openai.com/v1"),  # noqa: RUF001 — a Cyrillic letter
        ("http://h/é v", None),
        ("http://h/a\u200b", None),
        ("http://h/\x1b[2K", None),
        ("http://127.0.0.1:80@evil.example/", "http://evil.example"),
        ("http://", None),
    ],
)
def test_a_url_has_one_spelling_that_hides_nothing(url: str, address: str | None) -> None:
    if address is None:
        with pytest.raises(ConfigError):
            server_address(url)
    else:
        assert server_address(url) == address
        assert address.isascii()
