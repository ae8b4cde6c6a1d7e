"""If these fail, decisions about tool servers and tools take effect late or do not last."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.agent.errors import ConfigError
from tests.integration.mcp.rogues import Started, call, rogue, status, until

pytestmark = pytest.mark.anyio


async def test_a_projects_server_waits_until_it_is_trusted(started: Started, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    config = rogue("born", level="project", origin=Path("/p/.mcp.json"), env={"NOTES": str(notes)})
    async with started(config) as manager:
        assert status(manager).state == "untrusted"
        assert (status(manager).folder, status(manager).env) == (str(tmp_path), ["NOTES"])
        assert manager.tools() == []
        assert not notes.exists()
        await manager.set_trusted("rogue", True)
        await manager.wait_started(20)
        assert status(manager).state == "active"
        assert notes.exists()
        await manager.set_trusted("rogue", False)
        await until(lambda: status(manager).state == "untrusted")


async def test_a_servers_read_only_hints_are_ignored_unless_the_user_trusts_them(
    started: Started,
) -> None:
    mine, theirs = rogue("reads", name="mine"), rogue("reads", name="theirs", level="project")
    believed = rogue("reads", name="believed", trust_read_only=True)
    async with started(mine, believed, theirs) as manager:
        await manager.set_trusted("theirs", True)
        await manager.wait_started(20)
        assert {tool.spec.name: tool.read_only for tool in manager.tools()} == {
            "mine__act": False,
            "believed__act": True,
            "theirs__act": False,
        }


async def test_a_disabled_server_ends_and_stays_off(started: Started) -> None:
    async with started(rogue("plain")) as manager:
        await manager.set_enabled("rogue", False)
        await until(lambda: status(manager).state == "disabled")
        assert manager.tools() == []
    async with started(rogue("plain")) as manager:
        assert status(manager).state == "disabled"
        await manager.set_enabled("rogue", True)
        await until(lambda: status(manager).state == "active")


async def test_a_disabled_tool_is_no_longer_offered(started: Started) -> None:
    changes: list[None] = []
    async with started(rogue("plain"), on_change=lambda: changes.append(None)) as manager:
        seen = len(changes)
        await manager.set_tool("rogue", "act", False)
        assert manager.tools() == []
        assert [tool.enabled for tool in status(manager).tools] == [False]
        assert len(changes) > seen
        await manager.set_tool("rogue", "act", True)
        assert len(manager.tools()) == 1


async def test_a_restart_starts_a_new_process_also_for_a_broken_server(
    started: Started, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    async with started(rogue("born", env={"NOTES": str(notes)})) as manager:
        await manager.restart("rogue")
        await until(lambda: len(set(notes.read_text().split())) == 2)
        await until(lambda: status(manager).state == "active")
        result, _ = await call(manager, "rogue__act")
        assert not result.is_error


async def test_an_unknown_name_is_refused_with_the_known_ones(started: Started) -> None:
    async with started(rogue("plain")) as manager:
        with pytest.raises(ConfigError, match="The servers are: rogue"):
            await manager.restart("other")


async def test_calls_of_one_server_keep_their_order_unless_read_only(started: Started) -> None:
    async with started(rogue("plain", name="writes"), rogue("reads", name="reads")) as manager:
        keys = {tool.spec.name: await tool.serial_key({}) for tool in manager.tools()}
        assert keys["writes__act"] is not None
        assert keys["reads__act"] is None


async def test_the_preview_of_a_call_is_exactly_the_call(started: Started) -> None:
    async with started(rogue("plain")) as manager:
        (tool,) = manager.tools()
        shown = (await (await tool.plan({"path": "/etc/x"})).preview()).text
        assert "act of rogue" in shown
        assert '"path": "/etc/x"' in shown
