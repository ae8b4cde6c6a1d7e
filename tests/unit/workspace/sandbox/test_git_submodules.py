"""If these fail, git in the sandbox brings a submodule into the index. The user's next ``git status`` obeys the settings in its
folder, which a command could have written.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from newel.workspace.sandbox.git_rules import GitRefused
from newel.workspace.sandbox.git_submodules import refuse_new_submodules
from tests.requirements import require_program


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository at ``main``. ``evil``, its upstream, has a submodule, which ``removed`` has removed."""
    top = tmp_path_factory.mktemp("repository")
    author = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for call in (
        "init -q -b main",
        "commit -q --allow-empty -m First",
        "switch -q -c evil",
        f"update-index --add --cacheinfo 160000,{'1' * 40},sub",
        "commit -q -m 'Brings it'",
        "update-ref refs/remotes/origin/theirs evil",
        "switch -q -c removed",
        "rm -q --cached sub",
        "commit -q -m 'Removes it'",
        "switch -q evil",
        "switch -q main",
        "branch plain",
        "branch -q -u evil",
    ):
        words = [require_program("git"), *shlex.split(call)]
        subprocess.run(words, cwd=top, env=os.environ | author, check=True, capture_output=True)
    return top


@pytest.mark.parametrize(
    "call",
    [
        *(
            "switch evil",
            "switch -c new evil~0",
            "switch -- evil",
            "checkout evil -- sub",
            "checkout theirs",
            "checkout -",
        ),
        *(
            "checkout ':/Brings'",
            "merge evil",
            "merge -m Message",
            "merge -- evil",
            "merge --abort --no-abort",
            "rebase evil",
        ),
        *(
            "reset --hard evil",
            "restore --source=evil sub",
            "restore -Ssevil sub",
            "stash apply evil",
            "merge nothing@{upstream} evil",
        ),
        *(
            "cherry-pick evil",
            "cherry-pick main..removed",
            "cherry-pick ^main removed",
            "cherry-pick removed^!",
            "revert removed",
        ),
    ],
)
def test_a_call_that_brings_a_submodule_is_refused(top: Path, call: str) -> None:
    with pytest.raises(GitRefused, match="it brings a submodule, 'sub'"):
        refuse_new_submodules(str(top), shlex.split(call))


@pytest.mark.parametrize("call", ["cherry-pick --branches", "revert --stdin", "checkout ':/Brings\n'"])
def test_commits_that_are_not_named_are_refused(top: Path, call: str) -> None:
    with pytest.raises(GitRefused):
        refuse_new_submodules(str(top), shlex.split(call))


@pytest.mark.parametrize(
    "call",
    [
        *(
            "switch plain",
            "switch -c new",
            "checkout plain -- a",
            "checkout -- evil",
            "reset --hard removed",
            "rebase --continue",
        ),
        *(
            "merge --abort",
            "stash",
            "stash push -m evil~9",
            "commit -m evil",
            "cherry-pick -x plain",
            "restore -s main evil.py",
        ),
    ],
)
def test_all_other_work_goes_on(top: Path, call: str) -> None:
    refuse_new_submodules(str(top), shlex.split(call))
