"""If these fail, one proposal about a link or a folder blocks all other decisions in the page."""

from __future__ import annotations

from pathlib import Path

from mock_llm_server import running
from tests.integration.review.served_review import disk, served_review
from tests.support import Newel, bash, scenario

DOES = "ln -sfn two link; rm was; mkdir was; echo in > was/in; rm -r folder; echo now > folder; echo more >> text"


def test_links_and_folders_are_shown_accepted_and_saved_like_files(tmp_path: Path) -> None:
    with running(scenario("turn them", bash(DOES), {"content": "Done."})) as model:
        newel = Newel(tmp_path, model)
        project = newel.project
        for name in ("one", "two", "folder"):
            (project / name).mkdir()
        (project / "link").symlink_to("one")
        (project / "folder" / "in").write_text("in\n")
        (project / "was").write_text("old\n")
        (project / "text").write_text("text\n")
        assert newel("--approve", "review", "turn them").returncode == 0
        with served_review(newel) as at:
            files = at.get("/pending")["files"]
            names = ["folder", "folder/in", "link", "text", "was", "was/in"]
            assert [each["file_path"] for each in files] == names
            for each in files:
                shown = at.get("/file", file_path=each["file_path"])
                assert [hunk["hunk_id"] for hunk in shown["hunks"]] == each["hunk_ids"]
            assert at.get("/file", file_path="link")["content"] == "two"
            seen = [{"file_path": each["file_path"], "hunk_ids": each["hunk_ids"]} for each in files]
            decided = at.post("/decide_all", action="accept", files=seen)["files"]
            assert [each["left"] for each in decided] == [0] * len(names)
            at.post("/save", files=[{"file_path": name} for name in names])
        assert (project / "link").readlink() == Path("two")
        found = disk(project)
        assert [found[name] for name in ("folder", "text", "was/in")] == [b"now\n", b"text\nmore\n", b"in\n"]
