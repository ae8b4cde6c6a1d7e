"""If these fail, opening a binary file breaks its window, or viewing it fills the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2

from tests.integration.review.served_review import Review, review

MIB = 1 << 20


def state(at: Review, path: str) -> tuple[Any, ...]:
    found = at.get("/file", file_path=path)
    return found["kind"], found["size"], found["content"]


def content(at: Review, path: str, **query: str) -> httpx2.Response:
    return at.server.client.get("/api/agent/content", params={"file_path": path, **query})


def ledger_size(at: Review) -> int:
    files = (at.newel.home / ".newel" / "review").rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file())


def test_each_kind_of_file_has_its_own_state(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        project = at.newel.project
        (project / "empty.md").write_text("")
        (project / "crlf.md").write_bytes("ä\r\n".encode())
        assert state(at, "crlf.md") == ("text", 4, "ä\r\n")
        assert state(at, "empty.md") == ("text", 0, "")
        assert state(at, "bytes.bin") == ("binary", 3, None)
        assert state(at, "folder") == ("directory", 0, None)
        assert state(at, "pipe") == ("special", 0, None)
        assert state(at, "nowhere/at/all.md") == ("absent", 0, None)
        assert state(at, "a.md/below.md") == ("absent", 0, None)
        found = content(at, "bytes.bin")
        assert found.content == (project / "bytes.bin").read_bytes()
        assert found.headers["content-type"] == "application/octet-stream"
        for name in ("folder", "pipe", "nowhere/at/all.md"):
            assert content(at, name).status_code == 422


def test_a_file_of_50_mib_is_reported_as_too_large_and_not_read(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        for name, size in (("fifty", 50 * MIB), ("three", 3 * MIB)):
            with (at.newel.project / name).open("wb") as file:
                file.truncate(size)
        at.get("/pending")
        before = ledger_size(at)
        assert state(at, "fifty") == ("too_large", 50 * MIB, None)
        assert state(at, "three") == ("too_large", 3 * MIB, None)
        for name in ("fifty", "three"):
            assert content(at, name).status_code == 413
        assert ledger_size(at) == before
        (at.newel.project / "text").write_text("x" * (2 * MIB))
        assert state(at, "text") == ("text", 2 * MIB, "x" * (2 * MIB))


def test_a_file_that_vanishes_or_grows_while_open_keeps_its_review(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        at.settled(at.start("Translate"))
        path = at.newel.project / "a.md"
        path.unlink()
        gone = at.get("/file", file_path="a.md")
        assert [hunk["conflict"] for hunk in gone["hunks"]] == [True]
        path.mkdir()
        found = at.get("/file", file_path="a.md")
        assert (found["kind"], found["content"], found["hunks"]) == ("directory", None, gone["hunks"])
        path.rmdir()
        with path.open("wb") as file:
            file.truncate(40 * MIB)
        found = at.get("/file", file_path="a.md")
        assert (found["kind"], found["size"], found["hunks"]) == ("too_large", 40 * MIB, gone["hunks"])


def test_every_response_describes_the_file(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        at.settled(at.start("Translate"))
        file = at.get("/file", file_path="b.md")
        file = at.post("/decide", file_path="b.md", rev=file["rev"], action="accept_all_file")
        assert (file["kind"], file["size"], file["base_size"]) == ("text", 15, 14)
        now, before = content(at, "b.md").text, content(at, "b.md", of="base").text
        assert (now, len(before)) == (file["content"], 14)
        file = at.post("/undo", file_path="b.md", rev=file["rev"])
        assert (file["kind"], file["size"]) == ("text", 15)
