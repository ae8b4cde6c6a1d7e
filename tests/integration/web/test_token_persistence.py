"""If these fail, a restart locks an open page out, or a leaked token opens the server."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from mock_llm_server import running
from tests.served import begin, served
from tests.support import Newel


def token_file(newel: Newel) -> Path:
    (found,) = (newel.home / ".newel" / "web").glob("*.token")
    return found


def url_of(newel: Newel, *words: str, **environ: str) -> str:
    """The URL that a start prints."""
    with served(newel, "go", *words, **environ) as server:
        assert server.client.get("/api/state").status_code == 200
        return server.token


def refusal(newel: Newel) -> str:
    with begin(newel, "go", "--port", "0") as process:
        out, errors = process.communicate(timeout=20)
    assert out == ""
    assert process.returncode != 0
    return errors


def test_each_project_keeps_its_own_token(tmp_path: Path) -> None:
    with running() as model:
        newel = Newel(tmp_path, model)
        first = url_of(newel)
        file = token_file(newel)
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
        assert url_of(newel) == first
        given = "a-token-of-my-own-for-this-start-only"
        assert url_of(newel, NEWEL_WEB_TOKEN=given) == given
        assert url_of(newel) == first
        assert url_of(newel, "--ephemeral") != first
        rotated = url_of(newel, "--new-token")
        assert rotated != first
        assert url_of(newel) == rotated
        other = tmp_path / "other"
        other.mkdir()
        assert url_of(newel, "--cwd", str(other)) not in {first, rotated}
        kept = [path for path in newel.home.rglob("*") if path.is_file() and path.suffix != ".token"]
        assert not [path for path in kept if rotated.encode() in path.read_bytes()]


def test_a_token_is_replaced_after_a_month(tmp_path: Path) -> None:
    with running() as model:
        newel = Newel(tmp_path, model)
        first = url_of(newel)
        then = time.time() - 31 * 24 * 3600
        os.utime(token_file(newel), (then, then))
        assert url_of(newel) != first


def test_a_token_that_was_in_cookies_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    """Every server of this machine that the user has visited may know it."""
    with running() as model:
        newel = Newel(tmp_path, model)
        url_of(newel)
        file = token_file(newel)
        old = file.with_name(file.name.replace(".2.token", ".token"))
        file.rename(old)
        before = old.read_text().strip()
        assert url_of(newel) != before
        assert token_file(newel) == file  # the only one


@pytest.mark.parametrize("spoiled", ["readable", "link", "hard link", "pipe", "empty"])
def test_a_token_that_others_may_know_is_refused_with_a_message(tmp_path: Path, spoiled: str) -> None:
    with running() as model:
        newel = Newel(tmp_path, model)
        first = url_of(newel)
        file = token_file(newel)
        match spoiled:
            case "readable":
                file.chmod(0o640)
            case "link":
                file.rename(tmp_path / "elsewhere")
                file.symlink_to(tmp_path / "elsewhere")
            case "hard link":
                os.link(file, tmp_path / "elsewhere")
            case "pipe":
                file.unlink()
                os.mkfifo(file, 0o600)
            case _:
                file.write_text("")
        words = refusal(newel)
        assert re.search(r"--new-token", words)
        assert str(file) in words
        assert first not in words
        assert url_of(newel, "--new-token") != first
        assert not file.is_symlink()
