"""If these fail, what was said and done is lost without a word: from the file, or from the file's reader."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def only_session(tmp_path: Path) -> Path:
    (path,) = (tmp_path / ".newel" / "sessions").glob("*/*.jsonl")
    return path


def results(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    messages = [line["message"] for line in lines if line["type"] == "message"]
    return [message["output"] for message in messages if message["role"] == "toolResult"]


@pytest.mark.parametrize("front", ["one-shot-console", "simple", "json"])
def test_a_damaged_session_is_reported_first(run_program: Run, tmp_path: Path, front: str) -> None:
    run_program("simple", given="hello\n")
    path = only_session(tmp_path)
    with path.open("ab") as stream:
        stream.write(b"\x00\x00garbage\n")
    session = path.stem.rpartition("_")[2]
    given = '{"type":"message","content":"hello"}' if front == "json" else "hello\n"
    words = ["hello"] if front.startswith("one-shot") else []
    done = run_program(front, *words, given=given, PROGRAM_SESSION=session)
    assert done.returncode == 0
    told = "The session's file is damaged: line 4: "
    if front == "json":
        first = json.loads(done.stdout.splitlines()[1])  # after the line that names the session
        assert (first["type"], first["code"]) == ("error", "session_damage")
        assert first["message"].startswith(told)
    else:
        assert done.stdout.lstrip().startswith(told)
        assert "You said: hello" in done.stdout


@pytest.mark.parametrize("front", ["one-shot-console", "simple", "json", "console"])
def test_when_the_terminal_closes_the_results_of_all_calls_are_saved(
    open_program: Callable[..., Any], tmp_path: Path, front: str
) -> None:
    commands = "run touch begun; until [ -e go ]; do sleep 0.02; done; echo did it && echo b && echo c"
    process = open_program(front, *([commands] if front in {"one-shot-console", "console"} else []))
    if front in {"simple", "json"}:
        line = json.dumps({"type": "message", "content": commands}) if front == "json" else commands
        process.stdin.write(line + "\n")
        process.stdin.flush()
    project = tmp_path / "project"
    deadline = time.monotonic() + 15
    while not (project / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.stdout.close()
    (project / "go").touch()
    assert process.wait(15) == 1
    assert process.stderr.read() == ""
    first, *others = results(only_session(tmp_path))
    assert "did it" in first
    assert others == ["Not run: stopped before this call started."] * 2
