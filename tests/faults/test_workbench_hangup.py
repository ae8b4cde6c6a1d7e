"""The terminal that a workbench was started in is closed: the server ends as it would for Ctrl+C."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.sync.client import connect

from mock_llm_server import running
from tests.faults.test_workbench_kill import TOKEN, House, Page, wait_for
from tests.support import Newel, bash, scenario

ENDS_WITHIN = 10


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    work = scenario("work", bash("echo $$ > pid; exec sleep 600"), {"content": "Done."})
    with ExitStack() as stack:
        yield House(Newel(tmp_path, stack.enter_context(running(work, strict=True))), stack)


def test_a_command_does_not_outlive_the_terminal_its_server_was_started_in(house: House) -> None:
    process, url = house.start()
    with house.page(url) as page:
        page.ask("send", tab=page.ask("openChat")["tab"], messageId="m1", text="work")
        wait_for(house.newel.project / "pid")
        process.send_signal(signal.SIGHUP)
        assert process.wait(ENDS_WITHIN) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((house.newel.project / "pid").read_text()), 0)


def test_a_server_started_with_nohup_outlives_its_terminal(house: House) -> None:
    process = subprocess.Popen(
        ["nohup", "newel", "web", "--port", "0"],
        cwd=house.newel.project,
        env=house.newel.environ | {"NEWEL_WEB_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().partition("/#")[0]
        process.send_signal(signal.SIGHUP)
        with connect(
            url.replace("http", "ws") + "/ws", additional_headers={"Authorization": f"Bearer {TOKEN}"}
        ) as socket:
            assert Page(socket).ask("ping")["type"] == "reply"
        process.terminate()
        assert process.wait(ENDS_WITHIN) == 0
