"""If these fail, ``go``, ``lsimons-agent-web`` or ``newel web`` serve the wrong address or folder."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
import httpx2
import pytest

from newel.app.user_browser import open_in_browser
from tests.integration.workbench.conftest import Bench
from tests.served import begin, served, wait_until
from tests.support import Newel, bash, scenario
from tests.tmux import Tmux

WithModel = Callable[..., Newel]
TOKEN = "a-token-that-was-chosen-for-the-tests-of-commands"


@pytest.fixture
def with_model(bench_with: Callable[..., Bench]) -> WithModel:
    return lambda *given: bench_with(*given).newel


@pytest.mark.parametrize(
    ("command", "words", "port"),
    [("go", (), 8101), ("newel", ("web",), 8101), ("lsimons-agent-web", (), 8765)],
)
def test_each_command_uses_its_specified_port(
    with_model: WithModel, command: str, words: tuple[str, ...], port: int
) -> None:
    """Another program may have the port; the message then names the port, too."""
    newel = with_model(scenario("ping", {"content": "pong"}))
    with begin(newel, command, *words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline() or process.stderr.readline()
        process.kill()
    assert line.startswith((f"http://127.0.0.1:{port}/#token=", f"newel: Port {port} on 127.0.0.1 is in use"))


def test_plain_http_answers_with_texts_and_calls_until_the_chat_is_cleared(
    with_model: WithModel,
) -> None:
    """As with curl."""
    newel = with_model(
        scenario("look", {"content": "Here's what I do.", **bash("cat notes")}, {"content": "It says hi."})
    )
    (newel.project / "notes").write_text("hi\n")
    with served(newel, "lsimons-agent-web") as server:
        for _ in range(2):
            assert server.chat("look there") == [
                ("text", {"content": "Here's what I do."}),
                ("tool", {"name": "bash", "input": {"command": "cat notes"}}),
                ("text", {"content": "It says hi."}),
                ("done", {}),
            ]
            cleared = server.client.post("/clear", json={})
            assert (cleared.status_code, cleared.json()) == (200, {"status": "ok"})
    assert [len(request["messages"]) for request in newel.requests] == [2, 4, 2, 4]


def test_the_page_loads_everything_from_this_server(with_model: WithModel) -> None:
    newel = with_model(scenario("ping", {"content": "pong"}))
    with served(newel) as server, httpx2.Client(trust_env=False) as stranger:
        page = stranger.get(server.url)
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert any(file.endswith(".js") for file in files)
        assert any(file.endswith(".css") for file in files)
        assert all(file.startswith("/") for file in files)
        assert {stranger.get(server.url + file).status_code for file in files} == {200}


def test_server_and_model_can_be_in_the_folders_dotenv(with_model: WithModel) -> None:
    newel = with_model(scenario("ping", {"content": "pong"}))
    url = newel.environ["LLM_BASE_URL"]
    newel.environ = {name: value for name, value in newel.environ.items() if not name.startswith("LLM_")}
    (newel.project / ".env").write_text(f"LLM_BASE_URL={url}\nLLM_DEFAULT_MODEL=glm-4\n")
    assert newel("trust", url).returncode == 0
    with served(newel) as server:
        assert server.chat("ping")[0] == ("text", {"content": "pong"})
    assert newel.requests[0]["model"] == "glm-4"


def test_it_works_in_the_given_folder(with_model: WithModel, tmp_path: Path) -> None:
    newel = with_model(scenario("where", bash("pwd > here"), {"content": "There."}))
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    with served(newel, "newel", "web", "--cwd", str(elsewhere)) as server:
        server.chat("where are you")
    assert (elsewhere / "here").read_text() == f"{elsewhere}\n"
    assert not (newel.project / "here").exists()


def _write_browser(folder: Path) -> Path:
    """A browser that writes its address to the file ``opened``, and stays."""
    browser = folder / "browser"
    opened = folder / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new; mv {opened}.new {opened}; exec sleep 30\n')
    browser.chmod(0o755)
    return browser


@pytest.mark.parametrize("command", [("web", "--open"), ("desktop", "--window", "browser")], ids=" ".join)
def test_it_opens_the_users_browser_on_request(
    with_model: WithModel, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Other users can read the arguments of a process, so the browser gets a file that leads to the address."""
    newel = with_model(scenario("ping", {"content": "pong"}))
    browser = _write_browser(tmp_path)
    with served(newel, "newel", *command, BROWSER=f"{browser} %s") as server:
        assert server.client.get("/health").status_code == 200
        wait_until((tmp_path / "opened").exists, "the browser")
        address = (tmp_path / "opened").read_text()
        assert address.startswith("file:///")
        assert server.token not in _arguments_of_all_processes()
        page = Path(url2pathname(urlsplit(address).path))
        assert page.is_relative_to(newel.home / ".newel")
        assert page.stat().st_mode & 0o777 == 0o600
        assert page.parent.stat().st_mode & 0o777 == 0o700
        assert f"url={server.line}" in page.read_text()
        server.process.terminate()
        assert server.ended() == 0
        assert not page.exists()


def _arguments_of_all_processes() -> str:
    words = ""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            words += file.read_text(errors="replace")
    return words


def test_the_file_for_the_browser_is_removed_by_the_next_start_after_a_kill(
    with_model: WithModel, tmp_path: Path
) -> None:
    newel = with_model(scenario("ping", {"content": "pong"}))
    browser = _write_browser(tmp_path)
    opened = tmp_path / "opened"
    with served(newel, "newel", "web", "--open", BROWSER=f"{browser} %s") as server:
        wait_until(opened.exists, "the browser")
        server.kill()
    first = Path(url2pathname(urlsplit(opened.read_text()).path))
    assert first.exists()
    opened.unlink()
    with served(newel, "newel", "web", "--open", BROWSER=f"{browser} %s") as server:
        wait_until(opened.exists, "the browser")
        second = Path(url2pathname(urlsplit(opened.read_text()).path))
        assert [*second.parent.glob("*.html")] == [second]
        server.process.terminate()
        assert server.ended() == 0
    assert not first.exists()
    assert not second.exists()


def test_the_file_for_the_browser_is_removed_once_the_browser_has_had_time_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", f"{_write_browser(tmp_path)} %s")
    file = tmp_path / "private" / "open.html"

    async def open_and_look() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(open_in_browser, "http://127.0.0.1:1/#token=x", file, lifetime=2))
            await anyio.to_thread.run_sync(lambda: wait_until((tmp_path / "opened").exists, "the browser"))
            assert file.exists()

    anyio.run(open_and_look)
    assert not file.exists()


def test_without_space_for_the_file_the_browser_is_not_opened_and_the_token_not_shown(
    with_model: WithModel, tmp_path: Path
) -> None:
    newel = with_model(scenario("ping", {"content": "pong"}))
    browser = _write_browser(tmp_path)
    with served(newel) as server:
        (token,) = (newel.home / ".newel" / "web").glob("*.token")
    (token.parent / f"{token.name.partition('.')[0]}.html").mkdir()
    with served(newel, "newel", "web", "--open", BROWSER=f"{browser} %s") as server:
        assert server.client.get("/health").status_code == 200
        server.process.terminate()
        _, errors = server.process.communicate(timeout=20)
    assert "The browser cannot be opened" in errors
    assert "Open the printed address" in errors
    assert not (tmp_path / "opened").exists()


def test_a_browser_process_that_stays_does_not_block_the_start(with_model: WithModel, tmp_path: Path) -> None:
    """Browsers in a terminal end when their user leaves them; the server must answer before."""
    newel = with_model(scenario("ping", {"content": "pong"}))
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\ntouch {tmp_path}/opened\nexec sleep 30\n")
    browser.chmod(0o755)
    with served(newel, "newel", "web", "--open", BROWSER=f"{browser} %s") as server:
        while not (tmp_path / "opened").exists():
            assert server.process.poll() is None
        assert server.client.get("/health", timeout=5).status_code == 200


def test_a_port_in_use_is_reported_with_a_remedy(with_model: WithModel, tmp_path: Path) -> None:
    newel = with_model(scenario("ping", {"content": "pong"}))
    with served(newel) as server:
        port = server.url.rpartition(":")[2]
        code, words = _refused(newel, "go", "--port", port, "--cwd", str(tmp_path))
    assert code == 1
    assert f"Port {port} on 127.0.0.1 is in use" in words
    assert "--port" in words


def test_ctrl_c_ends_with_a_line_of_its_own(with_model: WithModel) -> None:
    """Otherwise the shell's prompt stands behind `^C`, and nothing says what became of the open tabs."""
    newel = with_model(scenario("ping", {"content": "pong"}))
    with Tmux(["sh"], newel.project, newel.environ | {"PS1": "$ "}, columns=100) as screen:
        screen.type("newel web --port 0", "Enter")
        screen.wait_for("/#token=")
        screen.type("", "C-c")
        screen.wait_for("^C\nnewel: The workbench has stopped. Its tabs are kept.\n")
        assert screen.text.split("\n")[-1] in {"$", "#"}


def test_a_second_workbench_of_the_same_folder_is_refused(with_model: WithModel) -> None:
    newel = with_model(scenario("ping", {"content": "pong"}))
    with served(newel) as server:
        code, words = _refused(newel, "go", "--port", "0")
        assert server.client.get("/health").status_code == 200
        pid = server.process.pid
    assert code == 1
    assert f"pid {pid}" in words


def test_other_machines_need_a_chosen_token(with_model: WithModel) -> None:
    newel = with_model(scenario("ping", {"content": "pong"}))
    code, words = _refused(newel, "newel", "web", "--port", "0", "--bind", "0.0.0.0")  # noqa: S104 — refused
    assert code == 1
    assert "NEWEL_WEB_TOKEN" in words
    with served(newel, "newel", "web", NEWEL_WEB_TOKEN=TOKEN) as server:
        assert server.token == TOKEN


def _refused(newel: Newel, command: str, *words: str) -> tuple[int, str]:
    """Exit code and message of a command that does not start."""
    done: subprocess.CompletedProcess[str] = newel(*words, command=command)
    assert done.stdout == ""
    return done.returncode, done.stderr
