"""If these fail, a commit or a CI job lets proposals through that nobody has decided about."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cli.proposals import Proposals, replace
from tests.processes import COMMAND_SECONDS
from tests.support import BIN, Newel

ROOT = Path(__file__).resolve().parents[3]
APP = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"


@pytest.fixture
def newel(with_model: Callable[..., Newel]) -> Newel:
    newel = with_model()
    (newel.project / "app.py").write_text(APP)
    (newel.project / "evil\n::set-output name=a::b").write_text("b\n")
    return newel


@pytest.fixture
def proposals(newel: Newel) -> Proposals:
    return Proposals(newel.home / ".newel", newel.project)


def test_without_any_run_nothing_waits(newel: Newel) -> None:
    done = newel("review", "--check")
    assert (done.returncode, done.stdout) == (0, "No change waits for a decision.\n")


def test_pending_changes_are_listed_one_line_a_file_until_they_are_decided(
    newel: Newel, proposals: Proposals
) -> None:
    proposals.propose("one", {"app.py": [replace(2, 2, "TWO\n"), replace(8, 8, "EIGHT\n")]})
    proposals.propose("two", {"evil\n::set-output name=a::b": [replace(1, 1, "B\n")]})
    done = newel("review", "--check")
    assert done.returncode == 1
    assert done.stdout == "app.py: 2 changes to decide\nevil␊::set-output name=a::b: 1 change to decide\n"
    assert "newel decide" in done.stderr
    assert newel("keep", "app.py", "--yes").returncode == 0
    assert newel("reject", "--all", "--yes").returncode == 0
    assert newel("review", "--check").returncode == 0


def test_the_json_object_has_the_exit_code_too(newel: Newel, proposals: Proposals) -> None:
    proposals.propose("one", {"app.py": [replace(2, 2, "TWO\n")]})
    done = newel("review", "--check", "--json")
    assert done.returncode == 1
    assert [file["file_path"] for file in json.loads(done.stdout)["pending"]] == ["app.py"]


def test_a_checkpoint_has_no_check(newel: Newel) -> None:
    assert newel("review", "cp_1", "--check").returncode == 2


@pytest.mark.slow  # a second of a core
def test_the_hook_stops_a_commit_until_the_changes_are_decided(
    newel: Newel, proposals: Proposals, tmp_path: Path
) -> None:
    """The hook's file as users refer to it, run by pre-commit itself."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / ".pre-commit-hooks.yaml").write_text((ROOT / ".pre-commit-hooks.yaml").read_text())
    identity = {
        f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environ = newel.environ | identity | {"PRE_COMMIT_HOME": str(tmp_path / "cache")}

    def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )

    for folder in (hooks, newel.project):
        run(folder, "git", "init", "--quiet")
    run(hooks, "git", "add", "--all")
    run(hooks, "git", "commit", "--quiet", "--message", "Hooks")
    revision = run(hooks, "git", "rev-parse", "HEAD").stdout.strip()
    (newel.project / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {hooks}\n  rev: {revision}\n  hooks:\n  - id: newel-review\n"
    )
    assert run(newel.project, os.fspath(BIN / "pre-commit"), "install").returncode == 0
    proposals.propose("one", {"app.py": [replace(2, 2, "TWO\n")]})
    run(newel.project, "git", "add", "app.py", ".pre-commit-config.yaml")
    refused = run(newel.project, "git", "commit", "--message", "Add the app")
    assert refused.returncode == 1, refused.stderr
    assert "app.py: 1 change to decide" in refused.stdout + refused.stderr
    assert newel("keep", "--all", "--yes").returncode == 0
    done = run(newel.project, "git", "commit", "--message", "Add the app")
    assert done.returncode == 0, done.stderr
