"""The pages of docs/, which the wheel contains: found by name or by heading, and prepared for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

import newel

NOT_FOR_USERS = frozenset({"spec-coverage"})
REFERENCES = frozenset({"architecture", "protocol", "review-api", "rpc"})
"""With a heading for each message or field."""
SUFFIX = ".md"

_FENCE = re.compile(r" *(```|~~~)")
_PARAGRAPH_END = re.compile(r"\n(?=\n|\||- )")
_HEADING = re.compile(r"(#+) +(.+)")
_IMAGE = re.compile(r"!\[[^]]*\]\([^)]*\)")
_PAGE_LINK = re.compile(r"\[((?:[^][]|\[[^][]*\])+)\]\((?![a-z]+:)([^)\s]*)\)")
_TAG_LINE = re.compile(r"\s*</?[a-z]+[^>]*>.*|\s*<!--.*-->\s*")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


class DocSection(msgspec.Struct, frozen=True, kw_only=True):
    """A heading with the text below it, that of deeper headings included. ``anchor`` is the one of a link to it, as GitHub and the site
    make it.
    """

    page: str
    anchor: str
    title: str
    level: int
    text: str

    @property
    def name(self) -> str:
        """What ``newel docs`` calls it."""
        return self.page if self.level == 1 else f"{self.page}#{self.anchor}"


class DocPage(msgspec.Struct, frozen=True):
    """``name`` is that of its file, without the suffix; ``text`` is Markdown."""

    name: str
    text: str

    @property
    def title(self) -> str:
        return self.sections()[0].title

    def sections(self) -> list[DocSection]:
        lines = self.text.splitlines(keepends=True)
        headings = [*_headings(lines)]
        found: list[DocSection] = []
        anchors: dict[str, int] = {}
        for at, (start, level, title) in enumerate(headings):
            end = next((line for line, other, _ in headings[at + 1 :] if other <= level), len(lines))
            anchor = _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")
            anchors[anchor] = number = anchors.get(anchor, -1) + 1
            found.append(
                DocSection(
                    page=self.name,
                    anchor=f"{anchor}-{number}" if number else anchor,
                    title=title.replace("`", ""),
                    level=level,
                    text="".join(lines[start:end]),
                )
            )
        return found


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """The index, level and text of each."""
    is_code = False
    for index, line in enumerate(lines):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and (heading := _HEADING.match(line)):
            yield index, len(heading[1]), heading[2].strip()


def documentation_folder() -> Path:
    """That of the installed package, or of the checkout."""
    package = Path(newel.__file__).parent
    installed = package / "docs"
    return installed if installed.is_dir() else package.parents[1] / "docs"


def load_pages(folder: Path) -> list[DocPage]:
    """Sorted by name."""
    return [
        DocPage(path.stem, path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stem)
        if path.stem not in NOT_FOR_USERS
    ]


def find_sections(pages: Sequence[DocPage], words: Sequence[str]) -> list[DocSection]:
    """The one that the only word names, or else those with all words: of a page that the first word names, or of all.

    A name is that of a page, with or without folder, suffix and ``#anchor``: ``sandbox``, ``docs/review.md#undo-and-redo``.
    """
    name, _, anchor = words[0].lower().removeprefix("docs/").partition("#")
    name = name.removesuffix(SUFFIX)
    of_page = [section for page in pages if page.name == name for section in page.sections()]
    if len(words) == 1:
        if exact := next((each for each in of_page if anchor in {"", each.anchor}), None):
            return [exact]
    elif of_page and (found := _search(of_page, words[1:])):
        return found
    return _search([section for page in pages for section in page.sections()], words)


def _search(sections: Sequence[DocSection], words: Sequence[str]) -> list[DocSection]:
    """Those with all words in their heading, or else those with all words in a paragraph, and then the smallest ones with all words
    anywhere. Case does not matter. Pages come before parts of pages, and both before those of a reference, whose headings hide no text
    of other pages.
    """
    sections = sorted(sections, key=lambda each: (each.page in REFERENCES, each.level > 1))
    in_title = [each for each in sections if _has_all(each.title, words)]
    if in_title and in_title[0].page not in REFERENCES:
        return in_title
    in_text = [
        each for each in sections if _has_all(each.text, words) and not (in_title and each.page in REFERENCES)
    ]
    together = [(each, _count_paragraphs(each, words)) for each in in_text]
    about = [each for each, count in sorted(together, key=_relevance) if count]
    apart = [
        each for each in in_text if each not in about and not any(_contains(each, other) for other in in_text)
    ]
    return about + apart + in_title


def _count_paragraphs(section: DocSection, words: Sequence[str]) -> int:
    """How many paragraphs, rows and items of its own have all words: a page may have each of them, far apart, and be about something
    else.
    """
    lines = section.text.splitlines(keepends=True)
    below = next((start for start, _, _ in _headings(lines) if start), len(lines))
    return sum(_has_all(block, words) for block in _PARAGRAPH_END.split("".join(lines[:below])))


def _relevance(found: tuple[DocSection, int]) -> tuple[bool, int]:
    section, count = found
    return section.page in REFERENCES, -count


def _has_all(text: str, words: Sequence[str]) -> bool:
    """Whether words of the text begin with each of these; of two letters, such as ``vi``, they are whole words."""

    def is_in(word: str) -> bool:
        end = r"(?!\w)" if len(word) <= 2 else ""
        return re.search(rf"(?<!\w){re.escape(word)}{end}", text, re.IGNORECASE) is not None

    return all(map(is_in, words))


def similar_page(pages: Sequence[DocPage], word: str) -> str:
    """The name of the page that was probably meant; empty if there is none."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower()[:60], [page.name for page in pages], n=1, cutoff=0.7)
    return near[0] if near else ""


def _contains(section: DocSection, other: DocSection) -> bool:
    return section.page == other.page and section.level < other.level and other.text in section.text


def terminal_markdown(text: str) -> str:
    """Markdown without what a terminal cannot show: pictures, lines of HTML, and links to other pages, whose names follow the text."""
    shown: list[str] = []
    pages: dict[str, None] = {}
    for is_code, lines in _paragraphs(text.splitlines()):
        if is_code:
            shown += lines
        elif kept := [line for line in lines if not _TAG_LINE.fullmatch(line)]:
            prose = _IMAGE.sub("", "\n".join(kept))
            pages.update(dict.fromkeys(_linked_pages(prose)))
            shown.append(_PAGE_LINK.sub(r"\1", prose))
    if pages:
        shown += ["", f"See also: {', '.join(f'`newel docs {page}`' for page in pages)}"]
    return "\n".join(shown) + "\n"


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[bool, list[str]]]:
    """The lines, in runs that no link leaves, each with whether it is code."""
    is_code = False

    def kind(line: str) -> tuple[bool, bool]:
        nonlocal is_code
        is_fence = _FENCE.match(line) is not None
        is_code ^= is_fence
        return is_fence or is_code, not line.strip()

    for (of_code, _), run in groupby(lines, kind):
        yield of_code, list(run)


def _linked_pages(prose: str) -> Iterator[str]:
    for link in _PAGE_LINK.finditer(prose):
        target = link[2].partition("#")[0]
        if target.endswith(SUFFIX) and "/" not in target:
            yield target.removesuffix(SUFFIX)
