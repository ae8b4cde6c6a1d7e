"""If this fails, the workbench opens in a folder in which no chat can be."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from newel.agent.errors import ConfigError
from newel.app.web_server import WebOptions, serve_workbench
from newel.config.settings import Flags, load_settings


def test_a_folder_whose_name_is_not_text_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"old\xff")
    folder.mkdir()
    settings = load_settings(Flags(), cwd=folder, environ={"NEWEL_HOME": str(tmp_path / "home")})
    options = WebOptions(flags=Flags(), cwd=folder, bind="127.0.0.1", port=0)

    async def serve() -> None:
        with anyio.fail_after(10):
            await serve_workbench(settings, options)

    with pytest.raises(ConfigError, match=r"old\\udcff' .*Rename the folder"):
        anyio.run(serve)
