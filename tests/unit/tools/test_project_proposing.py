"""If these fail, valid edits of a review are changed or lost, or the model does not learn what was wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.agent.errors import InvalidArguments, ToolError
from newel.agent.ports import Tool, ToolResult
from newel.tools.review import ProjectLimits, ProposedEdit, lines_hash, project_tools
from newel.workspace.local import LocalWorkspace
from tests.properties import examples

pytestmark = pytest.mark.anyio

HASH = lines_hash(["a\n"])


class Proposals:
    """The tool, and the proposals that it passed on."""

    def __init__(self, folder: Path) -> None:
        self.taken: list[ProposedEdit] = []
        self.refuse = ""
        workspace = LocalWorkspace(str(folder))
        self.tool: Tool = project_tools(workspace, ProjectLimits(), ask=self.ask, propose=self.propose)[-1]

    async def ask(self, question: str) -> str:
        raise AssertionError(question)

    async def propose(self, edits: Sequence[ProposedEdit]) -> str:
        if self.refuse:
            raise ToolError(self.refuse)
        self.taken += edits
        return f"{len(edits)} proposed"

    async def call(self, *edits: Any, **arguments: Any) -> ToolResult:
        parsed = self.tool.parse(arguments or {"edits": list(edits)})

        async def on_output(_: str) -> None: ...

        return await (await self.tool.plan(parsed)).execute(on_output)


@pytest.fixture
def proposals(tmp_path: Path) -> Proposals:
    return Proposals(tmp_path)


def an_edit(**changes: Any) -> dict[str, Any]:
    edit = {
        "edit_id": "e_1",
        "file_path": "notes/a.md",
        "operation": "replace",
        "start_line": 14,
        "end_line": 22,
        "new_text": "new\n",
        "expected_hash": HASH,
        "rationale": "why",
    }
    return {name: value for name, value in (edit | changes).items() if value != "left out"}


async def test_a_valid_edit_is_passed_on_unchanged(proposals: Proposals) -> None:
    insert = {"file_path": "./notes//new.md", "operation": "insert", "start_line": 1, "new_text": "x"}
    delete = {
        "file_path": "a",
        "operation": "delete",
        "start_line": "3",
        "end_line": 3,
        "expected_hash": None,
    }
    result = await proposals.call(an_edit(), insert, delete)
    assert result.output == "3 proposed"
    assert proposals.taken[0] == ProposedEdit(**an_edit())
    made = [edit.edit_id for edit in proposals.taken]
    assert result.details == {"editIds": made, "files": ["a", "notes/a.md", "notes/new.md"]}
    assert proposals.taken[1:] == [
        ProposedEdit(
            edit_id=made[1], file_path="notes/new.md", operation="insert", start_line=1, new_text="x"
        ),
        ProposedEdit(edit_id=made[2], file_path="a", operation="delete", start_line=3, end_line=3),
    ]
    assert len(set(made)) == 3
    assert all(made)


async def test_common_variants_of_edits_are_understood(proposals: Proposals) -> None:
    await proposals.call(edits=json.dumps([an_edit()]))
    await proposals.call(**an_edit())
    await proposals.call(an_edit(comment="unknown"))
    assert proposals.taken == [ProposedEdit(**an_edit())] * 3


def test_the_schema_describes_all_fields(proposals: Proposals) -> None:
    schema = proposals.tool.spec.parameters["properties"]["edits"]["items"]
    assert list(schema["properties"]) == list(an_edit())
    assert schema["required"] == ["file_path", "operation", "start_line"]
    assert schema["properties"]["operation"] == {"enum": ["delete", "insert", "replace"]}
    assert schema["properties"]["end_line"]["type"] == "integer"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operation": "update"}, '`operation`: expected "replace", "insert" or "delete"'),
        ({"operation": "left out"}, '`operation` is missing: expected "replace", "insert" or "delete"'),
        ({"start_line": "left out"}, "`start_line` is missing: expected a line number"),
        ({"start_line": 0}, "`start_line`: expected a line number, 1 or more"),
        ({"end_line": -3}, "`end_line`: expected a line number, 1 or more"),
        ({"start_line": 2.5}, "`start_line`: expected a line number"),
        ({"end_line": 13}, "`end_line` 13 is before `start_line` 14"),
        ({"end_line": 13, "operation": "insert"}, "`end_line` 13 is before `start_line` 14"),
        ({"end_line": "left out"}, "`end_line` is missing: the last line to replace"),
        ({"operation": "delete"}, '`new_text` must be empty for "delete"'),
        ({"operation": "delete", "new_text": "", "end_line": None}, "the last line to delete"),
        ({"operation": "insert", "new_text": ""}, "`new_text`: expected the lines to insert"),
        ({"new_text": "left out"}, "`new_text` is missing"),
        ({"new_text": ["a"]}, "`new_text`: expected the new lines as one string"),
        ({"new_text": "a\0b"}, "`new_text` contains invalid characters"),
        ({"new_text": "\ud800"}, "`new_text` contains invalid characters"),
        ({"expected_hash": "sha256:..."}, "`expected_hash`: expected the hash that read_file returned"),
        ({"edit_id": "a b"}, "`edit_id`: expected at most 64 letters"),
        ({"edit_id": "x" * 65}, "`edit_id`: expected at most 64 letters"),
        ({"file_path": "left out"}, "`file_path` is missing"),
        ({"file_path": "../x"}, "`file_path`: `../x` contains `..`"),
        ({"file_path": "/etc/passwd"}, "`file_path`: `/etc/passwd` is absolute"),
        ({"file_path": ".git/hooks/pre-commit"}, "in the .git folder"),
        ({"file_path": "."}, "it is the project folder"),
        ({"file_path": "a\0"}, "`file_path`: the path is empty, too long, or contains invalid characters"),
        ({"file_path": "out/x"}, "leads out of the project through a link"),
    ],
)
async def test_an_error_names_its_edit_and_field(
    proposals: Proposals, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (tmp_path / "out").symlink_to("/tmp")  # noqa: S108 — any folder outside
    with pytest.raises(InvalidArguments) as refused:
        await proposals.call(an_edit(edit_id="e_0"), an_edit(**changes))
    assert words in str(refused.value)
    assert "edit 2" in str(refused.value)
    assert "edit 1" not in str(refused.value)
    assert proposals.taken == []


async def test_all_problems_are_reported_at_once_up_to_a_limit(proposals: Proposals) -> None:
    with pytest.raises(InvalidArguments) as refused:
        await proposals.call(an_edit(start_line=0), an_edit(edit_id="e_2", operation="?"), "text")
    for words in ("edit 1 (e_1): `start_line`", "edit 2 (e_2): `operation`", "edit 3: expected an object"):
        assert words in str(refused.value)
    with pytest.raises(InvalidArguments, match="and 490 more problems"):
        await proposals.call(*[{}] * 500)


async def test_an_id_used_twice_is_refused(proposals: Proposals) -> None:
    with pytest.raises(InvalidArguments, match="`e_1` is used twice"):
        await proposals.call(an_edit(), an_edit(start_line=1))


async def test_oversized_proposals_are_refused(proposals: Proposals) -> None:
    with pytest.raises(InvalidArguments, match="10,000 edits; at most 500"):
        await proposals.call(*[an_edit()] * 10_000)
    with pytest.raises(InvalidArguments, match="longer than 1,048,576 bytes"):
        await proposals.call(an_edit(new_text="é" * 600_000))


@pytest.mark.parametrize("edits", [None, [], {}, "no JSON", "{}", 5])
async def test_a_call_without_a_list_of_edits_is_refused(proposals: Proposals, edits: Any) -> None:
    with pytest.raises(
        InvalidArguments, match=r"argument `edits`: expected a list.*The arguments are `edits`"
    ):
        await proposals.call(edits=edits)


async def test_a_refusal_of_the_review_is_told_to_the_model(proposals: Proposals) -> None:
    proposals.refuse = "the file has 3 lines"
    with pytest.raises(ToolError, match=proposals.refuse):
        await proposals.call(an_edit())


async def test_a_preview_shows_the_proposal(proposals: Proposals) -> None:
    insert = {"file_path": "b", "operation": "insert", "start_line": 1, "new_text": "x\n"}
    planned = await proposals.tool.plan(proposals.tool.parse({"edits": [an_edit(), insert]}))
    shown = (await planned.preview()).text
    assert shown == "replace notes/a.md:14-22\nnew\ninsert b:1\nx"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(an_edit())), inner, max_size=8)
    ),
    max_leaves=12,
)


@given(JSON)
@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_any_arguments_are_handled(proposals: Proposals, given: Any) -> None:
    try:
        parsed = proposals.tool.parse({"edits": given})
    except InvalidArguments:
        return
    for edit in parsed.edits:
        assert edit.edit_id
        assert edit.file_path not in {"", "."}
        assert edit.end_line is None or edit.end_line >= edit.start_line
