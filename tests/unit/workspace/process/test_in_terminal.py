"""If these fail, the user's own programs cannot be stopped or answered in some sandbox, or the model gets what was never to stay on the
screen.
"""

from __future__ import annotations

import contextlib
import os
import pty
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from newel.terminal.ui.user_terminal import UserTerminal
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import CommandResult
from newel.workspace.process.output import OutputLimits
from newel.workspace.sandbox.landlock import landlock_version
from tests.processes import ends
from tests.requirements import require_program
from tests.unit.workspace.sandbox.test_sandbox import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture(params=["no sandbox", "bubblewrap", "partial"])
def workspace(request: pytest.FixtureRequest, folder: Path) -> Iterator[LocalWorkspace]:
    if request.param == "no sandbox":
        yield LocalWorkspace(str(folder))
        return
    if request.param == "partial" and landlock_version() < 3:
        pytest.skip("this kernel has no Landlock")
    require_program("bwrap")
    place = Place(folder, is_partial=request.param == "partial")
    yield LocalWorkspace(str(place.project), find_launcher=lambda _: place.sandbox())
    for sandbox in place.opened:
        sandbox.close()


class Screen:
    """The other end of a user's terminal: ``shown`` is all that arrived there."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self.shown = b""
        self._answers: list[tuple[bytes, bytes]] = []

    def when(self, shown: bytes, keys: bytes) -> None:
        """Press keys once this is shown."""
        self._answers.append((shown, keys))

    async def run(self, workspace: LocalWorkspace, command: str, *, seconds: float = 30) -> CommandResult:
        reader = threading.Thread(target=self._serve)
        reader.start()
        try:
            with UserTerminal(self.theirs, self.theirs) as terminal, anyio.fail_after(seconds):
                return await workspace.run(command, terminal=terminal)
        finally:
            os.close(self.theirs)
            reader.join()
            os.close(self._ours)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while True:
                self.shown += os.read(self._ours, 65_536)
                if self._answers and self._answers[0][0] in self.shown:
                    os.write(self._ours, self._answers.pop(0)[1])


async def test_ctrl_c_stops_what_runs_and_the_shell(workspace: LocalWorkspace) -> None:
    screen = Screen()
    screen.when(b"ready", b"\x03")
    done = await screen.run(workspace, "echo re''ady; sleep 60; echo not reached")
    assert done.exit_code == 130
    assert "not reached" not in done.stdout


async def test_a_program_asks_on_its_terminal(workspace: LocalWorkspace) -> None:
    """As programs do that ask for passwords: past their standard input."""
    screen = Screen()
    screen.when(b"word?", b"w\xc3\xb6x\x7frd\r")
    done = await screen.run(workspace, "printf 'wo''rd? '; read x </dev/tty; echo \"got $x\"")
    assert "got wörd" in done.stdout


async def test_the_text_is_without_colours_and_what_was_written_over(folder: Path) -> None:
    done = await Screen().run(
        LocalWorkspace(str(folder)),
        r"printf 'one\n\033[31mred\033[0m\n 10%%\r 90%%\r100%%\nab\b\bx\n\033]0;title\007end'",
    )
    assert done.stdout == "one\nred\n100%\nx\nend"


async def test_a_long_output_is_bounded_and_all_of_it_in_a_file(folder: Path) -> None:
    limits = OutputLimits(output=10_000, spill_dir=str(folder / "spill"))
    done = await Screen().run(LocalWorkspace(str(folder), limits=limits), "seq 1 20000")
    assert len(done.stdout) < 11_000
    assert done.truncated
    assert done.output_file
    whole = await anyio.Path(done.output_file).read_text()
    assert whole.split() == [str(number) for number in range(1, 20_001)]


async def test_programs_may_page_and_colour_but_get_no_keys_of_the_agent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TERM": "xterm", "LLM_AUTH_TOKEN": "secret"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PAGER", raising=False)
    done = await Screen().run(LocalWorkspace(str(folder)), 'echo "$TERM,$PAGER,$LLM_AUTH_TOKEN"')
    assert done.stdout == "xterm,,\n"


@pytest.mark.slow  # seconds of waiting
async def test_a_stopped_command_ends_with_its_children(folder: Path) -> None:
    file = folder / "pid"
    workspace = LocalWorkspace(str(folder))
    with pytest.raises(TimeoutError):
        await Screen().run(workspace, f"sleep 60 & echo $! > {file}; wait", seconds=2)
    assert ends(int(file.read_text()))
