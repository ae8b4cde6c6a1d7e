"""If these fail, people who come from another agent lose their conversations, or continue them with something missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import Newel

Make = Callable[..., Newel]
Entry = dict[str, Any]

CLAUDE_ID = "6f1c0000-0000-4000-8000-000000000001"
CODEX_ID = "0199c000-0000-7000-8000-000000000001"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def write_lines(path: Path, lines: list[Entry | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def time_at(second: int) -> str:
    return f"2026-02-03T10:00:{second:02}.000Z"


# -- Claude Code -----------------------------------------------------------------------------------


def claude(newel: Newel, uuid: str, parent: str | None, kind: str, content: Any, **more: Any) -> Entry:
    message: Entry = {"role": kind, "content": content}
    if kind == "assistant":
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 5,
            "output_tokens": 7,
        }
        message |= {"id": f"msg_{uuid[0]}", "model": "claude-x", "type": "message", "usage": usage}
        message |= {"stop_reason": None}
    return {
        "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": CLAUDE_ID, "cwd": str(newel.project),
        "timestamp": time_at(len(uuid)), "isSidechain": False, "version": "2.1.0", "message": message, **more,
    }  # fmt: skip


def claude_file(newel: Newel) -> Path:
    """Two calls at once, whose results hang on different entries of the answer; a subagent; what Claude Code says itself; a branch."""

    def entry(*words: Any, **more: Any) -> Entry:
        return claude(newel, *words, **more)

    lines: list[Entry | str] = [
        {"type": "summary", "summary": "Fix the parser", "leafUuid": "u3"},
        {"type": "summary", "summary": "Another session's", "leafUuid": "elsewhere"},
        {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
        entry("u0", None, "user", "<command-name>/clear</command-name>"),
        entry("u1", "u0", "user", "look at both files"),
        entry("left", "u1", "assistant", [{"type": "text", "text": "another way"}]),
        entry("a1", "u1", "assistant", [{"type": "thinking", "thinking": "both, then", "signature": "c2ln"}]),
        entry("a2", "a1", "assistant", [{"type": "text", "text": "I look."}]),
        entry("a3", "a2", "assistant", [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}}]),
        entry("a4", "a3", "assistant", [{"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "ls", "description": "List"}}]),
        entry("r1", "a3", "user", [{"type": "tool_result", "tool_use_id": "t1", "content": "print(1)"}]),
        entry("r2", "a4", "user", [{"type": "tool_result", "tool_use_id": "t2", "is_error": True,
                                    "content": [{"type": "text", "text": "no such file"}]}]),
        entry("s1", None, "user", "a subagent's prompt", isSidechain=True),
        entry("p1", "r2", "progress", "", data={}) | {"type": "progress"},
        entry("b1", "p1", "assistant", [{"type": "text", "text": "Both are fine."}]),
        entry("m1", "b1", "user", "Stop hook feedback", isMeta=True),
        entry("u3", "m1", "user", [{"type": "text", "text": "and this?"},
                                   {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]),
        "{broken",
        {"type": "from-the-future", "value": 1},
    ]  # fmt: skip
    folder = "".join(letter if letter.isalnum() else "-" for letter in str(newel.project))
    return write_lines(newel.home / ".claude" / "projects" / folder / f"{CLAUDE_ID}.jsonl", lines)


def test_a_session_of_claude_code_goes_on(with_model: Make) -> None:
    newel = with_model()
    source = claude_file(newel)
    before = source.read_bytes()
    done = newel("import", "claude", "--last")
    assert done.returncode == 0, done.stderr
    assert "line 18: it cannot be read" in done.stderr
    assert "line 19: the type 'from-the-future' is unknown" in done.stderr
    assert "left out: messages of subagents (1)" in done.stderr
    assert "left out: messages of Claude Code itself (2)" in done.stderr
    assert "left out: entries of abandoned branches (1)" in done.stderr
    assert source.read_bytes() == before
    newel("--session", done.stdout.split()[-1], "go on")
    sent = newel.requests[-1]["messages"][1:]
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
        "user",
    ]
    assert sent[0]["content"] == "look at both files"
    assert sent[1]["content"] == "I look."
    calls = [call["function"] for call in sent[1]["tool_calls"]]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [
        ("read", {"file_path": "a.py"}),
        ("bash", {"command": "ls", "description": "List"}),
    ]
    assert [message["content"] for message in sent[2:5]] == ["print(1)", "no such file", "Both are fine."]
    assert [part["type"] for part in sent[5]["content"]] == ["text", "image_url"]
    assert "c2ln" not in json.dumps(sent)
    assert "Fix the parser" in newel("sessions").stdout


def test_a_summary_stands_for_what_claude_code_has_compacted(with_model: Make) -> None:
    newel = with_model()
    boundary = claude(
        newel,
        "c1",
        None,
        "system",
        "Conversation compacted",
        subtype="compact_boundary",
        logicalParentUuid="a1",
    )
    lines: list[Entry | str] = [
        claude(newel, "u1", None, "user", "the long beginning"),
        claude(newel, "a1", "u1", "assistant", [{"type": "text", "text": "much later"}]),
        boundary,
        claude(newel, "u2", "c1", "user", "They wrote a parser.", isCompactSummary=True),
        claude(newel, "b2", "u2", "assistant", [{"type": "text", "text": "Next."}]),
    ]
    write_lines(newel.project / "claude.jsonl", lines)
    done = newel("import", "claude.jsonl")
    assert done.returncode == 0, done.stderr
    newel("--session", done.stdout.split()[-1], "go on")
    sent = [message["content"] for message in newel.requests[-1]["messages"][1:]]
    assert sent == ["Summary of the conversation so far:\n\nThey wrote a parser.", "Next.", "go on"]
    assert "the long beginning" in newel("export", CLAUDE_ID[:8]).stdout


def test_a_prompt_that_was_given_as_a_command_of_claude_code_is_kept(with_model: Make) -> None:
    """Else the answer to `/fix 12` answers nothing, and the session has no title by which it could be found."""
    newel = with_model()
    command = "<command-message>fix is running…</command-message>\n<command-name>/fix</command-name>\n<command-args>12</command-args>"
    expanded = [{"type": "text", "text": "Fix the issue 12."}]
    lines: list[Entry | str] = [
        claude(
            newel, "c0", None, "user", "<command-name>/clear</command-name>\n<command-args></command-args>"
        ),
        claude(newel, "u1", "c0", "user", command),
        claude(newel, "m1", "u1", "user", expanded, isMeta=True),
        claude(newel, "a1", "m1", "assistant", [{"type": "text", "text": "Fixed."}]),
    ]
    folder = newel.home / ".claude" / "projects" / "x"
    write_lines(folder / f"{CLAUDE_ID}.jsonl", lines)
    assert "/fix 12" in newel("import").stdout
    done = newel("import", "--last")
    assert done.returncode == 0, done.stderr
    assert "left out: messages of Claude Code itself (1)" in done.stderr
    newel("--session", done.stdout.split()[-1], "go on")
    sent = [message["content"] for message in newel.requests[-1]["messages"][1:]]
    assert sent == ["/fix 12\n\nFix the issue 12.", "Fixed.", "go on"]
    assert "/fix 12" in newel("sessions").stdout


@pytest.mark.parametrize(
    "time", ["2026-02-03T10:00:00Z", "2026-02-03T12:00:00.123456789+02:00", "2026-02-31T10:00:00.000Z"]
)
def test_a_session_is_found_by_its_id_whatever_form_its_times_have(with_model: Make, time: str) -> None:
    newel = with_model()
    prompt = claude(newel, "u1", None, "user", "look", timestamp=time)
    write_lines(newel.project / "claude.jsonl", [prompt])
    done = newel("import", "claude.jsonl")
    assert done.returncode == 0, done.stderr
    assert newel("--session", done.stdout.split()[-1], "go on").returncode == 0
    assert [message["content"] for message in newel.requests[-1]["messages"][1:]] == ["look", "go on"]


# -- codex -----------------------------------------------------------------------------------------


def item(second: int, **payload: Any) -> Entry:
    return {"timestamp": time_at(second), "type": "response_item", "payload": payload}


def said(second: int, role: str, text: str) -> Entry:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(second, type="message", role=role, content=[{"type": kind, "text": text}])


def codex_lines(newel: Newel) -> list[Entry | str]:
    meta = {
        "id": CODEX_ID,
        "timestamp": time_at(0),
        "cwd": str(newel.project),
        "cli_version": "0.60.0",
        "model_provider": "openai",
    }
    return [
        {"timestamp": time_at(0), "type": "session_meta", "payload": meta},
        said(1, "developer", "<permissions instructions>"),
        said(1, "user", "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>"),
        {"timestamp": time_at(1), "type": "turn_context", "payload": {"model": "gpt-x", "cwd": str(newel.project)}},
        said(2, "user", "list the files"),
        {"timestamp": time_at(2), "type": "event_msg", "payload": {"type": "user_message", "message": "list the files"}},
        item(3, type="reasoning", summary=[{"type": "summary_text", "text": "**Listing**"}], encrypted_content="gAAA"),
        item(3, type="function_call", name="shell", call_id="c1", arguments=json.dumps({"command": ["bash", "-lc", "ls -a"]})),
        item(4, type="function_call_output", call_id="c1", output=json.dumps({"output": "a.py\n", "metadata": {"exit_code": 0}})),
        item(5, type="custom_tool_call", name="apply_patch", call_id="c2", input="*** Begin Patch"),
        item(6, type="custom_tool_call_output", call_id="c2", output="Success"),
        item(6, type="ghost_snapshot", ghost_commit={}),
        item(7, type="web_search_call", action={"type": "search", "query": "x"}),
        said(8, "assistant", "There is a.py."),
        said(9, "user", "forget this"),
        said(9, "assistant", "Forgotten."),
        {"timestamp": time_at(9), "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
        item(10, type="function_call", name="x", call_id="c3", arguments="{not json"),
    ]  # fmt: skip


def test_a_session_of_codex_goes_on(with_model: Make) -> None:
    newel = with_model()
    path = (
        newel.home
        / ".codex"
        / "sessions"
        / "2026"
        / "02"
        / "03"
        / f"rollout-2026-02-03T10-00-00-{CODEX_ID}.jsonl"
    )
    write_lines(path, codex_lines(newel))
    done = newel("import", "--last")
    assert done.returncode == 0, done.stderr
    assert "left out: messages of codex itself (2)" in done.stderr
    assert "left out: messages that were undone (2)" in done.stderr
    assert "left out: items of the type 'web_search_call' (1)" in done.stderr
    assert "line 18: an entry of the type 'response_item' has an unknown form" in done.stderr
    newel("--session", done.stdout.split()[-1], "go on")
    sent = newel.requests[-1]["messages"][1:]
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    call = sent[1]["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == ("bash", {"command": "ls -a"})
    assert [sent[2]["content"], sent[4]["content"], sent[5]["content"]] == [
        "a.py\n",
        "Success",
        "There is a.py.",
    ]
    assert "gAAA" not in json.dumps(sent)


def test_an_early_session_of_codex_and_a_compacted_one_are_imported(with_model: Make) -> None:
    newel = with_model()
    early = [
        {"id": "early-1", "timestamp": time_at(0), "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello early"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
    ]
    write_lines(newel.project / "early.jsonl", [*early])
    assert newel("import", "codex", "early.jsonl").returncode == 0
    meta = {"id": "packed-1", "timestamp": time_at(0), "cwd": str(newel.project)}
    packed: list[Entry | str] = [
        {"timestamp": time_at(0), "type": "session_meta", "payload": meta},
        said(1, "user", "the beginning"),
        said(2, "assistant", "Done."),
        {"timestamp": time_at(3), "type": "compacted", "payload": {"message": "They began."}},
        said(4, "user", "next"),
    ]
    write_lines(newel.project / "packed.jsonl", packed)
    done = newel("import", "packed.jsonl")
    newel("--session", done.stdout.split()[-1], "go on")
    sent = [message["content"] for message in newel.requests[-1]["messages"][1:]]
    assert sent == ["Summary of the conversation so far:\n\nThey began.", "next", "go on"]


# -- all -------------------------------------------------------------------------------------------


def test_sessions_are_listed_by_folder_and_imported_once(with_model: Make) -> None:
    newel = with_model()
    source = claude_file(newel)
    write_lines(newel.home / ".codex" / "sessions" / "rollout-x.jsonl", codex_lines(newel))
    strange = claude(newel, "u1", None, "user", "elsewhere") | {"cwd": "/elsewhere", "sessionId": "else-1"}
    write_lines(newel.home / ".claude" / "projects" / "-elsewhere" / "else-1.jsonl", [strange])
    write_lines(source.with_name("agent-1.jsonl"), [strange])

    listed = newel("import").stdout
    assert "look at both files" in listed
    assert "list the files" in listed
    assert "elsewhere" not in listed
    assert "list the files" not in newel("import", "claude", "--list").stdout
    assert "elsewhere" in newel("import", "--everywhere").stdout

    first = newel("import", "--all")
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("Imported.") == 2
    assert newel("import", "--all").stdout.count("Already imported.") == 2
    again = newel("import", str(source))
    assert again.returncode == 1
    assert "was already imported" in again.stderr


def test_the_ids_that_are_named_resume_one_session(with_model: Make) -> None:
    """Ids of codex begin with the time: those of one minute have the same first eight characters."""
    newel = with_model()
    other = f"{CODEX_ID[:9]}ffff{CODEX_ID[13:]}"
    for session in (CODEX_ID, other):
        text = json.dumps(codex_lines(newel)).replace(CODEX_ID, session)
        write_lines(newel.home / ".codex" / "sessions" / f"rollout-{session}.jsonl", json.loads(text))
    newel("import", "--all")
    again = [line.split()[-1] for line in newel("import", "--all").stdout.splitlines() if "Resume" in line]
    listed = [line.split()[0] for line in newel("sessions").stdout.splitlines()]
    assert len(set(again)) == len(set(listed)) == 2
    for session in [*again, *listed]:
        assert newel("export", session).returncode == 0


@pytest.mark.parametrize(
    "words", [["claude", "codex"], ["a", "b"], ["--last", "--all"], ["x.jsonl", "--last"]]
)
def test_what_cannot_be_meant_is_a_usage_error(with_model: Make, words: list[str]) -> None:
    assert with_model()("import", *words).returncode == 2


@pytest.mark.parametrize(
    "content", ["", "no json\n", '{"type":"user"}\n', '{"type":"session_meta","payload":{"id":5}}\n', "[1]\n"]
)
@pytest.mark.parametrize("agent", [[], ["claude"], ["codex"], ["pi"]])
def test_what_is_no_session_is_refused_in_a_sentence(
    with_model: Make, content: str, agent: list[str]
) -> None:
    newel = with_model()
    (newel.project / "x.jsonl").write_text(content)
    done = newel("import", *agent, "x.jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith("newel: ")
    assert "Traceback" not in done.stderr
