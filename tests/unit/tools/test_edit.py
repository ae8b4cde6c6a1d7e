"""If these fail, ``edit`` changes bytes outside the quoted text."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import NewelError, StaleFile, ToolError
from newel.diff.unified import split_lines
from newel.tools.edit import EditTool
from newel.tools.file_tool import FileTracker
from newel.tools.text_replace import Replacement, edit
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import WriteResult

if TYPE_CHECKING:
    from tests.unit.tools.conftest import Bench

pytestmark = pytest.mark.anyio

QUOTE = "\u2019"


class Meddled(LocalWorkspace):
    """A workspace on which another program writes at the worst moment."""

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        await super().write_bytes(path, b"someone else's\n")
        return await super().write_bytes(path, data, expect=expect, mode=mode)


async def shown(_: str) -> None:
    pass


async def test_one_occurrence_is_replaced_and_reported(bench: Bench) -> None:
    path = bench.put("src/server.ts", "a\nb\nconst port = 3000;\nc\n")
    edited = await bench.call(
        "edit",
        file_path="src/server.ts",
        old_string="const port = 3000;",
        new_string="const env = process.env;\nconst port = env.PORT || 3000;\nlog(port);",
    )
    assert edited.output == "Replaced 1 occurrence in src/server.ts (3 lines changed)"
    assert (
        path.read_text() == "a\nb\nconst env = process.env;\nconst port = env.PORT || 3000;\nlog(port);\nc\n"
    )
    assert edited.details == {
        "filePath": "src/server.ts",
        "oldString": "const port = 3000;",
        "newString": "const env = process.env;\nconst port = env.PORT || 3000;\nlog(port);",
        "matchCount": 1,
        "linesChanged": 3,
        "diff": "--- src/server.ts\n+++ src/server.ts\n@@ -1,4 +1,6 @@\n a\n b\n-const port = 3000;\n"
        "+const env = process.env;\n+const port = env.PORT || 3000;\n+log(port);\n c\n",
        "firstChangedLine": 3,
    }


class TestWhatMatches:
    @pytest.mark.parametrize(
        ("before", "old", "new", "after"),
        [
            pytest.param(b"a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\ny\n", b"a\r\nx\r\ny\r\nc\r\n", id="CRLF"),
            pytest.param(b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc", id="new lines in a CRLF file"),
            pytest.param(
                b"a\nb\r\nc\n", "a\nb\nc\n", "a\nB\nc\nd\n", b"a\nB\r\nc\nd\n", id="mixed line ends"
            ),
            pytest.param(b"a\nb\n", "a\r\nb\r\n", "a\r\nc\r\n", b"a\nc\n", id="the model writes CRLF"),
            pytest.param(b"a\r\nb\r\n", "a\r\nb", "a\nb", b"a\nb\r\n", id="the model means the CR"),
            pytest.param(
                b"if x:  \n\tgo()\t\n",
                "if x:\n\tgo()\n",
                "if x:\n\tstop()\n",
                b"if x:  \n\tstop()\n",
                id="trailing blanks in the file",
            ),
            pytest.param(
                b"if x:\n  go()\n",
                "if x:  \n  go() ",
                "if y:\n  go()",
                b"if y:\n  go()\n",
                id="trailing blanks in the quotation",
            ),
            pytest.param(
                b"go()  \nx\n", "go()   ", "stop()", b"stop()\nx\n", id="other blanks at the line end"
            ),
            pytest.param(
                "say \u201cit\u2019s \u2013 fine\u201d\n".encode(),
                'say "it\'s - fine"',
                "say no",
                b"say no\n",
                id="typographic quotes and dashes",
            ),
            pytest.param(
                "# \u2019 kept\na\n".encode(),
                "# ' kept\na",
                "# ' kept\nb",
                "# \u2019 kept\nb\n".encode(),
                id="lines that are only quoted stay",
            ),
            pytest.param("a\u00a0b\n".encode(), "a b", "c", b"c\n", id="a space that does not break"),
            pytest.param(
                b"\xef\xbb\xbfone\ntwo", "one\ntwo", "1\n2", b"\xef\xbb\xbf1\n2", id="byte order mark"
            ),
            pytest.param(
                b"caf\xe9\nx = 1\n", "x = 1", "x = 2", b"caf\xe9\nx = 2\n", id="other encodings elsewhere"
            ),
            pytest.param(b"a\nb", "b", "", b"a\n", id="deletion at the end"),
            pytest.param(b"a\nb\nc\n", "b\n", "", b"a\nc\n", id="deletion of a line"),
            pytest.param(b"f(a,  b)\n", "(a,  b)", "()", b"f()\n", id="within a line"),
        ],
    )
    async def test_the_file_keeps_its_line_ends_and_encoding(
        self, bench: Bench, before: bytes, old: str, new: str, after: bytes
    ) -> None:
        path = bench.put("f", before)
        await bench.call("edit", file_path="f", old_string=old, new_string=new)
        assert path.read_bytes() == after

    @pytest.mark.parametrize(
        ("before", "old"),
        [
            pytest.param("a  b", "a b", id="blanks within a line"),
            pytest.param("\tgo()", "    go()", id="indentation"),
            pytest.param("Foo", "foo", id="case"),
            pytest.param("foobar", "foo ", id="a blank at the end means the end of the line"),
            pytest.param("a\n\nb", "a\nb", id="an empty line"),
        ],
    )
    async def test_only_known_differences_are_tolerated(
        self, local_bench: Bench, before: str, old: str
    ) -> None:
        """A text that only resembles the quoted one may be the wrong one."""
        path = local_bench.put("f", before)
        with pytest.raises(ToolError, match="old_string not found in f"):
            await local_bench.call("edit", file_path="f", old_string=old, new_string="x")
        assert path.read_text() == before

    async def test_an_exact_match_precedes_a_similar_one(self, local_bench: Bench) -> None:
        path = local_bench.put("f", "it\u2019s\nit's\n")
        await local_bench.call("edit", file_path="f", old_string="it's", new_string="it is")
        assert path.read_text() == "it\u2019s\nit is\n"


class TestRefusals:
    async def test_several_matches_are_listed_by_line(self, local_bench: Bench) -> None:
        path = local_bench.put("f", "x = 1\ny\nx = 1\nx = 1\n")
        with pytest.raises(ToolError, match=r"occurs 3 times in f, at lines 1, 3, 4\. .*replace_all"):
            await local_bench.call("edit", file_path="f", old_string="x = 1", new_string="z")
        assert path.read_text() == "x = 1\ny\nx = 1\nx = 1\n"

    async def test_overlapping_matches_count_separately(self, local_bench: Bench) -> None:
        local_bench.put("f", "aaa")
        with pytest.raises(ToolError, match="occurs 2 times"):
            await local_bench.call("edit", file_path="f", old_string="aa", new_string="b")

    async def test_very_many_matches_are_not_all_listed(self, local_bench: Bench) -> None:
        local_bench.put("f", "x\n" * 1_000)
        with pytest.raises(ToolError, match=r"occurs 20\+ times in f, at lines 1, 2, .*, 20 …\."):
            await local_bench.call("edit", file_path="f", old_string="x", new_string="y")

    async def test_a_missing_text_is_answered_with_the_nearest_lines(self, local_bench: Bench) -> None:
        local_bench.put("f", "import os\n\ndef load(path):\n    return open(path)\n")
        with pytest.raises(ToolError) as raised:
            await local_bench.call(
                "edit", file_path="f", old_string="def load(file):\n    return 1", new_string="x"
            )
        assert "The most similar lines:\n     3\tdef load(path):\n     4\t    return open(path)\n" in str(
            raised.value
        )

    async def test_an_edit_without_a_change_is_refused(self, local_bench: Bench) -> None:
        local_bench.put("f", "it\u2019s\n")
        with pytest.raises(ToolError, match="are the same"):
            await local_bench.call("edit", file_path="f", old_string="a", new_string="a")
        with pytest.raises(ToolError, match="would not change f"):
            await local_bench.call("edit", file_path="f", old_string="it's", new_string="it\u2019s")

    async def test_a_file_changed_since_the_read_must_be_read_again(self, bench: Bench) -> None:
        path = bench.put("f", "one\ntwo\n")
        await bench.call("read", file_path="f")
        path.write_text("one\ntwo\nthree\n")
        with pytest.raises(StaleFile, match=r"f changed on disk since you last saw it.*Read it again"):
            await bench.call("edit", file_path="f", old_string="one", new_string="1")
        await bench.call("read", file_path="f")
        await bench.call("edit", file_path="f", old_string="one", new_string="1")
        await bench.call("edit", file_path="f", old_string="two", new_string="2")
        assert path.read_text() == "1\n2\nthree\n"

    async def test_a_change_during_the_edit_is_detected(self, bench: Bench) -> None:
        """Between the read and the write, another program may change the file."""
        path = bench.put("f", "one\n")
        edit_tool = EditTool(Meddled(bench.workspace.root), FileTracker())
        arguments = edit_tool.parse({"file_path": "f", "old_string": "one", "new_string": "two"})
        planned = await edit_tool.plan(arguments)
        with pytest.raises(StaleFile, match=r"f changed on disk during the edit\. Nothing was changed"):
            await planned.execute(shown)
        assert path.read_text() == "someone else's\n"

    async def test_a_missing_file_names_similar_ones(self, bench: Bench) -> None:
        bench.put("main.py", "x")
        with pytest.raises(ToolError, match=r"File not found: mian\.py.*main\.py"):
            await bench.call("edit", file_path="mian.py", old_string="x", new_string="y")

    async def test_an_empty_old_text_creates_a_file_and_never_replaces_one(self, bench: Bench) -> None:
        created = await bench.call("edit", file_path="new/f", old_string="", new_string="x\n")
        assert created.output == "Created new file new/f (2 bytes)"
        assert (bench.folder / "new/f").read_text() == "x\n"
        with pytest.raises(ToolError, match=r"(?s)old_string is empty.*To add text at the end.*\nx$"):
            await bench.call("edit", file_path="new/f", old_string="", new_string="y\n")
        empty = bench.put("empty", "")
        await bench.call("edit", file_path="empty", old_string="", new_string="z")
        assert empty.read_text() == "z"

    async def test_a_failed_edit_of_a_file_that_was_not_read_shows_the_file(self, bench: Bench) -> None:
        """Small models guess what they edit, and would guess again."""
        bench.put("f", "one\ntwo\n")
        with pytest.raises(
            ToolError, match=r"not found(?s:.*)You have not read f\. It contains:\n     1\tone\n     2\ttwo$"
        ):
            await bench.call("edit", file_path="f", old_string="three", new_string="3")
        with pytest.raises(ToolError, match=r"not found in f") as known:
            await bench.call("edit", file_path="f", old_string="three", new_string="3")
        assert "It contains" not in str(known.value)
        bench.put("large", "line\n" * 2_000)
        with pytest.raises(ToolError) as large:
            await bench.call("edit", file_path="large", old_string="three", new_string="3")
        assert "It contains" not in str(large.value)

    async def test_a_file_too_large_to_edit_gets_a_hint(self, bench: Bench) -> None:
        path = bench.put("f", "")
        with path.open("wb") as file:
            file.truncate(40_000_000)
        with pytest.raises(ToolError, match=r"40,000,000 bytes; `edit` can change files of up to .* Use sed"):
            await bench.call("edit", file_path="f", old_string="a", new_string="b")

    async def test_a_megabyte_of_blanks_does_not_hang_the_search(self, local_bench: Bench) -> None:
        local_bench.put("f", b" " * 1_000_000 + b"x\n")
        with pytest.raises(ToolError, match="not found"):
            await local_bench.call("edit", file_path="f", old_string="missing \n", new_string="b")


class TestSeveral:
    async def test_all_matches_are_replaced_on_request(self, bench: Bench) -> None:
        path = bench.put("f", "x 1\ny\nx 2\nx 3\n")
        edited = await bench.call("edit", file_path="f", old_string="x ", new_string="z ", replace_all=True)
        assert edited.output == "Replaced 3 occurrences in f (3 lines changed)"
        assert path.read_text() == "z 1\ny\nz 2\nz 3\n"

    async def test_a_list_of_edits_is_matched_against_the_original(self, bench: Bench) -> None:
        """The second must not match the result of the first."""
        path = bench.put("f", "a\nb\nc\n")
        edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "c"}]
        edited = await bench.call("edit", file_path="f", edits=edits)
        assert path.read_text() == "b\nc\nc\n"
        assert edited.details["matchCount"] == 2

    async def test_if_one_edit_fails_none_is_made(self, local_bench: Bench) -> None:
        path = local_bench.put("f", "a\nb\n")
        edits = [{"old_string": "a", "new_string": "x"}, {"old_string": "zzz", "new_string": "y"}]
        with pytest.raises(ToolError, match="edit 2: old_string not found in f"):
            await local_bench.call("edit", file_path="f", edits=edits)
        assert path.read_text() == "a\nb\n"

    async def test_overlapping_edits_are_refused(self, local_bench: Bench) -> None:
        local_bench.put("f", "zero\none two three\n")
        edits = [{"old_string": "two three", "new_string": "x"}, {"old_string": "one two", "new_string": "y"}]
        with pytest.raises(ToolError, match="Edits 1 and 2 overlap at line 2 of f"):
            await local_bench.call("edit", file_path="f", edits=edits)

    async def test_superfluous_arguments_are_tolerated(self, bench: Bench) -> None:
        path = bench.put("f", "a\nb\n")
        edits = [{"old_string": "a", "new_string": "x"}]
        await bench.call("edit", file_path="f", old_string="", new_string="", edits=edits)
        assert path.read_text() == "x\nb\n"


async def test_the_preview_shows_the_change_and_makes_none(bench: Bench) -> None:
    path = bench.put("f", "".join(f"<{number}>\n" for number in range(1, 30)))
    before = path.read_bytes()
    edits = [
        {"old_string": "<5>\n<6>", "new_string": "<five>\n<6>\n<6.5>"},
        {"old_string": "<20>\n", "new_string": ""},
    ]
    assert await bench.preview("edit", file_path="f", edits=edits) == (
        "--- f\n+++ f\n@@ -2,8 +2,9 @@\n <2>\n <3>\n <4>\n-<5>\n+<five>\n <6>\n+<6.5>\n <7>\n <8>\n <9>\n"
        "@@ -17,7 +18,6 @@\n <17>\n <18>\n <19>\n-<20>\n <21>\n <22>\n <23>\n"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("large", [False, True])
async def test_a_large_file_is_edited_like_a_small_one(bench: Bench, large: bool) -> None:
    """It is searched in a thread."""
    filler = "filler line\n" * (60_000 if large else 6)
    path = bench.put("f", f"{filler}needle\n{filler}")
    await bench.call("edit", file_path="f", old_string="needle", new_string="thread")
    assert path.read_text() == f"{filler}thread\n{filler}"


async def test_very_many_replacements_are_refused_in_bounded_time_and_memory(local_bench: Bench) -> None:
    """They took minutes and a gigabyte, while nothing else could run."""
    path = local_bench.put("f", b"x" * 7_000_000)
    with pytest.raises(
        ToolError, match=r"more than 10,000 replacements would be made in f.* Use sed with bash"
    ):
        await local_bench.call("edit", file_path="f", old_string="x", new_string="y", replace_all=True)
    edits = [{"old_string": old, "new_string": "z", "replace_all": True} for old in "ab"]
    local_bench.put("g", "ab" * 6_000)
    with pytest.raises(ToolError, match=r"^edit 2: more than 10,000 replacements"):
        await local_bench.call("edit", file_path="g", edits=edits)
    assert set(path.read_bytes()) == {ord("x")}
    local_bench.put("h", "ab" * 10_000)
    edited = await local_bench.call("edit", file_path="h", old_string="a", new_string="b", replace_all=True)
    assert edited.output == "Replaced 10,000 occurrences in h (1 line changed)"


async def test_stopping_does_not_wait_for_the_search_in_a_large_file(bench: Bench) -> None:
    """Otherwise Esc does nothing for seconds."""
    path = bench.put("f", b"a \r\n" * 1_000_000)
    turns = 0
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def stop() -> None:
                nonlocal turns
                for _ in range(3):  # the event loop runs while a thread searches
                    await anyio.sleep(0.02)
                    turns += 1
                scope.cancel()

            group.start_soon(stop)
            with contextlib.suppress(ToolError):
                await bench.call("edit", file_path="f", old_string="not there", new_string="x")
            assert turns == 3, "the search was over before anybody could stop it"
    assert turns == 3
    assert scope.cancelled_caught
    assert path.stat().st_size == 4_000_000


async def test_an_endless_file_is_refused(bench: Bench) -> None:
    """It claims to be empty, and would fill the memory."""
    endless = f"/proc/{os.getpid()}/pagemap"
    if sys.platform != "linux":
        pytest.skip("there is no such file here")
    with pytest.raises(NewelError, match=r"pagemap has .* bytes; `edit` takes|Cannot read .*/pagemap"):
        await bench.call("edit", file_path=endless, old_string="x", new_string="y")
    with pytest.raises(NewelError, match=r"Cannot read .*/pagemap"):
        await bench.preview("write", file_path=endless, content="x\n")
    with pytest.raises(NewelError, match="Cannot read binary file"):
        await bench.call("read", file_path=endless)


PIECES = st.lists(
    st.sampled_from(
        [
            b"\n",
            b"\r\n",
            b"\r",
            b" ",
            b"\t",
            b"a",
            b"b",
            b"\xff",
            b"\xc3",
            "\u2019".encode(),
            b"'",
            b"\xef\xbb\xbf",
        ]
    ),
    max_size=30,
).map(b"".join)


@given(
    before=PIECES | st.binary(max_size=40),
    after=PIECES | st.binary(max_size=40),
    new=st.text(st.characters(codec="utf-8"), max_size=8),
)
def test_the_bytes_around_a_match_are_unchanged(before: bytes, after: bytes, new: str) -> None:
    """In any encoding, with any line ends, with or without a last one."""
    edited = edit(before + b"NEEDLE" + after, "", [Replacement("NEEDLE", new)], "f")
    assert edited.data.startswith(before)
    assert edited.data.endswith(after)
    middle = edited.data[len(before) : len(edited.data) - len(after)]
    assert middle.replace(b"\r\n", b"\n") == new.encode().replace(b"\r\n", b"\n")


@given(
    lines=st.lists(st.sampled_from(["a", "b", f"it{QUOTE}s", "x  ", "\ty", ""]), min_size=1, max_size=8),
    ends=st.lists(st.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8),
    target=st.integers(0, 7),
)
def test_a_quotation_from_read_changes_only_the_edited_line(
    lines: list[str], ends: list[str], target: int
) -> None:
    """The model quotes the shown text: plain line ends and quotes, no trailing blanks."""
    target %= len(lines)
    whole = [f"<{line}{end}" for line, end in zip(lines, ends, strict=False)]
    quoted = [f"<{line.rstrip().replace(QUOTE, chr(39))}\n" for line in lines]
    wanted = [*quoted[:target], "NEW\n", *quoted[target + 1 :]]
    edited = edit("".join(whole).encode(), "", [Replacement("".join(quoted), "".join(wanted))], "f")
    assert edited.data.decode() == "".join([*whole[:target], f"NEW{ends[target]}", *whole[target + 1 :]])


@given(
    before=PIECES | st.binary(max_size=40),
    parts=st.lists(
        st.tuples(st.sampled_from(["one", "two", "one\ntwo"]), st.text("xy\n", max_size=4)),
        min_size=1,
        max_size=4,
    ),
    after=PIECES,
)
def test_the_blocks_of_an_edit_equal_the_edit(
    before: bytes, parts: list[tuple[str, str]], after: bytes
) -> None:
    """They make the diff that a user approves."""
    content, wanted = before, list[Replacement]()
    for number, (old, new) in enumerate(parts):
        content += f"<{number}{old}>".encode() + before
        wanted.append(Replacement(f"<{number}{old}>", new))
    content += after
    edited = edit(content, "", wanted, "f")
    old_lines, pieces, done = split_lines(content), list[bytes](), 0
    for block in edited.blocks:
        pieces += [*old_lines[done : block.start], *block.new]
        done = block.end
    assert b"".join([*pieces, *old_lines[done:]]) == edited.data


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("using System;", "// header\nusing System;", "// header\nusing System;\nnext\n"),
        ("\ufeffusing System;", "// header\nusing System;", "// header\nusing System;\nnext\n"),
        ("\ufeffusing System;", "\ufeffusing X;", "using X;\nnext\n"),
        ("using System;", "\ufeffusing X;", "using X;\nnext\n"),
        ("\ufeff", "// header\n", "// header\nusing System;\nnext\n"),
        ("using System;\n", "", "next\n"),
    ],
)
async def test_a_byte_order_mark_stays_first(bench: Bench, old: str, new: str, wanted: str) -> None:
    path = bench.put("a.cs", BOM + b"using System;\nnext\n")
    await bench.call("edit", file_path="a.cs", old_string=old, new_string=new)
    assert path.read_bytes() == BOM + wanted.encode()


async def test_a_file_rewritten_from_read_keeps_its_byte_order_mark(bench: Bench) -> None:
    path = bench.put("a.cs", BOM + b"using System;\n")
    written = await bench.call("write", file_path="a.cs", content="using X;\n")
    assert path.read_bytes() == BOM + b"using X;\n"
    assert written.details["size"] == len(path.read_bytes())


@pytest.mark.parametrize(
    ("old", "new"), [("Grüße", "x"), ("bye", "Tschüß")], ids=["cannot be found", "would be mixed in"]
)
async def test_a_file_in_another_encoding_gets_no_characters_in_utf_8(
    bench: Bench, old: str, new: str
) -> None:
    """Half of a program's text would turn into garbage, and the model would not see it."""
    content = "Grüße\nbye\n".encode("latin-1")
    path = bench.put("texts.de", content)
    await bench.call("read", file_path="texts.de")
    with pytest.raises(ToolError, match=r"texts\.de is not in UTF-8.*encoding=\.\.\."):
        await bench.call("edit", file_path="texts.de", old_string=old, new_string=new)
    assert path.read_bytes() == content


async def test_a_stray_byte_makes_no_other_encoding(bench: Bench) -> None:
    path = bench.put("f", "Grüße\n".encode() + b"\x85\n")
    await bench.call("edit", file_path="f", old_string="Grüße", new_string="Tschüß")
    assert path.read_bytes() == "Tschüß\n".encode() + b"\x85\n"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
async def test_utf_16_text_is_refused_and_not_damaged(bench: Bench, encoding: str) -> None:
    content = "\ufeffa\nb\n".encode(encoding)
    path = bench.put("a.txt", content)
    with pytest.raises(ToolError, match="UTF-16"):
        await bench.call("edit", file_path="a.txt", old_string="a", new_string="x")
    assert path.read_bytes() == content


@given(
    st.lists(st.sampled_from(["a", "b", "a b", ""]), min_size=1, max_size=3).map("\n".join),
    st.sampled_from(["a", "b", "\ufeffa", "\ufeffb", "\ufeff", "a\n"]),
    st.sampled_from(["", "x", "\ufeffx", "x\na", "\n"]),
)
def test_no_edit_moves_or_duplicates_a_byte_order_mark(text: str, old: str, new: str) -> None:
    with contextlib.suppress(ToolError):
        done = edit(BOM + text.encode(), "", [Replacement(old, new, all=True)], "f").data
        assert done.startswith(BOM)
        assert not done.startswith(BOM + BOM)
