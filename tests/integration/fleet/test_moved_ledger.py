"""If these fail, what an agent changed cannot be undone, kept or rejected any more once its job has moved to another machine."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.fleet.job_folder import JobFolder
from newel.fleet.object_store import folder_store
from tests.job_folders import make_source
from tests.support import Newel, scenario


def write(path: str, content: str) -> dict[str, Any]:
    arguments = {"file_path": path, "content": content}
    return {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}


class JobNewel:
    """Newel in a job's folder."""

    def __init__(self, newel: Newel, job: JobFolder) -> None:
        self.newel = newel
        self.job = job

    def __call__(self, *words: str) -> str:
        self.newel.project = self.job.work
        done = self.newel(*words, NEWEL_HOME=str(self.job.home))
        assert done.returncode == 0, done.stderr + done.stdout
        return str(done.stdout)

    def hunks(self) -> dict[str, str]:
        """The hunks that wait for a decision, by their files."""
        files = json.loads(self("review", "--json"))["pending"]
        return {
            file["file_path"]: hunk["hunk_id"]
            for file in files
            for hunk in file["hunks"]
            if hunk["state"] == "pending"
        }


@pytest.fixture
def here(with_model: Callable[..., Newel], tmp_path: Path) -> JobNewel:
    steps = [
        scenario(
            "make three",
            write("a.txt", "a\n"),
            write("b.txt", "b\n"),
            write("shop.py", "price = 2\n"),
            {"content": "Done."},
        ),
        scenario("what was it", {"content": "Three files."}),
    ]
    newel = with_model({"scenarios": [each for one in steps for each in one["scenarios"]]})
    job = JobFolder(tmp_path / "here", "job-1")
    job.clone(str(make_source(tmp_path / "source")))
    return JobNewel(newel, job)


def move(here: JobNewel, tmp_path: Path) -> JobNewel:
    store = folder_store(tmp_path / "store")
    ref = store.put(1, here.job.snapshot(1).commit, here.job.repository)
    other = JobFolder(tmp_path / "another machine" / "with a longer path", "job-1")
    other.restore(ref, store)
    here.job.folder.rename(tmp_path / "lost")
    return JobNewel(here.newel, other)


def test_a_run_is_undone_and_redone_at_the_new_place(here: JobNewel, tmp_path: Path) -> None:
    here("make three")
    there = move(here, tmp_path)
    there("undo", "--yes")
    assert (there.job.work / "shop.py").read_text() == "price = 1\n"
    assert not (there.job.work / "a.txt").exists()
    there("redo", "--yes")
    assert (there.job.work / "shop.py").read_text() == "price = 2\n"


def test_hunks_that_wait_are_kept_and_rejected_at_the_new_place(here: JobNewel, tmp_path: Path) -> None:
    here("--approve", "review", "make three")
    there = move(here, tmp_path)
    hunks = there.hunks()
    assert sorted(hunks) == ["a.txt", "b.txt", "shop.py"]
    there("keep", hunks["shop.py"], "--yes")
    there("reject", hunks["b.txt"], "--yes")
    assert (there.job.work / "shop.py").read_text() == "price = 2\n"
    assert not (there.job.work / "b.txt").exists()
    assert sorted(there.hunks()) == ["a.txt"]


def test_the_conversation_goes_on_at_the_new_place(here: JobNewel, tmp_path: Path) -> None:
    here("make three")
    there = move(here, tmp_path)
    there("-c", "what was it")
    said = [str(each["content"]) for each in there.newel.requests[-1]["messages"] if each["role"] == "user"]
    assert said == ["make three", "what was it"]


def test_a_ledger_in_use_is_copied_whole(here: JobNewel, tmp_path: Path) -> None:
    here("make three")
    (ledger,) = here.job.home.glob("review/*/ledger.db")
    writer = sqlite3.connect(ledger, isolation_level=None)
    writer.execute("INSERT INTO blobs VALUES ('committed', 1, x'00')")  # in the log, not in the file
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO blobs VALUES ('not committed', 1, x'00')")
    there = move(here, tmp_path)
    writer.close()
    (ledger,) = there.job.home.glob("review/*/ledger.db")
    copy = sqlite3.connect(ledger)
    assert copy.execute("SELECT sha256 FROM blobs WHERE size = 1").fetchall() == [("committed",)]
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    copy.close()
