"""If these fail, a page of the documentation is written and cannot be found in the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from mkdocs.config.base import load_config  # pyright: ignore[reportUnknownVariableType]

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page.name for page in (ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def settings() -> Any:
    return load_config(str(ROOT / "mkdocs.yml"))


def pages_in(nav: Any) -> list[str]:
    match nav:
        case str():
            return [nav]
        case dict():
            return pages_in(list(cast("dict[str, Any]", nav).values()))
        case _:
            return [page for part in nav for page in pages_in(part)]


def test_every_page_is_in_the_navigation_once_or_left_out(settings: Any) -> None:
    named = pages_in(settings.nav)
    assert len(named) == len(set(named))
    left_out = settings.not_in_nav
    missing = [page for page in PAGES if page not in named and not left_out.match_file(page)]
    assert missing == [], "add a line below `nav` in mkdocs.yml, or below `not_in_nav` with the reason"
    assert [page for page in named if left_out.match_file(page) and not page.startswith("repository/")] == []


def test_what_is_left_out_has_a_reason() -> None:
    _, _, block = (ROOT / "mkdocs.yml").read_text().partition("\nnot_in_nav: |\n")
    lines = [line.strip() for line in block.partition("\n\n")[0].splitlines()]
    reasons, patterns = lines[::2], lines[1::2]
    assert len(reasons) == len(patterns) > 1
    assert all(line.startswith("# ") for line in reasons)
    assert not any(line.startswith("#") for line in patterns)


def test_each_file_of_the_repository_in_the_navigation_exists(settings: Any) -> None:
    named = [page for page in pages_in(settings.nav) if page.startswith("repository/")]
    assert named
    assert [page for page in named if not (ROOT / page.removeprefix("repository/")).is_file()] == []
