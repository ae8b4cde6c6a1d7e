"""If these fail, a user of the page cannot see what agents may do in the project, or cannot take it back."""

from __future__ import annotations

import os
from collections.abc import Callable

from playwright.sync_api import Locator, Page, Route

from tests.browser.bench import NARROW, Workbench, answers, find_flaws, open_chat, open_menu, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios
from tests.support import bash

Make = Callable[..., Workbench]


def opened(page: Page) -> Locator:
    """The dialog, opened from the header."""
    page.get_by_role("button", name="Permissions", exact=True).click()
    return page.get_by_role("dialog", name="Permissions", exact=True)


def part(page: Page, name: str) -> Locator:
    return page.get_by_role("dialog").get_by_role("region", name=name, exact=True)


def prepare(bench: Workbench) -> None:
    """A server and rules that are kept for the project, and rules of all other kinds."""
    home = bench.newel.home / ".newel"
    home.mkdir(exist_ok=True)
    (home / "sandbox_servers.json").write_text(
        f'{{"{bench.newel.project}": ["kept.example.org:8443"], "/other": ["other.example.org"]}}'
    )
    (home / "config.toml").write_text(
        '[permissions]\ndeny = ["bash(rm *)"]\nallow = ["write(src/**)"]\n[sandbox]\ndomains = ["*.example.com"]\n'
    )
    (bench.newel.project / ".newel").mkdir()
    (bench.newel.project / ".newel" / "permissions.toml").write_text('ask = ["bash(git push *)"]\n')
    assert bench.newel("permissions", "add", "bash(npm test *)", "write(docs/**)").returncode == 0


def test_what_is_allowed_is_listed_and_what_answers_allowed_is_revoked(workbench: Make) -> None:
    bench = workbench(scenarios(answering("go", bash("npm test"), {"content": "Done."})), "--approve", "ask")
    bench.kill()
    prepare(bench)
    bench.start()
    page, window = bench.page(), bench.page()
    opened(window)
    dialog = opened(page)
    expect(part(page, "Your settings").get_by_role("listitem")).to_have_text(
        ["denybash(rm *)", "allowwrite(src/**)", "allowserver *.example.com"]
    )
    expect(part(page, "The project").get_by_role("listitem")).to_have_text(["askbash(git push *)"])
    expect(part(page, "The project")).to_contain_text(".newel/permissions.toml")
    kept = part(page, "Allowed by your answers, in this project")
    expect(kept.get_by_role("listitem")).to_have_count(3)
    expect(dialog).not_to_contain_text("other.example.org")
    kept.get_by_role("button", name="Revoke bash(npm test *)", exact=True).press("Enter")
    expect(kept.get_by_role("button", name="Revoke write(docs/**)", exact=True)).to_be_focused()
    expect(dialog.get_by_role("status")).to_have_text("Revoked: bash(npm test *). Newel asks again.")
    page.keyboard.press("Enter")
    expect(kept.get_by_role("button", name="Revoke server kept.example.org:8443", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    for each in (page, window):
        expect(part(each, "Allowed by your answers, in this project")).to_contain_text("Nothing.")
    assert "kept.example.org" not in bench.newel("permissions").stdout
    assert "other.example.org" in (bench.newel.home / ".newel" / "sandbox_servers.json").read_text()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Permissions", exact=True)).to_be_focused()
    open_chat(page)
    say(page, "go")
    expect(page.get_by_role("form", name="Allow “npm test”?")).to_be_visible()


def test_what_changes_elsewhere_appears_while_the_list_is_open(workbench: Make) -> None:
    bench = workbench(scenarios(answering("go", bash("touch x"), {"content": "Done."})), "--approve", "ask")
    page, window = bench.page(), bench.page()
    opened(window)
    kept = part(window, "Allowed by your answers, in this project")
    expect(kept).to_contain_text("Nothing.")
    open_chat(page)
    say(page, "go")
    page.get_by_role("button", name="Always allow in this project: touch *").click()
    expect(answers(page).last).to_contain_text("Done.")
    expect(kept.get_by_role("button", name="Revoke bash(touch *)", exact=True)).to_be_visible()
    assert bench.newel("permissions", "revoke", "--all").returncode == 0
    expect(kept).to_contain_text("Nothing.")


def test_the_list_is_readable_in_each_look_and_hides_no_character(workbench: Make) -> None:
    bench = workbench(scenarios(), "--approve", "ask")
    prepare(bench)
    rule = "write(<b>\u202e\u200b" + "x" * 200 + "/**)"
    assert bench.newel("permissions", "add", rule).returncode == 0
    (bench.newel.project / ".newel" / "permissions.toml").write_text('allow = ["bash"]\n')
    page = bench.page(**NARROW)
    open_menu(page)
    page.get_by_role("button", name="Commands (Ctrl+K)").click()
    page.get_by_role("option", name="Permissions…").click()
    kept = part(page, "Allowed by your answers, in this project")
    expect(kept).to_contain_text("write(<b><U+202E><U+200B>xxx")
    expect(page.get_by_role("dialog")).to_contain_text("only your own config.toml can `allow`")
    assert find_flaws(page) == []


def test_a_project_file_that_is_a_pipe_or_a_link_holds_nothing_up(workbench: Make) -> None:
    bench = workbench(scenarios(), "--approve", "ask")
    folder = bench.newel.project / ".newel"
    folder.mkdir()
    os.mkfifo(folder / "permissions.toml")
    page = bench.page()
    opened(page)
    expect(page.get_by_role("dialog")).to_contain_text("is not a regular file")
    page.keyboard.press("Escape")
    (folder / "permissions.toml").unlink()
    (folder / "permissions.toml").symlink_to("/etc/passwd")
    opened(page)
    expect(page.get_by_role("dialog")).to_contain_text("permission rules cannot be used")
    expect(page.get_by_role("dialog")).not_to_contain_text("root:")


def test_a_damaged_file_is_named_and_left_as_it_is(workbench: Make) -> None:
    bench = workbench(scenarios(), "--approve", "ask")
    prepare(bench)
    page = bench.page()
    dialog = opened(page)
    path = bench.newel.home / ".newel" / "permissions.json"
    kept = part(page, "Allowed by your answers, in this project")
    expect(kept.get_by_role("listitem")).to_have_count(3)

    def damage_first(route: Route) -> None:
        path.write_text("{damaged")
        route.continue_()

    page.route("**/api/permissions/revoke", damage_first)
    kept.get_by_role("button", name="Revoke bash(npm test *)", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text(f"{path} is damaged, and was left as it is")
    expect(kept.get_by_role("listitem")).to_have_count(1)
    expect(dialog.get_by_text("is damaged")).to_have_count(2)
    assert path.read_text() == "{damaged"
    bench.complaints[:] = [each for each in bench.complaints if "409" not in each]  # the browser logs it
