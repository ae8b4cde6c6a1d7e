"""If these fail, an agent that may only read misses files, sees what it should not, or never comes back."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import InvalidArguments, ToolError, WorkspaceError
from newel.agent.ports import Tool
from newel.tools.search import grep, search_tools
from newel.tools.search.regex_worker_main import compile_pattern, search_text
from newel.workspace.local import LocalWorkspace
from tests.properties import examples
from tests.unit.tools.conftest import Bench

pytestmark = pytest.mark.anyio


def fill(bench: Bench) -> None:
    bench.put("src/app.py", "import os\n\ndef main():\n    return os.name\n")
    bench.put("src/deep/util.py", "def helper():\r\n    pass\r\n")
    bench.put("README.md", "Run main.\n")
    bench.put(".github/ci.yml", "run: main\n")
    bench.put("image.bin", b"main\0main")


class TestGrep:
    async def test_matches_are_shown_with_their_places(self, bench: Bench) -> None:
        fill(bench)
        result = await bench.call("grep", pattern=r"def \w+")
        assert result.output == "src/app.py:3:def main():\nsrc/deep/util.py:1:def helper():"
        assert result.details["matches"] == 2

    async def test_a_glob_a_folder_and_a_file_narrow_it(self, bench: Bench) -> None:
        fill(bench)
        assert (await bench.call("grep", pattern="main", glob="*.md")).output == "README.md:1:Run main."
        assert (await bench.call("grep", pattern="def", path="src/deep")).output == "util.py:1:def helper():"
        assert (await bench.call("grep", pattern="os", path="src/app.py")).output == (
            "app.py:1:import os\napp.py:4:    return os.name"
        )
        assert (
            await bench.call("grep", pattern="main", glob=".github/**")
        ).output == ".github/ci.yml:1:run: main"

    async def test_case_and_plain_text(self, bench: Bench) -> None:
        bench.put("a.txt", "A.b\naxb\n")
        assert (
            await bench.call("grep", pattern="a.b", ignore_case=True)
        ).output == "a.txt:1:A.b\na.txt:2:axb"
        assert (await bench.call("grep", pattern="A.b", literal=True)).output == "a.txt:1:A.b"

    async def test_lines_around_a_match(self, bench: Bench) -> None:
        bench.put("a.txt", "".join(f"{number}\n" for number in range(1, 21)))
        result = await bench.call("grep", pattern="^(3|15)$", context=1)
        assert result.output == "a.txt-2-2\na.txt:3:3\na.txt-4-4\n--\na.txt-14-14\na.txt:15:15\na.txt-16-16"

    async def test_paths_and_counts_alone(self, bench: Bench) -> None:
        fill(bench)
        assert (await bench.call("grep", pattern="main", output="files")).output == "README.md\nsrc/app.py"
        assert (await bench.call("grep", pattern="os", output="count")).output == "src/app.py:2"

    async def test_no_match_is_said(self, bench: Bench) -> None:
        assert (await bench.call("grep", pattern="x")).output == "No match."

    async def test_more_matches_than_wanted_are_announced(self, bench: Bench) -> None:
        bench.put("a.txt", "x\n" * 300)
        result = await bench.call("grep", pattern="x", limit=2)
        assert result.output.startswith("a.txt:1:x\na.txt:2:x\n[There are more matches than these 2.")
        assert result.details["truncated"]
        assert (await bench.call("grep", pattern="x")).output.count("a.txt:") == grep.LIMIT

    async def test_a_long_line_is_cut_around_the_match(self, bench: Bench) -> None:
        bench.put("a.txt", "a" * 5_000 + "needle" + "b" * 5_000)
        output = (await bench.call("grep", pattern="needle")).output
        assert "needle" in output
        assert len(output) < 600

    @pytest.mark.parametrize("pattern", ["(", "", "x" * 1_001, "a{2,1}", "(?P<a>x)(?P<a>y)"])
    async def test_an_invalid_pattern_is_explained(self, bench: Bench, pattern: str) -> None:
        with pytest.raises(InvalidArguments, match="pattern"):
            await bench.call("grep", pattern=pattern)

    async def test_a_pattern_of_doubtful_syntax_prints_nothing(
        self, local_bench: Bench, recwarn: pytest.WarningsRecorder
    ) -> None:
        """Python warns of it on standard error, which is the screen of a conversation."""
        local_bench.put("a.txt", "[\n")
        assert (await local_bench.call("grep", pattern="[[a]")).output == "a.txt:1:["
        assert not recwarn.list

    async def test_a_pattern_that_takes_for_ever_is_stopped(self, local_bench: Bench) -> None:
        local_bench.put("a.txt", "a" * 60 + "b\n")
        began = time.monotonic()
        tool = search_tools(local_bench.workspace, seconds=0.5)[0]
        assert "stopped after" in await call(tool, pattern="(a+)+$")
        assert time.monotonic() - began < 20  # the pattern takes for ever
        shown = await anyio.run_process(["ps", "-ef"])
        assert b"regex_worker" not in shown.stdout


class TestFind:
    async def test_patterns_select_paths(self, bench: Bench) -> None:
        fill(bench)
        assert (await bench.call("find", pattern="*.py")).output == "src/app.py\nsrc/deep/util.py"
        assert (await bench.call("find", pattern="*.py", path="src/deep")).output == "util.py"
        assert (await bench.call("find", pattern=".github/**")).output == ".github/ci.yml"
        assert (await bench.call("find", pattern="*.rs")).output == "No file matches."

    async def test_a_limit_is_announced(self, bench: Bench) -> None:
        for number in range(5):
            bench.put(f"{number}.txt", "")
        result = await bench.call("find", pattern="*.txt", limit=2)
        assert result.output.startswith("0.txt\n1.txt\n[… and 3 files more.")

    async def test_names_with_line_ends_cannot_forge_others(self, local_bench: Bench) -> None:
        local_bench.put("a\nREADME.md", "x\n")
        assert (await local_bench.call("find", pattern="*")).output == "a?README.md"
        assert (await local_bench.call("grep", pattern="x")).output == "a?README.md:1:x"

    async def test_a_pattern_that_leads_outside_is_an_error(self, bench: Bench) -> None:
        with pytest.raises(InvalidArguments, match="pattern"):
            await bench.call("find", pattern="../*")


class TestLs:
    async def test_a_folder_is_listed(self, bench: Bench) -> None:
        fill(bench)
        (bench.folder / "link").symlink_to("README.md")
        assert (
            await bench.call("ls")
        ).output == ".github/\nREADME.md  10 bytes\nimage.bin  9 bytes\nlink@\nsrc/"
        assert (await bench.call("ls", path="src", limit=1)).output.startswith(
            "app.py  42 bytes\n[… and 1 name more."
        )

    async def test_a_file_and_nothing_are_errors(self, bench: Bench) -> None:
        bench.put("a.txt", "")
        with pytest.raises(ToolError, match=r"a\.txt is a file"):
            await bench.call("ls", path="a.txt")
        with pytest.raises(ToolError, match="not found"):
            await bench.call("find", pattern="*", path="b")


async def test_links_are_not_followed(local_bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither out of the project nor round in a circle."""
    outside = tmp_path_factory.mktemp("outside") / "outside.txt"
    outside.write_text("secret\n")
    local_bench.put("sub/a.txt", "x\n")
    (local_bench.folder / "link.txt").symlink_to(outside)
    (local_bench.folder / "sub/loop").symlink_to("..")
    assert (await local_bench.call("grep", pattern="secret|x")).output == "sub/a.txt:1:x"
    assert (await local_bench.call("find", pattern="*.txt")).output == "sub/a.txt"


async def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build\n*.log\n")
    (tmp_path / "build").mkdir()
    for name in ("a.txt", "b.log", "build/c.txt"):
        (tmp_path / name).write_text("x\n")
    await anyio.run_process(["git", "init", "-q"], cwd=tmp_path)
    workspace = LocalWorkspace(str(tmp_path))
    tools = {tool.spec.name: tool for tool in search_tools(workspace, list_files=workspace.files_by_git)}
    assert await call(tools["grep"], pattern="x") == "a.txt:1:x"
    assert await call(tools["find"], pattern="**/*") == "a.txt"
    assert await call(tools["find"], pattern="*", path="build") == "No file matches."


async def test_files_that_often_hold_secrets_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "prod.env").write_text("KEY=x\n")
    (tmp_path / "a.txt").write_text("KEY\n")
    tools = {
        tool.spec.name: tool
        for tool in search_tools(LocalWorkspace(str(tmp_path)), is_private=lambda path: path.endswith(".env"))
    }
    for name, arguments in (("grep", {"pattern": "KEY"}), ("find", {"pattern": "*"})):
        output = await call(tools[name], **arguments)
        assert "a.txt" in output
        assert "prod.env" not in output
        assert "1 file that often holds secrets" in output


async def test_unreadable_files_are_skipped(local_bench: Bench) -> None:
    local_bench.put("a.txt", "x\n")
    os.mkfifo(local_bench.folder / "pipe")
    assert (await local_bench.call("grep", pattern="x")).output == "a.txt:1:x"


async def call(tool: Tool, **arguments: object) -> str:
    async def ignore(_: str) -> None: ...

    return (await (await tool.plan(tool.parse(arguments))).execute(ignore)).output


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.text("ab \t\ré", max_size=8), max_size=8),
    st.sampled_from(["a", "b+", "^a", "a$", "é", "a b", "[^a]$", "^$"]),
    st.integers(0, 3),
)
def test_the_search_finds_the_lines_that_match_and_no_others(
    lines: list[str], pattern: str, context: int
) -> None:
    text = "".join(f"{line}\n" for line in lines)
    expected = [number for number, line in enumerate(lines, 1) if re.search(pattern, line.removesuffix("\r"))]
    found = search_text(text, compile_pattern(pattern, ignore_case=False, literal=False), context, 1_000)
    numbers, shown = found or ([], {})
    assert numbers == expected
    near = {
        n
        for number in expected
        for n in range(number - context, number + context + 1)
        if 1 <= n <= len(lines)
    }
    assert shown == {number: lines[number - 1].removesuffix("\r") for number in near}


async def test_a_folder_that_vanishes_is_an_error(local_bench: Bench) -> None:
    with pytest.raises((ToolError, WorkspaceError)):
        await local_bench.call("grep", pattern="x", path="gone")
