"""If these fail, a review agent reads outside the project, or gets wrong lines of its files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.agent.errors import InvalidArguments, NewelError, ToolError
from newel.agent.ports import Tool
from newel.tools.review import ProjectLimits, lines_hash, project_tools
from newel.tools.review.propose_edits import ProposedEdit
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import FileInfo, Workspace
from tests.properties import examples

if TYPE_CHECKING:
    from tests.unit.tools.conftest import Bench

pytestmark = pytest.mark.anyio


class Project:
    """A folder with files, and its tools. Questions are answered from ``answers``."""

    def __init__(self, workspace: Workspace, **limits: int) -> None:
        self.workspace = workspace
        self.folder = Path(workspace.root)
        self.answers: list[str] = []
        self.asked: list[str] = []
        self.pending = 0
        tools = project_tools(workspace, ProjectLimits(**limits), ask=self.ask, propose=self.propose)
        self.tools: dict[str, Tool] = {tool.spec.name: tool for tool in tools}

    async def ask(self, question: str) -> str:
        self.asked.append(question)
        self.pending += 1
        assert self.pending == 1
        await anyio.lowlevel.checkpoint()
        self.pending -= 1
        return self.answers.pop(0)

    async def propose(self, edits: Any) -> str:
        raise AssertionError(edits)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        tool = self.tools[name]
        parsed = tool.parse(arguments)
        await (await tool.plan(parsed)).preview()

        async def on_output(_: str) -> None: ...

        return json.loads((await (await tool.plan(parsed)).execute(on_output)).output)

    def put(self, name: str, content: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def project(bench: Bench) -> Project:
    return Project(bench.workspace)


@pytest.fixture
def local_project(local_bench: Bench) -> Project:
    """For tests that do not depend on the host."""
    return Project(local_bench.workspace)


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_the_five_tools_are_offered_with_their_arguments(local_project: Project) -> None:
    offered = {name: list(tool.spec.parameters["properties"]) for name, tool in local_project.tools.items()}
    assert offered == {
        "search_project": ["query", "glob", "limit"],
        "read_file": ["file_path", "start_line", "end_line", "max_bytes"],
        "list_files": ["prefix", "glob"],
        "clarify_user": ["question"],
        "propose_edits": ["edits"],
    }
    assert [name for name, tool in local_project.tools.items() if not tool.read_only] == ["propose_edits"]


def test_the_limits_are_documented_and_configurable() -> None:
    limits = ProjectLimits()
    assert (limits.max_search_results_default, limits.max_search_results_cap) == (20, 50)
    assert (limits.max_search_snippet_lines, limits.max_read_bytes_default) == (20, 65_536)
    assert limits.max_read_lines_default == 800
    assert msgspec.convert({"max_read_lines_default": "5"}, ProjectLimits, strict=False) == ProjectLimits(
        max_read_lines_default=5
    )
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"max_read_lines_default": 0}, ProjectLimits)


# -- search_project -------------------------------------------------------------------------------


async def test_a_search_returns_places_with_their_lines(project: Project) -> None:
    project.put("notes/team/onboarding.md", "".join(f"{number}\n" for number in range(1, 18)) + "Checklist\n")
    project.put("other.txt", "checklist")
    found = await project.call("search_project", query="checklist", glob="**/*.md", limit=20)
    assert found == {
        "results": [
            {
                "file_path": "notes/team/onboarding.md",
                "start_line": 14,
                "end_line": 18,
                "snippet": "14\n15\n16\n17\nChecklist\n",
            }
        ]
    }
    assert await project.call("search_project", query="nowhere") == {"results": []}


async def test_a_search_that_omits_matches_says_so(project: Project) -> None:
    for number in range(60):
        project.put(f"{number:02}", "needle")
    found = await project.call("search_project", query="needle")
    assert len(found["results"]) == 20
    assert found["truncated"] is True
    assert "raise limit (at most 50)" in found["notice"]
    assert len((await project.call("search_project", query="needle", limit=1000))["results"]) == 50
    assert len((await project.call("search_project", query="needle", limit="3"))["results"]) == 3


async def test_a_query_that_looks_like_a_regular_expression_gets_a_hint(project: Project) -> None:
    for query in (r"def \w+", "foo|bar", "a.*b", "^start", "[a-z]+"):
        assert "literal" in (await project.call("search_project", query=query))["notice"]
    for query in ("end.", "$5", "x[1]", "a | b", "what?"):
        assert "notice" not in await project.call("search_project", query=query)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": ""},
        {"query": "a\nb"},
        {"query": "x", "glob": "../*"},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": -1},
        {"query": ["x"]},
        {},
        {"query": "\ud800"},
    ],
)
async def test_an_impossible_search_gives_the_reason(
    local_project: Project, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArguments, match=r"search_project: .*The arguments are"):
        await local_project.call("search_project", **arguments)


async def test_a_search_includes_staged_changes(tmp_path: Path) -> None:
    """A command on disk does not know a file that is only proposed."""

    class Staged(LocalWorkspace):
        async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
            return [FileInfo("file", 6, 0o644, 0) if path.endswith("/new") else None for path in paths]

        async def read_bytes(self, path: str, /, **given: Any) -> bytes:
            return b"needle" if path.endswith("/new") else await super().read_bytes(path, **given)

    async def staged() -> list[str]:
        return ["new"]

    project = Project(LocalWorkspace(str(tmp_path)))
    search, *_ = project_tools(Staged(str(tmp_path)), ask=project.ask, propose=project.propose, staged=staged)

    async def on_output(_: str) -> None: ...

    found = await (await search.plan(search.parse({"query": "needle"}))).execute(on_output)
    assert [each["file_path"] for each in json.loads(found.output)["results"]] == ["new"]


# -- read_file ------------------------------------------------------------------------------------


async def test_lines_are_returned_unchanged_with_the_hashes_for_an_edit(project: Project) -> None:
    data = "\ufeffone\r\ntwo\u2028\x0c\nthree\nno end".encode()
    project.put("notes/a.md", data)
    assert await project.call("read_file", file_path="notes/a.md") == {
        "file_path": "notes/a.md",
        "content": data.decode(),
        "start_line": 1,
        "end_line": 4,
        "total_lines": 4,
        "file_hash": sha256(data),
        "expected_hash": sha256(data),
    }
    some = await project.call("read_file", file_path="notes/a.md", start_line=2, end_line=3, max_bytes=65536)
    assert (some["start_line"], some["end_line"]) == (2, 3)
    assert some["content"] == "two\u2028\x0c\nthree\n"
    assert (
        some["expected_hash"]
        == sha256(some["content"].encode())
        == lines_hash(["two\u2028\x0c\n", "three\n"])
    )
    assert some["file_hash"] == sha256(data)
    assert "truncated" not in some


async def test_a_long_file_is_returned_in_pages_that_make_the_whole(project: Project) -> None:
    text = "".join(f"line {number} é\n" for number in range(2_000))
    project.put("f", text)
    first = await project.call("read_file", file_path="f")
    assert (first["end_line"], first["next_line"], first["truncated"]) == (800, 801, True)
    assert "start_line=801" in first["notice"]
    pieces, start = list[str](), 1
    while start:
        piece = await project.call("read_file", file_path="f", start_line=start, max_bytes=5_000)
        assert len(piece["content"].encode()) <= 5_000
        pieces.append(piece["content"])
        start = piece.get("next_line", 0)
    assert "".join(pieces) == text
    assert (await project.call("read_file", file_path="f", end_line=1_500))["end_line"] == 1_500
    assert (await project.call("read_file", file_path="f", end_line=9_999))["end_line"] == 2_000


async def test_an_overlong_line_is_cut_and_says_so(project: Project) -> None:
    project.put("f", "é" * 1_000 + "\nnext\n")
    cut = await project.call("read_file", file_path="f", max_bytes=101)
    assert cut["content"] == "é" * 50
    assert (cut["end_line"], cut["next_line"], cut["truncated"]) == (1, 2, True)
    assert "Line 1 is cut" in cut["notice"]
    assert cut["expected_hash"] == lines_hash(["é" * 1_000 + "\n"])
    large = Project(project.workspace, max_read_bytes_cap=64)
    assert len((await large.call("read_file", file_path="f", max_bytes=10**9))["content"].encode()) == 64


async def test_an_empty_file_can_be_read(project: Project) -> None:
    project.put("f", "")
    read = await project.call("read_file", file_path="f")
    assert (read["content"], read["start_line"], read["end_line"], read["total_lines"]) == ("", 1, 0, 0)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"ok\nb\xe4r", "byte 4 is 0xe4"), (b"a\0b", "NUL"), ("x".encode("utf-16"), "not UTF-8")],
)
async def test_a_binary_file_is_refused(project: Project, content: bytes, problem: str) -> None:
    project.put("f", content)
    with pytest.raises(ToolError, match=problem):
        await project.call("read_file", file_path="f")


async def test_a_file_that_is_too_large_is_refused(project: Project) -> None:
    project.put("f", "")
    os.truncate(project.folder / "f", (32 << 20) + 1)
    with pytest.raises(ToolError, match="more than 33,554,432 bytes"):
        await project.call("read_file", file_path="f")


async def test_missing_lines_are_refused(project: Project) -> None:
    project.put("f", "one\ntwo\n")
    with pytest.raises(ToolError, match="f has 2 lines; there is no line 3"):
        await project.call("read_file", file_path="f", start_line=3)
    with pytest.raises(InvalidArguments, match="start_line 5 is after end_line 2"):
        await project.call("read_file", file_path="f", start_line=5, end_line=2)
    for wrong in ({"start_line": 0}, {"end_line": -1}, {"max_bytes": 0}, {"start_line": "one"}):
        with pytest.raises(InvalidArguments, match=next(iter(wrong))):
            await project.call("read_file", file_path="f", **wrong)


async def test_a_misspelt_path_gets_suggestions(project: Project) -> None:
    project.put("notes/meeting.md", "")
    with pytest.raises(ToolError, match=r"no 'meetings.md' in 'notes'. Similar names: meeting.md"):
        await project.call("read_file", file_path="notes/meetings.md")
    with pytest.raises(ToolError, match=r"notes is a folder. List its files with list_files"):
        await project.call("read_file", file_path="notes")


HOSTILE = [
    "../x",
    "a/../../x",
    "/etc/passwd",
    "",
    "a\0b",
    ".git/config",
    "a/.GIT/x",
    ".git",
    "\ud800",
    "x" * 5000,
]


@pytest.mark.parametrize("path", HOSTILE)
async def test_no_path_leads_out_of_the_project_or_into_git(project: Project, path: str) -> None:
    project.put(".git/config", "secret")
    with pytest.raises(InvalidArguments, match="argument `file_path`"):
        await project.call("read_file", file_path=path)
    if path:
        with pytest.raises(InvalidArguments, match="argument `prefix`"):
            await project.call("list_files", prefix=path)


async def test_an_absolute_path_in_the_project_is_answered_with_the_relative_one(project: Project) -> None:
    with pytest.raises(InvalidArguments, match=r"relative to the project folder: `notes/a.md`"):
        await project.call("read_file", file_path=f"{project.folder}/notes/a.md")


async def test_a_link_is_followed_only_inside_the_project(project: Project, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    project.put("real/a.md", "text")
    project.put(".git/config", "secret")
    for name, target in {"out": tmp_path / "secret", "git": ".git", "up": "..", "here": "real"}.items():
        (project.folder / name).symlink_to(target)
    for path in ("out", "git/config", "up/secret"):
        with pytest.raises(InvalidArguments, match="argument `file_path`"):
            await project.call("read_file", file_path=path)
    assert (await project.call("read_file", file_path="./here//a.md"))["file_path"] == "real/a.md"


async def test_a_pipe_or_device_is_refused(project: Project) -> None:
    os.mkfifo(project.folder / "pipe")
    with pytest.raises(NewelError, match="not a regular file"):
        await project.call("read_file", file_path="pipe")


@given(
    st.lists(st.sampled_from(["a", "é", "\r\n", "\n", "\u2028", "\ufeff", "\x0c"]), max_size=40).map("".join),
    st.integers(1, 8),
    st.integers(1, 30),
)
@settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_the_pages_of_any_file_make_the_file(
    local_project: Project, text: str, lines: int, room: int
) -> None:
    local_project.put("f", text)
    small = Project(local_project.workspace, max_read_lines_default=lines)
    read, start = "", 1
    while start:
        piece = await small.call("read_file", file_path="f", start_line=start, max_bytes=room)
        whole = await small.call(
            "read_file", file_path="f", start_line=start, end_line=max(start, piece["end_line"])
        )
        assert piece["expected_hash"] == whole["expected_hash"] == sha256(whole["content"].encode())
        assert whole["content"].startswith(piece["content"])
        read += whole["content"]
        start = piece.get("next_line", 0)
    assert read == text


# -- list_files -----------------------------------------------------------------------------------


async def test_files_are_listed_by_folder_and_pattern(project: Project) -> None:
    for name in (
        "notes/team/weekly.md",
        "notes/team/onboarding.md",
        "notes/a.txt",
        ".env",
        ".git/x",
        "b-c/d",
    ):
        project.put(name, "")
    for arguments, files in {
        ("notes/team", "**/*"): ["notes/team/onboarding.md", "notes/team/weekly.md"],
        ("", "**/*"): ["b-c/d", "notes/a.txt", "notes/team/onboarding.md", "notes/team/weekly.md"],
        ("./notes/", "*.txt"): ["notes/a.txt"],
        (".", "notes/*"): ["notes/a.txt"],
        ("notes", "team/w*"): ["notes/team/weekly.md"],
        ("", ".env"): [".env"],
    }.items():
        listed = await project.call("list_files", prefix=arguments[0], glob=arguments[1])
        assert listed == {"files": files}
    assert (await project.call("list_files"))["files"] == (await project.call("list_files", prefix=""))[
        "files"
    ]
    nothing = await project.call("list_files", prefix="notes", glob="notes/*")
    assert nothing == {
        "files": [],
        "notice": "No file in notes matches. The glob applies to the paths below it.",
    }


async def test_a_long_list_is_cut_and_says_so(project: Project) -> None:
    for number in range(30):
        project.put(f"{number:02}", "")
    few = await Project(project.workspace, max_listed_files=10).call("list_files")
    assert few["files"] == [f"{number:02}" for number in range(10)]
    assert few["truncated"] is True
    assert "more files" in few["notice"]
    small = await Project(project.workspace, max_listed_bytes=26).call("list_files")
    assert (len(small["files"]), small["truncated"]) == (5, True)


async def test_links_are_not_listed(project: Project, tmp_path: Path) -> None:
    project.put("a/b", "")
    (project.folder / "out").symlink_to(tmp_path)
    (project.folder / "file").symlink_to("a/b")
    assert await project.call("list_files") == {"files": ["a/b"]}


async def test_a_path_that_is_not_a_folder_is_refused(project: Project) -> None:
    project.put("notes/a", "")
    with pytest.raises(ToolError, match="notes/a is a file, not a folder"):
        await project.call("list_files", prefix="notes/a")
    with pytest.raises(ToolError, match="Similar names: notes/"):
        await project.call("list_files", prefix="note")
    with pytest.raises(InvalidArguments, match="glob"):
        await project.call("list_files", glob="{a")


# -- clarify_user ---------------------------------------------------------------------------------


async def test_a_question_is_answered_by_the_user(local_project: Project) -> None:
    local_project.answers = ["terse"]
    assert await local_project.call("clarify_user", question=" Terse or detailed? ") == {"answer": "terse"}
    assert local_project.asked == ["Terse or detailed?"]


@pytest.mark.parametrize("skipped", ["", "  ", "no_user_answer"])
async def test_a_skipped_question_has_no_answer(local_project: Project, skipped: str) -> None:
    local_project.answers = [skipped]
    assert await local_project.call("clarify_user", question="?") == {"answer": "no_user_answer"}


async def test_one_question_is_pending_at_a_time(local_project: Project) -> None:
    local_project.answers = ["1", "2", "3"]
    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(lambda number=number: local_project.call("clarify_user", question=f"{number}?"))
    assert sorted(local_project.asked) == ["0?", "1?", "2?"]


async def test_an_empty_question_is_refused(local_project: Project) -> None:
    for question in ("", " ", "x" * 4_001):
        with pytest.raises(InvalidArguments, match="argument `question`"):
            await local_project.call("clarify_user", question=question)
    assert local_project.asked == []


def test_an_edit_survives_the_wire() -> None:
    edit = ProposedEdit(edit_id="e_1", file_path="a", operation="insert", start_line=1, new_text="x\n")
    assert msgspec.json.decode(msgspec.json.encode(edit), type=ProposedEdit) == edit
