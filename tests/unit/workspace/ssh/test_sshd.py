"""If these fail, the test SSH server does not behave like a real host, and tests with it prove nothing."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.sshd import Sshd, served
from tests.tcp_relay import open_relay


def test_both_users_log_in_with_the_home_of_the_tests(sshd: Sshd) -> None:
    for host, user in (("host", sshd.user), ("own", sshd.own)):
        done = sshd.ssh("sh", "-c", "id -un; cd; pwd -P", host=host)
        assert done.stdout.split() == [user, str(sshd.home)], done.stderr
    if os.geteuid() == 0:
        assert sshd.user != "root"


def test_files_created_by_the_user_in_a_project_belong_to_the_user(sshd: Sshd) -> None:
    project = sshd.project("made")
    assert sshd.ssh("touch", f"{project}/a b").returncode == 0
    assert (project / "a b").owner() == sshd.user


def test_a_dropped_connection_ends_its_client_and_a_new_one_is_accepted(sshd: Sshd) -> None:
    with subprocess.Popen(
        ["ssh", "-F", str(sshd.config), "--", "host", "echo up; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        sshd.drop()
        assert client.wait(10) == 255
    assert sshd.ssh("true").returncode == 0


def test_a_relay_passes_drops_and_cuts(sshd: Sshd, tmp_path: Path) -> None:
    with open_relay(sshd.port) as relay:
        config = tmp_path / "config"
        config.write_text(sshd.client_config(port=relay.port))
        done = subprocess.run(
            ["ssh", "-F", str(config), "--", "own", "cat"],
            input=bytes(range(256)) * 1000,
            capture_output=True,
            check=True,
        )
        assert done.stdout == bytes(range(256)) * 1000
        with socket.create_connection(("127.0.0.1", relay.port)) as end:
            assert end.recv(4) == b"SSH-"
            relay.cut()
            while end.recv(4096):
                pass
        with relay.swallowing(), socket.create_connection(("127.0.0.1", relay.port)) as end:
            end.settimeout(0.2)
            with pytest.raises(TimeoutError):
                end.recv(4)


def test_a_server_can_be_stopped_and_started_and_two_servers_are_two_hosts(sshd: Sshd) -> None:
    with served() as other:
        assert other.ssh("true").returncode == 0
        other.stop()
        assert "refused" in other.ssh("true").stderr
        other.start()
        assert other.ssh("sh", "-c", "cd; pwd").stdout != sshd.ssh("sh", "-c", "cd; pwd").stdout
