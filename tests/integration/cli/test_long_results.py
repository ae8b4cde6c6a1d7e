"""If these fail, a huge result fills the model's window and costs dollars."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        if asked["method"] == "tools/list":
            result = {"tools": [{"name": "long", "inputSchema": {"type": "object"}}]}
        if asked["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": "begin " + "word " * 50000 + "end"}]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def heard(newel: Newel) -> str:
    return newel.requests[-1]["messages"][-1]["content"]


def test_the_model_gets_a_part_of_a_long_output_and_can_read_the_rest(
    with_model: Make, tmp_path: Path
) -> None:
    newel = with_model(scenario("count", bash("seq 1 40000"), {"content": "Done."}))
    environ = {"TMPDIR": str(tmp_path)}
    assert newel("count", **environ).returncode == 0
    text = heard(newel)
    assert len(text) < 30_200
    assert text.startswith("stdout:\n1\n2\n3\n")
    assert text.endswith("40000\nstderr:\n\nexit code: 0")
    found = re.search(r"\[… [\d,]+ characters omitted; the whole result is in (\S+) …\]", text)
    assert found
    kept = Path(found[1])
    assert "\n".join(map(str, range(1, 40_001))) in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_output_beyond_the_memory_limit_is_named(with_model: Make, tmp_path: Path) -> None:
    newel = with_model(scenario("count", bash("seq 1 200000"), {"content": "Done."}))
    assert newel("count", TMPDIR=str(tmp_path)).returncode == 0
    text = heard(newel)
    assert len(text) < 30_200
    found = re.search(r"the whole output is in (\S+) …\]", text)
    assert found
    assert Path(found[1]).read_text() == "".join(f"{number}\n" for number in range(1, 200_001))


def test_a_long_file_is_read_page_by_page(with_model: Make) -> None:
    newel = with_model(scenario("read", call("read", file_path="long.txt"), {"content": "Done."}))
    (newel.project / "long.txt").write_text("".join(f"this is line {number}\n" for number in range(4_000)))
    assert newel("read").returncode == 0
    text = heard(newel)
    assert len(text) < 30_000
    assert (
        found := re.search(
            r"WARNING: File has 4000 lines, showing first (\d+)\..* Next: offset=(\d+)\.", text
        )
    )
    assert text.endswith(f"this is line {int(found[1]) - 1}")
    assert int(found[2]) == int(found[1]) + 1


def test_a_long_mcp_result_is_shortened_too(with_model: Make, tmp_path: Path) -> None:
    newel = with_model(scenario("ask it", call("s__long"), {"content": "Done."}))
    (newel.home / ".newel").mkdir()
    (newel.home / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": [str(newel.home / "server.py")]}
    (newel.home / ".newel" / "mcp_config.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    assert newel("ask it", TMPDIR=str(tmp_path)).returncode == 0
    text = heard(newel)
    assert len(text) < 30_200
    assert text.startswith("begin word")
    assert text.endswith("word end")
    found = re.search(r"the whole result is in (\S+) …\]", text)
    assert found
    assert len(Path(found[1]).read_text()) > 250_000


@pytest.mark.parametrize("most", [1_000, 100_000])
def test_the_limit_can_be_configured(with_model: Make, tmp_path: Path, most: int) -> None:
    newel = with_model(scenario("count", bash("seq 1 40000"), {"content": "Done."}))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(f"[limits]\nmaxResult = {most}\n")
    assert newel("count", TMPDIR=str(tmp_path)).returncode == 0
    assert most * 0.6 < len(heard(newel)) < most + 250
