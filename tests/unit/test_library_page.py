"""If these fail, a programmer meets a public name that is not documented, or that a type checker does not know."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import newel
from newel.agent import ports
from newel.agent.agent import AgentTransport
from newel.app.answer import AskOptions
from newel.app.api import AgentFlags
from newel.config.settings import Flags
from newel.workspace.port import Workspace
from newel.workspace.tracked import TrackedWorkspace

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "library.md").read_text()
MODULES = ("messages", "events", "ports", "errors")

PORTS: tuple[Any, ...] = (
    ports.Provider,
    ports.PlannedCall,
    ports.Policy,
    ports.Queue,
    AgentTransport,
    Workspace,
    TrackedWorkspace,
)
"""Their methods are documented here, and not once more where they are implemented."""


def defined_in(module: str) -> dict[str, Any]:
    """The public classes and functions of a module of ``newel.agent``."""
    names = vars(importlib.import_module(f"newel.agent.{module}"))
    return {
        name: value
        for name, value in names.items()
        if not name.startswith("_") and getattr(value, "__module__", "") == f"newel.agent.{module}"
        if inspect.isclass(value) or inspect.isfunction(value)
    }


NAMES: dict[str, Any] = {
    **{f"newel.{name}": getattr(newel, name) for name in newel.__all__},
    **{f"{module}.{name}": value for module in MODULES for name, value in defined_in(module).items()},
}


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class and its bases in Newel."""
    for base in kind.__mro__:
        if not base.__module__.startswith("newel."):
            continue
        for name, value in cast("dict[str, Any]", vars(base)).items():
            found: Any = (
                getattr(value, "fget", None)
                or getattr(value, "func", None)
                or getattr(value, "__func__", value)
            )
            if not name.startswith("_") and inspect.isfunction(found):
                yield name, found


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_and_its_methods_have_docstrings(name: str) -> None:
    value = NAMES[name]
    assert value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    if inspect.isclass(value):
        described = {
            method for kind in (*value.__mro__, *PORTS) for method, found in methods(kind) if found.__doc__
        }
        assert {method for method, _ in methods(value)} - described == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_in_a_table_of_the_page(name: str) -> None:
    home, _, own = name.rpartition(".")
    heading = "## The names" if home == "newel" else f"### {home.capitalize()}"
    table = re.split(r"^##+ ", PAGE.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    assert f"`{own}`" in table


def test_the_page_names_nothing_that_does_not_exist() -> None:
    tables = PAGE.partition("\n## The names\n")[2]
    told = {
        name
        for row in re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert told - {name.rpartition(".")[2] for name in NAMES} == set()


def test_the_options_are_those_of_the_command_line() -> None:
    """A setting that the library lacks would be a TypeError, one that it invents would be ignored."""
    assert AgentFlags.__annotations__.keys() == {field.name for field in msgspec.structs.fields(Flags)}
    own = set(inspect.signature(newel.open_coding_agent).parameters) - {"flags"}
    assert AskOptions.__annotations__.keys() == AgentFlags.__annotations__.keys() | own
    screen = {"renderer", "through"}  # they mean nothing to a program
    for name in AskOptions.__annotations__.keys() - screen:
        assert f"`{name}`" in PAGE, name


@pytest.mark.slow  # ten seconds; pyright checks the same files for unknown types before each commit
@pytest.mark.timeout(120)
def test_a_type_checker_knows_the_type_of_every_public_name() -> None:
    """Of the whole package no type may be unknown, and of the names here none may be a guess."""
    command = [sys.executable, "-m", "pyright", "--verifytypes", "newel", "--ignoreexternal", "--outputjson"]
    report = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout)
    complete = report["typeCompleteness"]
    assert complete["exportedSymbolCounts"]["withUnknownType"] == 0
    public = {f"{value.__module__}.{value.__qualname__}" for value in NAMES.values()}
    parts = tuple(f"{name}." for name in public)
    guessed = [
        symbol["name"]
        for symbol in complete["symbols"]
        if symbol["isExported"] and (symbol["name"] in public or symbol["name"].startswith(parts))
        for diagnostic in symbol.get("diagnostics", [])
        if "missing type annotation" in diagnostic["message"]
    ]
    assert guessed == []
