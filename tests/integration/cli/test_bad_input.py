"""Bad input gets one clear message, and nothing is lost or touched that is not ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import anyio
import pytest

from tests.support import BIN, Newel

Make = Callable[..., Newel]


@pytest.mark.parametrize(
    "content", ["", "notes of mine", "root:x:0:0\nbin:x:1:1\n", '{"a": 1}\n', "\x00\x01\n"]
)
def test_a_file_that_is_no_session_is_refused_and_left_alone(with_model: Make, content: str) -> None:
    newel = with_model()
    file = newel.project / "notes.txt"
    file.write_text(content)
    done = newel("--session", str(file), "how are you")
    assert done.returncode == 1
    assert "is no session" in done.stderr
    assert file.read_text() == content
    assert [path.name for path in newel.project.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("command", "words"),
    [("newel", ["how are you"]), ("newel", ["--json", "how are you"]), ("lsimons-agent", [])],
)
def test_damage_is_told_by_every_front_end(with_model: Make, command: str, words: list[str]) -> None:
    newel = with_model()
    newel("how are you")
    with newel.sessions[0].open("ab") as stream:
        stream.write(b"\x00\x00garbage\n")
    done = newel("--continue", *words, command=command, stdin="how are you\n" if not words else "")
    assert "line 4" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["--ephemeral", "--continue"], ["--ephemeral", "--session", "x"], [""]])
def test_what_cannot_be_meant_is_wrong_usage(with_model: Make, words: list[str]) -> None:
    done = with_model()(*words, stdin="")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["a prompt"], ["--json"], ["--renderer", "rich"]])
def test_the_plain_conversation_says_what_it_does_not_take(with_model: Make, words: list[str]) -> None:
    done = with_model()(*words, command="lsimons-agent")
    assert done.returncode == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "command", ["newel 'how are you'", "lsimons-agent", "newel sessions", "newel --json"]
)
def test_closed_channels_are_no_reason_to_fall_over(with_model: Make, command: str, closed: str) -> None:
    newel = with_model()
    done = subprocess.run(
        ["sh", "-c", f"exec {BIN}/{command} {closed}"],
        cwd=newel.project,
        env=newel.environ,
        capture_output=True,
        text=True,
        timeout=20,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in {0, 1, 2}


def test_a_full_disk_behind_the_output_is_one_message(with_model: Make) -> None:
    newel = with_model()
    with open("/dev/full", "w") as full:  # noqa: PTH123 — a device, no file
        done = subprocess.run(
            [BIN / "newel", "sessions"],
            env=newel.environ,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


def test_a_numbers_mistake_is_explained(with_model: Make) -> None:
    done = with_model()("--max-turns", "many", "x")
    assert done.returncode == 2
    assert "whole number" in done.stderr


def test_an_export_overwrites_nothing(with_model: Make) -> None:
    newel = with_model()
    newel("how are you")
    (newel.project / "talk.md").write_text("mine")
    done = newel("export", newel.sessions[0].stem.partition("_")[2], "-o", "talk.md")
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert (newel.project / "talk.md").read_text() == "mine"


@pytest.mark.slow  # ten seconds of silence, and as many of trying again at the same time, are what is tested
@pytest.mark.anyio
async def test_a_server_that_says_nothing_or_is_not_there_is_given_up_on(with_model: Make) -> None:
    """Before there is an answer to wait for, ten seconds of silence are a finding, not a reason to hang."""

    async def silent(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await anyio.sleep(30)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    newel = with_model()
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, silent)
        with newel.start("--base-url", "http://127.0.0.1:9/v1", "--max-turns", "1", "x") as nowhere:
            done = await anyio.to_thread.run_sync(
                lambda: newel("doctor", LLM_BASE_URL=f"http://127.0.0.1:{port}/v1", LLM_DEFAULT_MODEL="")
            )
            said = "".join(await anyio.to_thread.run_sync(nowhere.communicate))
        group.cancel_scope.cancel()
        assert done.returncode == 1
        assert "sent nothing for" in done.stdout
        assert nowhere.returncode == 1
        assert "127.0.0.1:9" in said
        assert "Traceback" not in said


def test_json_lines_that_make_no_sense_are_named_and_the_rest_is_served(with_model: Make) -> None:
    newel = with_model()
    lines = ["nonsense", '{"type":"dance"}', '{"type":"message","content":"how are you"}']
    done = newel("--json", stdin="\n".join(lines) + "\n")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [event["message"] for event in events if event["type"] == "error"]
    assert [error for error in errors if "line 1" in error.lower()]
    assert [error for error in errors if "line 2" in error.lower()]
    assert events[-1]["type"] == "agent_end"
