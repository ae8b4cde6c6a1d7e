"""If these fail, the page misleads a user who works on a host, or loses their typing when the host is
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.bench import Workbench, find_flaws, open_agent, open_chat, say
from tests.browser.expecting import expect
from tests.browser.review_scenarios import NOTES, PLAN, file, files, hunks, propose, story
from tests.browser.scenarios import WAIT, answering, scenarios, verdict
from tests.sshd import Sshd, served
from tests.standins.ollama_program import OllamaProgram
from tests.support import bash

Make = Callable[..., Workbench]


@pytest.fixture
def host() -> Iterator[Sshd]:
    """A host that can be stopped."""
    with served() as server:
        yield server


@pytest.fixture
def project(host: Sshd) -> Path:
    folder = host.project("shop")
    for name, content in {"notes.md": NOTES, "plan.md": PLAN}.items():
        path = folder / name
        path.write_bytes(content.encode())
        host.give(path)
    return folder


@pytest.fixture
def bench(workbench: Make, host: Sshd, project: Path) -> Workbench:
    given = story()
    given["scenarios"].append(answering("wait", bash(f"echo begun; {WAIT}"), {"content": "I waited."}))
    words = ("--host", f"host:{project}", "--approve", "auto")
    return workbench(given, *words, environ={"NEWEL_SSH_CONFIG": str(host.config)})


def sign(page: Page) -> Locator:
    return page.get_by_role("banner").locator(".host")


def test_the_page_names_its_host_and_kept_changes_are_written_there(
    bench: Workbench, host: Sshd, project: Path
) -> None:
    page = bench.page()
    expect(sign(page)).to_contain_text(f"{host.user}@host")
    expect(sign(page)).to_contain_text(" ms")
    assert f":{host.port}{project}" in (sign(page).get_attribute("title") or "")
    propose(page)
    file(page, "notes.md").get_by_role("button", name="Accept file notes.md").click()
    hunks(page, "plan.md").get_by_role("button", name="Reject", exact=True).click()
    expect(files(page)).to_have_count(2)
    page.keyboard.press("Control+s")
    expect(files(page)).to_have_count(1)
    assert (project / "notes.md").read_text() == NOTES.replace("# Notes", "# NOTES").replace(
        "second", "SECOND"
    )
    assert (project / "plan.md").read_bytes() == PLAN.encode()
    assert list(bench.newel.project.iterdir()) == []


def test_a_lost_host_is_named_with_the_reason_and_typed_text_survives(
    bench: Workbench, host: Sshd, project: Path
) -> None:
    page = bench.page()
    open_chat(page)
    say(page, "wait")
    expect(page.get_by_text("begun").first).to_be_attached()
    page.get_by_role("button", name="Files", exact=True).click()
    page.get_by_role("treeitem", name="plan.md").click()
    text = page.locator(".cm-content")
    expect(text).to_be_visible()
    page.get_by_role("tab", name="wait").click()

    host.stop()
    expect(sign(page)).to_contain_text("reconnecting")
    expect(page.get_by_text("The connection to host is lost").first).to_be_visible()
    assert find_flaws(page) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("tab", name="plan.md").click()
    text.press("Control+End")
    page.keyboard.type("3. sew")
    refused = page.get_by_text("Your edits were rejected: host cannot be reached now")
    expect(refused).to_be_visible()

    host.start()
    page.get_by_role("button", name="Try again").click()
    expect(sign(page)).to_contain_text(" ms")
    expect(refused).to_be_hidden()
    page.keyboard.press("Control+s")
    expect(page.get_by_text("not saved")).to_have_count(0)
    assert (project / "plan.md").read_bytes() == PLAN.encode() + b"3. sew"
    page.get_by_role("tab", name="wait").click()
    for words in ("The connection to host is lost", "The connection to host is back", "I waited."):
        expect(page.locator("main").get_by_text(words)).to_be_visible()
    bench.complaints.clear()  # the browser logs the failed request


@pytest.mark.core
def test_the_page_says_where_the_models_of_the_host_run(workbench: Make, host: Sshd, project: Path) -> None:
    OllamaProgram(host.bin, models={"phi3:latest": {}})
    words = ("--host", f"host:{project}", "--through", "run")
    page = workbench(story(), *words, environ={"NEWEL_SSH_CONFIG": str(host.config)}).page()
    expect(page.get_by_role("button", name="Model: phi3:latest on host (ollama run)")).to_be_visible()


def test_a_contract_is_run_judged_and_checked_on_the_host(workbench: Make, host: Sshd, project: Path) -> None:
    """In the same folder, so that an agent can be left alone with work there as it can locally."""
    judged = {"response": verdict("The notes are sorted.", satisfied=True)}
    steps = ({"content": "Sorting.", **bash("sort -o notes.md notes.md && pwd")}, {"content": "Done."})
    given = scenarios(
        {"name": "judge", "trigger_regex": r"After \d+ tool call", "steps": [judged]},
        answering("Sort", *steps),
    )
    words = ("--host", f"host:{project}", "--approve", "auto")
    bench = workbench(given, *words, environ={"NEWEL_SSH_CONFIG": str(host.config)})
    page = bench.page()
    open_agent(page, "Sort the notes")
    page.get_by_label("Acceptance command").fill(f"test $PWD = {project} && sort -c notes.md && echo sorted")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".agent-bar .badge")).to_have_text("Completed")
    expect(page.get_by_text("The contract is fulfilled: The notes are sorted.")).to_be_visible()
    expect(page.get_by_text("Acceptance command passed:")).to_be_visible()
    assert (project / "notes.md").read_text() == "".join(sorted(NOTES.splitlines(keepends=True)))
    assert list(bench.newel.project.iterdir()) == []


def test_a_chats_changes_under_review_on_a_host_are_listed_and_written_there_when_kept(
    workbench: Make, host: Sshd, project: Path
) -> None:
    given = scenarios(answering("sort", bash("sort -o notes.md notes.md; rm plan.md"), {"content": "Done."}))
    words = ("--host", f"host:{project}", "--approve", "review")
    page = workbench(given, *words, environ={"NEWEL_SSH_CONFIG": str(host.config)}).page()
    open_chat(page)
    say(page, "sort")
    expect(files(page)).to_have_count(2)
    assert (project / "notes.md").read_bytes() == NOTES.encode()
    file(page, "notes.md").get_by_role("button", name="Accept file notes.md").click()
    hunks(page, "plan.md").get_by_role("button", name="Reject", exact=True).click()
    expect(files(page)).to_have_count(1)  # a rejected hunk is not pending
    page.keyboard.press("Control+s")
    expect(files(page)).to_have_count(0)
    assert (project / "notes.md").read_text() == "".join(sorted(NOTES.splitlines(keepends=True)))
    assert (project / "plan.md").read_bytes() == PLAN.encode()


def test_an_agent_with_a_worktree_on_a_host_does_not_touch_the_project(
    workbench: Make, host: Sshd, project: Path
) -> None:
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-qm1"],
    ):
        assert host.ssh("git", "-C", str(project), *words).returncode == 0
    judged = {"response": verdict("The notes are sorted.", satisfied=True)}
    given = scenarios(
        {"name": "judge", "trigger_regex": r"After \d+ tool call", "steps": [judged]},
        answering("Sort", bash("sort -o notes.md notes.md"), {"content": "Done."}),
    )
    words = ("--host", f"host:{project}", "--approve", "auto")
    page = workbench(given, *words, environ={"NEWEL_SSH_CONFIG": str(host.config)}).page()
    open_agent(page, "Sort the notes")
    page.get_by_label("Separate git worktree").check()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".agent-bar .badge")).to_have_text("Completed")
    tree = host.home / ".newel" / "worktrees" / "shop-Agent-1"
    expect(page.get_by_text(f"Works in its own git worktree, {tree}")).to_be_visible()
    assert (tree / "notes.md").read_text() == "".join(sorted(NOTES.splitlines(keepends=True)))
    assert (project / "notes.md").read_bytes() == NOTES.encode()


def test_the_reason_why_a_host_has_no_worktree_is_shown(bench: Workbench, host: Sshd, project: Path) -> None:
    page = bench.page()
    open_agent(page, "Put nothing in order")
    page.get_by_label("Separate git worktree").check()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text(f"{project} is not in a git repository")).to_be_visible()
    host.stop()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("host cannot be reached now").first).to_be_visible()
    bench.complaints.clear()  # the browser logs the failed request
