"""If these fail, a user of the page cannot see which tokens, cost and time models and tools have used, or not by keyboard, on a phone or
in the dark.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

from newel.storage.files import project_folder
from tests.browser.bench import NARROW, Workbench, answers, find_flaws, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios
from tests.support import bash

Make = Callable[..., Workbench]


def opened(page: Page) -> Locator:
    """The dialog, opened by keys alone."""
    page.keyboard.press("Control+k")
    page.keyboard.type("usage")
    page.keyboard.press("Enter")
    return page.get_by_role("dialog", name="Usage", exact=True)


def cells(dialog: Locator, row: str) -> Locator:
    return (
        dialog.get_by_role("row")
        .filter(has=dialog.page.get_by_role("rowheader", name=row))
        .get_by_role("cell")
    )


def write_session(bench: Workbench, project: str, model: str) -> None:
    folder = project_folder(bench.newel.home / ".newel" / "sessions", project)
    folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = [
        {"type": "metadata", "id": "1", "timestamp": "2026-01-02T10:00:00.000Z", "cwd": project, "config": {}},
        {"type": "message", "message": {"role": "assistant", "content": [], "model": model, "cost": 1.25, "id": "a",
         "usage": {"input": 2000, "output": 100, "cacheRead": 500}, "timestamp": "2026-01-02T12:00:00.000Z"}},
    ]  # fmt: skip
    (folder / "1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_use_of_this_project_is_shown_by_model_and_by_tool(workbench: Make) -> None:
    bench = workbench(scenarios(answering("go", bash("true"), {"content": "Done."})))
    page = bench.page()
    open_chat(page)
    say(page, "go")
    expect(answers(page).last).to_contain_text("Done.")
    dialog = opened(page)
    expect(cells(dialog, "mock-model").first).to_have_text("1")
    expect(dialog.get_by_role("img", name="Tokens a day")).to_be_visible()
    expect(dialog).to_contain_text("? The price of 2 requests (mock-model) is unknown")
    dialog.get_by_role("combobox", name="By").select_option("Tool")
    expect(cells(dialog, "bash").first).to_have_text("1")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert bench.complaints == []


def test_other_projects_and_earlier_times_are_shown_when_they_are_asked_for(workbench: Make) -> None:
    bench = workbench()
    write_session(bench, "/other", "<img src=x onerror=alert(1)>\u202e")
    page = bench.page()
    dialog = opened(page)
    expect(dialog).to_contain_text("Nothing is recorded here.")
    dialog.get_by_role("combobox", name="Of").select_option("All projects")
    dialog.get_by_role("combobox", name="Since").select_option("All time")
    expect(cells(dialog, "<img src=x onerror=alert(1)>")).to_contain_text(
        ["0", "1", "2k", "25 %", "100", "$1.25"]
    )
    expect(dialog.get_by_role("status")).to_contain_text("2k tokens in (25 % cached)")
    assert bench.complaints == []


def test_it_has_no_flaws_in_light_and_dark_wide_and_narrow(workbench: Make) -> None:
    bench = workbench()
    write_session(
        bench, str(bench.newel.project), "a-model-with-quite-a-long-name-that-a-phone-has-no-room-for"
    )
    page = bench.page(**NARROW)
    dialog = opened(page)
    dialog.get_by_role("combobox", name="Since").select_option("All time")
    expect(dialog.get_by_role("table")).to_be_visible()
    assert find_flaws(page) == []


def test_a_long_table_scrolls_with_the_dialog_and_not_in_a_slit_of_it(workbench: Make) -> None:
    bench = workbench()
    for number in range(30):
        write_session(bench, f"/project-{number}", "a-model")
    page = bench.page(**NARROW)
    dialog = opened(page)
    dialog.get_by_role("combobox", name="By").select_option("Project")
    dialog.get_by_role("combobox", name="Of").select_option("All projects")
    dialog.get_by_role("combobox", name="Since").select_option("All time")
    expect(dialog.get_by_role("row")).to_have_count(31)
    table = dialog.get_by_role("region", name="Usage by project")
    assert table.evaluate("(it) => it.scrollHeight - it.clientHeight") == 0
    dialog.get_by_role("row").last.scroll_into_view_if_needed()
    expect(dialog.get_by_role("row").last).to_be_in_viewport()
    assert find_flaws(page) == []
