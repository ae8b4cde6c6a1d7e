"""If these fail, the page hides that the sandbox does not hold, or the answers to its questions."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.browser.bench import NARROW, Workbench, axe_violations, find_flaws, open_chat, open_menu, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios
from tests.requirements import require_program
from tests.support import bash

require_program("bwrap", "bubblewrap")

Make = Callable[..., Workbench]

HIDE = 'mount --bind /dev/null $(readlink -f $(command -v bwrap)) && exec "$@"'
"""Runs a command for which this machine has no bubblewrap."""


@pytest.fixture
def bench(workbench: Make) -> Workbench:
    """A workbench whose commands run in the partial sandbox, although nobody has chosen that."""
    if os.geteuid() != 0:
        pytest.skip("hiding a program takes root")
    bench = workbench(
        scenarios(answering("do it", bash("touch one"), {"content": "Done."})), "--approve", "ask"
    )
    bench.kill()
    bench.newel.environ["NEWEL_SANDBOX"] = ""
    bench.under = ("unshare", "-m", "sh", "-c", HIDE, "sh")
    bench.start()
    return bench


def test_the_notice_covers_no_answer(bench: Workbench) -> None:
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    question = page.get_by_role("form", name="Allow")
    expect(question).to_be_visible()
    notice, asked = (
        page.get_by_role("alert").filter(has_text="bubblewrap").bounding_box(),
        question.bounding_box(),
    )
    assert notice is not None
    assert asked is not None
    assert notice["y"] + notice["height"] <= asked["y"]


def test_the_header_is_one_row_on_a_phone_and_its_menu_names_the_problem(bench: Workbench) -> None:
    page = bench.page(**NARROW)
    box = page.get_by_role("banner").bounding_box()
    assert box is not None
    assert box["height"] <= 56
    assert page.get_by_text("mock-model", exact=True).evaluate("each => each.scrollWidth <= each.clientWidth")
    expect(page.get_by_role("button", name="More")).to_contain_text("sandbox problem")
    assert find_flaws(page) == []
    open_menu(page)
    expect(page.get_by_text("partial sandbox", exact=True)).to_be_visible()
    assert axe_violations(page) == []
    page.get_by_role("button", name="Commands (Ctrl+K)").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="More")).to_be_focused()
    expect(page.get_by_text("partial sandbox", exact=True)).to_be_hidden()
