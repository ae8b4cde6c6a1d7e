"""If these fail, the documents of `newel rpc` describe another protocol than it speaks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from newel.terminal.rpc import protocol as p

ROOT = Path(__file__).resolve().parents[3]
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "rpc.schema.json").read_text())


def test_the_documents_match_the_types() -> None:
    """The page, the JSON Schema, and the types of the TypeScript client."""
    script = ROOT / "scripts" / "rpc_doc.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("line", "is_valid"),
    [
        ({"type": "state"}, True),
        ({"type": "state", "id": "a"}, True),
        ({"type": "state", "id": [1]}, False),
        ({"type": "state", "more": 1}, False),
        ({"type": "prompt"}, False),
        ({"type": "prompt", "text": ""}, False),
        ({"type": "nope"}, False),
    ],
)
def test_the_schema_and_the_decoder_agree(line: dict[str, Any], is_valid: bool) -> None:
    validator: Any = jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/Command"})
    assert validator.is_valid(line) is is_valid
    try:
        msgspec.json.decode(json.dumps(line), type=p.AnyCommand)
        was_read = True
    except msgspec.ValidationError:
        was_read = False
    assert was_read is is_valid
