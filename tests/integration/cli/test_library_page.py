"""If these fail, an example of docs/library.md raises an error for the programmer who copies it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Newel, scenario

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "library.md").read_text()
SECTIONS = re.split(r"^#{1,3} (.*)\n", PAGE, flags=re.MULTILINE)
BLOCKS = [
    (heading, code)
    for heading, text in zip(SECTIONS[1::2], SECTIONS[2::2], strict=True)
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
]

EXPECTED = {
    "Newel as a library": "Fine.\n",
    "One prompt: `ask`": "hello.py created 1",
    "An answer in JSON": "['a.py']",
    "A coding agent: `open_coding_agent`": "[write]\nWritten.done",
    "Approval": "Write File ",
    "A tool": "It is 0.3.",
    "The general agent: `Agent`": '"text":"A formula."',
    "Sessions: `SessionManager`": "content='Hello'",
    "A plain request: `chat`": "Hi.\n",
}
"""By heading, a part of what its example prints."""


def test_every_example_is_run_below() -> None:
    assert PAGE.count("```python") == len(BLOCKS)
    assert [heading for heading, _ in BLOCKS] == list(EXPECTED)


@pytest.mark.parametrize(("heading", "code"), BLOCKS, ids=[heading for heading, _ in BLOCKS])
def test_an_example_prints_what_it_should(heading: str, code: str, with_model: Callable[..., Newel]) -> None:
    write = {"file_path": "hello.py", "content": "print('Hello')\n"}
    several = [
        scenario(
            "hello world",
            {"tool_calls": [{"function": {"name": "write", "arguments": write}}]},
            {"content": "Written."},
        ),
        scenario(
            "0.1",
            {"tool_calls": [{"function": {"name": "add", "arguments": {"numbers": [0.1, 0.2]}}}]},
            {"content": "It is 0.3."},
        ),
        scenario("TODOs", {"content": '["a.py"]'}),
        scenario("clipboard", {"content": "A formula."}),
        scenario("Say hi", {"content": "Hi."}),
        scenario("", {"content": "Fine."}),
    ]
    newel = with_model({"scenarios": [each for one in several for each in one["scenarios"]]})
    environ = newel.environ | {"NEWEL_HOME": str(newel.home / ".newel")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=newel.project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    assert EXPECTED[heading] in done.stdout
    assert os.listdir(newel.project) in ([], ["hello.py"], ["sessions"])  # noqa: PTH208 — the names alone
