"""If these fail, a project's MCP server runs without the user's consent, or consent is forgotten."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from newel.agent.errors import ConfigError
from newel.mcp.server_config import ServerConfig
from newel.mcp.trust import Trust

SERVER = ServerConfig(
    name="s", origin=Path("/p/.mcp.json"), level="project", command="run", args=("a",), env={"K": "v"}
)


def test_a_projects_server_is_untrusted_until_the_user_trusts_it(tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    assert not trust.is_trusted(SERVER)
    trust.decide(SERVER, True)
    assert Trust(tmp_path).is_trusted(SERVER)
    trust.decide(SERVER, None)
    assert not Trust(tmp_path).is_trusted(SERVER)


def test_the_users_own_server_needs_no_decision(tmp_path: Path) -> None:
    assert Trust(tmp_path).is_trusted(msgspec.structs.replace(SERVER, level="user"))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "t"},
        {"origin": Path("/q/.mcp.json")},
        {"command": "sh"},
        {"args": ("a", "b")},
        {"args": ()},
        {"env": {"K": "w"}},
        {"env": {"K": "v", "LD_PRELOAD": "x"}},
        {"cwd": "/"},
        {"url": "http://x"},
        {"headers": {"A": "b"}},
    ],
)
def test_any_change_asks_for_trust_again(tmp_path: Path, change: dict[str, Any]) -> None:
    trust = Trust(tmp_path)
    trust.decide(SERVER, True)
    assert not trust.is_trusted(msgspec.structs.replace(SERVER, **change))


def test_a_server_of_a_folder_whose_name_is_no_text_is_untrusted(tmp_path: Path) -> None:
    """Newel starts there. The decision cannot be saved."""
    trust, server = Trust(tmp_path), msgspec.structs.replace(SERVER, origin=Path("/\udcff/.mcp.json"))
    assert not trust.is_trusted(server)
    with pytest.raises(ConfigError, match="not valid Unicode"):
        trust.decide(server, True)


def test_a_disabled_server_stays_disabled(tmp_path: Path) -> None:
    Trust(tmp_path).set_enabled(SERVER, enabled=False)
    Trust(tmp_path).set_tool(SERVER, "t", enabled=False)
    assert not Trust(tmp_path).is_enabled(SERVER)
    assert Trust(tmp_path).tools_off(SERVER) == {"t"}
    Trust(tmp_path).set_enabled(SERVER, enabled=True)
    Trust(tmp_path).set_tool(SERVER, "t", enabled=True)
    assert Trust(tmp_path).is_enabled(SERVER)
    assert not Trust(tmp_path).tools_off(SERVER)


def test_a_server_that_its_file_disables_can_be_enabled(tmp_path: Path) -> None:
    disabled = msgspec.structs.replace(SERVER, disabled=True)
    trust = Trust(tmp_path)
    assert not trust.is_enabled(disabled)
    trust.set_enabled(disabled, enabled=True)
    assert trust.is_enabled(disabled)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"trusted": 1}', b"[" * 100_000])
def test_a_damaged_file_trusts_nothing_and_can_be_rewritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mcp_trust.json").write_bytes(content)
    trust = Trust(tmp_path)
    assert not trust.is_trusted(SERVER)
    trust.decide(SERVER, True)
    assert trust.is_trusted(SERVER)


def test_decisions_are_private_and_contain_no_secret(tmp_path: Path) -> None:
    server = msgspec.structs.replace(SERVER, env={"KEY": "hunter2"}, headers={"Authorization": "hunter2"})
    Trust(tmp_path).decide(server, True)
    file = tmp_path / "mcp_trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hunter2" not in file.read_text()


def test_concurrent_decisions_are_all_saved(tmp_path: Path) -> None:
    def switch_off(number: int) -> None:
        Trust(tmp_path).set_tool(SERVER, f"t{number}", enabled=False)

    threads = [threading.Thread(target=switch_off, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Trust(tmp_path).tools_off(SERVER) == {f"t{number}" for number in range(24)}


def test_a_failing_disk_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="could not be changed"):
        Trust(tmp_path / "file").decide(SERVER, True)
