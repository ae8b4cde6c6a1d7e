"""If these fail, the page's server trusts what its user has not read, lets an agent decide, or a decision needs a restart."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hook_scripts import group, hook, of_project, users
from tests.integration.mcp.rogues import rogue
from tests.served import Page, Served, served, wait_until
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

DONE = {"content": "Done."}


def question(server: Served) -> dict[str, Any]:
    answer = server.client.get("/api/trust")
    assert answer.status_code == 200, answer.text
    return answer.json()


def decide(server: Served, digest: str, *, trusted: bool = True) -> tuple[int, Any]:
    answer = server.client.post("/api/trust", json={"digest": digest, "trusted": trusted})
    return answer.status_code, answer.json()


def say(page: Page, tab: str, number: int) -> None:
    page.ask("send", tab=tab, messageId=f"m{number}", text="go")
    page.until_event("agent_end")


def test_an_open_conversation_runs_hooks_from_the_decision_on(with_model: Make) -> None:
    """No restart, and no new tab; what the user's own hooks see is one end and one start of the session."""
    newel = with_model(scenario("go", DONE))
    log, stopped = newel.home / "log", newel.home / "stopped"
    of_project(newel, Stop=[group(hook(f"echo stop >> {stopped}"))])
    users(
        newel,
        SessionStart=[group(hook(f"echo start >> {log}"))],
        SessionEnd=[group(hook(f"echo end >> {log}"))],
    )
    with served(newel) as server, server.page() as page:
        tab = page.ask("openChat")["tab"]
        page.ask("watch", tab=tab)
        say(page, tab, 1)
        assert not stopped.exists()
        asked = question(server)
        assert f"echo stop >> {stopped}" in str(asked["items"])
        assert decide(server, asked["digest"]) == (200, {"items": [], "digest": "", "problem": ""})
        say(page, tab, 2)
        say(page, tab, 3)
        assert stopped.read_text().split() == ["stop", "stop"]
        page.ask("closeTab", tab=tab)
    assert log.read_text().split() == ["start", "end", "start", "end"]


def test_a_decision_during_a_run_holds_from_the_next_one_on(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("until [ -e on ]; do sleep 0.02; done"), DONE, DONE))
    of_project(newel, Stop=[group(hook("touch stopped"))])
    with served(newel) as server, server.page() as page:
        tab = page.ask("openChat")["tab"]
        page.ask("watch", tab=tab)
        page.ask("send", tab=tab, messageId="m1", text="go")
        page.until_event("tool_execution_start")
        assert decide(server, question(server)["digest"])[0] == 200
        (newel.project / "on").touch()
        page.until_event("agent_end")
        say(page, tab, 2)
        assert (newel.project / "stopped").exists()


@pytest.mark.parametrize("what", ["command", "script", "another file", "a skill"])
def test_what_has_changed_since_it_was_shown_is_not_trusted(with_model: Make, what: str) -> None:
    newel = with_model(scenario("go", DONE))
    script = newel.project / "check.sh"
    script.write_text("true\n")
    of_project(newel, Stop=[group(hook('sh "$CLAUDE_PROJECT_DIR/check.sh"'))])
    with served(newel) as server:
        shown = question(server)["digest"]
        match what:
            case "command":
                of_project(newel, Stop=[group(hook("touch was-started"))])
            case "script":
                script.write_text("touch was-started\n")
            case "another file":
                of_project(newel, ".newel/hooks.json", Stop=[group(hook("touch was-started"))])
            case _:
                (newel.project / ".claude/skills/evil").mkdir(parents=True)
                (newel.project / ".claude/skills/evil/SKILL.md").write_text("---\nname: evil\n---\n")
        status, answer = decide(server, shown)
        assert (status, answer["error"]["code"]) == (409, "changed")
        server.chat("go")
        assert not (newel.project / "was-started").exists()
        assert decide(server, question(server)["digest"])[0] == 200
        assert decide(server, shown)[0] == 409, "no old digest decides a second time"
    assert "untrusted" not in newel("hooks").stdout


def test_a_server_starts_and_a_no_is_kept(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    server_of_project = rogue("plain")
    entry = {"command": server_of_project.command, "args": server_of_project.args}
    (newel.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"tracker": entry}}))
    with served(newel) as server:

        def state() -> str:
            return server.client.get("/api/state").json()["servers"][0]["state"]

        assert state() == "untrusted"
        assert decide(server, question(server)["digest"])[0] == 200
        wait_until(lambda: state() == "active", "the server")
    assert newel("mcp", "trust", "tracker", "--revoke").returncode == 0
    with served(newel) as server:
        assert decide(server, question(server)["digest"], trusted=False)[0] == 200
        assert state() == "untrusted"
    assert "declined" in newel("mcp").stdout


def test_what_a_terminal_could_not_ask_about_the_page_does_not_ask_either(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    of_project(newel, Stop=[group(*(hook(f"touch was-started; true {n}") for n in range(70)))])
    with served(newel) as server:
        asked = question(server)
        assert (asked["items"], asked["digest"]) == ([], "")
        assert "more hooks and MCP servers than a question can show" in asked["problem"]
        assert decide(server, "")[0] == 422
        assert decide(server, "0" * 64)[0] == 409


def test_a_stranger_decides_nothing(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    of_project(newel, Stop=[group(hook("touch was-started"))])
    with served(newel) as server:
        body = {"digest": question(server)["digest"], "trusted": True}
        for headers in ({"Authorization": "Bearer wrong"}, {"Authorization": "", "Origin": server.url}):
            assert server.client.post("/api/trust", json=body, headers=headers).status_code == 401
        assert (
            server.client.post("/api/trust", json=body, headers={"Origin": "http://evil.example"}).status_code
            == 403
        )
    assert "untrusted" in newel("hooks").stdout


DECIDING = """
import glob, json, os, urllib.error, urllib.request
(file,) = glob.glob(os.environ["HOME"] + "/.newel/web/*.token")
headers = {"Authorization": "Bearer " + open(file).read().strip(), "Content-Type": "application/json"}
url = f"http://127.0.0.1:{open(os.environ['HOME'] + '/port').read()}/api/trust"
asked = json.load(urllib.request.urlopen(urllib.request.Request(url, None, headers), timeout=5))
body = json.dumps({"digest": asked["digest"], "trusted": True}).encode()
try:
    print(urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=5).read())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells")
def test_an_agent_that_has_the_token_cannot_decide(with_model: Make, tmp_path: Path) -> None:
    script = tmp_path / "decide.py"
    script.write_text(DECIDING)
    newel = with_model(scenario("steal", bash(f"{sys.executable} -IS {script}"), DONE))
    of_project(newel, Stop=[group(hook("touch was-started"))])
    with served(newel, "go", "--approve", "auto", "--sandbox", "off") as server:
        (newel.home / "port").write_text(server.url.rpartition(":")[2])
        server.chat("steal")
        assert "Only the user may do this" in str(newel.requests[-1]["messages"][-1])
    assert "untrusted" in newel("hooks").stdout
