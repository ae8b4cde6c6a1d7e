"""If these fail, ``newel desktop`` opens no window in a real browser, or one without the workbench."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mock_llm_server import running
from tests.browser.bench import answers, open_chat, say
from tests.browser.expecting import expect
from tests.desktop.windows import browser_folder, connected, display, window_of
from tests.processes import ends
from tests.served import Served
from tests.support import Newel, scenario

pytestmark = pytest.mark.slow  # a browser with windows takes seconds to start


class Window:
    """A window of ``newel desktop``."""

    def __init__(self, server: Served, profile: Path) -> None:
        self.server = server
        self.profile = profile

    @property
    def browser_pid(self) -> int:
        """Chromium keeps its pid in the target of a link."""
        return int(str((self.profile / "SingletonLock").readlink()).rpartition("-")[2])


@contextmanager
def opened(newel: Newel) -> Generator[Window]:
    with newel.start("desktop", "--window", "app") as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line, process.communicate()[1]
            (folder,) = (newel.home / ".newel" / "desktop").iterdir()
            server = Served(process, line)
            with server.client:
                yield Window(server, folder / "profile")
        finally:
            process.kill()


@pytest.fixture
def newel(tmp_path: Path) -> Generator[Newel]:
    with running(scenario("ping", {"content": "pong"})) as model, display() as screen:
        newel = Newel(tmp_path, model)
        programs = browser_folder(tmp_path / "programs")
        newel.environ |= {"PATH": f"{programs}:{newel.environ['PATH']}", "DISPLAY": screen}
        yield newel


@pytest.mark.timeout(60)
def test_a_real_window_shows_the_workbench_until_it_is_closed(newel: Newel) -> None:
    """The window is signed in without a token in its address or in the list of processes, and its end ends the server."""
    with opened(newel) as window, connected(window.profile) as browser:
        page = window_of(browser)
        open_chat(page)
        say(page, "ping")
        expect(answers(page)).to_have_text("pong")
        assert window.server.token not in page.url
        assert page.evaluate("matchMedia('(display-mode: standalone)').matches"), "it has no address bar"
        assert 850 <= page.evaluate("outerWidth") <= 900
        page.close()
        assert window.server.ended() == 0
    assert not (window.profile / "SingletonLock").is_symlink(), "it ended in order"


@pytest.mark.timeout(60)
def test_a_real_window_ends_with_a_killed_server_and_the_next_one_finds_everything(newel: Newel) -> None:
    with opened(newel) as window:
        with connected(window.profile) as browser:
            page = window_of(browser)
            open_chat(page)
            say(page, "ping")
            expect(answers(page)).to_have_text("pong")
            pid = window.browser_pid
            window.server.process.send_signal(signal.SIGKILL)
            assert ends(pid)
        window.server.process.wait()
        first = window.server.url
    (window.profile / "DevToolsActivePort").unlink(missing_ok=True)
    with opened(newel) as window, connected(window.profile) as browser:
        page = window_of(browser)
        expect(answers(page)).to_have_text("pong")
        assert window.server.url == first
