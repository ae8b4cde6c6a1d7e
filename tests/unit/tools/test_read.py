"""If these fail, ``read`` cannot reach some lines, or truncates without a notice."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from newel.agent.errors import NewelError, ToolError, WorkspaceError
from newel.tools.read import Page

if TYPE_CHECKING:
    from tests.unit.tools.conftest import Bench

pytestmark = pytest.mark.anyio


async def test_a_file_is_shown_with_line_numbers(bench: Bench) -> None:
    bench.put("src/main.ts", "import { foo }\n\n  go();\n")
    read = await bench.call("read", file_path="src/main.ts")
    assert read.output == "     1\timport { foo }\n     2\t\n     3\t  go();"
    assert read.details == {
        "filePath": "src/main.ts",
        "totalLines": 3,
        "linesRead": 3,
        "offset": 0,
        "truncated": False,
    }


async def test_line_ends_and_the_byte_order_mark_are_not_shown(bench: Bench) -> None:
    r"""Only \n and \r\n end lines: a form feed or U+2028 in the text must not shift the numbers."""
    bench.put("f", b"\xef\xbb\xbfone\r\ntwo\x0c\xe2\x80\xa8two\nthr\ree")
    read = await bench.call("read", file_path="f")
    assert read.output == "     1\tone\n     2\ttwo\x0c\u2028two\n     3\tthr\ree"


async def test_a_range_is_shown_as_requested(bench: Bench) -> None:
    bench.put("f", "".join(f"line {number}\n" for number in range(1, 101)))
    read = await bench.call("read", file_path="f", offset=10, limit=3)
    assert read.output == "    10\tline 10\n    11\tline 11\n    12\tline 12"
    assert read.details["totalLines"] == 100
    assert read.details["offset"] == 10
    assert read.details["truncated"] is False
    assert (await bench.call("read", file_path="f", offset=0, limit=1)).output == "     1\tline 1"


async def test_a_long_file_has_pages_of_5000_lines(bench: Bench) -> None:
    bench.put("large.ts", "x\n" * 10_000)
    read = await bench.call("read", file_path="large.ts")
    first, *rest = read.output.split("\n")
    assert first == (
        "WARNING: File has 10000 lines, showing first 5000. Use offset and limit parameters to read more. "
        "Next: offset=5001."
    )
    assert len(rest) == 5000
    assert read.details["truncated"] is True
    more = await bench.call("read", file_path="large.ts", offset=5001, limit=9999)
    assert more.details["linesRead"] == 5000
    assert more.details["truncated"] is False


async def test_many_bytes_end_a_page_early(bench: Bench) -> None:
    bench.put("wide.txt", ("y" * 1_000 + "\n") * 1_000)
    read = await bench.call("read", file_path="wide.txt", offset=100)
    assert len(read.output.encode()) < 257 * 1024
    note = re.match(
        r"WARNING: File has 1000 lines, showing lines 100-(\d+)\. .* Next: offset=(\d+)\.", read.output
    )
    assert note is not None
    assert int(note[2]) == int(note[1]) + 1
    assert read.output.splitlines()[-1].startswith(f"{note[1]:>6}\t")


async def test_a_long_line_is_cut_and_says_how_to_see_the_rest(bench: Bench) -> None:
    bench.put("a b.json", "é" * 5_000 + "\nshort\n")
    read = await bench.call("read", file_path="a b.json")
    warning, line, short = read.output.split("\n")
    assert warning == (
        "WARNING: Lines over 2000 characters are cut: 1. To see more of one: "
        "bash(command=\"sed -n 1p 'a b.json' | cut -c 2001-4000\")"
    )
    assert line == f"     1\t{'é' * 2_000}… [cut: this line has 10,000 bytes]"
    assert short == "     2\tshort"


async def test_a_start_beyond_the_end_is_an_error_with_the_length(bench: Bench) -> None:
    bench.put("f", "a\nb")
    with pytest.raises(ToolError, match="Offset 3 is beyond the end of f, which has 2 lines"):
        await bench.call("read", file_path="f", offset=3)


async def test_an_empty_file_says_so(bench: Bench) -> None:
    bench.put("f", "")
    read = await bench.call("read", file_path="f")
    assert read.output == "The file is empty."
    assert read.details["totalLines"] == 0


async def test_a_binary_file_is_refused_with_a_hint(bench: Bench) -> None:
    bench.put("dist/app.bin", b"\x7fELF\0\0")
    with pytest.raises(ToolError) as raised:
        await bench.call("read", file_path="dist/app.bin")
    assert str(raised.value) == (
        "Cannot read binary file 'dist/app.bin'. Use bash tool if you need to inspect: "
        'bash(command="file dist/app.bin") or bash(command="xxd dist/app.bin | head")'
    )


async def test_invalid_utf_8_is_shown_as_far_as_possible(bench: Bench) -> None:
    bench.put("latin.txt", b"caf\xe9\n")
    assert (await bench.call("read", file_path="latin.txt")).output == "     1\tcaf\ufffd"


async def test_a_missing_file_names_similar_ones(bench: Bench) -> None:
    bench.put("src/importer.py", "")
    with pytest.raises(ToolError, match=r"no 'Importer\.py' in 'src'\. Similar names: importer\.py\."):
        await bench.call("read", file_path="src/Importer.py")
    with pytest.raises(ToolError, match=r"no 'scr' in '\.'\. Similar names: src/\."):
        await bench.call("read", file_path="scr/importer.py")
    with pytest.raises(ToolError, match=r"'src/importer\.py' is not a directory"):
        await bench.call("read", file_path="src/importer.py/x")


async def test_a_directory_is_answered_with_its_entries(bench: Bench) -> None:
    bench.put("src/a.py", "")
    bench.put("src/lib/b.py", "")
    read = await bench.call("read", file_path="src")
    assert read.output.startswith("src is a directory with 2 names:\na.py\nlib/\n")
    for number in range(600):
        bench.put(f"many/{number}", "")
    read = await bench.call("read", file_path="many")
    assert "… and 100 more." in read.output
    assert read.details["truncated"] is True


async def test_a_pipe_does_not_hang(bench: Bench) -> None:
    await bench.call("bash", command="mkfifo pipe")
    with pytest.raises(WorkspaceError, match="not a regular file"):
        await bench.call("read", file_path="pipe")


def image(kind: str, size: tuple[int, int]) -> bytes:
    packed = io.BytesIO()
    Image.new("RGB", size, "red").save(packed, kind)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("kind", "mime"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp")],
)
async def test_an_image_is_recognized_by_its_bytes_and_sent_unchanged(
    bench: Bench, kind: str, mime: str
) -> None:
    data = image(kind, (40, 30))
    bench.put("no-suffix", data)
    read = await bench.call("read", file_path="no-suffix")
    assert read.output == f"no-suffix: {mime}, 40 x 30 pixels, {len(data):,} bytes"
    assert [(part.mime_type, base64.b64decode(part.data)) for part in read.images] == [(mime, data)]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_large_image_is_scaled_down(local_bench: Bench, kind: str) -> None:
    local_bench.put("large", image(kind, (4_000, 1_000)))
    read = await local_bench.call("read", file_path="large")
    assert "4000 x 1000 pixels" in read.output
    assert read.output.endswith("shown at 2000 x 500")
    sent = Image.open(io.BytesIO(base64.b64decode(read.images[0].data)))
    assert sent.size == (2_000, 500)
    assert sent.get_format_mimetype() == read.images[0].mime_type


async def test_an_image_that_would_fill_the_memory_is_refused(local_bench: Bench) -> None:
    """A few kilobytes can claim to be a billion pixels."""
    packed = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(packed, "PNG")
    local_bench.put("bomb.png", packed.getvalue())
    with pytest.raises(ToolError, match="20000 x 20000 pixels, too large to decode"):
        await local_bench.call("read", file_path="bomb.png")


async def test_a_broken_image_is_an_error_and_not_a_crash(local_bench: Bench) -> None:
    local_bench.put("broken.png", image("PNG", (3_000, 3_000))[:200])
    with pytest.raises(ToolError, match="begins like an image but cannot be decoded"):
        await local_bench.call("read", file_path="broken.png")
    local_bench.put("text.gif", b"GIF89a is how GIF files begin")
    with pytest.raises(NewelError, match=r"cannot be decoded|too large"):
        await local_bench.call("read", file_path="text.gif")


@given(
    content=st.lists(
        st.sampled_from([b"\n", b"\r\n", b"a", "é".encode(), b"\xff", b"x" * 30, b"\r"]), max_size=60
    ),
    limit=st.integers(1, 7),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
async def test_the_pages_of_a_file_make_the_file(
    make_bench: Callable[[], Bench], content: list[bytes], limit: int
) -> None:
    """No line is lost or repeated between one page and the next."""
    bench = make_bench()
    data = b"".join(content)
    bench.put("f", data)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    shown: list[str] = []
    while len(shown) < len(lines):
        read = await bench.call("read", file_path="f", offset=len(shown) + 1, limit=limit)
        assert read.details["totalLines"] == len(lines)
        shown += read.output.split("\n")
    assert shown == [
        f"{number:6}\t{line.removesuffix(bytes([13])).decode(errors='replace')}"
        for number, line in enumerate(lines, 1)
    ]


@given(
    data=st.binary(max_size=200).map(lambda data: data.replace(b"a", b"\n")),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    first=st.integers(1, 12),
    limit=st.integers(1, 5),
)
def test_block_boundaries_make_no_difference(data: bytes, cuts: list[int], first: int, limit: int) -> None:
    whole, split = Page(first, limit, 10_000), Page(first, limit, 10_000)
    whole.add(data)
    at = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for start, end in pairwise(at):
        split.add(data[start:end])
    whole.finish()
    split.finish()
    assert (split.lines, split.total, split.last) == (whole.lines, whole.total, whole.last)


def test_a_page_that_is_too_small_still_shows_one_line() -> None:
    """A reader that follows the given offsets must advance."""
    page = Page(1, 5, room=3)
    page.add(b"longer than the room\nnext\n")
    page.finish()
    assert page.lines == ["     1\tlonger than the room"]
    assert page.full


async def test_the_start_of_a_line_of_many_megabytes_is_shown(bench: Bench) -> None:
    path: Path = bench.put("one-line", b"z" * 3_000_000)
    read = await bench.call("read", file_path=path.name)
    assert f"{'z' * 2_000}… [cut: this line has 3,000,000 bytes]" in read.output
    assert read.details["totalLines"] == 1
