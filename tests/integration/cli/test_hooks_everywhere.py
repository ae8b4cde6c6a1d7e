"""If these fail, a guard that holds in the terminal does not hold in the page, in an editor, or on a host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acp_editor import editing
from tests.hook_scripts import group, hook, logged, logs, of_project, results, users, write
from tests.served import served
from tests.sshd import Sshd
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

DONE = {"content": "Done."}


def test_in_the_page_a_conversation_has_the_hooks_and_its_end_is_one(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("touch made"), DONE))
    log = newel.home / "log"
    each = logs(newel, log)
    users(
        newel,
        PreToolUse=[group(hook(f"{each}; echo not here >&2; exit 2"), matcher="Bash")],
        SessionStart=[group(hook(each))],
        SessionEnd=[group(hook(each))],
    )
    of_project(newel, Stop=[group(hook("touch was-started"))])
    with served(newel) as server:
        server.chat("go")
        assert not (newel.project / "made").exists()
        assert "not here" in results(newel)[0]
        assert server.client.post("/clear", json={}).status_code == 200
    told = [one["hook_event_name"] for one in logged(log)]
    assert told == ["SessionStart", "PreToolUse", "SessionEnd"]
    assert not (newel.project / "was-started").exists()


def test_in_the_page_a_blocked_prompt_reaches_no_model_not_even_later(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    users(
        newel,
        UserPromptSubmit=[group(hook("! grep -q hunter2 || { echo It holds a password. >&2; exit 2; }"))],
    )
    with served(newel) as server:
        assert "It holds a password." in str(server.chat("my password is hunter2"))
        assert ("text", {"content": "Done."}) in server.chat("go")
        with server.page() as page:
            tab = page.ask("openChat")["tab"]
            page.ask("watch", tab=tab)
            page.ask("send", tab=tab, messageId="blocked", text="my password is hunter2")
            page.until_event("agent_end")
            page.until_tabs(lambda tabs: tabs[-1]["id"] == tab and tabs[-1]["status"] == "idle")
            with pytest.raises(AssertionError, match="nothing left to answer"):
                page.ask("retry", tab=tab)
    assert "hunter2" not in str(newel.requests)
    assert len(newel.requests) == 1


def test_in_the_page_a_chat_names_hooks_that_wait_for_trust_and_the_next_one_runs_them(
    with_model: Make,
) -> None:
    newel = with_model(scenario("go", DONE))
    of_project(newel, Stop=[group(hook("touch was-started"))])
    with served(newel) as server, server.page() as page:
        for number in (1, 2):
            tab = page.ask("openChat")["tab"]
            page.ask("watch", tab=tab)
            page.ask("send", tab=tab, messageId=f"m{number}", text="go")
            if number == 1:
                notice = page.until_event("error")["event"]
                assert notice["code"] == "hook"
                assert "have not trusted" in notice["message"]
                assert "newel hooks trust" in notice["message"]
            page.until_event("agent_end")
            assert (newel.project / "was-started").exists() == (number == 2)
            assert newel("hooks", "trust", "--yes").returncode == 0


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_in_an_editor_hooks_judge_calls(with_model: Make) -> None:
    newel = with_model(scenario("go", write({"file_path": "a.txt", "content": "a\n"}), DONE))
    users(newel, PreToolUse=[group(hook("echo not here >&2; exit 2"), matcher="Write")])
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("go")
        assert not ide.editor.asked
    assert "not here" in results(newel)[0]
    assert not (newel.project / "a.txt").exists()


def test_on_a_host_only_the_users_hooks_run_and_on_this_machine(
    with_model: Make, sshd: Sshd, request: pytest.FixtureRequest
) -> None:
    newel = with_model(scenario("go", write({"file_path": "a.txt", "content": "a\n"}), DONE))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    project = sshd.project(request.node.name)
    log = newel.home / "log"
    users(newel, PreToolUse=[group(hook(logs(newel, log)), matcher="Write")])
    of_project(newel, PreToolUse=[group(hook("exit 2"))])
    assert newel("hooks", "trust", "--yes").returncode == 0
    done = newel("--host", f"host:{project}", "--approve", "auto", "go")
    assert done.returncode == 0, done.stderr
    assert (project / "a.txt").read_text() == "a\n"
    (told,) = logged(log)
    assert told["cwd"] == str(newel.project)
    assert told["tool_input"]["file_path"] == f"{project}/a.txt"
