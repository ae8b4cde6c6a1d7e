"""If these fail, a server changes its tools' descriptions unnoticed after the user accepted them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from newel.mcp.server_config import ServerConfig
from newel.mcp.trust import MAX_REMEMBERED, Pins
from newel.mcp.types import ToolInfo

SERVER = ServerConfig(name="s", origin=Path("/p/.mcp.json"), level="user", command="run")


def tools(number: int, says: str) -> list[ToolInfo]:
    """As much text as a server may have for so many tools, one of which differs."""
    schema = {"type": "object", "description": "x" * 7_000}
    found = [ToolInfo(name=f"t{at}", description="x" * 8_000, parameters=schema) for at in range(number)]
    return [msgspec.structs.replace(found[0], description=says), *found[1:]]


def test_a_verbose_server_cannot_displace_accepted_pins(tmp_path: Path) -> None:
    """A file too long to be read again would make each start the first one, for all servers."""
    pins = Pins(tmp_path)
    assert len(pins.accepted(SERVER, tools(500, "One."))) == 500
    other = msgspec.structs.replace(SERVER, name="other")
    assert len(pins.accepted(other, tools(1, "One."))) == 1
    for server, number in ((SERVER, 500), (other, 1)):
        assert len(pins.accepted(server, tools(number, "Two."))) == number - 1
        assert list(Pins(tmp_path).withheld(server)) == ["t0"]


def test_a_server_that_renames_its_tools_fills_no_disk_and_loses_no_pin(tmp_path: Path) -> None:
    """Nor can it have a tool forgotten, to offer it with another description."""
    pins = Pins(tmp_path)
    first = [ToolInfo(name=f"t{at}", description="One.", parameters={}) for at in range(MAX_REMEMBERED)]
    assert len(pins.accepted(SERVER, first)) == MAX_REMEMBERED
    size = (tmp_path / "mcp_tools.json").stat().st_size
    renamed = [msgspec.structs.replace(first[0], name=f"u{at}") for at in range(100)]
    assert pins.accepted(SERVER, [first[0], *renamed]) == [first[0]]
    assert (tmp_path / "mcp_tools.json").stat().st_size == size
    assert not pins.accepted(SERVER, [msgspec.structs.replace(first[0], description="Two.")])
    assert list(pins.withheld(SERVER)) == ["t0"]
    pins.forget(SERVER.origin, SERVER.name)
    assert pins.accepted(SERVER, renamed) == renamed
