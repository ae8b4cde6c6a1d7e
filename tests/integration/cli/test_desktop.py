"""If these fail, ``newel desktop`` leaves a server or a window behind, shows the token to other users, or fails without a reason.

A script stands in for the browser: it records its arguments and holds the debugging pipe, as Chromium does. The tests in
``tests/desktop`` use Chromium itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from websockets.sync.client import connect

from mock_llm_server import running
from tests.forked import Process
from tests.processes import COMMAND_SECONDS, ends, is_alive, read_pids
from tests.served import Served, served, wait_until
from tests.support import Newel


class Desk:
    """A project, and a stand-in for the browser that ends with its pipe or when ``close_window`` is called."""

    def __init__(self, folder: Path, newel: Newel) -> None:
        self.folder = folder
        self.newel = newel
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.write_browser(
            f"printf '%s\\n' \"$@\" > {folder}/arguments; echo $$ > {folder}/pid; "
            f"echo window >> {folder}/windows; exec cat <&3 >/dev/null"
        )
        newel.environ |= {"PATH": f"{self.programs}:{newel.environ['PATH']}", "DISPLAY": ":0"}

    def write_browser(self, script: str, name: str = "chromium") -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    @property
    def arguments(self) -> list[str]:
        """The browser's, once it has started."""
        wait_until(self.browser, "the browser")
        return (self.folder / "arguments").read_text().splitlines()

    def browser(self) -> list[int]:
        return read_pids(self.folder / "pid")

    def close_window(self) -> None:
        wait_until(self.browser, "the browser")
        os.kill(self.browser()[0], signal.SIGTERM)

    def start(self, *words: str) -> Process:
        return self.newel.start("desktop", *words)

    @contextmanager
    def open(self, *words: str) -> Generator[Served]:
        with self.start(*words) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline().strip()
                if not line:
                    raise AssertionError(process.communicate()[1])
                server = Served(process, line)
                with server.client:
                    yield server
            finally:
                process.kill()


@pytest.fixture
def desk(tmp_path: Path) -> Generator[Desk]:
    with running() as model:
        yield Desk(tmp_path, Newel(tmp_path, model))


def test_the_window_opens_and_the_server_ends_with_it(desk: Desk) -> None:
    with desk.open() as server:
        assert f"--app={server.url}/" in desk.arguments
        assert "--window-size=900,700" in desk.arguments
        assert server.client.get("/health").status_code == 200
        desk.close_window()
        assert server.ended() == 0


def test_other_users_cannot_read_the_token_from_the_arguments(desk: Desk) -> None:
    """Any user of the machine can list processes; the token opens a shell."""
    with desk.open() as server:
        assert not [each for each in desk.arguments if server.token in each or "token" in each]
        profile = next(each for each in desk.arguments if each.startswith("--user-data-dir=")).partition("=")[
            2
        ]
        assert Path(profile).parent.stat().st_mode & 0o777 == 0o700


def test_the_browser_does_not_see_the_users_keys(desk: Desk) -> None:
    desk.write_browser(f"env > {desk.folder}/environ; echo $$ > {desk.folder}/pid; exec cat <&3 >/dev/null")
    with desk.open():
        wait_until(desk.browser, "the browser")
        environ = (desk.folder / "environ").read_text()
    assert "DISPLAY=:0" in environ
    assert desk.newel.environ["LLM_AUTH_TOKEN"] not in environ


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_window_ends_with_the_server(desk: Desk, number: signal.Signals) -> None:
    """A window whose server was killed would only show that it cannot connect."""
    with desk.open() as server:
        wait_until(desk.browser, "the browser")
        (browser,) = desk.browser()
        assert is_alive(browser)
        server.process.send_signal(number)
        server.ended()
    assert ends(browser)


@pytest.mark.slow  # seconds of waiting
def test_a_window_that_ignores_the_end_of_its_pipe_is_killed(desk: Desk) -> None:
    desk.write_browser(f"trap '' TERM; echo $$ > {desk.folder}/pid; while :; do sleep 1; done")
    with desk.open() as server:
        wait_until(desk.browser, "the browser")
        server.process.terminate()
        assert server.ended() == 0
    assert ends(desk.browser()[0])


def test_a_second_start_opens_a_window_on_the_running_server(desk: Desk) -> None:
    with desk.open() as server:
        wait_until(desk.browser, "the browser")
        (desk.folder / "arguments").unlink()
        (desk.folder / "pid").unlink()
        with desk.start() as second:
            assert f"--app={server.url}/" in desk.arguments
            desk.close_window()
            _, errors = second.communicate(timeout=20)
            assert second.returncode == 0
        assert f"served already; this window is on the same server: {server.url}/" in errors
        assert server.token not in errors
        assert server.client.get("/health").status_code == 200


def test_a_folder_that_newel_web_serves_gets_a_window(desk: Desk) -> None:
    with served(desk.newel) as server, desk.start() as process:
        assert f"--app={server.url}/" in desk.arguments
        desk.close_window()
        process.communicate(timeout=20)
        assert process.returncode == 0
        assert server.client.get("/health").status_code == 200


def test_a_running_server_with_another_token_is_named(desk: Desk) -> None:
    with (
        served(desk.newel, NEWEL_WEB_TOKEN="a-token-of-my-own-for-this-start-only") as server,
        desk.start() as process,
    ):
        _, errors = process.communicate(timeout=COMMAND_SECONDS)
        assert process.returncode == 1
        assert f"is in use by another Newel at {server.url}" in errors
        assert not desk.browser()


def test_a_folder_keeps_its_port_so_that_drafts_are_found_again(desk: Desk) -> None:
    with desk.open() as server:
        first = server.url
        wait_until(desk.browser, "the browser")
    with desk.open() as server:
        assert server.url == first
        assert "--window-size=900,700" in desk.arguments, "the stand-in makes no profile"
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", int(first.rpartition(":")[2])))
        other.listen()
        with desk.open() as server:
            assert server.url != first
            assert server.client.get("/health").status_code == 200


@pytest.mark.parametrize("content", ["", "eighty", "99999999999999", "-1", "22", "\0\0"])
def test_a_damaged_port_file_does_not_prevent_the_start(desk: Desk, content: str) -> None:
    with desk.open():
        wait_until(desk.browser, "the browser")
    (file,) = (desk.newel.home / ".newel" / "desktop").glob("*/port")
    file.write_text(content)
    with desk.open() as server:
        assert server.client.get("/health").status_code == 200


def test_a_given_port_in_use_is_reported(desk: Desk) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with desk.start("--port", str(port)) as process:
            _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert f"Port {port} on 127.0.0.1 is in use" in errors
    assert not desk.browser()


def test_a_browser_that_fails_is_reported_and_the_default_browser_opens(desk: Desk) -> None:
    desk.write_browser("echo 'cannot open display: \033[31m:0' >&2; exit 7")
    desk.write_browser(f'printf %s "$1" > {desk.folder}/opened', "mine")
    desk.newel.environ["BROWSER"] = f"{desk.programs}/mine %s"
    with desk.open() as server:
        wait_until((desk.folder / "opened").exists, "the default browser")
        wait_until((desk.folder / "opened").read_text, "its address")
        address = (desk.folder / "opened").read_text()
        page = Path(url2pathname(urlsplit(address).path))
        assert f"url={server.line}" in page.read_text()
        assert server.client.get("/health").status_code == 200
        server.process.terminate()
        _, errors = server.process.communicate(timeout=10)
    assert "ended with exit code 7: cannot open display: " in errors
    assert "\033" not in errors
    assert "Press Ctrl+C to end it" in errors


def test_a_chosen_window_that_cannot_open_ends_with_its_reason(desk: Desk) -> None:
    desk.write_browser("echo broken >&2; exit 7")
    done = desk.newel("desktop", "--window", "app")
    assert done.returncode == 1
    assert "ended with exit code 7: broken" in done.stderr
    desk.write_browser("echo 'no library' >&2; kill -ABRT $$")
    done = desk.newel("desktop", "--window", "app")
    assert done.returncode == 1
    assert "ended with SIGABRT: no library" in done.stderr
    done = desk.newel("desktop", "--window", "webview")
    assert done.returncode == 1
    assert "./run uv tool install '.[desktop]'" in done.stderr
    del desk.newel.environ["DISPLAY"]
    done = desk.newel("desktop", "--window", "app")
    assert done.returncode == 1
    assert "There is no display" in done.stderr


def test_it_works_in_the_given_folder(desk: Desk) -> None:
    elsewhere = desk.folder / "else where"
    elsewhere.mkdir()
    with (
        desk.open(str(elsewhere)) as server,
        connect(f"ws{server.url[4:]}/ws", additional_headers=server.headers) as page,
    ):
        assert json.loads(page.recv(timeout=10))["project"] == str(elsewhere)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["nowhere"], "no such folder"),
        ([".", "--cwd", "."], "FOLDER cannot be combined"),
        (["--port", "eighty"], "invalid int value"),
        (["--window", "glass"], "There is no --window glass: choose from"),
    ],
)
def test_wrong_usage_is_reported(desk: Desk, words: list[str], reason: str) -> None:
    done: subprocess.CompletedProcess[str] = desk.newel("desktop", *words)
    assert done.returncode == 2
    assert reason in done.stderr
    assert not desk.browser()


def test_a_window_runs_no_module_of_the_project(desk: Desk) -> None:
    """The project is the working folder, where Python would look first."""
    modules = desk.folder / "modules"
    modules.mkdir()
    (modules / "webview.py").write_text("raise SystemExit('the real module')\n")
    desk.newel.environ["PYTHONPATH"] = str(modules)
    for name in ("newel", "webview", "anyio", "msgspec"):
        (desk.newel.project / f"{name}.py").write_text(f"open({str(desk.folder / 'ran')!r}, 'w')\n")
    done = desk.newel("desktop", "--window", "webview")
    assert not (desk.folder / "ran").exists()
    assert "the real module" in done.stderr
