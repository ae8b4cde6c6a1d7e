"""If these fail, a user whose system forces colors cannot see which tab is active, or what a diff adds and removes."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.bench import Workbench, answers, axe_violations, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import WORK, answering, scenarios
from tests.support import bash

Make = Callable[..., Workbench]


def test_what_grounds_and_shadows_mark_is_marked_under_forced_colors(workbench: Make) -> None:
    bench = workbench(scenarios(WORK, answering("fail", bash("exit 3"), {"content": "It failed."})))
    (bench.newel.project / "cli.py").write_text("def main():\n    run(source)\n")
    page = bench.page()
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    open_chat(page)
    say(page, "add a flag")
    expect(answers(page).last).to_contain_text("What changed")
    open_chat(page)

    def style(selector: str, name: str) -> str:
        return page.locator(selector).first.evaluate(f"each => getComputedStyle(each).{name}")

    active, other = "[role=tab][aria-selected=true]", "[role=tab][aria-selected=false]"
    assert style(active, "backgroundColor") != style(other, "backgroundColor")
    ground = style(active, "backgroundColor")
    page.locator(active).hover()
    assert style(active, "backgroundColor") == ground
    assert axe_violations(page) == []
    page.locator(other).click()
    page.locator(".call-head", has_text="edit").first.click()
    assert style(".diff .add", "borderLeftStyle") == "solid"
    assert style(".diff .del", "borderLeftStyle") == "dashed"
    say(page, "fail")
    expect(answers(page).last).to_contain_text("It failed.")
    failed = page.locator("[data-phase=failed] .mark")
    for mark in (failed, page.locator("[data-phase=done] .mark").first):
        assert mark.evaluate("each => getComputedStyle(each).backgroundColor") != style(
            "body", "backgroundColor"
        )
    page.get_by_role("button", name="Files", exact=True).click()
    pressed = page.get_by_role("button", name="Files", exact=True)
    assert pressed.evaluate("each => getComputedStyle(each).borderTopWidth") == "2px"


def test_the_row_of_tabs_shows_where_tabs_are_scrolled_away(workbench: Make) -> None:
    page = workbench(scenarios()).page(width=800)
    earlier, later = page.locator(".tab-scroll").first, page.locator(".tab-scroll").last
    for _ in range(8):
        page.keyboard.press("Alt+g")
    expect(page.get_by_role("tab")).to_have_count(8)
    expect(page.get_by_role("tab").last).to_be_in_viewport(ratio=1)
    expect(earlier).to_be_visible()
    expect(later).to_be_hidden()
    earlier.click()
    expect(later).to_be_visible()
    page.get_by_role("tab", name="Agent-1").click()
    expect(page.get_by_role("tab", name="Agent-1")).to_be_in_viewport(ratio=1)
    expect(earlier).to_be_hidden()
