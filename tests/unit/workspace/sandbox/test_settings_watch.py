"""If these fail, commands in a partial sandbox change settings of git or an editor unnoticed, or no command runs any more."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from newel.workspace.local import LocalWorkspace
from newel.workspace.sandbox.settings_watch import SettingsWatch

pytestmark = pytest.mark.anyio


async def test_a_change_is_noticed_however_deep_the_folder_is(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    deep = hooks.joinpath(*["d"] * 250)
    deep.mkdir(parents=True)
    (deep / "hook").write_text("one")
    said: list[str] = []

    async def notify(message: str) -> None:
        said.append(message)

    watch = SettingsWatch(LocalWorkspace(str(tmp_path)), [str(hooks)], notify, changing=[str(hooks)])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(240)
    try:
        done = await watch.run(f"echo two > hooks/{'d/' * 250}hook; ln -s .. hooks/link")
    finally:
        sys.setrecursionlimit(limit)
    assert done.exit_code == 0
    assert "hooks/d/d/" in said[0]
    assert "/hook, hooks/link." in said[0]
