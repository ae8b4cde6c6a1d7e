"""If these fail, the protocol's registry refuses Newel's entry, or installs another version."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
ENTRY: Final = ROOT / "packaging" / "acp-registry" / "newel"


def test_the_entry_is_of_this_version() -> None:
    entry = json.loads((ENTRY / "agent.json").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert entry["id"] == ENTRY.name
    assert entry["version"] == version
    assert entry["distribution"]["uvx"] == {"package": f"newel=={version}", "args": ["acp"]}
    assert entry["license_url"].startswith("https://")


def test_the_icon_follows_the_theme() -> None:
    icon = (ENTRY / "icon.svg").read_text()
    assert 'viewBox="0 0 16 16"' in icon
    assert set(re.findall(r'fill="([^"]+)"', icon)) == {"currentColor"}
