"""If these fail, a chat offers its model other tools than the servers provide."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.workbench.conftest import Bench, send_and_wait, texts, until
from tests.support import scenario

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "shape": {"anyOf": [{"$ref": "#/$defs/circle"}, {"const": "point"}], "description": "What to draw"},
        "größe": {"type": "number", "exclusiveMinimum": 0, "default": 1.5},
    },
    "required": ["shape"],
    "additionalProperties": False,
    "$defs": {"circle": {"type": "object", "properties": {"r": {"type": "integer"}}, "x-unknown": [1, None]}},
}

SERVER = """
import json, sys
schema = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {
        "initialize": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "draw", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "draw", "description": "Draws.", "inputSchema": schema}]},
        "tools/call": {"content": [{"type": "text", "text": json.dumps(asked.get("params", {}).get("arguments"))}]},
    }
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] in answers:
        answer["result"] = answers[asked["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"""


async def test_a_tools_schema_and_arguments_are_passed_unchanged(
    bench_with: Callable[..., Bench], tmp_path: Path
) -> None:
    arguments = {"shape": {"r": 3, "odd": [None, {"a": "b"}]}, "größe": 2.5}
    call = {"tool_calls": [{"function": {"name": "pad__draw", "arguments": arguments}}]}
    bench = bench_with(scenario("draw", call, {"content": "Drawn."}))
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    pad = {"command": sys.executable, "args": ["-IS", str(script), json.dumps(SCHEMA)]}
    (bench.newel.home / ".newel").mkdir()
    (bench.newel.home / ".newel" / "mcp_config.json").write_text(json.dumps({"mcpServers": {"pad": pad}}))
    async with bench.open() as workbench:
        await until(lambda: workbench.servers.statuses()[0].state == "active")
        tab = (await workbench.open_chat()).state
        await send_and_wait(workbench, tab.id, "draw a circle")
        result = (await texts(workbench, tab.id))[2]
    offered = {each["function"]["name"]: each["function"] for each in bench.newel.requests[0]["tools"]}
    assert offered["pad__draw"]["parameters"] == SCHEMA
    assert "Draws." in offered["pad__draw"]["description"]
    assert json.loads(result.removeprefix("result: ")) == arguments
