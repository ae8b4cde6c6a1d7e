"""If these fail, closing the terminal does not shut the workbench's server down cleanly."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.served import served, wait_until
from tests.support import Newel, bash, scenario


def test_a_command_ends_with_the_terminal_of_its_server(
    newel_with: Callable[..., Newel],
) -> None:
    newel = newel_with(scenario("work", bash("echo $$ > pid; exec sleep 600"), {"content": "Done."}))
    with served(newel) as server, server.page() as page:
        page.ask("send", tab=page.ask("openChat")["tab"], messageId="m1", text="work")
        wait_until((newel.project / "pid").exists, "the command")
        server.process.send_signal(signal.SIGHUP)
        assert server.ended() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((newel.project / "pid").read_text()), 0)


def test_a_server_started_with_nohup_outlives_its_terminal(newel_with: Callable[..., Newel]) -> None:
    newel = newel_with(scenario("work", {"content": "Done."}))
    with served(newel, "nohup", "go") as server:
        server.process.send_signal(signal.SIGHUP)
        with server.page() as page:
            page.ask("ping")
        server.process.terminate()
        assert server.ended() == 0
