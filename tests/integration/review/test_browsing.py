"""If these fail, the tree invents or hides files, or leads out of the project."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.integration.review.served_review import Review, review
from tests.requirements import require_program


def entries(at: Review, folder: str = "", **query: Any) -> dict[str, dict[str, Any]]:
    found = at.get("/tree", folder=folder, **query)
    assert found["folder"] == folder
    return {each["name"]: each for each in found["entries"]}


def typed(at: Review, path: str, text: str) -> dict[str, Any]:
    """A user's text before the first line."""
    rev = at.get("/file", file_path=path)["rev"]
    splice = {"start_line": 1, "delete_lines": 0, "new_text": text}
    return at.post("/edit", file_path=path, rev=rev, splices=[splice])


def git(project: Path, *words: str) -> None:
    subprocess.run([require_program("git"), *words], cwd=project, check=True, capture_output=True)


def test_a_folder_lists_its_entries_without_excluded_ones(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        (at.newel.project / "Thumbs.db").write_text("")
        (at.newel.project / ".hidden").write_text("")
        (at.newel.project / "folder" / "inner").mkdir()
        found = entries(at)
        assert list(found) == ["folder", "link", ".hidden", "a.md", "b.md", "bytes.bin"]
        assert found["a.md"] == {
            "name": "a.md",
            "kind": "file",
            "size": 14,
            "state": "none",
            "waits": 0,
            "ignored": False,
        }
        assert (found["folder"]["kind"], found["folder"]["size"]) == ("directory", None)
        assert list(entries(at, "folder")) == ["inner"]
        assert list(entries(at, "folder/inner")) == []


def test_pending_changes_are_marked_in_all_parent_folders(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        (at.newel.project / "folder" / "inner").mkdir()
        (at.newel.project / "folder" / "inner" / "x.md").write_text("x\n")
        typed(at, "folder/inner/x.md", "mine\n")
        at.settled(at.start("Translate"))
        file = at.get("/file", file_path="b.md")
        at.post("/decide", file_path="b.md", rev=file["rev"], action="accept_all_file")
        states = {name: (each["state"], each["waits"]) for name, each in entries(at).items()}
        assert states["folder"] == ("accepted", 1)
        assert (states["a.md"], states["b.md"]) == (("pending", 2), ("accepted", 1))
        assert states["bytes.bin"] == ("none", 0)
        at.write(a="ONE\ntwo\nTHREE\n")
        at.get("/file", file_path="a.md")
        assert entries(at)["a.md"]["state"] == "conflict"


def test_a_proposed_file_is_listed_and_can_be_opened(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        typed(at, "new/deep/c.md", "mine\n")
        found = entries(at)["new"]
        assert (found["kind"], found["waits"], found["size"]) == ("directory", 1, None)
        assert entries(at, "new/deep")["c.md"]["state"] == "accepted"
        assert not (at.newel.project / "new").exists()


def test_ignored_entries_are_marked_in_subfolders_too(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        project = at.newel.project
        (project / ".git" / "config").unlink()
        (project / ".git").rmdir()
        git(project, "init")
        (project / ".gitignore").write_text("built/\n*.log\n")
        (project / "built").mkdir()
        (project / "built" / "one.js").write_text("")
        (project / "folder" / "b.log").write_text("")
        (project / "node_modules").mkdir()
        assert {name for name, each in entries(at).items() if each["ignored"]} == {"built"}
        assert entries(at, "built")["one.js"]["ignored"] is True
        assert entries(at, "folder")["b.log"]["ignored"] is True
        assert at.get("/find", query="js")["files"] == []


def test_without_git_build_products_are_marked(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        (at.newel.project / "node_modules" / "x").mkdir(parents=True)
        assert entries(at)["node_modules"]["ignored"] is True
        assert entries(at, "node_modules")["x"]["ignored"] is True
        assert entries(at)["folder"]["ignored"] is False


def test_a_huge_folder_is_cut_and_says_so(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        for number in range(20):
            (at.newel.project / "folder" / f"{number:02}").write_text("")
        found = at.get("/tree", folder="folder", limit=7)
        assert [each["name"] for each in found["entries"]] == [f"{number:02}" for number in range(7)]
        assert found["more"] is True
        assert at.get("/tree", folder="folder", limit=20)["more"] is False


def test_an_invalid_folder_is_refused_with_a_message(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        for folder in ("..", "/etc", "link", "link/..", ".git", "folder/../..", "a\0b", "a.md", "nowhere"):
            status, answer = at.ask("GET", "/tree", params={"folder": folder})
            assert status == 422, folder
            assert answer["error"]["message"]
        status, _ = at.ask("GET", "/tree", params={"limit": 0})
        assert status == 422


def test_files_are_found_by_words_of_their_paths_best_first(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        project = at.newel.project
        for name in ("src/page.js", "src/pages/other.js", "docs/The Page.md", "page/x.css", ".git/page"):
            (project / name).parent.mkdir(exist_ok=True, parents=True)
            (project / name).write_text("")
        typed(at, "new/page.md", "mine\n")
        found = at.get("/find", query="page")
        assert found["files"] == [
            "new/page.md",
            "src/page.js",
            "docs/The Page.md",
            "page/x.css",
            "src/pages/other.js",
        ]
        assert at.get("/find", query="PAGE js")["files"] == ["src/page.js", "src/pages/other.js"]
        few = at.get("/find", query="page", limit=1)
        assert (few["files"], few["more"]) == (["new/page.md"], True)
        assert at.get("/find", query="no such")["files"] == []
        assert at.get("/find", query="the.md")["files"] == ["docs/The Page.md"]


def test_a_name_of_one_letter_does_not_hold_up_the_search(tmp_path: Path) -> None:
    """Every front end waits for it: the search runs in their process."""
    with review(tmp_path) as at:
        (at.newel.project / ("a" * 250)).write_text("")
        assert at.get("/find", query="aaaaab")["files"] == []
