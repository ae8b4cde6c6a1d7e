"""If these fail, an answer that streams looks other than the same answer at rest, or loses a part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from newel.terminal.renderers.live import MarkdownBlocks

LINES = st.sampled_from(
    [
        "",
        "",
        "Some words",
        "and more",
        "# Title",
        "- item",
        "  - nested",
        "  more of it",
        "1. one",
        "10) ten",
        "    indented",
        "```python",
        "```",
        "````",
        "~~~",
        "  ```",
        "> quoted",
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
        "---",
        "===",
        "x = 1  # `tick`",
    ]
)
TEXTS = st.lists(LINES, max_size=14).map("\n".join)


def cut(text: str, size: int) -> list[str]:
    blocks = MarkdownBlocks()
    found: list[str] = []
    for at in range(0, len(text), size):
        found += blocks.feed(text[at : at + size])
    return found + blocks.finish()


def structure(text: str) -> list[tuple[str, str, str]]:
    parser = MarkdownIt().enable("table")
    return [(token.type, token.tag, token.content) for token in parser.parse(text)]


@given(TEXTS, st.integers(1, 20))
def test_no_character_is_lost_or_moved(text: str, size: int) -> None:
    assert "".join("".join(cut(text, size)).split()) == "".join(text.split())


@given(TEXTS)
def test_blocks_mean_the_same_alone_and_together(text: str) -> None:
    assert [part for block in cut(text, 5) for part in structure(block)] == structure(text)


@given(TEXTS, st.integers(1, 20))
def test_the_result_does_not_depend_on_the_pieces(text: str, size: int) -> None:
    assert cut(text, size) == cut(text, max(len(text), 1))


def test_paragraphs_headings_and_code_are_finished_as_soon_as_possible() -> None:
    blocks = MarkdownBlocks()
    assert blocks.feed("# Plan\nFirst ") == ["# Plan\n"]
    assert blocks.feed("words\n\nSecond\n") == ["First words\n\n"]
    assert blocks.feed("```py\nx = 1\n\ny = 2\n") == ["Second\n"]
    assert blocks.feed("```\n") == ["```py\nx = 1\n\ny = 2\n```\n"]
    assert blocks.tail == ""


def test_long_code_is_previewed_as_code() -> None:
    blocks = MarkdownBlocks()
    blocks.feed("```py\n" + "x = 1\n" * 1000)
    preview = blocks.preview(50, 40)
    assert preview.startswith("```py\nx = 1\n")
    assert len(preview) < 60
    assert blocks.preview(4_000, 3) == "```py\n" + "x = 1\n" * 3


def test_a_long_table_is_previewed_as_a_table() -> None:
    blocks = MarkdownBlocks()
    blocks.feed(
        "| n | square |\n|---|---:|\n" + "".join(f"| {n} | {n * n} |\n" for n in range(100)) + "| 100 |"
    )
    assert blocks.preview(4_000, 2) == "| n | square |\n|---|---:|\n| 98 | 9604 |\n| 99 | 9801 |\n| 100 |"


def test_a_long_list_is_previewed_from_the_beginning_of_an_item() -> None:
    blocks = MarkdownBlocks()
    blocks.feed(
        "".join(f"{n}. item\n    - detail\n\n      ```py\n      x = {n}\n      ```\n" for n in range(100))
    )
    assert blocks.preview(4_000, 3) == "99. item\n    - detail\n\n      ```py\n      x = 99\n      ```\n"
