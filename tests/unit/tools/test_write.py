"""If these fail, ``write`` writes the wrong content, or overwrites work that the model has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from newel.agent.errors import StaleFile, ToolError, WorkspaceError

if TYPE_CHECKING:
    from tests.unit.tools.conftest import Bench

pytestmark = pytest.mark.anyio


async def test_a_new_file_is_created_with_its_folders(bench: Bench) -> None:
    content = "x" * 141 + "\n"
    written = await bench.call("write", file_path="src/utils/helper.ts", content=content)
    assert written.output == "Created new file src/utils/helper.ts (142 bytes)"
    assert (bench.folder / "src/utils/helper.ts").read_text() == content
    assert written.details["isNew"] is True
    assert written.details["size"] == 142
    assert written.details["diff"].startswith("--- /dev/null\n+++ src/utils/helper.ts\n@@ -0,0 +1 @@\n+xxx")


async def test_an_unread_file_is_overwritten_and_the_diff_shows_the_loss(bench: Bench) -> None:
    path = bench.put("f.txt", "one\ntwo\nthree\n")
    written = await bench.call("write", file_path="f.txt", content="one\n2\nthree\n")
    assert written.output == "Overwrote f.txt (12 bytes)"
    assert path.read_text() == "one\n2\nthree\n"
    assert written.details == {
        "filePath": "f.txt",
        "size": 12,
        "isNew": False,
        "diff": "--- f.txt\n+++ f.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
    }


async def test_content_is_written_exactly(bench: Bench) -> None:
    content = "\ufeffa\r\nb\nc\u2028\x00é"
    await bench.call("write", file_path="f", content=content)
    assert (bench.folder / "f").read_bytes() == content.encode()


async def test_a_file_changed_since_the_read_is_not_overwritten(bench: Bench) -> None:
    """Otherwise the user's edit in between is lost silently."""
    path = bench.put("f.txt", "one\n")
    await bench.call("read", file_path="f.txt")
    path.write_text("the user's work\n")
    with pytest.raises(
        StaleFile, match=r"f\.txt changed on disk since you last saw it\. Nothing was written\."
    ):
        await bench.call("write", file_path="f.txt", content="two\n")
    assert path.read_text() == "the user's work\n"
    await bench.call("read", file_path="f.txt")
    await bench.call("write", file_path="f.txt", content="two\n")
    assert path.read_text() == "two\n"


async def test_a_file_can_be_written_again_also_after_its_removal(bench: Bench) -> None:
    path = bench.put("f.txt", "one\n")
    await bench.call("read", file_path="f.txt")
    await bench.call("write", file_path="f.txt", content="two\n")
    await bench.call("write", file_path=str(path), content="three\n")
    path.unlink()
    written = await bench.call("write", file_path="f.txt", content="four\n")
    assert written.details["isNew"] is True
    assert path.read_text() == "four\n"


async def test_a_link_is_followed(bench: Bench) -> None:
    target = bench.put("real.txt", "one\n")
    (bench.folder / "link.txt").symlink_to("real.txt")
    await bench.call("write", file_path="link.txt", content="two\n")
    assert (bench.folder / "link.txt").is_symlink()
    assert target.read_text() == "two\n"


async def test_a_directory_cannot_be_overwritten(bench: Bench) -> None:
    bench.put("src/a", "")
    with pytest.raises(WorkspaceError, match="is a directory"):
        await bench.call("write", file_path="src", content="x")


async def test_half_a_character_is_refused_with_a_message(bench: Bench) -> None:
    with pytest.raises(ToolError, match=r"content contains \\ud83d, half of a surrogate pair"):
        await bench.call("write", file_path="f", content="\ud83d")
    assert not (bench.folder / "f").exists()


async def test_the_preview_shows_the_change_and_makes_none(bench: Bench) -> None:
    path = bench.put("f.txt", "one\n")
    assert await bench.preview("write", file_path="f.txt", content="two") == (
        "--- f.txt\n+++ f.txt\n@@ -1 +1 @@\n-one\n+two\n\\ No newline at end of file\n"
    )
    assert await bench.preview("write", file_path="new", content="x\n") == (
        "--- /dev/null\n+++ new\n@@ -0,0 +1 @@\n+x\n"
    )
    assert path.read_text() == "one\n"
    assert not (bench.folder / "new").exists()


async def test_the_preview_names_the_file_even_if_no_line_changes(bench: Bench) -> None:
    """Otherwise a user is asked to allow something without a description."""
    bench.put("f.txt", "one\n")
    assert await bench.preview("write", file_path="f.txt", content="one\n") == "f.txt: no change"
    for tool, arguments in (("write", {"content": ""}), ("edit", {"old_string": "", "new_string": ""})):
        assert await bench.preview(tool, file_path="new.txt", **arguments) == (
            "--- /dev/null\n+++ new.txt\n(an empty file)"
        )


async def test_a_long_diff_is_cut_in_the_result_and_complete_in_the_preview(bench: Bench) -> None:
    content = "".join(f"{number}\n" for number in range(60_000))
    preview = await bench.preview("write", file_path="f", content=content)
    assert preview.endswith("+59999\n")
    written = await bench.call("write", file_path="f", content=content)
    assert len(written.details["diff"]) < 201_000
    assert written.details["diff"].endswith("… the diff goes on …\n")


async def test_a_very_large_old_file_is_replaced_without_reading_it_into_memory(bench: Bench) -> None:
    bench.put("f", b"x" * 2_000_000)
    written = await bench.call("write", file_path="f", content="small\n")
    assert written.details["diff"].endswith("-(2,000,000 bytes, not compared)\n+small\n")


LIST = "".join(f"item {number}\n" for number in range(12))


async def test_a_write_that_would_drop_most_of_a_file_has_to_be_repeated(bench: Bench) -> None:
    """Models that should add a line write only that line, and those that leave out 'the rest of the code' lose it."""
    path = bench.put("list.txt", LIST)
    with pytest.raises(
        ToolError, match=r"Not written: list\.txt has 12 lines, and this content keeps 1 of them"
    ):
        await bench.call("write", file_path="list.txt", content="item 3\nmore\n")
    assert path.read_text() == LIST
    await bench.call("write", file_path="list.txt", content="item 3\nmore\n")
    assert path.read_text() == "item 3\nmore\n"
    path.write_text(LIST)
    await bench.call("read", file_path="list.txt")
    with pytest.raises(ToolError, match="Not written"):
        await bench.call("write", file_path="list.txt", content="")


async def test_a_file_that_the_model_has_not_read_is_not_replaced_by_an_invented_one(bench: Bench) -> None:
    path = bench.put("list.txt", LIST)
    invented = "".join(f"another {number}\n" for number in range(12))
    with pytest.raises(ToolError, match="read the file first"):
        await bench.call("write", file_path="list.txt", content=invented)
    assert path.read_text() == LIST
    await bench.call("write", file_path="list.txt", content=invented)
    assert path.read_text() == invented


async def test_a_file_that_a_command_printed_counts_as_read(bench: Bench) -> None:
    """Models that read with `cat` would have to send each file twice that they write anew."""
    bench.put("list.txt", LIST)
    another = "".join(f"another {number}\n" for number in range(6))
    await bench.call("bash", command="head -n 11 list.txt")
    with pytest.raises(ToolError, match="read the file first"):
        await bench.call("write", file_path="list.txt", content=another)
    path = bench.put("other.txt", LIST)
    await bench.call("bash", command="for name in *.txt; do cat $name; done")
    await bench.call("write", file_path="other.txt", content=another)
    assert path.read_text() == another


async def test_what_a_command_printed_does_not_hide_a_loss(bench: Bench) -> None:
    path = bench.put("list.txt", LIST)
    await bench.call("bash", command="cat list.txt")
    with pytest.raises(ToolError, match="use `edit`"):
        await bench.call("write", file_path="list.txt", content="item 3\nmore\n")
    assert path.read_text() == LIST


async def test_a_file_in_another_encoding_becomes_utf_8_only_on_purpose(bench: Bench) -> None:
    """A program that reads it in its old encoding would show garbage."""
    before = "Grüße\nbye\n".encode("latin-1")
    path = bench.put("texts.de", before)
    content = "Grüße\nTschüß\n"
    with pytest.raises(ToolError, match=r"texts\.de is not in UTF-8.*send this call again"):
        await bench.call("write", file_path="texts.de", content=content)
    assert path.read_bytes() == before
    await bench.call("write", file_path="texts.de", content=content)
    assert path.read_bytes() == content.encode()


@pytest.mark.parametrize(
    "content",
    [
        f"{LIST}more\n",
        "".join(LIST.splitlines(keepends=True)[:4]),
        "".join(f"another {number}\n" for number in range(6)),
    ],
    ids=["adds", "keeps a third", "is another file"],
)
async def test_an_honest_rewrite_is_not_asked_about(bench: Bench, content: str) -> None:
    path = bench.put("list.txt", LIST)
    await bench.call("read", file_path="list.txt")
    await bench.call("write", file_path="list.txt", content=content)
    assert path.read_text() == content
