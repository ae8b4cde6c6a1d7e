"""If these fail, a file name in a cloned project stops the input, or the whole workbench, as soon as the user completes a path."""

from __future__ import annotations

import string
import subprocess
from pathlib import Path

import pytest

from newel.context.file_completion import FileCompleter, best_matches
from newel.workspace.local import LocalWorkspace


def test_a_name_of_repeated_letters_is_searched_at_once() -> None:
    """A search that tries all ways to find the letters would take longer than any test may."""
    name = "".join(letter * 25 for letter in "component")
    assert best_matches([f"{name}.py", "com/po/nents.py"], "components") == ["com/po/nents.py"]


@pytest.mark.parametrize("mark", [*string.punctuation, "é"])
def test_letters_are_found_in_their_order_whatever_they_are(mark: str) -> None:
    name = f"a1{mark}2x"
    assert best_matches([name, "x"], f"a{mark}x") == [name]
    assert best_matches([name], f"x{mark}a") == []


def add_to_repository(folder: Path) -> None:
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=folder, check=True)


@pytest.mark.anyio
@pytest.mark.parametrize("has_git", [True, False])
async def test_a_deleted_file_is_not_offered(tmp_path: Path, *, has_git: bool) -> None:
    for name in ("old.py", "new.py"):
        (tmp_path / name).touch()
    if has_git:
        add_to_repository(tmp_path)
    (tmp_path / "old.py").unlink()
    (tmp_path / "not tracked.py").touch()
    assert await FileCompleter(LocalWorkspace(str(tmp_path))).complete("py") == ["new.py", "not tracked.py"]
