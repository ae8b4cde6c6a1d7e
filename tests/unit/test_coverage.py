"""If these fail, ``docs/spec-coverage.md`` vouches for tests and modules that do not exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spec-coverage.md").read_text()
ROWS = [row.split(" | ") for row in PAGE.split("\n") if row.startswith("| ") and "::" in row]
TESTS = sorted(set(re.findall(r"`([\w./-]+\.py)::([\w:]+)`", PAGE)))
MODULES = sorted({name for row in ROWS for name in re.findall(r"`([\w/]+\.\w+)`", row[1])})


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def names(path: str) -> set[str]:
    """The tests of a file, those in classes as ``Class::test``."""
    found: set[str] = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{part.name}" for part in node.body if isinstance(part, FUNCTIONS)}
        elif isinstance(node, FUNCTIONS):
            found.add(node.name)
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def test_every_name_in_the_table_is_checked() -> None:
    assert len(re.findall(r"`[\w./-]+\.py::[\w:]+`", PAGE)) == PAGE.count(".py::") > 200
    assert len(MODULES) > 50


@pytest.mark.parametrize("path", sorted({path for path, _ in TESTS}))
def test_every_test_in_the_table_exists(path: str) -> None:
    named = {name for file, name in TESTS if file == path}
    assert named <= names(path)


def test_every_module_in_the_table_exists() -> None:
    homes = (ROOT / "src" / "newel", *(ROOT / "packages").glob("*/src"), ROOT)
    assert [name for name in MODULES if not any((home / name).is_file() for home in homes)] == []


def test_no_requirement_has_two_rows() -> None:
    """Otherwise one of them becomes outdated: merging two branches keeps both."""
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    for section in sections[1:]:
        rows = [row.split("|") for row in section.splitlines() if row.startswith("| ")]
        named = [
            (row[1].strip(), row[3].strip())
            for row in rows
            if not row[1].strip().startswith(("**", "requirement"))
        ]
        twice = [row for row in named if named.count(row) > 1]
        assert twice == [], section.partition("\n")[0]
