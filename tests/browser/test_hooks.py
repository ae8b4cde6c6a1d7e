"""If these fail, the page asks about another action than the one that a hook wants judged, or sends on a prompt that a hook has blocked."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.bench import Workbench, answers, message_box, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios
from tests.hook_scripts import group, hook, users
from tests.support import bash

Make = Callable[..., Workbench]

ASK = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "Sure?"}}'


def test_the_title_of_a_question_that_a_hook_asks_is_the_command(workbench: Make) -> None:
    bench = workbench(scenarios(answering("do it", bash("touch made"), {"content": "Done."})))
    users(bench.newel, PreToolUse=[group(hook(f"echo '{ASK}'"), matcher="Bash")])
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    question = page.get_by_role("form", name="Allow “touch made”?")
    expect(question).to_contain_text("Sure?")
    question.get_by_role("button", name="Run once").click()
    expect(answers(page).last).to_contain_text("Done.")


def test_a_prompt_that_a_hook_has_blocked_cannot_be_retried_and_is_back_in_the_box(workbench: Make) -> None:
    bench = workbench(scenarios())
    users(
        bench.newel, UserPromptSubmit=[group(hook("! grep -q hunter2 || { echo A password. >&2; exit 2; }"))]
    )
    page = bench.page()
    open_chat(page)
    say(page, "my password is hunter2")
    for _ in range(2):
        expect(page.get_by_text("A hook blocked this prompt")).to_be_visible()
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Retry")).to_have_count(0)
        expect(message_box(page)).to_have_value("my password is hunter2")
        expect(page).to_have_title("Chat · newel")
        page.reload()
    say(page, "it is a secret")
    expect(answers(page).last).to_contain_text("Yes.")
    expect(page).to_have_title("it is a secret · newel")
