"""If these fail, text from models, tools, servers or files runs or loads something in the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from tests.browser.bench import Workbench, message_box, open_agent, open_chat, overflow_px, say
from tests.browser.expecting import expect
from tests.browser.proposals import add_file, proposal_scenarios, propose, replace_line
from tests.browser.scenarios import ASKING, PROBE, answering, call, scenarios, verdict
from tests.support import bash

Make = Callable[..., Workbench]

PROBES = (
    "<script>window.pwned=1</script>",
    PROBE,
    "<svg onload='window.pwned=1'></svg>",
    "<a href='javascript:window.pwned=1'>link</a>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<details open ontoggle='window.pwned=1'>x</details>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror='window.pwned=1'>",
    "\"'><body onload='window.pwned=1'>",
)
ALL = "\n\n".join(PROBES)
LINKS = (
    "[one](javascript:window.pwned=1) [two](data:text/html,<script>pwned=1</script>) "
    "![picture](https://remote.invalid/x.png) ![inline](data:image/svg+xml,<svg/onload=pwned=1>)"
)
FOREIGN = "#page :is(script, iframe, form form, img:not(.cm-widgetBuffer), svg[onload], math), dialog :is(script, iframe, img, math)"


def is_inert(page: Page) -> bool:
    """Whether no script ran and no foreign element is in the page."""
    page.wait_for_timeout(100)  # time for a script to run
    return page.evaluate("window.pwned") is None and page.locator(FOREIGN).count() == 0


@pytest.mark.core
def test_text_of_models_tools_and_servers_is_escaped(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering(
                "script",
                {
                    "reasoning_content": ALL,
                    "content": f"{ALL}\n\n{LINKS}",
                    **call(PROBES[1], **{PROBES[0]: PROBES[2]}),
                },
                bash("cat probes; exit 3"),
                {"content": f"```html\n{ALL}\n```\n\n| {PROBES[1]} |\n|---|\n| {PROBES[0]} |"},
            )
        ),
        servers={PROBES[1]: {"command": PROBES[2], "args": [ALL]}},
    )
    (bench.newel.project / "probes").write_text(ALL)
    page = bench.page()
    open_chat(page)
    say(page, f"{PROBES[1]} script")
    expect(page.locator("td")).to_be_visible()
    for line in page.locator(".call-head").all():
        line.click()
    page.keyboard.press("Alt+t")
    expect(page.get_by_role("region", name=PROBES[1], exact=True)).to_contain_text("(untrusted)")
    assert is_inert(page)
    assert all(link.get_attribute("href") is None for link in page.get_by_text("one", exact=True).all())
    expect(page.get_by_role("link", name="Image: picture")).to_have_attribute("rel", "noopener noreferrer")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tab")).not_to_contain_text("Running")
    page.get_by_role("tab").press("Delete")
    page.keyboard.press("Alt+o")
    expect(page.get_by_role("option")).to_contain_text("<img src=x")
    assert is_inert(page)


def test_bidirectional_marks_in_an_answer_do_not_reverse_later_text(workbench: Make) -> None:
    """Otherwise the text that a user reads and copies into a shell differs from the real one."""
    turned = "rm \u202efdp.live\u202c -r"
    content = f"Run this: {turned} now.\n\n```\n{turned}\n{'word ' * 20}{turned}\n```"
    slow = {"token_delay_ms": 5, "response": {"content": f"{content}\n\nThat was it."}}
    page = workbench(scenarios(answering("turn", slow))).page()
    open_chat(page)
    say(page, "turn")
    code = page.locator("pre code")
    for answer in (code, page.get_by_text("Run this:")):
        expect(answer).to_contain_text("rm <U+202E>fdp.live<U+202C> -r")
    expect(code).to_contain_text("word rm <U+202E>fdp.live<U+202C> -r")
    expect(page.get_by_text("That was it.")).to_be_visible()
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", page.locator(".prose").last.inner_text())


def test_questions_errors_and_names_of_models_and_files_are_escaped(workbench: Make) -> None:
    refused = {"kind": "status", "status": 400, "body": json.dumps({"error": {"message": ALL}})}
    bench = workbench(
        scenarios(
            answering("trap", call("asking__trap"), {"content": "Trapped."}),
            answering("refuse", {"fault": refused, "response": {"content": ""}}),
        )
        | {"models": [PROBE, "mock-model"]},
        "--approve",
        "ask",
        own={"asking": ASKING},
    )
    page = bench.page()
    expect(page.get_by_role("button", name=re.compile("^Tools"))).to_contain_text("1✓")
    page.keyboard.press("Alt+t")
    page.get_by_text("3 tools").click()
    expect(page.get_by_label("trap")).to_be_visible()
    assert is_inert(page)
    page.keyboard.press("Escape")
    open_chat(page)
    page.get_by_role("button", name="Model: mock-model").click()
    page.get_by_role("option", name="<img").click()
    expect(page.get_by_role("button", name="Model: <img")).to_be_visible()
    notes = {"name": f"{PROBE}.txt", "mimeType": "text/plain", "buffer": ALL.encode()}
    noise = {"name": PROBE, "mimeType": PROBE, "buffer": bytes(range(256))}
    page.locator("input[type=file]").set_input_files([notes, noise])  # pyright: ignore[reportArgumentType] — a list of mappings is what it takes
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    expect(page.get_by_role("button", name="Remove <img")).to_be_visible()
    say(page, "trap")
    page.get_by_role("form", name="Allow").get_by_role("button", name="Run once").click()
    form = page.get_by_role("form", name="<img")
    expect(form).to_contain_text("<img src=x")
    assert is_inert(page)
    form.get_by_label("<img").fill(ALL)
    form.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Trapped.")).to_be_visible()
    expect(page.get_by_role("article", name="You")).to_contain_text(
        "<img src=x onerror='window.pwned=1'>.txt"
    )
    page.get_by_role("button", name="asking__trap").click()
    assert is_inert(page)
    say(page, "refuse")
    expect(page.locator(".bad-text", has_text="parent.pwned=1")).to_be_visible()
    expect(message_box(page)).to_be_editable()
    assert is_inert(page)


def test_contracts_verdicts_acceptance_and_notices_are_escaped(workbench: Make) -> None:
    judge = {
        "name": "judge",
        "trigger_regex": r"After \d+ tool call",
        "steps": [{"response": verdict(ALL, satisfied=True, missing=ALL)}],
    }
    bench = workbench(scenarios(judge, answering("Review", bash("cat probes"), {"content": "Done."})))
    (bench.newel.project / "probes").write_text(ALL)
    home = bench.newel.home / PROBE
    home.mkdir()
    (home / "logs").write_text("in the way: the log cannot be written, and a notice that names it says so")
    bench.newel.environ["NEWEL_HOME"] = str(home)
    bench.kill()
    bench.start()
    page = bench.page()
    page.keyboard.press("Alt+g")
    expect(page.get_by_role("tab", name="Agent-1")).to_be_visible()
    page.get_by_role("tab", name="Agent-1").press("F2")
    page.get_by_role("textbox", name="Rename tab").fill(PROBE)
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="<img")).to_be_visible()
    page.get_by_role("textbox", name="Contract", exact=True).fill(f"Review. {ALL}")
    page.get_by_label("Acceptance command").fill(f"cat probes # {PROBES[7]}")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".agent-bar .badge")).to_have_text("Completed")
    expect(page.get_by_text("cannot be written")).to_contain_text("<img src=x")
    for summary in page.get_by_role("tabpanel").locator("summary").all():
        summary.click()
    page.get_by_role("button", name="bash cat probes").click()
    assert is_inert(page)
    open_agent(page, "another")
    expect(page).to_have_title("Agent-1 · newel")
    assert is_inert(page)


def test_names_lines_instructions_and_runs_of_a_review_are_escaped(workbench: Make) -> None:
    instruction = f"Tidy {PROBES[0]} \u202e{PROBES[3]}"
    name = "<img src=x onerror=window.pwned=1>\u202egnp.md"
    lines = "".join(f"{probe}\n" for probe in PROBES)
    bench = workbench(
        proposal_scenarios((instruction, [replace_line(name, 1, lines), add_file("made.md", lines)]))
    )
    (bench.newel.project / name).write_text(f"{lines}\x1b[2J\u2028\x07\n")
    page = bench.page()
    propose(page, instruction)
    for button in ("Files", "Review"):
        page.get_by_role("banner").get_by_role("button", name=button).click()
    places = {
        f"file/{quote(name)}": ("3/3", "2/2", "1/1", "1 hunk to decide"),
        "pending": ("All pending changes",),
        "checkpoints": ("Checkpoints",),
        "requests": ("Earlier requests",),
    }
    for place, known in places.items():
        page.evaluate("(place) => { location.hash = `#/${place}` }", place)
        expect(page.locator("#page")).to_contain_text(re.compile("|".join(map(re.escape, known))))
        assert is_inert(page)
    page.evaluate("location.hash = '#/checkpoints'")
    page.locator(".timeline-head").first.click()
    assert is_inert(page)
    page.get_by_role("button", name="Roll back…").first.click()
    expect(page.get_by_role("dialog", name="Roll back")).to_contain_text("<script>")
    assert is_inert(page)


def test_an_answer_in_a_right_to_left_script_is_laid_out_so(workbench: Make) -> None:
    content = (
        "\u0645\u0631\u062d\u0628\u0627\n\n- \u0639\u0646\u0635\u0631 `code` \u0623\n- and English\n\n"
        "## \u0639\u0646\u0648\u0627\u0646\n\n| \u0623 | b |\n|---|---|\n| \u0648 | two |\n\n"
        "```\nlet x = 1; // \u0623\n```\n\nEnglish.\n\n- one"
    )
    page = workbench(scenarios(answering("greet", {"content": content}))).page()
    open_chat(page)
    say(page, "greet")
    prose = page.locator(".prose").last
    expect(prose.get_by_text("English.")).to_be_visible()
    directions = """(root, query) => [...root.querySelectorAll(query)].map((each) => getComputedStyle(each).direction)"""
    expected = {
        "p": ["rtl", "ltr"],
        "ul": ["rtl", "ltr"],
        "li": ["rtl", "ltr", "ltr"],
        "h3": ["rtl"],
        "th, td": ["rtl", "ltr", "rtl", "ltr"],
        "code": ["ltr", "ltr"],
        "pre": ["ltr"],
    }
    assert {query: prose.evaluate(directions, query) for query in expected} == expected
    assert overflow_px(page) == 0


def test_the_mark_of_a_list_item_in_the_other_direction_stands_in_the_list(workbench: Make) -> None:
    content = "- one\n- \u0639\u0646\u0635\u0631\n\nEnd.\n\n1. \u0639\u0646\u0635\u0631\n2. two\n\nEnd.\n\n- [ ] three\n- [ ] \u0639\u0646\u0635\u0631"
    page = workbench(scenarios(answering("list", {"content": content}))).page()
    open_chat(page)
    say(page, "list")
    items = page.locator(".prose li")
    expect(items).to_have_count(6)
    # A mark stands outside of its item's box, which leaves the room for it within the list: a task has its mark inside.
    room = """(item) => {
        const [box, list] = [item.getBoundingClientRect(), item.parentElement.getBoundingClientRect()];
        return getComputedStyle(item).direction === "rtl" ? list.right - box.right : box.left - list.left;
    }"""
    assert [round(items.nth(index).evaluate(room)) for index in range(6)] == [24, 24, 24, 24, 4, 4]
