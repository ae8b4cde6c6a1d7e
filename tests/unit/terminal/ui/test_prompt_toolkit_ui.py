"""If these fail, a key that was meant for something else answers a question."""

from __future__ import annotations

import os
import pty
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.input import create_pipe_input

from newel.agent.messages import Attachment
from newel.terminal.renderers.rich import RichRenderer
from newel.terminal.renderers.screen import Screen
from newel.terminal.renderers.styles import Styles
from newel.terminal.ui.prompt_toolkit_ui import PromptToolkitUI
from newel.terminal.ui.terminal_ui import When

STYLES = Styles()


def draw(screen: Screen) -> RichRenderer:
    return RichRenderer(screen, STYLES)


class Listener:
    """Collects the submitted lines."""

    busy = True
    can_rewind = False
    can_detach = False

    def __init__(self) -> None:
        self.sent: list[str] = []

    def submit(self, text: str, when: When = "now", images: Sequence[Attachment] = ()) -> None:
        self.sent.append(f"{when}: {text}")

    def take_back(self) -> str | None:
        return None

    def expand(self) -> None:
        pass

    def detach(self) -> None:
        pass

    def stop(self) -> bool:
        return False

    def rewind(self) -> None:
        pass

    async def wait_idle(self) -> None:
        pass

    def state_lines(self, typed: str = "") -> list[str]:
        return []

    def status_line(self, columns: int) -> str:
        return "model"[:columns]

    def next_approval_mode(self) -> None:
        pass

    def next_thinking_level(self) -> None:
        pass

    def choose_model(self) -> None:
        pass


@pytest.mark.anyio
async def test_keys_unread_when_a_question_appears_do_not_answer_it(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    shown = b""
    person = Listener()

    async def see(words: bytes) -> None:
        nonlocal shown
        while words not in shown:
            await anyio.wait_readable(master)
            shown += os.read(master, 65_536)

    async def answer() -> None:
        await see(b"Run this?")
        keys.send_text("no\r")

    with create_pipe_input() as keys, create_app_session(input=keys), os.fdopen(slave, "w") as out:
        desk = PromptToolkitUI(
            out, draw, styles=STYLES, completer=DummyCompleter(), history=tmp_path / "history"
        )
        async with anyio.create_task_group() as group:
            group.start_soon(desk.run, person)
            await see(b"\x1b")
            group.start_soon(answer)
            keys.send_text("y\r")
            assert await desk.ask("Run this? ", "touch it") == "no"
            assert person.sent == ["now: y"]
            group.cancel_scope.cancel()
    os.close(master)
