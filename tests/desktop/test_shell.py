"""If these fail, the desktop shell leaves a server behind, shows no workbench, or does not say why.

Electron's binary is not needed: a stand-in records what the shell does with its windows. Servers, processes and signals are real.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from mock_llm_server import MockServer, running
from tests.desktop.shell import shell
from tests.nodejs import ROOT
from tests.processes import ends, is_alive, read_pids
from tests.served import served, wait_until
from tests.support import BIN, Newel, bash, scenario

RETRY = "https://newel.invalid/retry"


story = pytest.mark.slow  # each start imports everything; the two quick tests notice when the shell is broken


class Place:
    """A user's home and project. ``environ`` finds Newel on PATH, and nothing else of the machine's."""

    def __init__(self, folder: Path, model: MockServer) -> None:
        self.newel = Newel(folder, model)
        self.user_data = folder / "user data"
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.environ = self.newel.environ | {"PATH": f"{self.programs}:/usr/bin:/bin"}
        self.install("newel")

    def install(self, name: str, script: str = "") -> None:
        path = self.programs / name
        path.unlink(missing_ok=True)
        if script:
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        else:
            path.symlink_to(BIN / name)

    @property
    def project(self) -> str:
        return str(self.newel.project)


@pytest.fixture
def place(tmp_path: Path) -> Generator[Place]:
    scenarios = (
        scenario("wait", bash("echo $$ > command; exec sleep 60")),
        scenario("ping", {"content": "pong"}),
    )
    merged = {"scenarios": [each for one in scenarios for each in one["scenarios"]]}
    with running(merged) as model:
        yield Place(tmp_path, model)


def test_a_window_shows_the_workbench_and_quitting_ends_the_server(place: Place) -> None:
    with shell(place.user_data, place.environ, place.project) as window:
        preferences = window.until("window")["options"]
        assert (preferences["width"], preferences["height"]) == (900, 700)
        web = preferences["webPreferences"]
        assert not web["nodeIntegration"]
        assert web["contextIsolation"]
        assert web["sandbox"]
        window.until_help("Starting Newel…")
        server = window.until_workbench()
        with server.client:
            assert server.client.get("/health").status_code == 200
        (backend,) = window.backends()
        window.act("quit")
        assert window.process.wait(10) == 0
        assert ends(backend)


def test_the_server_and_its_commands_end_with_a_killed_shell(place: Place) -> None:
    """After ``kill -9`` of Electron nothing may go on that no window shows."""
    with shell(place.user_data, place.environ, place.project) as window:
        server = window.until_workbench()
        (backend,) = window.backends()
        with server.client, server.page() as page:
            page.ask("send", tab=page.ask("openChat")["tab"], messageId="m1", text="wait")
            wait_until(lambda: read_pids(place.newel.project / "command"), "the command")
        (command,) = read_pids(place.newel.project / "command")
        window.process.kill()
    assert ends(backend)
    assert ends(command)


@story
def test_a_killed_server_is_explained_and_a_retry_finds_everything(place: Place) -> None:
    with shell(place.user_data, place.environ, place.project) as window:
        server = window.until_workbench()
        with server.client:
            assert server.chat("ping")[0] == ("text", {"content": "pong"})
            before = server.client.get("/api/state").json()["tabs"]
        os.kill(window.backends()[0], signal.SIGKILL)
        html = window.until_help("Newel has ended")
        assert "Newel was ended by SIGKILL." in html
        assert "Nothing is lost" in html
        window.act("navigate", RETRY)
        window.until("prevented", url=RETRY)
        again = window.until_workbench()
        assert again.url == server.url, "drafts are kept by address"
        with again.client:
            assert [tab["id"] for tab in again.client.get("/api/state").json()["tabs"]] == [
                tab["id"] for tab in before
            ]


@story
def test_without_newel_the_window_says_what_to_install_and_retries(place: Place) -> None:
    (place.programs / "newel").unlink()
    with shell(place.user_data, place.environ, place.project) as window:
        assert "uv tool install ." in window.until_help("Newel is not installed")
        window.act("navigate", RETRY)
        window.until_help("Newel is not installed")
        place.install("newel")
        window.act("navigate", RETRY)
        assert window.until_workbench().token


@story
@pytest.mark.parametrize(
    ("script", "reason", "log"),
    [
        ("echo 'ModuleNotFoundError: msgspec' >&2; exit 1", "exit code 1", "ModuleNotFoundError: msgspec"),
        (
            "head -c 300000 /dev/urandom; echo; echo '<script>alert(1)</script>'; exit 0",
            "exit code 0",
            "&#60;script&#62;",
        ),
        ("kill -9 $$", "was ended by SIGKILL", ""),
    ],
    ids=["dies", "garbage", "killed"],
)
def test_a_server_that_does_not_start_is_explained_with_its_log(
    place: Place, script: str, reason: str, log: str
) -> None:
    place.install("newel", script)
    with shell(place.user_data, place.environ, place.project) as window:
        html = window.until_help("Newel did not start")
        assert reason in html
        assert log in html
        assert "<script" not in html
        assert RETRY in html
        place.install("newel")
        window.act("navigate", RETRY)
        assert window.until_workbench().token


@story
def test_a_missing_python_is_explained(place: Place) -> None:
    path = place.programs / "newel"
    path.unlink()
    path.write_text("#!/no/such/python3\n")
    path.chmod(0o755)
    with shell(place.user_data, place.environ, place.project) as window:
        assert "could not be started" in window.until_help("Newel did not start")


@story
def test_a_folder_that_is_served_already_is_shown_from_that_server(place: Place) -> None:
    """By ``newel web`` in a terminal; it goes on without the window, and the window starts its own after its end."""
    with (
        served(place.newel, "newel", "web") as server,
        shell(place.user_data, place.environ, place.project) as window,
    ):
        assert window.until_workbench().url == server.url
        server.kill()
        window.until_help("Newel has ended")
        window.act("navigate", RETRY)
        assert window.until_workbench().token
        window.act("quit")
        assert window.process.wait(10) == 0
    with served(place.newel, "newel", "web") as server:
        with shell(place.user_data, place.environ, place.project) as window:
            assert window.until_workbench().url == server.url
            window.act("quit")
            assert window.process.wait(10) == 0
        assert server.client.get("/health").status_code == 200


@story
def test_a_taken_port_is_avoided_and_garbage_in_the_settings_is_ignored(place: Place) -> None:
    with shell(place.user_data, place.environ, place.project) as window:
        port = int(window.until_workbench().url.rpartition(":")[2])
        window.act("quit")
        window.process.wait(10)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with shell(place.user_data, place.environ, place.project) as window:
            assert int(window.until_workbench().url.rpartition(":")[2]) != port
    (place.user_data / "folders.json").write_text('{"folders": [{"folder":')
    with shell(place.user_data, place.environ, place.project) as window:
        assert window.until("window")["options"]["width"] == 900
        assert window.until_workbench().token


@story
def test_a_second_start_gives_its_folder_to_the_first(place: Place, tmp_path: Path) -> None:
    """Each folder has a window and a server of its own, which ends with its window."""
    other = tmp_path / "other"
    other.mkdir()
    with shell(place.user_data, place.environ, place.project) as window:
        first = window.until_workbench()
        window.act("start", place.project)
        window.until("show", number=1)
        window.act("start", str(other))
        window.until("menu", recent=[str(other), place.project, "Clear"])
        second = window.until_workbench()
        assert first.url != second.url
        pids = window.backends()
        assert len(pids) == 2
        window.act("close", 1)
        wait_until(lambda: len(window.backends()) == 1, "the end of the second server")
        assert is_alive(window.backends()[0])
        window.act("start", str(tmp_path / "nowhere"))
        assert window.until("error")["content"] == str(tmp_path / "nowhere")
        window.act("close", 0)
        assert window.process.wait(10) == 0
        assert all(ends(pid) for pid in pids)


@story
def test_the_user_hears_of_a_question_and_of_an_end_while_looking_elsewhere(place: Place) -> None:
    config = place.newel.home / ".newel" / "config.toml"
    config.parent.mkdir()
    config.write_text('approve = "ask"\n')
    with shell(place.user_data, place.environ, place.project) as window:
        server = window.until_workbench()
        window.until("badge", count=0)
        with server.client, server.page() as page:
            tab = page.ask("openChat")["tab"]
            page.ask("send", tab=tab, messageId="m1", text="wait")
            assert window.until("notification")["body"] == "A question waits for your answer."
            window.until("badge", count=1)
            window.act("title", "Wait · newel")
            window.until("title", title="(1) Wait · newel")
            window.act("notification")
            window.until("show", number=1)
            window.until("load", url=f"{server.url}/#/tab/{tab}")
            page.ask("stop", tab=tab, now=True)
            window.until("badge", count=0)
            window.act("blur")
            window.until("blurred")
            page.ask("send", tab=tab, messageId="m2", text="ping")
            assert window.until("notification")["body"] == "The answer is ready."


@story
def test_links_leave_the_window_and_nothing_else_gets_in(place: Place) -> None:
    with shell(place.user_data, place.environ, place.project) as window:
        server = window.until_workbench()
        window.act("navigate", "https://example.org/doc")
        window.until("external", url="https://example.org/doc")
        window.until("prevented", url="https://example.org/doc")
        window.act("navigate", "file:///etc/passwd")
        window.until("prevented", url="file:///etc/passwd")
        window.act("open", "https://example.org/two")
        window.until("external", url="https://example.org/two")
        assert window.until("opened")["action"] == "deny"
        for name, url, is_allowed in (
            ("notifications", f"{server.url}/", True),
            ("media", f"{server.url}/", False),
            ("notifications", "https://example.org/", False),
        ):
            window.act("permission", name, url)
            assert window.until("permission", name=name)["is"] is is_allowed
        window.act("choose", "new-chat")
        assert window.until("input", type="keyDown")["modifiers"] == ["alt"]
        assert not [
            each
            for each in window.seen
            if each.get("url") == "file:///etc/passwd" and each["event"] == "external"
        ]


@story
def test_a_page_that_crashes_is_loaded_again_once(place: Place) -> None:
    with shell(place.user_data, place.environ, place.project) as window:
        server = window.until_workbench()
        (backend,) = window.backends()
        window.act("crash", "crashed")
        assert window.until_workbench().url == server.url
        window.act("crash", "oom")
        assert "process has ended (oom)" in window.until_help("Newel has ended")
        assert ends(backend)
        window.act("navigate", RETRY)
        assert window.until_workbench().url == server.url


@story
def test_bounds_are_remembered_for_the_next_start(place: Place) -> None:
    bounds = {"x": 100, "y": 50, "width": 700, "height": 600}
    with shell(place.user_data, place.environ, place.project) as window:
        window.until_workbench()
        window.act("move", bounds)
        window.act("quit")
        window.process.wait(10)
    with shell(place.user_data, place.environ) as window:
        options = window.until("window")["options"]
        assert bounds.items() <= options.items()
        window.until_workbench()


@story
def test_in_a_checkout_uv_runs_the_command_of_design_a(place: Place) -> None:
    """``uv run lsimons-agent-web``; killing uv ends the server below it, too."""
    uv = shutil.which("uv")
    assert uv is not None
    (place.programs / "newel").unlink()
    (place.programs / "uv").symlink_to(uv)
    environ = place.environ | {"UV_NO_SYNC": "1", "UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never"}
    with shell(place.user_data, environ, place.project, checkout=ROOT) as window:
        server = window.until_workbench()
        (uv_pid,) = window.backends()
        children = subprocess.run(["pgrep", "-P", str(uv_pid)], capture_output=True, text=True, check=True)
        (backend,) = map(int, children.stdout.split())
        with server.client:
            assert server.client.get("/health").status_code == 200
        os.kill(uv_pid, signal.SIGKILL)
        window.until_help("Newel has ended")
        assert ends(backend)
