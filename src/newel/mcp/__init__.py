"""Tools of MCP servers, offered like any other; and the files that name servers.

The files are named here, so that a start without one of them loads nothing else of this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FILE: Final = "mcp_config.json"
PROJECT_FILES: Final = (FILE, ".mcp.json", ".vscode/mcp.json")


def config_files(*, home: Path, cwd: Path) -> list[Path]:
    """Where servers may be named, the file that counts most first."""
    return [home / FILE, *(cwd / name for name in PROJECT_FILES if cwd / name != home / FILE)]
