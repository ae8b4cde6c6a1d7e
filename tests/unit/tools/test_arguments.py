"""If these fail, calls with other agents' argument names, or with repairable mistakes, are rejected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from newel.agent.errors import InvalidArguments

if TYPE_CHECKING:
    from tests.unit.tools.conftest import Bench


def test_the_tools_are_offered_under_their_names_with_flat_schemas(local_bench: Bench) -> None:
    """Small models do not resolve references and fail on titles, nulls and defaults."""
    assert list(local_bench.tools) == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    for tool in local_bench.tools.values():
        text = json.dumps(tool.spec.parameters)
        assert not any(word in text for word in ("$ref", "$defs", '"title"', '"null"', '"default"', "anyOf"))
        for argument in tool.spec.parameters["properties"].values():
            assert argument["description"]
            assert argument["type"]
        assert tool.label


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("read", ["file_path"]),
        ("write", ["file_path", "content"]),
        ("edit", ["file_path"]),
        ("bash", ["command"]),
        ("grep", ["pattern"]),
        ("find", ["pattern"]),
    ],
)
def test_required_arguments_are_named(local_bench: Bench, name: str, required: list[str]) -> None:
    assert local_bench.tools[name].spec.parameters["required"] == required


def test_only_reading_tools_are_read_only(local_bench: Bench) -> None:
    """A read-only tool needs no approval and runs again after a crash."""
    reading = [name for name, tool in local_bench.tools.items() if tool.read_only]
    assert reading == ["read", "grep", "find", "ls"]


def test_no_two_tools_claim_the_same_name(local_bench: Bench) -> None:
    names = [name for tool in local_bench.tools.values() for name in (tool.spec.name, *tool.spec.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("read", {"path": "a"}, {"file_path": "a"}),
        ("read", {"filePath": "a", "start_line": "3"}, {"file_path": "a", "offset": 3}),
        ("write", {"filename": "a", "contents": "x"}, {"file_path": "a", "content": "x"}),
        (
            "edit",
            {"file": "a", "old_str": "x", "newText": "y", "replaceAll": "true"},
            {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True},
        ),
        ("bash", {"cmd": "ls", "description": "to see what is there"}, {"command": "ls"}),
        ("bash", {"command": "ls", "timeout": None}, {"command": "ls"}),
        (
            "edit",
            {"path": "a", "old_string": "null", "new_string": ""},
            {"file_path": "a", "old_string": "null", "new_string": ""},
        ),
    ],
)
def test_names_of_other_agents_are_understood(
    local_bench: Bench, name: str, given: dict[str, Any], meant: dict[str, Any]
) -> None:
    tool = local_bench.tools[name]
    assert tool.parse(given) == tool.parse(meant)


def test_a_list_of_edits_is_understood_under_other_names_and_as_a_string(local_bench: Bench) -> None:
    edit = local_bench.tools["edit"]
    meant = edit.parse({"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]})
    assert edit.parse({"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}) == meant
    assert edit.parse({"path": "a", "edits": '[{"old_str": "x", "new_str": "y"}]'}) == meant


def test_our_own_name_wins_if_both_are_given(local_bench: Bench) -> None:
    read = local_bench.tools["read"]
    assert read.parse({"path": "wrong", "file_path": "right"}).file_path == "right"


def test_a_part_of_the_schema_that_a_small_model_copies_is_no_argument(local_bench: Bench) -> None:
    """A model of half a billion parameters sends ``required`` with each call, and repeats it after an error."""
    read = local_bench.tools["read"]
    copied = {"type": "object", "required": ["file_path"], "properties": read.spec.parameters["properties"]}
    assert read.parse({"file_path": "a", **copied}) == read.parse({"file_path": "a"})
    with pytest.raises(InvalidArguments, match="unknown argument `required`"):
        read.parse({"file_path": "a", "required": ["offset"]})


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        (
            "read",
            {},
            "read: missing required argument `file_path`. The arguments are `file_path`, `offset` (optional)",
        ),
        (
            "edit",
            {"file_path": "a"},
            "missing required argument `old_string`. The arguments are `file_path`, `old_string`, `new_string` (optional)",
        ),
        ("edit", {"file_path": "a", "old_string": "x"}, "edit: missing required argument `new_string`"),
        ("edit", {"file_path": "a", "new_string": "x"}, "edit: missing required argument `old_string`"),
        (
            "edit",
            {"file_path": "a", "edits": [{"old_string": "x"}]},
            "missing required argument `new_string` in `edits[0]`",
        ),
        ("edit", {"file_path": "a", "edits": "x"}, "argument `edits`: expected a list"),
        ("write", {"file_path": "a", "content": 5}, "write: argument `content`: expected `str`, got `int`"),
        ("read", {"file_path": "a", "offset": "many"}, "read: argument `offset`: expected `int"),
        ("read", {"file_path": "a", "nonsense": 1}, "read: unknown argument `nonsense`"),
        ("read", {"file_path": "a\0b"}, "read: argument `file_path`: The path contains a NUL character"),
        ("bash", {"command": ""}, "bash: argument `command`: expected `str` of length >= 1"),
        ("bash", {"command": "ls", "workdir": "/"}, "bash: unknown argument `workdir`"),
        ("bash", {"command": "ls", "timeout": -1}, "bash: argument `timeout`: expected `float` >= 0"),
    ],
)
def test_an_invalid_call_is_answered_with_the_error_and_the_schema(
    local_bench: Bench, name: str, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArguments) as raised:
        local_bench.tools[name].parse(given)
    assert words in str(raised.value)
    assert "The arguments are `" in str(raised.value)


@pytest.mark.anyio
async def test_conflicting_calls_do_not_run_at_the_same_time(local_bench: Bench) -> None:
    """A write and a read of one file by two names, a command with anything."""
    local_bench.put("a.txt", "x")
    (local_bench.folder / "link").symlink_to("a.txt")
    read, write, bash = local_bench.tools["read"], local_bench.tools["write"], local_bench.tools["bash"]
    written = await write.serial_key(write.parse({"file_path": "link", "content": ""}))
    assert written == await read.serial_key(read.parse({"file_path": str(local_bench.folder / "a.txt")}))
    assert written != await read.serial_key(read.parse({"file_path": "b.txt"}))
    assert await bash.serial_key(bash.parse({"command": "true"})) == "*"
