"""If these fail, who comes from Claude Code believes that calls are forbidden which are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.app.project_notices import project_notices
from newel.config.settings import Flags, Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / ".claude").mkdir()
    return load_settings(Flags(), cwd=tmp_path, environ={"NEWEL_HOME": str(tmp_path / "home")})


def test_rules_of_claude_code_that_do_not_apply_are_named(settings: Settings) -> None:
    file = settings.cwd / ".claude/settings.local.json"
    file.write_text(
        '{"permissions": {"allow": ["Bash"], "deny": ["Read(./.env)"], "ask": ["Bash(git push:*)"]}}'
    )
    [notice] = project_notices(settings)
    assert notice.startswith(f"2 rules under permissions in {file}, which forbid or ask, do not apply here.")
    assert notice.endswith('write them into .newel/permissions.toml: deny = ["Read(./.env)"]')

    (settings.cwd / ".newel").mkdir()
    (settings.cwd / ".newel/permissions.toml").touch()  # the user has seen to it
    assert project_notices(settings) == []


@pytest.mark.parametrize(
    "text", ["", "[]", '{"permissions": {"allow": ["Bash"]}}', '{"permissions": 3}', "\xff"]
)
def test_other_files_of_claude_code_need_no_notice(settings: Settings, text: str) -> None:
    (settings.cwd / ".claude/settings.json").write_text(text, encoding="latin-1")
    assert project_notices(settings) == []
