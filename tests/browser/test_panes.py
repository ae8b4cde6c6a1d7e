"""If these fail, users confuse two files of the same name, or cannot scroll to all of a large one."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.bench import (
    NARROW,
    Workbench,
    answers,
    axe_violations,
    expect_end_of_run,
    find_flaws,
    message_box,
    open_chat,
    open_menu,
    overflow_px,
    say,
)
from tests.browser.expecting import expect
from tests.browser.scenarios import WAIT, answering, scenarios
from tests.support import BIN, bash

Make = Callable[..., Workbench]


def test_two_files_of_the_same_name_are_distinguishable(workbench: Make) -> None:
    bench = workbench(scenarios())
    for folder in ("a", "b"):
        (bench.newel.project / folder).mkdir()
        (bench.newel.project / folder / "__init__.py").write_text(f"# {folder}\n")
    page = bench.page()
    page.goto(bench.url.partition("#")[0] + "#/file/a/__init__.py")
    tab = page.get_by_role("tab", name="__init__.py")
    expect(tab).to_have_text("__init__.py")
    page.evaluate("location.hash = '#/file/b/__init__.py'")
    expect(tab).to_have_count(2)
    expect(tab.nth(0)).to_have_text("__init__.py a")
    expect(tab.nth(1)).to_have_text("__init__.py b")
    expect(tab.nth(1)).to_have_attribute("title", "b/__init__.py")
    expect(page).to_have_title("__init__.py · b · newel")
    expect(page.locator(".file-place")).to_have_text("b/__init__.py")
    tab.nth(0).click()
    expect(page.locator(".file-place")).to_have_text("a/__init__.py")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option", name="Go to __init__.py")).to_contain_text("b/__init__.py")


def test_a_file_larger_than_its_pane_and_open_panels_are_accessible(workbench: Make) -> None:
    bench = workbench(scenarios(), servers={"time": {"command": str(BIN / "mcp-server-time")}})
    (bench.newel.project / "long.md").write_text("".join(f"line {n} {'word ' * 60}\n" for n in range(500)))
    deep = bench.newel.project / "folder" / "that" / "is" / "rather" / "deep"
    deep.mkdir(parents=True)
    (deep / "long.md").write_text("x\n" * 500)
    page = bench.page(**NARROW)
    for path in ("long.md", "folder/that/is/rather/deep/long.md"):
        page.evaluate(f"location.hash = '#/file/{path}'")
        expect(page.locator(".file-place")).to_have_text(path)
        expect(page.locator(".cm-line").first).to_be_visible()
        assert find_flaws(page) == []
    open_chat(page)
    tools = page.get_by_role("banner").get_by_role("button", name="Tools")
    open_menu(page)
    tools.click()  # the mouse stays on it
    page.get_by_role("button", name="Trust this command").click()
    expect(page.get_by_role("region", name="MCP tools")).to_contain_text("(active)")
    open_menu(page)
    tools.hover()
    assert find_flaws(page) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    for name in ("Files", "Review"):
        page.get_by_role("banner").get_by_role("button", name=name).click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        tools.hover()
        assert axe_violations(page) == []


def test_escape_closes_the_column_with_the_focus_and_stops_no_run(workbench: Make) -> None:
    bench = workbench(scenarios(answering("run it", bash(WAIT), {"content": "It ran."})))
    page = bench.page()
    open_chat(page)
    say(page, "run it")
    stop = page.get_by_role("button", name="Stop", exact=True)
    expect(stop).to_be_visible()
    files = page.get_by_role("complementary", name="Files")
    review = page.get_by_role("complementary", name="Review")
    page.keyboard.press("Alt+f")
    expect(files).to_be_visible()
    page.keyboard.press("Escape")
    expect(files).to_be_hidden()
    expect(page.get_by_role("button", name="Files", exact=True)).to_be_focused()
    page.keyboard.press("Alt+v")
    expect(review.get_by_role("textbox", name="Instruction")).to_be_focused()
    page.keyboard.press("Escape")  # leaves the box
    expect(review.get_by_role("heading", name="Review", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(review).to_be_hidden()
    page.keyboard.press("Escape")  # on the button that opens it
    (bench.newel.project / "go").touch()
    expect(answers(page).last).to_contain_text("It ran.")
    (bench.newel.project / "go").unlink()
    expect_end_of_run(page)
    say(page, "run it")
    expect(stop).to_be_visible()
    say(page, "and this")
    message_box(page).press("Escape")
    expect(page.get_by_role("button", name="Stop now")).to_be_visible()
    expect(page.get_by_role("region", name="Queued messages")).to_contain_text("held")  # the server knows
    (bench.newel.project / "go").touch()
    expect(page.get_by_text("Stopped before the next request.")).to_be_visible()


def test_the_header_fits_at_every_width(workbench: Make) -> None:
    """Zoomed to 200 %, a window of 1440 pixels has 720."""
    page = workbench(scenarios()).page()
    open_chat(page)
    wider: dict[int, int] = {}
    for width in [*range(320, 1120, 20), 641, 839, 899, 900, 901]:
        page.set_viewport_size({"width": width, "height": 700})
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        wider |= {width: px} if (px := overflow_px(page)) else {}
    assert wider == {}
