"""If these fail, a message names a page that does not exist, or the terminal shows a page with holes in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import newel
from newel.app.documentation import (
    DocPage,
    documentation_folder,
    find_sections,
    load_pages,
    terminal_markdown,
)

PAGES = load_pages(documentation_folder())
SOURCES = sorted(Path(newel.__file__).parent.rglob("*.py"))
LINK = re.compile(r"\]\(([a-z-]+)\.md(#[a-z0-9-]+)?\)")

PAGE = DocPage(
    "tea",
    """\
# Tea

Boil it. ![A pot](pot.svg)

## Green tea

<picture>
  <img src="pot.png">
</picture>
[Cooler water](water.md#how-warm), not [boiling](https://example.org/boiling).

```sh
# Not a heading, nor [a link](water.md)
```

### How *long*, and `why`?

Two minutes.

## Black tea

Four [minutes](water.md), or [even
five](milk.md).
""",
)


def names(*words: str) -> list[str]:
    return [section.name for section in find_sections([PAGE], words)]


def test_a_page_is_found_by_each_of_its_names() -> None:
    for name in ("tea", "Tea", "tea.md", "docs/tea.md"):
        assert [each.text for each in find_sections([PAGE], [name])] == [PAGE.text]


def test_a_section_ends_where_one_as_high_begins() -> None:
    (green,) = find_sections([PAGE], ["tea#green-tea"])
    assert green.text.startswith("## Green tea\n")
    assert green.text.endswith("Two minutes.\n\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["green"], ["tea#green-tea"]),
        (["tea", "BLACK"], ["tea#black-tea"]),
        (["minutes"], ["tea#how-long-and-why", "tea#black-tea"]),
        (["tea", "minutes", "two"], ["tea#how-long-and-why"]),
        (["heading"], ["tea#green-tea"]),
        (["nutes"], []),
        (["coffee"], []),
        (["tea#coffee"], []),
    ],
)
def test_words_find_the_smallest_sections_with_all_of_them(words: list[str], found: list[str]) -> None:
    assert names(*words) == found


def test_a_heading_of_a_reference_does_not_hide_what_users_read() -> None:
    reference = DocPage(
        "rpc", "# rpc\n\n## BrewTeaRequest\n\nIt makes a brew.\n\n## Other\n\nSee BrewTeaRequest.\n"
    )
    manual = DocPage("manual", "# Manual\n\n## Making it\n\nHow to brew.\n")
    pages = [manual, reference]
    assert [each.name for each in find_sections(pages, ["brew"])] == [
        "manual#making-it",
        "rpc#brewtearequest",
    ]
    assert [each.name for each in find_sections(pages, ["BrewTeaRequest"])] == ["rpc#brewtearequest"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("exit code", "command-line#in-scripts"),
        ("delete session", "data"),
        ("revert changes", "faq#how-do-i-undo-what-it-did"),
        ("gemini key", "model-servers"),
    ],
)
def test_the_section_about_it_is_among_the_first_five(question: str, answer: str) -> None:
    """Otherwise it is hidden behind pages that have each of the words somewhere."""
    first = [each.name for each in find_sections(PAGES, question.split())][:5]
    assert any(name.startswith(answer) for name in first), first


def test_a_page_comes_before_those_whose_names_begin_with_its_name() -> None:
    listed = [page.name for page in PAGES]
    assert listed == sorted(listed)


def test_a_terminal_is_shown_nothing_that_it_cannot_show() -> None:
    assert terminal_markdown(PAGE.text) == (
        PAGE.text.replace(" ![A pot](pot.svg)", " ")
        .replace('<picture>\n  <img src="pot.png">\n</picture>\n', "")
        .replace("[Cooler water](water.md#how-warm)", "Cooler water")
        .replace("Four [minutes](water.md), or [even\nfive](milk.md)", "Four minutes, or even\nfive")
        + "\nSee also: `newel docs water`, `newel docs milk`\n"
    )


def test_every_link_of_the_pages_names_what_is_found() -> None:
    for page in PAGES:
        for link in LINK.finditer(page.text):
            name = f"{link[1]}{link[2] or ''}"
            if link[1] != "spec-coverage":
                assert len(find_sections(PAGES, [name])) == 1, (page.name, name)


def test_every_page_that_a_message_names_is_found() -> None:
    named = {name for path in SOURCES for name in re.findall(r"`newel docs ([a-z-]+)`", path.read_text())}
    assert {"settings", "fleet", "protocol"} <= named
    assert named <= {page.name for page in PAGES}


def test_no_message_names_a_file_that_is_not_installed() -> None:
    """An installation has no docs/: its user would look for the page in vain."""
    for path in SOURCES:
        for line in path.read_text().splitlines():
            if re.search(r"docs/[a-z-]+\.md", line) and '"' in line.replace('"""', ""):
                raise AssertionError(f"{path}: {line.strip()}")
