"""If these fail, nobody can use the workbench, or decide what waits in it, before a model is configured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from mock_llm_server import running
from tests.browser.bench import NARROW, Workbench, find_flaws, open_chat, say
from tests.browser.expecting import expect
from tests.browser.proposals import NOTES, proposal_scenarios, propose, replace_line
from tests.browser.review_scenarios import file, hunks, sidebar
from tests.browser.scenarios import answering, scenarios

Make = Callable[..., Workbench]
NOTHING = dict.fromkeys(("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL", "LLM_SMALL_FAST_MODEL"), "")
KEY = "sk-a-key-that-nobody-may-see"


def setup(page: Page) -> None:
    expect(page.get_by_role("region", name="Model", exact=True)).to_contain_text("No model configured.")


def test_without_a_model_the_page_lists_what_it_tried_and_accepts_a_url(workbench: Make) -> None:
    bench = workbench(scenarios(answering("ping", {"content": "pong"})), environ=NOTHING)
    page = bench.page(**NARROW)
    setup(page)
    region = page.get_by_role("region", name="Model", exact=True)
    expect(region).to_contain_text("Ollama (port 11434)")
    for command in ("export", "newel demo"):  # the page has no prompt for slash commands
        expect(region).not_to_contain_text(command)
    assert find_flaws(page) == []
    address, key = page.get_by_label("URL of"), page.get_by_label("API key (optional)")
    address.fill("http://models.example/v1")
    key.fill(KEY)
    key.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="another machine")).to_be_visible()
    address.fill("http://127.0.0.1:9/v1")
    key.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="127.0.0.1:9")).to_be_visible()
    address.fill(f"{bench.newel.server.url}/v1")
    key.press("Enter")
    expect(page.get_by_role("region", name="Model", exact=True)).to_be_hidden()
    open_chat(page)
    say(page, "ping")
    expect(page.get_by_text("pong")).to_be_visible()
    sent = [each["headers"].get("authorization", "") for each in bench.newel.server.requests]
    assert all(sent)
    assert KEY not in page.content()
    said = [
        path for path in bench.newel.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert said == []
    second = bench.page()
    open_chat(second)
    say(second, "ping")
    expect(second.get_by_text("pong")).to_be_visible()


def test_pending_changes_can_be_decided_without_a_model_and_a_run_explains_what_is_missing(
    workbench: Make,
) -> None:
    edits = [replace_line("notes.md", 1, "# NOTES\n")]
    bench = workbench(proposal_scenarios(("title", edits)))
    (bench.newel.project / "notes.md").write_text(NOTES)
    propose(bench.page(), "title")
    bench.kill()
    bench.newel.environ |= NOTHING
    bench.start()
    page = bench.page()
    setup(page)
    hunks(page, "notes.md").get_by_role("button", name="Accept", exact=True).click()
    sidebar(page).get_by_role("button", name="Save accepted changes").click()
    expect(file(page, "notes.md")).to_have_count(0)
    assert (bench.newel.project / "notes.md").read_text().startswith("# NOTES\n")
    open_chat(page)
    note = page.get_by_role("status").filter(has_text="No model configured.")
    expect(note).to_be_visible()
    say(page, "hello")
    expect(page.get_by_text("No model is set up yet.")).to_have_count(1)
    note.get_by_role("button", name="Set up a model").click()
    dialog = page.get_by_role("dialog", name="Set up a model")
    dialog.get_by_label("URL of").fill(f"{bench.newel.server.url}/v1")
    dialog.get_by_role("button", name="Use this server").click()
    expect(dialog).to_have_count(0)
    expect(note).to_be_hidden()
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Yes.", exact=True)).to_be_visible()


@pytest.mark.core
def test_a_dead_model_server_is_reported_before_anything_is_sent(workbench: Make, tmp_path: Path) -> None:
    with running(scenarios()) as gone:
        url = f"{gone.url}/v1"
    bench = workbench(scenarios(), environ={"LLM_BASE_URL": url})
    page = bench.page()
    region = page.get_by_role("region", name="Model", exact=True)
    expect(region).to_contain_text("The model server is not responding.")
    expect(region).to_contain_text(url.split("/")[2])
    open_chat(page)
    expect(page.get_by_role("status").filter(has_text="The model server is not responding.")).to_be_visible()
