"""If these fail, a user of the page cannot choose which model works, or does not see which one did, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from mock_llm_server import MockServer, running
from tests.browser.bench import NARROW, Workbench, answers, find_flaws, open_agent, open_chat, open_menu, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios

Make = Callable[..., Workbench]

INVALID = {"tool_calls": [{"function": {"name": "write", "arguments": '{"file_path": "notes'}}]}


@pytest.fixture
def local() -> Iterator[MockServer]:
    with running(
        scenarios(answering("notes", INVALID, INVALID), answering("ping", {"content": "pong from here"}))
    ) as server:
        yield server


def choose_mode(page: Page, mode: str) -> None:
    open_menu(page)
    page.get_by_role("button", name="Agent mode").click()
    page.get_by_role("option").filter(has=page.get_by_text(mode, exact=True)).click()


def chats(server: MockServer) -> int:
    return sum(request["path"].endswith("/chat/completions") for request in server.requests)


def test_a_chat_is_switched_and_shows_which_model_works(workbench: Make, local: MockServer) -> None:
    remote = scenarios(
        answering("notes", {"content": "no"}, {"content": "no"}, {"content": "From the remote model."}),
        answering("ping", {"content": "pong from afar"}),
    )
    bench = workbench(remote)
    (bench.newel.home / ".newel").mkdir(exist_ok=True)
    config = bench.newel.home / ".newel" / "config.toml"
    config.write_text(f'[local]\nbase_url = "{local.url}/v1"\nmodel = "small"\n')
    bench.kill()
    bench.start()
    page = bench.page(**NARROW)
    open_chat(page)
    button = page.get_by_role("button", name="Agent mode", include_hidden=True)
    expect(button).to_have_text("remote")
    choose_mode(page, "hybrid_auto")
    expect(button).to_have_text("hybrid_auto")
    say(page, "write the notes")
    expect(answers(page).last).to_contain_text("From the remote model.")
    expect(page.get_by_text("Using the local model small: the run begins locally.")).to_be_visible()
    reason = "2 steps in a row had calls that cannot be executed"
    expect(page.get_by_text(f"Using the remote model mock-model: {reason}.")).to_be_visible()
    assert find_flaws(page) == []
    choose_mode(page, "local")
    expect(page.get_by_role("button", name="Model: small")).to_be_visible()
    before = chats(bench.newel.server)
    say(page, "ping")
    expect(answers(page).last).to_contain_text("pong from here")
    assert chats(bench.newel.server) == before
    page.reload()
    expect(button).to_have_text("local")
    open_agent(page, "Do it")
    expect(button).to_be_disabled()
    page.get_by_role("combobox", name="Agent mode").select_option("local")
    assert find_flaws(page) == []


def test_a_mode_without_its_model_is_explained_and_the_chat_goes_on(workbench: Make) -> None:
    bench = workbench(scenarios(answering("ping", {"content": "pong"})))
    page = bench.page(**NARROW)
    open_chat(page)
    choose_mode(page, "hybrid_auto")
    expect(page.get_by_role("alert").filter(has_text="both models are mock-model")).to_be_visible()
    expect(page.get_by_role("button", name="Agent mode", include_hidden=True)).to_have_text("remote")
    say(page, "ping")
    expect(answers(page).last).to_contain_text("pong")
