"""If these fail, ``jexida`` logs in to a stranger's machine when no host is configured."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forked import start
from tests.integration.jexida.served_host import environ, output_of_pipe
from tests.support import BIN
from tests.tmux import Tmux

JEXIDA = str(BIN / "jexida")


def folder_of_programs(working: Path) -> Path:
    return working.with_name(f"{working.name}-programs")


@pytest.fixture
def ssh(tmp_path: Path) -> Callable[[], str]:
    """The arguments of ssh, from a wrapper program. It is not in the working folder, from which no program is taken."""
    told = tmp_path / "told"
    folder_of_programs(tmp_path).mkdir()
    program = folder_of_programs(tmp_path) / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" >> {told}\nexit 255\n')
    program.chmod(0o755)
    return lambda: told.read_text() if told.exists() else ""


@pytest.fixture
def path(tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{folder_of_programs(tmp_path)}:{os.environ['PATH']}"}


def test_without_a_user_it_explains_how_to_name_a_host(
    tmp_path: Path, ssh: Callable[[], str], path: dict[str, str]
) -> None:
    with start([JEXIDA], cwd=tmp_path, env=environ(tmp_path, **path)) as process:
        said, errors = process.communicate("", timeout=20)
    assert (process.returncode, said) == (1, "")
    assert "jexida --host HOST" in errors
    assert ssh() == ""


@pytest.mark.parametrize("settings", ['[connection]\nuser = "ada"\n', "[connection]\nhost = 7\n", "rubbish"])
def test_settings_without_a_usable_host_are_refused(
    tmp_path: Path, ssh: Callable[[], str], path: dict[str, str], settings: str
) -> None:
    (tmp_path / ".jexida").mkdir()
    (tmp_path / ".jexida" / "config.toml").write_text(settings)
    assert output_of_pipe([JEXIDA], tmp_path, "hello\n", **path) == ""
    assert ssh() == ""


def test_the_user_names_the_host(tmp_path: Path, ssh: Callable[[], str], path: dict[str, str]) -> None:
    with Tmux([JEXIDA], tmp_path, environ(tmp_path, **path), columns=120) as screen:
        screen.wait_for("No host is set. Which host should jexida connect to")
        assert ssh() == ""
        screen.type("ada@server.invalid", "Enter")
        screen.wait_for('host = "server.invalid"')
        screen.wait_for("ada@server.invalid")
        while "server.invalid" not in ssh():
            assert not screen.ended, screen.text
    assert "-l ada" in ssh()
    assert "192.168" not in ssh()


def test_a_user_who_names_no_host_learns_how_to(
    tmp_path: Path, ssh: Callable[[], str], path: dict[str, str]
) -> None:
    with Tmux([JEXIDA], tmp_path, environ(tmp_path, **path), columns=120) as screen:
        screen.wait_for("No host is set. Which host")
        screen.type("", "Enter")
        screen.wait_for("jexida --host HOST")
        screen.wait_for_end()
    assert ssh() == ""
