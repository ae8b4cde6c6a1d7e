"""If these fail, a reader of the documentation is seen by others, or does not find what a newcomer looks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.bench import overflow_px
from tests.browser.expecting import expect

ROOT = Path(__file__).resolve().parents[2]
FETCHING: Final = {"src", "srcset", "data", "poster", "action", "background"}
"""Attributes whose address a browser asks for without being told by the reader, with those of ``<link>``."""
SEARCHES: Final = {
    "undo": "review.html",
    "permissions": "permissions.html",
    "local models": "local-models.html",
    "uninstall": "install.html",
    "telemetry": "faq.html",
    "sandbox": "sandbox.html",
    "ollama": "ollama.html",
    "windows": "faq.html",
    "allow": "permissions.html",
    "claude code": "faq.html",
    "codex": "faq.html",
    "cost": "observability.html",
    "editors": "editors.html",
    "hooks": "hooks.html",
    "hosts": "hosts.html",
    "json": "json-mode.html",
    "lm studio": "local-models.html",
    "offline": "local-models.html",
    "privacy": "data.html",
    "remote": "hosts.html",
    "resume": "terminal.html",
    "revert": "review.html",
    "scripting": "automation.html",
    "skills": "skills.html",
    "vs code": "editors.html",
}
TITLES: Final = {
    "Review and undo": "review.html",
    "Permissions": "permissions.html",
    "Local models (model files)": "local-models.html",
    "Questions and answers": "faq.html",
}
pytestmark = pytest.mark.timeout(120)  # the build takes four seconds of a core, in each process of the tests


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}
    )
    assert done.returncode == 0, done.stderr
    return folder


class Fetched(HTMLParser):
    """The addresses that a page makes the browser fetch."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wanted = FETCHING | ({"href"} if tag in {"link", "use", "image", "base"} else set[str]())
        self.addresses += [value for name, value in attrs if name in wanted and value]
        for name, value in attrs:
            if name == "style" and value:
                self.addresses += re.findall(r"url\(['\"]?([^)]+)", value)


def elsewhere(address: str) -> bool:
    return re.match(r"\s*([a-z+.-]+:)?//", address) is not None


def test_no_page_makes_the_browser_ask_another_server(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    found = {str(page.relative_to(site)): list(filter(elsewhere, Fetched(page).addresses)) for page in pages}
    assert {page: addresses for page, addresses in found.items() if addresses} == {}
    for sheet in site.rglob("*.css"):
        text = sheet.read_text()
        assert not re.search(r"(url\(|@import)\s*['\"]?\s*(https?:)?//", text), sheet.name
    # The theme's script would load these from elsewhere for such elements.
    assert not any(
        'class="mermaid"' in page.read_text() or 'data-md-component="source"' in page.read_text()
        for page in pages
    )


def open_page(browser: Browser, site: Path, name: str, asked: list[str], **options: Any) -> Page:
    page = browser.new_page(**options)
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / name).as_uri())
    return page


def test_a_newcomer_finds_pages_by_the_search_without_a_server(site: Path, browser: Browser) -> None:
    asked: list[str] = []
    page = open_page(browser, site, "index.html", asked)
    box = page.get_by_role("textbox", name="Search")
    for words, target in SEARCHES.items():
        box.click()
        box.clear()
        page.keyboard.type(words)  # the search listens to keys
        first_three = page.locator(".md-search-result__list > li:nth-child(-n + 3) > a")
        expect(first_three.and_(page.locator(f'[href*="{target}"]')).first).to_be_attached(timeout=20_000)
    page.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_a_newcomer_finds_pages_in_the_navigation(site: Path, browser: Browser) -> None:
    page = open_page(browser, site, "index.html", [])
    for title, target in TITLES.items():
        page.goto((site / "index.html").as_uri())
        page.locator(".md-nav--primary").get_by_role("link", name=title, exact=True).click()
        expect(page).to_have_url((site / target).as_uri())
    page.close()


def test_no_page_is_wider_than_a_phone(site: Path, browser: Browser) -> None:
    page = open_page(browser, site, "index.html", [], viewport={"width": 400, "height": 800})
    wide: dict[str, int] = {}
    for path in sorted(site.glob("*.html")):
        if path.name != "evals-real.html":  # a report of `newel eval`, which is no page of the site
            page.goto(path.as_uri())
            wide[path.name] = overflow_px(page)
    page.close()
    assert {name: pixels for name, pixels in wide.items() if pixels} == {}
