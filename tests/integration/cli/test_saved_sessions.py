"""If these fail, saved conversations cannot be listed, exported or imported, or two processes write one."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

PI = [
    {"type": "session", "version": 3, "id": "0b8e6b1c-0000-4000-8000-000000000001", "cwd": "{project}",
     "timestamp": "2026-01-31T09:30:00.000Z"},
    {"type": "message", "id": "a1", "parentId": None, "timestamp": "2026-01-31T09:30:01.000Z",
     "message": {"role": "user", "content": "said to pi", "timestamp": 1}},
    {"type": "message", "id": "a2", "parentId": "a1", "timestamp": "2026-01-31T09:30:02.000Z",
     "message": {"role": "assistant", "content": [{"type": "text", "text": "answered by pi"}],
                 "provider": "x", "model": "y", "stopReason": "stop", "timestamp": 2}},
]  # fmt: skip


def test_the_file_extension_selects_the_export_format(with_model: Make) -> None:
    newel = with_model()
    newel("how are you")
    identity = newel.sessions[0].stem.partition("_")[2][:8]
    assert newel("export", identity, "-o", "talk.html").returncode == 0
    assert newel("export", identity, "-o", "talk.md").returncode == 0
    assert (newel.project / "talk.html").read_text().startswith("<!doctype html>")
    assert "how are you" in (newel.project / "talk.md").read_text()


def test_without_a_name_the_latest_session_of_the_folder_is_exported(with_model: Make) -> None:
    newel = with_model()
    none = newel("export")
    assert none.returncode == 1
    assert "No session has been saved in this folder" in none.stderr
    newel("an earlier prompt")
    newel("a later prompt")
    done = newel("export")
    assert "a later prompt" in done.stdout
    assert "an earlier prompt" not in done.stdout


def test_a_session_of_pi_is_imported_and_continued(with_model: Make) -> None:
    newel = with_model()
    lines = [json.dumps(line).replace("{project}", str(newel.project)) for line in PI]
    (newel.project / "pi.jsonl").write_text("\n".join(lines) + "\n")
    done = newel("import", "pi.jsonl")
    assert done.returncode == 0, done.stderr
    identity = done.stdout.split()[-1]
    newel("--session", identity, "how are you")
    assert [message["content"] for message in newel.requests[0]["messages"][1:]] == [
        "said to pi",
        "answered by pi",
        "how are you",
    ]


def test_a_session_in_use_is_refused_and_no_run_is_harmed(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("until [ -e free ]; do sleep 0.02; done"), {"content": "Done."}))
    with newel.start("go") as first:
        while not newel.sessions or b"toolCall" not in newel.sessions[0].read_bytes():
            assert first.poll() is None
        refused = newel("--continue", "me too")
        assert refused.returncode == 1
        assert f"is open in another Newel (pid {first.pid}" in refused.stderr
        assert f"use --session {newel.sessions[0].stem.rpartition('_')[2][:8]}, or" in refused.stderr
        assert ".jsonl" not in refused.stderr
        (newel.project / "free").touch()
        output, _ = first.communicate(timeout=15)
    assert first.returncode == 0
    assert "Done." in output


def test_an_argument_that_is_neither_session_nor_file_is_one_message(with_model: Make) -> None:
    newel = with_model()
    (newel.project / "notes.txt").write_text("no session\n")
    for words in (["export", "nothing"], ["import", "absent.jsonl"], ["import", "notes.txt"]):
        done = newel(*words)
        assert done.returncode == 1
        assert done.stderr.startswith("newel: ")
        assert "Traceback" not in done.stderr
    assert newel("--session", "nothing", "hi").returncode == 1
