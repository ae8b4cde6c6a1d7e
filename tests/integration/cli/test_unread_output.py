"""If these fail, a program that ends Newel without reading the rest of its output waits forever, and so does the agent's command."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.processes import ends, read_pids
from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]

LINES = ("--output-format", "stream-json")
LONG = ("long" * 500 + " ") * 50
SCRIPTS = {
    "scenarios": [
        *scenario("flood", bash("echo $$ > pid; yes | head -c 500000; sleep 300"), {"content": "Done."})[
            "scenarios"
        ],
        *scenario("tell", {"content": LONG})["scenarios"],
    ]
}
PROMPT = {"type": "message", "content": "flood"}
RPC_PROMPT = {"type": "prompt", "text": "flood"}
USER = {"type": "user", "message": {"role": "user", "content": "tell"}}
UNKNOWN = [{"jsonrpc": "2.0", "id": number, "method": "no/such"} for number in range(2000)]


@pytest.mark.parametrize(
    ("words", "lines", "number"),
    [
        (["--json"], [PROMPT], signal.SIGTERM),
        pytest.param(["--json", "flood"], [], signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(["rpc"], [RPC_PROMPT], signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(
            [*LINES, "--input-format", "stream-json"], [USER], signal.SIGTERM, marks=pytest.mark.slow
        ),
        pytest.param(["acp"], UNKNOWN, signal.SIGTERM, marks=pytest.mark.slow),
    ],
)  # each waits for two seconds that its reader might read
def test_a_signal_ends_newel_although_nobody_reads(
    with_model: Make, words: list[str], lines: list[Any], number: signal.Signals
) -> None:
    newel = with_model(SCRIPTS)
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [BIN / "newel", *words],
        cwd=newel.project,
        env=newel.environ,
        stdin=subprocess.PIPE if lines else subprocess.DEVNULL,
        stdout=writing,
        text=True,
    )
    with process:
        try:
            if process.stdin is not None:
                process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
                process.stdin.flush()
            wait_until_full(writing)
            process.send_signal(number)
            assert process.wait(15) == 128 + number
            for pid in read_pids(newel.project / "pid") if "flood" in f"{words} {lines}" else ():
                assert ends(pid)
        finally:
            process.kill()
            os.close(reading)
            os.close(writing)


def wait_until_full(pipe: int) -> None:
    deadline = time.monotonic() + 30
    while select.select([], [pipe], [], 0)[1]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_reader_that_is_slow_gets_every_line(with_model: Make) -> None:
    """Only a signal makes Newel give up: without one, it waits for its reader."""
    newel = with_model(SCRIPTS)
    reading, writing = os.pipe()
    with subprocess.Popen(
        [BIN / "newel", "--json", "tell"],
        cwd=newel.project,
        env=newel.environ,
        stdin=subprocess.DEVNULL,
        stdout=writing,
    ) as process:
        wait_until_full(writing)
        os.close(writing)
        with os.fdopen(reading) as output:
            seen = [json.loads(line) for line in output]
        assert process.wait(15) == 0
    pieces = [line["assistantMessageEvent"]["delta"] for line in seen if line["type"] == "message_update"]
    assert (seen[-1]["type"], seen[-1]["text"]) == ("result", LONG)
    assert "".join(pieces) == LONG
