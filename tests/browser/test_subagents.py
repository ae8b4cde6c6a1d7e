"""If these fail, a user of the page does not see what a subagent does, loses it with a reload or a restart, or cannot tell who asks; or the
model's todo list is not there while it works.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, answers, find_flaws, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import PROBE, WAIT, answering, call, scenarios
from tests.support import bash

Make = Callable[..., Workbench]

STEPS = ("Read the parser", "Write the test", "Run all tests")


def task(prompt: str, **more: Any) -> dict[str, Any]:
    return call("task", description=f"Find {prompt}", prompt=prompt, **more)


def todo(*statuses: str) -> dict[str, Any]:
    return call(
        "todo",
        items=[{"text": text, "status": status} for text, status in zip(STEPS, statuses, strict=True)],
    )


def searching(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A model that hands a search to a subagent, which takes these steps."""
    return scenarios(
        answering("look around", task("the writers", **more), {"content": "Two files write."}),
        answering("the writers", *steps),
    )


def head(page: Page) -> Locator:
    return page.get_by_role("button", name="task Find the writers")


def subagent(page: Page) -> Locator:
    return page.get_by_role("region", name="Subagent Find the writers")


def finish(bench: Workbench) -> None:
    (bench.newel.project / "go").touch()


def test_its_last_call_is_shown_while_it_works_and_all_of_it_below_its_call(workbench: Make) -> None:
    bench = workbench(
        searching(
            {"content": "I look first.", **bash("echo found")},
            bash(WAIT),
            {"content": "a.py and b.py."},
            can_write=True,
        )
    )
    page = bench.page()
    open_chat(page)
    say(page, "look around")
    expect(page.locator(".call-last")).to_contain_text("bash until [ -e go ]")
    head(page).click()
    nested = subagent(page)
    expect(nested).to_contain_text("I look first.")
    expect(nested.get_by_role("button", name="bash echo found")).to_contain_text("done")
    expect(nested.get_by_role("button", name="bash until")).to_contain_text("running")
    head(page).click()
    finish(bench)
    expect(answers(page).last).to_contain_text("Two files write.")
    expect(head(page)).to_have_attribute("aria-expanded", "false")
    expect(head(page)).to_contain_text(re.compile(r"2 calls · .*s"))
    expect(page.locator(".call-last")).to_have_count(0)
    head(page).click()
    nested.get_by_role("button", name="bash echo found").click()
    expect(nested.get_by_label("Output", exact=True)).to_have_text("found")
    expect(nested).to_contain_text("a.py and b.py.")
    expect(page.get_by_text("a.py and b.py.").filter(visible=True)).to_have_count(1)
    page.set_viewport_size({"width": NARROW["width"], "height": 800})
    assert find_flaws(page) == []


def shown(page: Page) -> str:
    """The nested block as it is read, its times left out."""
    text = re.sub(r"[\d.]+ m?s\b", "", subagent(page).inner_text())
    return " ".join(text.split())


def test_a_reload_and_a_kill_of_the_server_change_nothing_of_it(workbench: Make) -> None:
    bench = workbench(
        searching(bash("echo found"), bash(WAIT), {"content": "a.py and b.py."}, can_write=True)
    )
    page = bench.page()
    open_chat(page)
    say(page, "look around")
    head(page).click()
    expect(subagent(page).get_by_role("button", name="bash until")).to_contain_text("running")
    before = shown(page)
    page.reload()
    expect(subagent(page).get_by_role("button", name="bash until")).to_contain_text("running")
    assert shown(page) == before
    finish(bench)
    expect(answers(page).last).to_contain_text("Two files write.")
    done = shown(page)
    page.reload()
    expect(subagent(page).get_by_role("button", name="bash echo found")).to_be_visible()
    assert shown(page) == done
    bench.kill()
    bench.start()
    again = bench.page()
    again.get_by_role("tab", name="look around").click()
    head(again).click()
    expect(subagent(again).get_by_role("button", name="bash echo found")).to_be_visible()
    assert shown(again) == done


def test_what_one_did_until_the_server_was_killed_is_still_there(workbench: Make) -> None:
    bench = workbench(searching(bash("echo found"), bash(WAIT), {"content": "Gone."}, can_write=True))
    page = bench.page()
    open_chat(page)
    say(page, "look around")
    expect(page.locator(".call-last")).to_contain_text("bash until")
    bench.kill()
    bench.start()
    expect(answers(page).last).to_contain_text("Two files write.", timeout=20_000)
    for each in (page, bench.page()):
        if each is not page:
            each.get_by_role("tab", name="look around").click()
        head(each).click()
        expect(head(each)).to_contain_text("interrupted")
        expect(subagent(each).get_by_role("button", name="bash echo found")).to_be_visible()


def test_a_question_names_the_subagent_and_shows_the_change(workbench: Make) -> None:
    bench = workbench(
        searching(
            call("write", file_path="a.txt", content="a\n"),
            bash("rm a.txt"),
            {"content": "I may not."},
            can_write=True,
        ),
        "--approve",
        "ask",
    )
    page = bench.page()
    open_chat(page)
    say(page, "look around")
    question = page.get_by_role("form", name="Allow")
    expect(question).to_contain_text("The subagent Find the writers asks.")
    expect(question).to_contain_text("Allow changes to “a.txt”?")
    question.get_by_role("button", name="Allow once").click()
    expect(question).to_contain_text("Allow “rm a.txt”?")
    expect(question).to_contain_text("The subagent Find the writers asks.")
    question.get_by_role("button", name="No", exact=True).click()
    expect(answers(page).last).to_contain_text("Two files write.")
    assert (bench.newel.project / "a.txt").exists()


def test_hostile_text_of_a_subagent_stays_text(workbench: Make) -> None:
    hidden = f"{PROBE}\u202e\u200b"
    bench = workbench(
        scenarios(
            answering(
                "look around",
                call("task", description=hidden, prompt="the writers"),
                call("todo", items=[{"text": hidden, "status": "in_progress"}]),
                bash(WAIT),
                {"content": "Two files write."},
            ),
            answering("the writers", {"content": PROBE, **bash(f"echo '{PROBE}'")}, {"content": hidden}),
        )
    )
    page = bench.page()
    open_chat(page)
    say(page, "look around")
    expect(page.get_by_role("region", name="Todo list")).to_contain_text("<U+202E><U+200B>")
    page.get_by_role("button", name="task").click()
    page.get_by_role("button", name="bash echo").click()
    expect(page.get_by_role("region", name="Subagent")).to_contain_text("<img src=x")
    assert page.evaluate("window.pwned") is None
    assert page.locator(".log img").count() == 0
    assert "\u202e" not in page.locator(".log").inner_text()
    finish(bench)
    expect(answers(page).last).to_contain_text("Two files write.")


def test_the_todo_list_is_there_while_the_model_works(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering(
                "work",
                todo("in_progress", "pending", "pending"),
                todo("done", "in_progress", "pending"),
                bash(WAIT),
                todo("done", "done", "done"),
                {"content": "All done."},
            )
        )
    )
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "work")
    panel = page.get_by_role("region", name="Todo list")
    expect(panel).to_contain_text("1 of 3 done")
    expect(panel.get_by_role("listitem").nth(1)).to_have_attribute("aria-current", "step")
    expect(panel.get_by_role("listitem").nth(0)).to_contain_text("Done: Read the parser")
    assert find_flaws(page) == []
    page.reload()
    expect(panel).to_contain_text("1 of 3 done")
    panel.get_by_role("button").press("Enter")
    expect(panel.get_by_role("listitem").first).to_be_hidden()
    expect(panel.get_by_role("button", expanded=False)).to_contain_text("Write the test")
    finish(bench)
    expect(answers(page).last).to_contain_text("All done.")
    expect(panel).to_be_hidden()
    page.get_by_role("button", name="todo").last.click()
    expect(page.get_by_role("listitem").filter(has_text="Run all tests")).to_be_visible()
