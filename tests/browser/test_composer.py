"""If these fail, the message box of the page does not know the files, commands and templates that the terminal knows."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Locator, Page

from tests.browser.bench import (
    NARROW,
    Workbench,
    answers,
    expect_end_of_run,
    find_flaws,
    message_box,
    open_chat,
    say,
)
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios

Make = Callable[..., Workbench]

TALK = scenarios(
    answering("What does", {"content": "It runs."}),
    answering("Find faults in", {"content": "None."}),
    answering("ping", {"content": "pong"}),
)


PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NOTES: FilePayload = {"name": "notes.md", "mimeType": "text/markdown", "buffer": b"THE NOTES"}
DOT: FilePayload = {"name": "dot.png", "mimeType": "image/png", "buffer": PICTURE}


def choices(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Completions").get_by_role("option")


def last_request(bench: Workbench) -> dict[str, Any]:
    return json.loads(json.dumps(bench.newel.server.requests[-1]))


@pytest.fixture
def shop(workbench: Make) -> tuple[Workbench, Page]:
    bench = workbench(TALK)
    project = bench.newel.project
    for name in ("shop/cli.py", "shop/my notes.md", ".newel/prompts/faults.md"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / "shop" / "cli.py").write_text("THE CODE = 1\n")
    (project / "shop" / "my notes.md").write_text("THE NOTES\n")
    template = "---\ndescription: Looks for faults\n---\nFind faults in: $ARGUMENTS\n"
    (project / ".newel" / "prompts" / "faults.md").write_text(template)
    page = bench.page(**NARROW)
    open_chat(page)
    return bench, page


def test_a_file_is_completed_and_attached_by_the_server(shop: tuple[Workbench, Page]) -> None:
    bench, page = shop
    message_box(page).press_sequentially("What does @shcl")
    expect(choices(page)).to_have_text(["shop/cli.py"])
    assert find_flaws(page) == []
    message_box(page).press("Enter")
    expect(message_box(page)).to_have_value("What does @shop/cli.py ")
    message_box(page).press_sequentially("do, and @notes")
    expect(choices(page)).to_have_text(["shop/my notes.md"])
    choices(page).click()
    expect(message_box(page)).to_have_value('What does @shop/cli.py do, and @"shop/my notes.md" ')
    message_box(page).press("Enter")
    expect(answers(page).last).to_contain_text("It runs.")
    sent = json.dumps(last_request(bench))
    assert "THE CODE = 1" in sent
    assert "THE NOTES" in sent
    page.reload()
    expect(page.get_by_role("article", name="You").locator(".chip")).to_have_count(2)


def test_files_outside_the_project_are_completed_and_attached_but_no_secrets(
    shop: tuple[Workbench, Page],
) -> None:
    bench, page = shop
    home = bench.newel.home
    for name, text in (("papers/plan.md", "THE PLAN"), (".ssh/id_rsa", "THE KEY")):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    message_box(page).press_sequentially("What does @~/pap")
    expect(choices(page)).to_have_text(["~/papers/"])
    message_box(page).press("Enter")
    expect(choices(page)).to_have_text(["~/papers/plan.md"])
    message_box(page).press("Enter")
    expect(message_box(page)).to_have_value("What does @~/papers/plan.md ")
    message_box(page).press_sequentially("say?")
    message_box(page).press("Enter")
    expect(answers(page).last).to_contain_text("It runs.")
    assert "THE PLAN" in json.dumps(last_request(bench))
    message_box(page).fill("")
    message_box(page).press_sequentially(f"What does @{home}/papers/")
    expect(choices(page)).to_have_text([f"{home}/papers/plan.md"])
    for text in ("@~/.ssh/", "@~/.ssh/../.ssh/i", "@/proc/self/environ/"):
        message_box(page).fill("")
        message_box(page).press_sequentially(text)
        expect(choices(page)).to_have_count(0)
    message_box(page).fill("What does @~/.ssh/id_rsa say?")
    message_box(page).press("Enter")
    expect(page.get_by_text("@~/.ssh/id_rsa was not attached")).to_be_visible()
    assert "THE KEY" not in json.dumps(bench.newel.server.requests)


def test_a_file_that_does_not_exist_is_named_and_none_is_attached(shop: tuple[Workbench, Page]) -> None:
    bench, page = shop
    say(page, "What does @shop/gone.py do?")
    expect(answers(page).last).to_contain_text("It runs.")
    expect(page.get_by_text("@shop/gone.py was not attached: there is no such file.")).to_be_visible()
    assert "THE CODE" not in json.dumps(last_request(bench))


TYPED_FASTER_THAN_THE_LIST = """box => {
    box.value = "/hel";
    box.setSelectionRange(4, 4);
    box.dispatchEvent(new Event("input", { bubbles: true }));
    box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
}"""
"""The list still shows what begins with "/" when Enter is pressed: it must not run the first of those."""


def test_commands_and_templates_are_completed_with_what_they_do(shop: tuple[Workbench, Page]) -> None:
    bench, page = shop
    message_box(page).press_sequentially("/")
    expect(choices(page).first).to_be_visible()
    message_box(page).press_sequentially("fau")
    expect(choices(page)).to_have_count(1)
    expect(choices(page)).to_contain_text("Looks for faults")
    message_box(page).press("Tab")
    expect(message_box(page)).to_have_value("/faults ")
    message_box(page).press_sequentially("the importer")
    message_box(page).press("Enter")
    expect(answers(page).last).to_contain_text("None.")
    assert "Find faults in: the importer" in json.dumps(last_request(bench))
    message_box(page).press_sequentially("/")
    expect(choices(page).first).not_to_contain_text("/help")
    message_box(page).evaluate(TYPED_FASTER_THAN_THE_LIST)
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(message_box(page)).to_have_value("")
    message_box(page).press_sequentially("/")
    expect(choices(page).first).to_be_visible()
    message_box(page).press("ArrowUp")  # to the last one, after all of the page's own
    expect(page.get_by_role("option", selected=True)).to_be_in_viewport()
    expect(choices(page).filter(has_text="Looks for faults")).to_have_count(1)
    assert find_flaws(page) == []
    say(page, "/nonsense")
    expect(page.get_by_role("alert")).to_contain_text("There is no command /nonsense.")
    expect(message_box(page)).to_have_value("/nonsense")


def test_a_template_with_the_name_of_a_command_of_the_page_is_another_choice(
    shop: tuple[Workbench, Page],
) -> None:
    bench, page = shop
    (bench.newel.project / ".newel" / "prompts" / "review.md").write_text("Find faults in: $ARGUMENTS\n")
    message_box(page).press_sequentially("/prompt:r")
    expect(choices(page)).to_have_count(1)
    message_box(page).press("Tab")
    expect(message_box(page)).to_have_value("/prompt:review ")
    message_box(page).press_sequentially("the importer")
    message_box(page).press("Enter")
    expect(answers(page).last).to_contain_text("None.")
    assert "Find faults in: the importer" in json.dumps(last_request(bench))


def test_arrow_up_in_the_empty_box_edits_the_last_message(shop: tuple[Workbench, Page]) -> None:
    _, page = shop
    say(page, "What does it do?")
    expect(answers(page).last).to_contain_text("It runs.")
    expect_end_of_run(page)
    message_box(page).press("ArrowUp")
    edit = page.get_by_role("textbox", name="Edit your message")
    expect(edit).to_be_focused()
    edit.fill("ping")
    edit.press("Enter")
    expect(answers(page).last).to_contain_text("pong")


@pytest.mark.parametrize("is_first_page", [True, False])
def test_the_files_of_an_unsent_message_survive_a_reload(workbench: Make, is_first_page: bool) -> None:
    bench = workbench(TALK)
    page = bench.page(**NARROW)
    if not is_first_page:
        open_chat(page)
    page.locator("input[type=file]").set_input_files([NOTES, DOT])
    files = page.locator(".composer .chip")
    expect(files).to_have_count(2)
    page.get_by_role("button", name="Remove dot.png").click()
    page.locator("input[type=file]").set_input_files([DOT])
    expect(files).to_have_count(2)
    message_box(page).fill("What does it say?")
    bench.kill()
    bench.start()
    page.reload()
    expect(files).to_have_count(2)
    expect(files.first).to_contain_text("notes.md")
    message_box(page).press("Enter")
    expect(answers(page).last).to_contain_text("It runs.")
    assert "THE NOTES" in str(last_request(bench)["body"])
    assert base64.b64encode(PICTURE).decode() in str(last_request(bench)["body"])
    expect(files).to_have_count(0)
    page.reload()
    expect(answers(page).last).to_contain_text("It runs.")
    expect(files).to_have_count(0)


def test_a_message_that_was_sent_is_no_draft_in_another_window(workbench: Make) -> None:
    """Otherwise it is sent once more from there. Another draft stays, there and over a reload."""
    bench = workbench(TALK)
    context = bench.context()
    page = bench.page(context)
    open_chat(page)
    page.locator("input[type=file]").set_input_files([NOTES])
    message_box(page).fill("What does it say?")
    window, another = bench.page(context), bench.page(context)
    for each in (window, another):
        expect(message_box(each)).to_have_value("What does it say?")
        expect(each.locator(".composer .chip")).to_have_count(1)
    message_box(another).fill("What does it mean?")
    message_box(page).fill("What does it say?")
    message_box(page).press("Enter")
    expect(answers(page).last).to_contain_text("It runs.")
    for each in (window, another):
        expect(answers(each).last).to_contain_text("It runs.")
        expect(each.locator(".composer .chip")).to_have_count(0)
    expect(message_box(window)).to_have_value("")
    expect(message_box(another)).to_have_value("What does it mean?")
    another.reload()
    expect(message_box(another)).to_have_value("What does it mean?")


def test_an_edit_of_a_sent_message_survives_a_reload(shop: tuple[Workbench, Page]) -> None:
    _, page = shop
    say(page, "ping")
    expect(answers(page)).to_have_count(1)
    expect_end_of_run(page)
    edit = page.get_by_role("textbox", name="Edit your message")
    message_box(page).press("ArrowUp")
    edit.fill("What does it do, and why")
    page.reload()
    expect(edit).to_have_value("What does it do, and why")
    composer = page.get_by_role("textbox", name="Message", exact=True)
    expect(composer).to_be_focused()  # as after each reload
    composer.press("ArrowUp")
    expect(edit).to_be_focused()
    edit.press("End")
    page.keyboard.type("?")
    page.reload()
    edit.press("Enter")
    expect(answers(page).last).to_contain_text("It runs.")
    expect(page.get_by_role("article", name="You")).to_contain_text("What does it do, and why?")
    message_box(page).press("ArrowUp")
    edit.press("a")
    edit.press("Escape")
    page.reload()
    expect(answers(page).last).to_contain_text("It runs.")
    expect(edit).to_have_count(0)


def test_a_tab_with_unsent_files_is_closed_only_after_a_question(workbench: Make) -> None:
    bench = workbench(TALK)
    page = bench.page(**NARROW)
    open_chat(page)
    page.locator("input[type=file]").set_input_files([NOTES])
    expect(page.locator(".composer .chip")).to_have_count(1)
    page.keyboard.press("Alt+n")
    expect(page.get_by_role("tab")).to_have_count(2)
    page.get_by_role("tab").first.click()
    page.keyboard.press("Alt+w")
    dialog = page.get_by_role("dialog", name="Close Chat?")
    expect(dialog).to_contain_text("This discards your draft.")
    dialog.get_by_role("button", name="Close", exact=True).click()
    expect(page.get_by_role("tab")).to_have_count(1)
    stored = """new Promise((resolve) => {
        const opening = indexedDB.open("newel");
        opening.onsuccess = () => {
            const store = opening.result.transaction("draft-files").objectStore("draft-files");
            store.getAllKeys().onsuccess = (event) => resolve(event.target.result);
        };
    })"""
    assert page.evaluate(stored) == []
