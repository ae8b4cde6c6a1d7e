"""If these fail, the command explains nothing when it cannot start, or its exit codes mislead a script."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

COMMAND = [sys.executable, "-m", "mock_llm_server"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=20, check=False)


@contextmanager
def started(*arguments: str | Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """The running command and its printed address."""
    with subprocess.Popen(
        [*COMMAND, "--port", "0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        line = process.stdout.readline()
        try:
            yield process, line.split()[-1]
        finally:
            process.kill()


def ask(url: str, text: str, history: list[dict[str, str]] | None = None) -> httpx2.Response:
    messages = [{"role": "user", "content": text}, *(history or [])]
    return httpx2.post(f"{url}/chat/completions", json={"model": "m", "messages": messages})


def test_it_prints_its_address_once_it_accepts_connections() -> None:
    """Scripts wait for this line; with --port 0 it is the only way to know the port."""
    with started() as (_, url):
        message = ask(url, "say hello world").json()["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "write"


def test_ctrl_c_ends_it_quietly() -> None:
    with started() as (process, _):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (130, "")


def test_a_port_in_use_is_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("--port", str(port))
    assert result.returncode == 2
    assert f"port {port} on 127.0.0.1 is in use" in result.stderr
    assert "--port 0" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "70000 is not a port number (0 to 65535)"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--record", "/no/such/folder/file"], "cannot record to /no/such/folder/file: No such file"),
        (["--upstream", "ftp://x"], "ftp://x is not an http or https URL"),
        (["--upstream", "http://x", "--upstream-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
        (["--scenarios", "absent.json"], "absent.json: cannot be read"),
        (["replay-from", "absent.jsonl"], "absent.jsonl: No such file"),
    ],
)
def test_a_failed_start_gives_its_reason_in_one_line(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_a_bad_scenario_file_is_refused_at_start_and_by_check(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.json"
    path.write_text('{\n  "scenarios": [\n    {"name": "x", "trigger": "x"}\n  ]\n}\n')
    expected = f"mock-llm-server: {path}:3: scenarios[0]: Object missing required field `steps`\n"
    for arguments, code in ((["check", path], 1), (["--scenarios", path], 2)):
        result = run(*arguments)
        assert (result.returncode, result.stderr) == (code, expected)


def test_check_counts_scenarios_and_steps(tmp_path: Path) -> None:
    result = run("check", Path(__file__).parent.parent / "scenarios.json")
    assert result.returncode == 0
    assert "valid, 13 scenarios" in result.stdout
    (tmp_path / "one.json").write_text(
        '{"scenarios": [{"name": "x", "trigger": "x", "steps": [{"response": {"content": "y"}}]}]}'
    )
    assert run("check", tmp_path / "one.json").stdout.endswith("one.json: valid, 1 scenario, 1 step\n")


def test_a_recording_survives_a_kill_and_replays(tmp_path: Path) -> None:
    """The whole round: serve, record, kill, convert, serve again."""
    recording, scenarios = tmp_path / "session.jsonl", tmp_path / "replay.json"
    with started("--record", recording) as (process, url):
        first = ask(url, "hello world").json()["choices"][0]["message"]
        second = ask(url, "hello world", [{"role": "tool", "content": "ok"}]).json()["choices"][0]["message"]
        deadline = time.monotonic() + 10
        while recording.read_text().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert run("replay-from", recording, "-o", scenarios).returncode == 0
    assert json.loads(run("replay-from", recording).stdout) == json.loads(scenarios.read_text())
    assert run("check", scenarios).returncode == 0
    with started("--scenarios", scenarios) as (_, url):
        assert ask(url, "hello world").json()["choices"][0]["message"] == first
        again = ask(url, "hello world", [{"role": "tool", "content": "ok"}]).json()
    assert again["choices"][0]["message"] == second


def test_strict_is_an_option_of_the_command() -> None:
    with started("--strict") as (_, url):
        assert ask(url, "hello world", [{"role": "tool", "content": "ok"}]).status_code == 400
