"""If these fail, Newel appends a conversation to a foreign file and corrupts it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Newel

Make = Callable[..., Newel]

PI = [
    {"type": "session", "version": 3, "id": "0b8e6b1c", "timestamp": "2026-01-31T09:30:00.000Z", "cwd": "/x"},
    {"type": "message", "id": "a1", "parentId": None, "timestamp": "2026-01-31T09:30:01.000Z",
     "message": {"role": "user", "content": "said to pi", "timestamp": 1}},
]  # fmt: skip

FOREIGN = {
    "another program's records": b'{"foo":1}\n',
    "records without a last line end": b'{"foo":1}',
    "a session of pi": "\n".join(map(json.dumps, PI)).encode() + b"\n",
    "records of a kind that Newel has, with other members": b'{"type":"metadata","name":"x"}\n{"a":1}\n',
    "a list": b'[{"type":"metadata"}]\n',
    "a JSON document": json.dumps({"type": "message", "items": []}, indent=2).encode(),
    "notes": b"Remember the milk.\n",
    "bytes": bytes(range(256)) * 9,
    "nothing": b"",
    "white space": b"\n\n \n",
}


def files_below(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize("place", ["among the sessions", "in the project"])
def test_a_foreign_file_is_refused_unchanged(with_model: Make, place: str, content: bytes) -> None:
    newel = with_model()
    newel("how are you")
    path = (
        newel.sessions[0].with_name("records.jsonl")
        if place != "in the project"
        else newel.project / "r.jsonl"
    )
    path.write_bytes(content)
    before = files_below(newel.home), files_below(newel.project), path.stat()
    done = newel("--session", str(path), "hi")
    assert done.returncode == 1
    assert "not a session of Newel" in done.stderr
    after = files_below(newel.home), files_below(newel.project), path.stat()
    assert after[:2] == before[:2]
    assert (after[2].st_mtime_ns, after[2].st_ino) == (before[2].st_mtime_ns, before[2].st_ino)
    assert len(newel.requests) == 1


def test_a_foreign_file_is_not_listed_as_a_session_and_not_continued(with_model: Make) -> None:
    newel = with_model()
    newel("how are you")
    for number, content in enumerate(FOREIGN.values()):
        newel.sessions[0].with_name(f"records-{number}.jsonl").write_bytes(content)
    assert len(newel("sessions").stdout.splitlines()) == 1
    done = newel("--continue", "hello world")
    assert done.returncode == 0, done.stderr
    assert "how are you" in json.dumps(newel.requests[-1]["messages"])


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "dangling link"])
def test_a_path_that_is_not_a_file_is_refused_at_once(with_model: Make, kind: str) -> None:
    newel = with_model()
    path = newel.project / "s.jsonl"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/zero")
        case _:
            path.symlink_to("nowhere")
    done = newel("--session", str(path), "hi")
    assert (done.returncode, newel.requests) == (1, [])
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr
