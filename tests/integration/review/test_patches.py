"""If these fail, ``git apply`` or GNU ``patch`` make other files of a review's patches than the review
does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import running
from tests.integration.review.served_review import line, proposes, served_review
from tests.requirements import require_program
from tests.support import Newel, scenario

LONG = "".join(f"line {n}\n" for n in range(1, 41))
FILES = {"long.md": LONG, "crlf.md": LONG.replace("\n", "\r\n"), "bare.md": "one\ntwo\nthree"}
EDITS = [
    *(line("long.md", n, f"LINE {n}\nand more\n") for n in (2, 6, 7, 20, 40)),
    {"file_path": "long.md", "operation": "delete", "start_line": 30, "end_line": 31},
    {"file_path": "long.md", "operation": "insert", "start_line": 12, "new_text": "between\n"},
    *(line("crlf.md", n, f"LINE {n}\r\n") for n in (1, 15)),
    line("bare.md", 1, "ONE\n"),
    line("bare.md", 3, "THREE"),
    {"file_path": "made/new.md", "operation": "insert", "start_line": 1, "new_text": "made\n"},
]
TOOLS = {
    "git": ["git", "apply", "--whitespace=nowarn", "-"],
    "GNU patch": ["patch", "--binary", "--batch", "--silent", "-p1"],
}


def in_one(files: Sequence[dict[str, Any]]) -> str:
    """The server's patch of everything accepted."""
    return "".join(file["accepted_patch"] for file in files)


def in_pieces(files: Sequence[dict[str, Any]]) -> str:
    """The same from the patches of the hunks: two lines per file, and the hunks unchanged."""
    parts: list[str] = []
    for file in files:
        hunks = [hunk["patch"] for hunk in file["hunks"] if hunk["accepted"]]
        name = file["file_path"]
        old = "/dev/null" if file["base_file_hash"] == "none" else f"a/{name}"
        parts += [f"--- {old}\n+++ b/{name}\n", *hunks] if hunks else []
    return "".join(parts)


@pytest.mark.slow  # three whole jobs, applied by three patch tools
@pytest.mark.parametrize("every", [1, 2, 3])
def test_accepted_hunks_give_the_same_files_with_any_patch_tool(tmp_path: Path, every: int) -> None:
    for command in TOOLS.values():
        require_program(command[0])
    script = scenario("Propose", proposes(*EDITS), {"content": "Done."})
    with running(script, strict=True) as model:
        newel = Newel(tmp_path, model)
        ways = [("git", in_one), ("GNU patch", in_one), ("GNU patch", in_pieces)]
        asides = [tmp_path / str(number) for number in range(len(ways))]
        for folder in (newel.project, *asides):
            folder.mkdir(exist_ok=True)
            for name, text in FILES.items():
                (folder / name).write_bytes(text.encode())
        with served_review(newel) as at:
            job = at.settled(at.start("Propose"))
            hunks = [
                (file["file_path"], each) for file in job["diff_bundle"]["files"] for each in file["hunks"]
            ]
            for path, hunk in hunks[::every]:
                rev = at.get("/file", file_path=path)["rev"]
                at.post("/decide", file_path=path, rev=rev, action="accept", hunk_id=hunk["hunk_id"])
            files = at.get(f"/jobs/{job['id']}")["diff_bundle"]["files"]
            accepted = [hunk["hunk_id"] for _, hunk in hunks[::every]]
            at.post("/apply", session_id=job["session_id"], job_id=job["id"], accepted_hunk_ids=accepted)
    applied = markdown(newel.project)
    assert applied != FILES
    for (tool, way), folder in zip(ways, asides, strict=True):
        diff = way(files)
        done = subprocess.run(TOOLS[tool], cwd=folder, input=diff.encode(), capture_output=True, check=False)
        assert done.returncode == 0, (tool, diff, done.stdout, done.stderr)
        assert markdown(folder) == applied, (tool, diff)


def markdown(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_bytes().decode() for path in folder.rglob("*.md")}
