"""If these fail, tools judge what the sandbox lets them change by how the project was before."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.app.agent_place import open_agent_place
from newel.config.settings import Flags, load_settings
from tests.requirements import require_program

pytestmark = pytest.mark.anyio


async def test_each_later_question_about_the_sandbox_gets_an_answer_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_program("bwrap")
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("HOME", str(home))
    settings = load_settings(Flags(sandbox="workspace"), cwd=project, environ={"HOME": str(home)})
    async with open_agent_place(settings, attended=False) as place:
        first = await place.host.policy(str(project))
        (home / ".ssh").mkdir()
        (project / ".git").mkdir()
        (project / ".git/config").touch()
        second = await place.host.policy(str(project))
    assert first is not None
    assert second is not None
    assert first.repository is None
    assert str(home / ".ssh") not in first.hidden
    assert second.repository is not None
    assert str(home / ".ssh") in second.hidden
