"""If these fail, programs that use the server's API revoke the wrong thing, or a tab's commands outlive it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.permissions.allowlist import RuleAllowlist, ServerAllowlist
from tests.integration.web.page import page
from tests.integration.web.served_workbench import Echo, serve_workbench
from tests.requirements import require_program
from tests.served import served, wait_until
from tests.support import Newel, bash, scenario

WithModel = Callable[..., Newel]


@pytest.mark.anyio
async def test_only_what_is_kept_for_this_project_is_revoked(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as window:
        home, project = tmp_path / "home", server.board.folder
        rules, servers = RuleAllowlist(home, project), ServerAllowlist(home, project)
        rules.add(["bash(npm test *)", "bash(make *)"])
        servers.add(["example.org"])
        others = RuleAllowlist(home, "/other")
        others.add(["bash(npm test *)"])
        await window.until("permissions")

        async def revoke(*ids: Any, **fields: Any) -> tuple[int, Any]:
            answer = await server.client.post("/api/permissions/revoke", json={"ids": [*ids]} | fields)
            return answer.status_code, answer.json()

        for crafted in (
            [others.id_of("bash(npm test *)")],
            ["00000000"],
            [],
        ):
            assert (await revoke(*crafted))[0] == 404
        for malformed in (["bash(make *)"], ["--all"], [None], ["../../.."]):
            assert (await revoke(*malformed))[0] == 422
        status, left = await revoke(
            rules.id_of("bash(make *)"), servers.id_of("example.org"), project="/other"
        )
        assert (status, [row["rule"] for row in left["rows"]]) == (200, ["bash(npm test *)"])
        await window.until("permissions")
        assert [each.rule for each in others.entries()] == ["bash(npm test *)"]
        listed = (await server.client.get("/api/permissions")).json()
        assert listed == left | {"problems": []}


def test_what_a_conversation_has_left_running_ends_with_it(with_model: WithModel) -> None:
    """Each conversation has a sandbox of its own, and sees no process of another one."""
    require_program("bwrap", "bubblewrap")
    newel = with_model(
        {
            "scenarios": [
                scenario("begin", bash("sleep 287 & echo begun"), {"content": "Begun."})["scenarios"][0],
                scenario("look", bash("grep -l 'slee[p].287' /proc/[0-9]*/cmdline"), {"content": "Seen."})[
                    "scenarios"
                ][0],
            ]
        }
    )
    with served(newel, "go", NEWEL_SANDBOX="workspace") as server, server.page() as window:
        server.chat("begin")
        assert len(_sleepers()) == 1
        other = window.ask("openChat")["tab"]
        window.ask("watch", tab=other)
        window.ask("send", tab=other, text="look", messageId="1")
        window.until_event("agent_end")
        assert "/proc/" not in str(newel.requests[-1]["messages"][-1]["content"]).replace("/proc/[0-9]", "")
        assert server.client.post("/clear", json={}).status_code == 200
        wait_until(lambda: not _sleepers(), "the end of its processes")
        server.chat("begin")
        assert len(_sleepers()) == 1
        default = next(
            tab["id"] for tab in server.client.get("/api/state").json()["tabs"] if tab["id"] != other
        )
        window.ask("closeTab", tab=default)
        wait_until(lambda: not _sleepers(), "the end of its processes")


def test_what_runs_on_after_its_run_asks_nobody(with_model: WithModel) -> None:
    """The question would stand in a conversation that nobody works on, or be taken for one of the next run."""
    require_program("bwrap", "bubblewrap")
    late = "(while [ ! -e go ]; do sleep 0.05; done; curl -s -m 20 http://late.invalid/ > said; touch done) > /dev/null 2>&1 &"
    newel = with_model(scenario("begin", bash(late), {"content": "Begun."}))
    with served(newel, "go", NEWEL_SANDBOX="workspace") as server, server.page() as window:
        server.chat("begin")
        (newel.project / "go").touch()
        wait_until((newel.project / "done").exists, "the request")
        assert "late.invalid cannot be reached from the sandbox" in (newel.project / "said").read_text()
        window.ask("ping")
        assert not any("waiting" in str(message) for message in window.seen)


def _sleepers() -> list[Path]:
    found: list[Path] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [path] if path.read_text() == "sleep\x00287\x00" else []
    return found
