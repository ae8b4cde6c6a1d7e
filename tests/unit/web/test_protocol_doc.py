"""If these fail, docs/protocol.md describes another protocol than the socket speaks."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from newel.web.protocol import ServerMessage, SocketRequest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "protocol.md").read_text()


def examples(heading: str) -> list[str]:
    """The examples of the messages in a chapter; schemas are collapsed and start differently."""
    chapter = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [
        block
        for block in re.findall(r"```json\n(.*?)\n```", chapter, re.DOTALL)
        if '"title"' not in block.split(",")[0]
    ]


def test_the_document_matches_the_types() -> None:
    script = ROOT / "scripts" / "protocol_doc.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("heading", "base"), [("From the page", SocketRequest), ("From the server", ServerMessage)]
)
def test_each_message_has_a_decodable_example(heading: str, base: type) -> None:
    kinds: list[Any] = base.__subclasses__()
    read: list[Any] = [
        msgspec.json.decode(example, type=functools.reduce(lambda one, other: one | other, kinds))
        for example in examples(heading)
    ]
    assert {type(message) for message in read} == set(kinds)


def test_the_document_contains_nothing_of_this_machine() -> None:
    assert str(ROOT) not in TEXT
