"""If these fail, somebody who has installed Newel cannot read how it works, or gets a page full of marks."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from newel.agent.errors import UsageError
from newel.app.documentation import documentation_folder, load_pages
from newel.cli.docs import TOPICS, command_docs
from tests.support import BIN, Newel
from tests.tmux import Tmux

ROOT = Path(__file__).resolve().parents[3]


def test_the_pages_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_docs([]) == 0
    shown = capsys.readouterr().out
    assert "\nReview and undo:\n  review " in shown
    assert "\n  sandbox " in shown
    assert " The sandbox\n" in shown
    assert "spec-coverage" not in shown


def test_the_topics_are_those_of_the_site() -> None:
    """A page that is missing here is found by nobody who reads the list."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\n\n")[0]
    topics: dict[str, list[str]] = {}
    for topic, page in re.findall(r"^  - ([^:\n]+):$|^ {6}- .*: ([a-z-]+)\.md$", navigation, re.MULTILINE):
        if topic:
            topics[topic] = []
        else:
            topics[[*topics][-1]].append(page)
    assert {topic: names.split() for topic, names in TOPICS.items()} == topics
    listed = {name for names in topics.values() for name in names}
    assert listed | {"index"} == {page.name for page in load_pages(documentation_folder())}


def test_a_page_is_printed_as_it_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_docs(["sandbox"]) == 0
    assert capsys.readouterr().out == (documentation_folder() / "sandbox.md").read_text()


def test_a_page_is_printed_where_the_encoding_lacks_some_of_its_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii", write_through=True))
    assert command_docs(["sandbox"]) == 0
    assert printed.getvalue().startswith(b"# The sandbox\n")


def test_words_that_one_section_has_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_docs(["approval", "modes"]) == 0
    assert capsys.readouterr().out.startswith("## Approval modes\n")


def test_words_that_several_sections_have_list_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_docs(["undo"]) == 0
    shown = capsys.readouterr().out
    assert "\nquick-start#4-review-what-changed-and-undo-it  4. Review what changed, and undo it\n" in shown
    assert shown.endswith("\nShow one with `newel docs review`.\n")


def test_a_word_that_no_page_has_is_told_with_what_to_do() -> None:
    with pytest.raises(
        UsageError, match=r"'xyzzy plugh'.*List the pages with `newel docs`.*: newel -- docs xyzzy plugh"
    ):
        command_docs(["xyzzy", "plugh"])


def test_a_slip_in_the_name_of_a_page_is_answered_with_the_page() -> None:
    with pytest.raises(UsageError, match=r"'sanbox'\. Did you mean `newel docs sandbox`\?"):
        command_docs(["sanbox"])


@pytest.mark.parametrize("pager", ["less", "cat"])
def test_in_a_terminal_a_page_is_painted(with_model: Callable[..., Newel], pager: str) -> None:
    newel = with_model()
    environ = newel.environ | {"TERM": "xterm-256color", "PAGER": pager}
    command = [str(BIN / "newel"), "docs", "quick-start"]
    with Tmux(command, newel.project, environ) as terminal:
        if pager == "less":
            terminal.wait_for("Five minutes")
            terminal.type("G")
        terminal.wait_for("See also: newel docs")
        assert "](" not in terminal.text
        if pager == "less":
            terminal.type("q")
        terminal.wait_for_end()


def test_a_section_that_is_longer_than_the_screen_once_it_is_wrapped_is_shown_in_the_pager(
    with_model: Callable[..., Newel],
) -> None:
    newel = with_model()
    command = [str(BIN / "newel"), "docs", "architecture#where-to-find-it"]
    with Tmux(command, newel.project, newel.environ | {"PAGER": "less"}) as terminal:
        terminal.wait_for("\n:")
        assert "Where to find it" in terminal.view
        terminal.type("q")
        terminal.wait_for_end()
