"""If these fail, a name leads to the wrong host, or work on a host runs without approval."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from newel.agent.errors import ConfigError, UsageError
from newel.config.hosts import HostModel, load_hosts, save_host
from newel.config.settings import Flags, Settings, load_host_places, load_settings


def test_a_name_stands_for_its_host_until_it_is_removed(tmp_path: Path) -> None:
    save_host(tmp_path, "shop", 'deploy@shop.example.org:/srv/the "shop" é\\\'')
    save_host(tmp_path, "other", "box")
    save_host(tmp_path, "shop", 'deploy@shop.example.org:/srv/a "b" é\\\'\n')
    assert load_hosts(tmp_path) == {"shop": 'deploy@shop.example.org:/srv/a "b" é\\\'\n', "other": "box"}
    save_host(tmp_path, "other", None)
    assert list(load_hosts(tmp_path)) == ["shop"]
    with pytest.raises(ConfigError, match="no host named other"):
        save_host(tmp_path, "other", None)


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("box:/a\x7f\x80\u2028\ufeff\x00\U0001f600")
def test_any_saved_host_is_read_back(place: str) -> None:
    """Otherwise one unusual character in a path makes every name unusable."""
    with tempfile.TemporaryDirectory() as folder:
        save_host(Path(folder), "shop", place)
        save_host(Path(folder), "box", "box")
        assert load_hosts(Path(folder)) == {"shop": place, "box": "box"}


def test_the_users_own_lines_stay_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text("# work\nshop = 'a:/srv' # the old one\n\n\"box\"='b'")
    save_host(tmp_path, "new", "c")
    assert path.read_text() == "# work\nshop = 'a:/srv' # the old one\n\n\"box\"='b'\nnew = \"c\"\n"
    save_host(tmp_path, "shop", "d")
    assert path.read_text() == '# work\n\n"box"=\'b\'\nnew = "c"\nshop = "d"\n'
    path.write_text('shop = """\na"""\nbox = "b" # kept\n')
    save_host(tmp_path, "shop", None)
    assert load_hosts(tmp_path) == {"box": "b"}


def test_a_host_that_is_not_utf_8_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    save_host(tmp_path, "box", "box")
    before = (tmp_path / "hosts.toml").read_bytes()
    with pytest.raises(ConfigError, match="UTF-8"):
        save_host(tmp_path, "shop", "server:/srv/caf\udce9")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_names_added_concurrently_are_all_saved(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib, newel.workspace.disk.state_file; from newel.config.hosts import save_host\n"
        "here, name = pathlib.Path(sys.argv[1]), sys.argv[2]\n"
        "(here / name).touch()\n"
        "while not (here / 'go').exists(): time.sleep(0.001)\n"
        "for number in range(25): save_host(here / 'home', f'{name}{number}', 'box')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name]) for name in "abc"]
    while not all((tmp_path / name).exists() for name in "abc"):
        time.sleep(0.001)
    (tmp_path / "go").touch()
    assert [writer.wait(25) for writer in writers] == [0, 0, 0]
    assert set(load_hosts(tmp_path / "home")) == {f"{name}{number}" for name in "abc" for number in range(25)}
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["hosts.toml"]


@pytest.mark.parametrize("name", ["", "-x", "a b", "a=b", "é", "x" * 65, "a\nb"])
def test_an_ambiguous_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid name"):
        save_host(tmp_path, name, "box")
    with pytest.raises(ConfigError, match="no host named"):
        save_host(tmp_path, "box", None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"shop = 1\n", b"shop\n", b"\xff\xfe", b"[shop]\nhost='x'\n"])
def test_a_broken_file_is_reported_and_not_changed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "hosts.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"hosts\.toml"):
        save_host(tmp_path, "shop", "box")
    assert (tmp_path / "hosts.toml").read_bytes() == content


def test_work_on_a_host_asks_for_approval_unless_the_command_line_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('approve = "auto"\n')
    save_host(tmp_path, "shop", "deploy@shop:/srv")
    environ = {"NEWEL_HOME": str(tmp_path)}
    settings = load_settings(Flags(host="shop"), cwd=tmp_path, environ=environ)
    assert (settings.host, settings.approve) == ("deploy@shop:/srv", "ask")
    settings = load_settings(Flags(host="x@y", approve="auto"), cwd=tmp_path, environ=environ)
    assert (settings.host, settings.approve) == ("x@y", "auto")
    assert load_settings(Flags(), cwd=tmp_path, environ=environ).approve == "auto"


# -- the host of [remote] -----------------------------------------------------------------------------


def load(home: Path, toml: str, flags: Flags, **environ: str) -> Settings:
    (home / "config.toml").write_text(toml)
    return load_settings(flags, cwd=home, environ={"NEWEL_HOME": str(home), **environ})


@pytest.mark.parametrize(
    ("connection", "place"),
    [
        ('host = "server"', "ssh://jexida@server"),
        ('host = "server"\nuser = "me"\nport = 22\ndirectory = "/srv/a b"', "ssh://me@server:22/srv/a%20b"),
        ('host = "server"\ndirectory = "src"', "ssh://jexida@server/~/src"),
    ],
)
def test_the_configured_host_is_available_as_remote(tmp_path: Path, connection: str, place: str) -> None:
    settings = load(tmp_path, f"[remote.connection]\n{connection}\n", Flags(host="remote"))
    assert settings.host == place
    assert load_host_places(tmp_path) == {"remote": place}
    save_host(tmp_path, "remote", "mine:/srv")
    assert load_host_places(tmp_path) == {"remote": "mine:/srv"}


def test_without_a_configured_host_remote_is_a_hosts_name(tmp_path: Path) -> None:
    """In most networks, a default address would be a stranger's."""
    for toml in ('[remote.model]\nname = "phi3"\n', '[remote.connection]\nuser = "ada"\n'):
        assert load(tmp_path, toml, Flags(host="remote")).host == "remote"


REMOTE = '[remote.model]\nname = "phi3"\nport = 7\n'
SERVER = {"LLM_BASE_URL": "https://api.example/v1", "LLM_DEFAULT_MODEL": "large"}
WISHED = HostModel("auto", "phi3", 7, is_requested=True)


@pytest.mark.parametrize(
    ("toml", "flags", "environ", "chosen"),
    [
        ("", {}, {}, HostModel("auto", None, 11434, is_requested=False)),
        ("", {"model": "qwen3"}, {}, HostModel("auto", "qwen3", 11434, is_requested=False)),
        ("", {}, SERVER, None),
        ("", {"through": "run"}, SERVER, HostModel("run", None, 11434, is_requested=True)),
        ("", {"through": "api"}, {}, None),
        (REMOTE, {}, SERVER, WISHED),
        (REMOTE, {"model": "qwen3"}, SERVER, HostModel("auto", "qwen3", 7, is_requested=True)),
        (REMOTE, {"through": "api"}, SERVER, None),
        (REMOTE, {"base_url": "ollama://here"}, {}, None),
        (REMOTE + 'through = "api"', {}, {}, None),
        (REMOTE + 'through = "run"', {}, {}, HostModel("run", "phi3", 7, is_requested=True)),
        ('[remote.connection]\nhost = "x"', {}, SERVER, None),
    ],
)
def test_the_models_location_follows_the_documented_rules(
    tmp_path: Path,
    toml: str,
    flags: dict[str, str],
    environ: dict[str, str],
    chosen: HostModel | None,
) -> None:
    given: dict[str, Any] = {"host": "shop", **flags}
    assert load(tmp_path, toml, Flags(**given), **environ).host_model == chosen
    if "through" not in flags:
        assert load(tmp_path, toml, Flags(model="x"), **environ).host_model is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (Flags(through="run"), "requires --host"),
        (Flags(host="x", through="auto", base_url="http://x"), "Use only one of them"),
    ],
)
def test_an_invalid_model_backend_is_refused(tmp_path: Path, flags: Flags, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(tmp_path, "", flags)
