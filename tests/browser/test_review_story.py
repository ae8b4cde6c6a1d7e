"""The whole story of a review on the page, as docs/review_story.py tells it over HTTP, up to the bytes on disk.

Two windows tell it in turns, on files with all that makes text hard, and after each step both show the same.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import Error, Locator, Page, Route

from tests.browser.bench import Workbench
from tests.browser.expecting import PATIENCE_S, expect
from tests.browser.proposals import ask
from tests.browser.review_scenarios import NOTES, PLAN, STORY, answer, files, hunks, instruct, sidebar
from tests.browser.test_editor import were_refused

Make = Callable[..., Workbench]
Shown = dict[str, list[str]]

ODD: Final = {
    "first": " 👩‍👩‍👧‍👦\u2028👍🏽",
    "second": " e\u0301 🇩🇪🇫🇷 \x85",
    "SECOND": " 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f \u00e9",
    "third": " \u202eﷺ",
    "measure": " \u200f\x0b\x0c",
    "MEASURE": " A\u030a ẞ𝔘",
}
"""What stands behind these words: signs of many code points and bytes, and what other programs end lines with."""

TYPED: Final = ", by me 👍🏽e\u0301"
"""What the user writes while hunks wait."""


def odd(text: str) -> str:
    for word, signs in ODD.items():
        text = text.replace(word, word + signs)
    return text


def notes(text: str) -> str:
    """The notes in their file: with a byte order mark, other line ends, and an unterminated last line."""
    return "\ufeff" + odd(text).replace("\n", "\r\n").removesuffix("\r\n")


BEFORE: Final = {"notes.md": notes(NOTES), "plan.md": odd(PLAN), "guide/index.md": None}

SHOWN: Final = """() => {
  // Whether a reviewed file is folded depends on the pointer of the window.
  for (const head of document.querySelectorAll(".file-head[aria-expanded=false]:enabled")) head.click();
  const all = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility())
    .map((each) => each.innerText);
  return Object.fromEntries(Object.entries({
    tabs: "[role=tab]", count: "header .count", summary: ".file-summary", hunks: ".inline-hunk",
    text: ".cm-line", runs: ".timeline-head", list: ".listed-file", job: ".job-state, .job .words",
    question: ".clarify .words", context: ".context-list", said: ".session-chat li", files: ".file-name",
    connection: ".instruction .row .dim", undecided: ".listed-hunk[data-state=pending]:is([data-conflict], :not([data-origin=user]))",
  }).map(([name, selector]) => [name, all(selector)]));
}"""
"""What a window tells of the review, but why something was not done in it."""


def _shown(window: Page) -> Shown:
    """The time of a message is left out: it becomes a date at midnight."""
    shown: Shown = window.evaluate(SHOWN)
    return shown | {"said": [re.sub(r" · (\d\d:\d\d|\d+ \w+)", "", text) for text in shown["said"]]}


class Told:
    """A story in progress; ``page`` is the window that acts now."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.kept: dict[str, str | None] = dict(BEFORE)
        self.written = self.kept
        self.requests_cut = 0
        """The requests that are being cut off: the page may show their effect before their response."""
        self.write("notes.md", "plan.md")
        context = bench.context()
        self.page, self.other = bench.page(context), bench.page(context)

    def write(self, *names: str) -> None:
        for name in names:
            (self.bench.newel.project / name).write_bytes((self.kept[name] or "").encode())

    def open(self, name: str, window: Page | None = None) -> Locator:
        """The text of a file, whose tab is open."""
        window = window or self.page
        window.evaluate("(name) => { location.hash = `#/file/${name}`; }", name)
        text = window.get_by_role("textbox", name=f"Text of {name}")
        expect(text).to_be_visible()
        return text

    @property
    def summary(self) -> Locator:
        return self.page.locator(".file-summary:visible")

    def press(self, name: str) -> None:
        self.page.locator(".file-editor").get_by_role("button", name=name, exact=name == "Save").click()

    def disk(self) -> None:
        """Check that the disk has exactly the expected content."""
        for name, text in self.kept.items():
            path = self.bench.newel.project / name
            assert (path.read_bytes().decode() if path.exists() else None) == text, name

    def agreed(self, before: Shown | None = None) -> Shown:
        """What both windows show at the same place: the server's state, and optionally the state before."""
        for window in (self.page, self.other):
            sidebar(window)
        self.other.evaluate("(place) => { location.hash = place; }", self.page.evaluate("location.hash"))
        until = time.monotonic() + PATIENCE_S
        while (found := self._differences(before)) and time.monotonic() < until:
            self.page.wait_for_timeout(100)
        assert found == {}, found
        return _shown(self.page)

    def _said(self) -> int:
        """The number of messages of the session on the server: both windows may lag behind it."""
        sessions = ask(self.page, "GET", "sessions")["sessions"]
        latest = [each["id"] for each in sessions if each["status"] == "active"][:1]
        return sum(len(ask(self.page, "GET", f"sessions/{each}")["chat"]) for each in latest)

    def _differences(self, before: Shown | None) -> dict[str, list[list[str]]]:
        """The differences between the windows and from the expected state."""
        here, there = (_shown(window) for window in (self.page, self.other))
        shown = {name: [here[name], there[name], each] for name, each in (before or here).items()}
        if found := {name: each for name, each in shown.items() if not each[0] == each[1] == each[2]}:
            return found
        try:
            pending = ask(self.page, "GET", "pending")["files"]
            said = self._said()
        except Error:
            return {"server": [["killed just now"]]}
        if here["files"] != (paths := [file["file_path"] for file in pending]):
            found["files"] = [here["files"], paths]
        undecided = sum(file["pending"] for file in pending)  # both lists may lag behind the server
        shown = "".join(here["count"]).partition("\n")[0]
        if shown not in {str(undecided or ""), "1 question"}:
            found["count"] = [here["count"], [str(undecided)]]
        if len(here["undecided"]) != undecided:  # both windows may still be loading the files
            found["undecided"] = [here["undecided"], [str(undecided)]]
        if "Not connected" in "".join(here["connection"]):  # both windows may still be reconnecting
            found["connection"] = [here["connection"], ["connected"]]
        if len(here["said"]) != said:
            found["said"] = [here["said"], [f"{said} messages"]]
        return found


def selects(told: Told) -> None:
    """Select lines, which go with the next instruction as context."""
    told.page.get_by_role("banner").get_by_role("button", name="Files").click()
    told.page.get_by_role("treeitem", name="notes.md").click()
    told.open("notes.md").get_by_text("second").click()
    told.page.keyboard.press("Home")
    told.page.keyboard.press("Shift+End")
    sidebar(told.page).get_by_role("button", name="Add selection").click()
    expect(sidebar(told.page).get_by_role("list", name="Context")).to_contain_text("notes.md:5")


def instructs(told: Told) -> None:
    """Give the instruction; the agent asks a question."""
    instruct(told.page)
    expect(sidebar(told.page).get_by_role("form", name="The agent asks")).to_be_visible()


def answers(told: Told) -> None:
    """Answer by keyboard; the agent proposes changes of three files."""
    answer(told.page)
    expect(files(told.page)).to_have_count(3)
    expect(told.page.locator(".job-state")).to_have_text("To review: 3 files")
    assert odd("second") in told.bench.newel.requests[0]["messages"][-1]["content"]


def writes(told: Told) -> None:
    """The user types while hunks are pending."""
    text = told.open("notes.md")
    expect(text).to_contain_text("SECOND")
    text.get_by_text("third").click()
    told.page.keyboard.press("End")
    told.page.keyboard.type(TYPED)
    expect(told.summary).to_contain_text("1 of yours, unsaved")
    expect(told.summary).not_to_contain_text("sending")


def decides(told: Told) -> None:
    told.open("notes.md")
    told.press("Reject hunk 1")
    expect(told.summary).to_contain_text("1 rejected")
    told.press("Accept hunk 2")
    expect(told.summary).to_contain_text("1 accepted")


def takes_back(told: Told) -> None:
    """Undo reverts the last decision, and not the text typed before it."""
    told.open("notes.md").get_by_text("first").click()
    told.page.keyboard.press("Control+z")
    expect(told.summary).to_have_text("1 hunk to decide · 1 of yours, unsaved · 1 rejected")


def makes_again(told: Told) -> None:
    told.open("notes.md").get_by_text("first").click()
    told.page.keyboard.press("Control+Shift+z")
    expect(told.summary).to_have_text("1 accepted, unsaved · 1 of yours, unsaved · 1 rejected")


def decides_in_the_list(told: Told) -> None:
    """Decide in the list; the file's tab shows it too."""
    for window in (told.page, told.other):
        told.open("guide/index.md", window)
        told.open("notes.md", window)
    hunks(told.page, "guide/index.md").get_by_role("button", name="Accept", exact=True).click()
    expect(hunks(told.page, "guide/index.md").locator(".hunk-where")).to_contain_text("accepted")
    expect(told.page.get_by_role("tab", name="index.md")).to_contain_text("not saved")


def saves(told: Told) -> None:
    """Save: exactly the accepted hunks and the user's text are written."""
    told.open("notes.md").get_by_text("first").click()
    told.page.keyboard.press("Control+s")
    expect(told.summary).to_have_text("1 rejected")
    told.open("guide/index.md")
    told.press("Save")
    expect(told.summary).to_have_text("No changes")
    written = NOTES.replace("second", "SECOND")
    told.kept |= {"notes.md": notes(written) + TYPED, "guide/index.md": "# Guide\n"}


def changes_outside(told: Told) -> None:
    """Another program changes a place with an accepted hunk: nothing of it is overwritten."""
    told.open("plan.md")
    told.press("Accept hunk 1")
    expect(told.summary).to_contain_text("1 accepted")
    told.kept["plan.md"] = odd(PLAN.replace("measure", "measure well"))
    told.write("plan.md")
    told.open("plan.md").get_by_text("plan", exact=True).click()
    told.page.keyboard.press("Control+s")  # unless the change was noticed before
    expect(told.page.locator(".file-trouble:visible")).to_contain_text("the same lines changed on disk")


def runs_again(told: Told) -> None:
    text = told.open("plan.md")
    told.press("Re-run")
    expect(text).to_contain_text("MEASURE")
    expect(text).to_contain_text("TWICE")
    expect(told.summary).to_have_text("1 hunk to decide")
    expect(sidebar(told.page).locator(".job-state")).to_have_text("To review: 1 file")


def saves_the_rest(told: Told) -> None:
    told.open("plan.md")
    told.press("Accept hunk 1")
    expect(told.summary).to_contain_text("1 accepted")
    told.press("Save")
    expect(told.summary).to_have_text("No changes")
    told.kept["plan.md"] = odd(PLAN.replace("measure", "MEASURE TWICE"))


def rolls_back(told: Told) -> None:
    """Roll back everything since the first instruction, after a look at the list."""
    told.written = dict(told.kept)
    take_back(told, told.page.locator(".timeline-head").last)
    told.kept = dict(BEFORE)


def takes_the_rollback_back(told: Told) -> None:
    take_back(told, told.page.locator(".timeline-head").first)
    told.kept = told.written


def take_back(told: Told, head: Locator) -> None:
    told.page.evaluate("location.hash = '#/checkpoints'")
    head.click()
    told.page.get_by_role("button", name="Roll back…").first.click()
    dialog = told.page.get_by_role("dialog", name="Roll back")
    for name in told.kept:
        expect(dialog).to_contain_text(name)
    dialog.get_by_role("button", name="Roll back", exact=True).click()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()


STEPS: Final = (
    selects,
    instructs,
    answers,
    writes,
    decides,
    takes_back,
    makes_again,
    decides_in_the_list,
    saves,
    changes_outside,
    runs_again,
    saves_the_rest,
    rolls_back,
    takes_the_rollback_back,
)


def kill(told: Told) -> None:
    told.bench.kill()
    told.bench.start()


def kill_and_reload(told: Told) -> None:
    """One window reconnects by itself, the other one is reloaded."""
    while told.requests_cut:
        told.page.wait_for_timeout(10)
    kill(told)
    told.page.reload()
    expect(told.page.get_by_role("banner").get_by_role("button", name=re.compile("^Review"))).to_be_visible()


def cut_off(told: Told) -> None:
    """The server is killed with each changing request: one gets no response, the next one never arrives."""
    known: list[str] = []

    def cut(route: Route) -> None:
        what = f"{route.request.url} {route.request.post_data}"
        if what in known or route.request.method == "GET":
            route.continue_()  # the request is repeated
            return
        known.append(what)
        told.requests_cut += 1
        if len(known) % 2:
            route.fetch()
        kill(told)
        route.abort()
        told.requests_cut -= 1

    for name in ("clarify", "edit", "decide", "undo", "redo", "save"):
        told.page.context.route(f"**/api/agent/**/{name}", cut)


@pytest.mark.timeout(300)  # a minute on an idle machine: each request is cut off, and the server killed
def test_a_review_from_the_first_instruction_to_the_undone_rollback(workbench: Make) -> None:
    told = Told(workbench(json.loads(odd(STORY.read_text()))))
    cut_off(told)
    for step in STEPS:
        step(told)
        told.disk()
        shown = told.agreed()
        kill_and_reload(told)
        told.agreed(shown)
        told.page, told.other = told.other, told.page
    were_refused(told.bench)
