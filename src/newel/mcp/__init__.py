"""Tools of MCP servers, and the files that configure servers.

The files are named here, so that a start without any of them loads no other module of this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FILE: Final = "mcp_config.json"
PROJECT_FILES: Final = (FILE, ".mcp.json", ".vscode/mcp.json")


def config_files(*, home: Path, cwd: Path) -> list[Path]:
    """The configuration files, in order of precedence."""
    return [home / FILE, *(cwd / name for name in PROJECT_FILES if cwd / name != home / FILE)]
