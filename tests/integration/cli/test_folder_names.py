"""If these fail, Newel does not work in a folder whose name is no text, as old archives have them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

from tests.requirements import require_program
from tests.support import Newel, bash, scenario

require_program("bwrap", "bubblewrap")

HOOKS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
SERVERS = {"mcpServers": {"notes": {"command": "true"}}}


def test_commands_run_where_git_ignores_a_file_whose_name_is_not_utf_8(
    with_model: Callable[..., Newel],
) -> None:
    """What is ignored is not recorded, and is named to other processes."""
    newel = with_model(scenario("Make", bash("echo x > made"), {"content": "Done."}))
    subprocess.run(["git", "init", "--quiet", newel.project], check=True)
    (newel.project / ".gitignore").write_bytes(b"na\xefve\n")
    (newel.project / os.fsdecode(b"na\xefve")).touch()
    assert newel("Make a file").returncode == 0
    assert (newel.project / "made").read_text() == "x\n"


def test_an_agent_works_where_the_name_of_the_folder_is_not_utf_8(with_model: Callable[..., Newel]) -> None:
    newel = with_model(scenario("Make", bash("echo x > made"), {"content": "Done."}))
    newel.project = newel.project.rename(newel.project.with_name(os.fsdecode(b"na\xefve")))
    (newel.project / ".claude").mkdir()
    (newel.project / ".claude/settings.json").write_text(json.dumps(HOOKS))
    (newel.project / ".mcp.json").write_text(json.dumps(SERVERS))
    done = newel("Make a file", NEWEL_SANDBOX="workspace")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (newel.project / "made").read_text() == "x\n"
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "made").exists()
    assert "Make a file" in newel("sessions").stdout
    for words in (("agent", "Make it"), ("web", "--port", "0")):  # their journal names the folder
        refused = newel(*words)
        assert refused.returncode == 1
        assert "is not UTF-8" in refused.stderr
        assert "Traceback" not in refused.stderr
