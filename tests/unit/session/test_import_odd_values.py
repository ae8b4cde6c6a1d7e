"""If these fail, `newel import` ends with a traceback because of one odd value in a file that another program wrote."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from newel.agent.errors import SessionError
from newel.session.imports.finding import AGENTS, ForeignAgent, import_file
from newel.session.reader import read_session
from tests.properties import one_in

TIME: Final = "2026-02-03T10:00:00.000Z"
TEXTS: Final = [{"type": "text", "text": "x"}]

CLAUDE: Final[list[Any]] = [
    {"type": "custom-title", "customTitle": "a title", "sessionId": "s"},
    {"type": "user", "uuid": "u", "sessionId": "s", "cwd": "/x", "message": {"role": "user", "content": TEXTS}},
    {
        "type": "assistant", "uuid": "a", "parentUuid": "u", "sessionId": "s", "timestamp": TIME,
        "message": {
            "id": "m", "role": "assistant", "model": "m", "stop_reason": "tool_use", "usage": {"input_tokens": 3},
            "content": [
                {"type": "thinking", "thinking": "t"}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
    },
    {
        "type": "user", "uuid": "r", "parentUuid": "a", "sessionId": "s",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": False, "content": TEXTS}]},
    },
]  # fmt: skip

CODEX: Final[list[Any]] = [
    {"type": "session_meta", "timestamp": TIME, "payload": {"id": "i", "cwd": "/x"}},
    *(
        {"type": kind, "timestamp": TIME, "payload": payload}
        for kind, payload in [
            ("turn_context", {"model": "m", "cwd": "/x"}),
            ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}),
            ("response_item", {"type": "reasoning", "summary": [{"text": "t"}], "content": []}),
            ("response_item", {"type": "function_call", "name": "shell", "call_id": "c", "arguments": '{"command": ["ls"]}'}),
            ("response_item", {"type": "function_call_output", "call_id": "c", "output": "x"}),
            ("response_item", {"type": "local_shell_call", "call_id": "d", "action": {"command": ["ls"]}}),
            ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "y"}]}),
            ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
            ("compacted", {"message": "a summary"}),
        ]
    ),
]  # fmt: skip

PI: Final[list[Any]] = [
    {"type": "session", "version": 3, "id": "i", "timestamp": TIME, "cwd": "/x", "modelId": "m"},
    {"type": "message", "id": "1", "timestamp": TIME, "message": {"role": "user", "content": TEXTS}},
    {
        "type": "message", "id": "2", "parentId": "1", "timestamp": TIME,
        "message": {
            "role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls"}}],
            "usage": {"input": 1, "output": 2, "cacheRead": 3, "cost": {"total": 0.1}}, "stopReason": "toolUse", "model": "m",
        },
    },
    {
        "type": "message", "id": "3", "parentId": "2", "timestamp": TIME,
        "message": {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "content": TEXTS, "isError": False},
    },
    {"type": "compaction", "id": "4", "parentId": "3", "timestamp": TIME, "summary": "s", "tokensBefore": 5},
    {"type": "session_info", "id": "5", "parentId": "4", "timestamp": TIME, "name": "n"},
]  # fmt: skip

SESSIONS: Final[dict[ForeignAgent, list[Any]]] = {"claude": CLAUDE, "codex": CODEX, "pi": PI}

ODD_VALUES: Final[list[Any]] = [None, 5, True, [], [[]], {"type": []}, float("inf"), "\ud800"]


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    if isinstance(value, dict):
        inner = list(cast("dict[Any, Any]", value).items())
    else:
        inner = list(enumerate(cast("list[Any]", value) if isinstance(value, list) else []))
    for key, part in inner:
        yield from _places(part, (*place, key))


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_with_an_odd_value_is_imported_or_refused(tmp_path: Path, agent: ForeignAgent) -> None:
    source = tmp_path / "session.jsonl"
    cases = one_in(3, list(itertools.product(_places(SESSIONS[agent]), ODD_VALUES)))
    read = 0
    for number, ((*way, last), value) in enumerate(cases):
        lines = copy.deepcopy(SESSIONS[agent])
        at: Any = lines
        for key in way:
            at = at[key]
        at[last] = value
        source.write_text("\n".join(map(json.dumps, lines)))
        try:
            imported = import_file(source, tmp_path / f"sessions-{number}")
        except SessionError:
            continue
        assert read_session(imported.path).damage == [], (*way, last, value)
        read += 1
    assert read > len(cases) / 2
