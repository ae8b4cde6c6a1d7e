"""If these fail, a name leads to another host than the user gave it to, or work on a host goes on unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel import config
from newel.agent.errors import ConfigError
from newel.config import Flags
from newel.config_hosts import keep, known_hosts, named


def test_a_name_stands_for_its_place_until_it_is_forgotten(tmp_path: Path) -> None:
    keep(tmp_path, "shop", 'deploy@shop.example.org:/srv/the "shop" é\\\'')
    keep(tmp_path, "other", "box")
    keep(tmp_path, "shop", 'deploy@shop.example.org:/srv/a "b" é\\\'\n')
    assert known_hosts(tmp_path) == {"shop": 'deploy@shop.example.org:/srv/a "b" é\\\'\n', "other": "box"}
    assert named(tmp_path, "other") == "box"
    keep(tmp_path, "other", None)
    assert named(tmp_path, "other") == "other"
    with pytest.raises(ConfigError, match="no host named other"):
        keep(tmp_path, "other", None)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a=b", "é", "x" * 65, "a\nb"])
def test_a_name_that_could_be_taken_for_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a name"):
        keep(tmp_path, name, "box")
    assert known_hosts(tmp_path) == {}


@pytest.mark.parametrize("content", [b"shop = 1\n", b"shop\n", b"\xff\xfe", b"[shop]\nhost='x'\n"])
def test_a_broken_file_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "hosts.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"hosts\.toml"):
        keep(tmp_path, "shop", "box")
    assert (tmp_path / "hosts.toml").read_bytes() == content


def test_work_on_a_host_is_asked_for_unless_the_command_line_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('approve = "auto"\n')
    keep(tmp_path, "shop", "deploy@shop:/srv")
    environ = {"NEWEL_HOME": str(tmp_path)}
    settings = config.load(Flags(host="shop"), cwd=tmp_path, environ=environ)
    assert (settings.host, settings.approve) == ("deploy@shop:/srv", "ask")
    settings = config.load(Flags(host="x@y", approve="auto"), cwd=tmp_path, environ=environ)
    assert (settings.host, settings.approve) == ("x@y", "auto")
    assert config.load(Flags(), cwd=tmp_path, environ=environ).approve == "auto"
