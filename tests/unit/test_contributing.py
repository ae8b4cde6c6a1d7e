"""If these fail, CONTRIBUTING.md shows a newcomer another house than the one that ``lint-imports`` checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_layers_is_complete_and_in_the_order_of_the_import_contract() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.search(r"^\| layer .*?\n\n", guide, re.MULTILINE | re.DOTALL)
    assert table
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table[0].splitlines()[2:] if row]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = project["tool"]["importlinter"]["contracts"][0]
    layers = [layer.split(" | ") for layer in contract["layers"] if layer != "__main__"]
    assert list(map(sorted, rows)) == list(map(sorted, layers))


def test_every_file_that_the_guides_name_exists() -> None:
    package = ROOT / "src" / "newel"
    roots = (ROOT, package, package / "agent", package / "web", ROOT / "web" / "src")
    for guide in ("CONTRIBUTING.md", "docs/architecture.md"):
        text = re.sub(r"^```.*?^```", "", (ROOT / guide).read_text(), flags=re.MULTILINE | re.DOTALL)
        named = set(re.findall(r"`([\w./-]+\.(?:py|js|md|mjs|sh|toml))[:`]", text))
        missing = [name for name in sorted(named) if not any((root / name).exists() for root in roots)]
        assert missing == [], guide
