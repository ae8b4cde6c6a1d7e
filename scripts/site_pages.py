"""MkDocs hooks: the documentation of GitHub as pages of a site that needs nothing else.

Links of a page in docs/ to a file elsewhere in the repository work on GitHub, but not in a site. So those files become pages, too:
a Markdown file as it is, a source as a listing. Links to them are rewritten, and theirs likewise, so the site is whole, offline
as well. Decisions, the changelog and listings are left out of the search, where they would hide the pages for users.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "repository"
"""Where files from outside docs/ are in the site."""
SEEDS = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "evals/README.md",
    "examples/README.md",
    "packages/newel-client/README.md",
    "packages/vscode/README.md",
)
"""The ones that the navigation names; others follow from links."""
HOME = "index.md"
"""What a link to the README at the top of the repository leads to."""
NOT_SEARCHED = ("adr/", "spec-coverage.md", f"{FOLDER}/CHANGELOG.md")
LATE = (
    "architecture.md",
    "protocol.md",
    "review-api.md",
    "rpc.md",
    f"{FOLDER}/benchmarks/README.md",
    f"{FOLDER}/packages/mock-llm-server/README.md",
)
"""References with a heading for each message, and pages for those who change Newel: the search lists them after the others."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
FENCE = re.compile(r"^ *(```|~~~)")
LIST = re.compile(r"^([-*]|\d+\.) ")
LANGUAGES = {"js": "javascript", "md": "markdown", "mjs": "javascript", "py": "python", "sh": "sh"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that the documentation leads to."""
    waiting = list(SEEDS)
    for file in files.documentation_pages():
        waiting += outside(posixpath.join("docs", file.src_uri), file.content_string)
    done: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in done or path == "README.md" or not (ROOT / path).is_file():
            continue  # a link to nowhere is reported by the strict build
        done.add(path)
        text = (ROOT / path).read_text()
        if path.endswith(".md"):
            waiting += outside(path, text)
        files.append(
            File.generated(
                config, page_of(path), content=text if path.endswith(".md") else listing(path, text)
            )
        )
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    uri = page.file.src_uri
    is_listing = uri.startswith(f"{FOLDER}/") and path_of(uri).count(".md") == 0
    if is_listing or uri.startswith(NOT_SEARCHED):
        page.meta["search"] = {"exclude": True}
    elif uri in LATE:
        page.meta["search"] = {"boost": 0.5}
    return markdown if is_listing else "".join(adapted(markdown, uri))


def outside(path: str, text: str) -> list[str]:
    """The files outside docs/ that a file links to."""
    found = [posixpath.normpath(posixpath.join(posixpath.dirname(path), link)) for link in LINK.findall(text)]
    return [each for each in found if not each.startswith(("docs/", ".."))]


def page_of(path: str) -> str:
    """The page of a file of the repository, relative to docs/."""
    if path == "README.md":
        return HOME
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{FOLDER}/{path}" if path.endswith(".md") else f"{FOLDER}/{path}.md"


def path_of(uri: str) -> str:
    """The file of a page, relative to the repository; of a listing, the source itself."""
    if not uri.startswith(f"{FOLDER}/"):
        return posixpath.join("docs", uri)
    path = uri.removeprefix(f"{FOLDER}/")
    return path if (ROOT / path).is_file() else path.removesuffix(".md")


def listing(path: str, text: str) -> str:
    language = LANGUAGES.get(path.rpartition(".")[2], "text")
    return f"# {path}\n\n``````{language}\n{text}\n``````\n"


def adapted(markdown: str, uri: str) -> Iterator[str]:
    """The lines of a page with its links rewritten, in the dialect of Python-Markdown: a list needs a blank line before it, and
    code in a table takes a ``|`` as it is.
    """
    is_code = False
    previous = ""
    for original in markdown.splitlines(keepends=True):
        line = original
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            if (
                LIST.match(line)
                and previous.strip()
                and not previous.startswith(" ")
                and not LIST.match(previous)
            ):
                yield "\n"
            line = LINK.sub(lambda link: rewritten(link[1], uri), line)
            if line.startswith("|"):
                line = re.sub(r"`[^`]+`", lambda code: code[0].replace(r"\|", "|"), line)
        previous = line
        yield line


def rewritten(link: str, uri: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path_of(uri)), link))
    return posixpath.relpath(page_of(target), posixpath.dirname(uri) or ".")
