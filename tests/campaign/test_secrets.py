"""If these fail, a command of the model reads a key that docs/security.md says it cannot."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from mock_llm_server import running
from tests.campaign.tally import CampaignTally
from tests.ordinary_user import USER, run_as_user
from tests.requirements import require_program
from tests.support import Newel, bash, scenario

SEARCH = Path(__file__).with_name("search_for_keys.py")
OF_NEWEL = {"llm", "openai", "github", "option"}
"""In Newel's environment and command line."""
FILES = {"config", "stored", "ssh", "aws", "notes", "session", "temporary"}
"""In the home folder, Newel's own folder and that for temporary files."""


class SearchedMode(NamedTuple):
    options: tuple[str, ...]
    hidden: set[str]
    """What is promised to be out of reach."""
    runs: bool = True
    as_root: bool = False
    """Otherwise as an ordinary user: nothing without a sandbox hides anything from root."""


MODES = {
    "auto, no sandbox": SearchedMode(("--approve", "auto", "--sandbox", "off"), OF_NEWEL),
    "review, no sandbox": SearchedMode(("--approve", "review", "--sandbox", "off"), OF_NEWEL),
    "ask, nobody to ask": SearchedMode(
        ("--approve", "ask"), OF_NEWEL | FILES | {"dotenv", "plain"}, runs=False
    ),
    "read-only": SearchedMode(("--approve", "read-only"), OF_NEWEL | FILES | {"dotenv", "plain"}, runs=False),
    "auto, sandbox workspace": SearchedMode(
        ("--approve", "auto", "--sandbox", "workspace"), OF_NEWEL | FILES
    ),
    "review, sandbox workspace": SearchedMode(
        ("--approve", "review", "--sandbox", "workspace"), OF_NEWEL | FILES
    ),
    "auto, sandbox workspace, as root": SearchedMode(
        ("--approve", "auto", "--sandbox", "workspace"), OF_NEWEL | FILES, as_root=True
    ),
    "auto, sandbox read-only": SearchedMode(
        ("--approve", "auto", "--sandbox", "read-only"), OF_NEWEL | FILES
    ),
}
PLANTED = sorted(OF_NEWEL | FILES | {"dotenv", "plain"})


def key(name: str) -> str:
    return f"PLANTED-{name}-{secrets.token_hex(4)}"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def plant_files(newel: Newel) -> None:
    """Keys in files: those that belong to Newel, to other programs, to the user and to the project."""
    home = newel.home
    put(home / ".newel/config.toml", f'api_key = "{key("config")}"')
    stored = {"https://api.example.org": {"key": key("stored")}}
    put(home / ".newel/keys.json", json.dumps(stored))
    put(home / ".newel/sessions/--old--/old.jsonl", json.dumps({"text": key("session")}))
    put(home / ".ssh/id_ed25519", key("ssh"))
    put(home / ".aws/credentials", key("aws"))
    put(home / "notes.txt", key("notes"))
    put(newel.project / ".env", f"DATABASE_PASSWORD={key('dotenv')}")
    shutil.copy(SEARCH, newel.project / "search_for_keys.py")
    (home / ".newel").chmod(0o700)


@contextmanager
def temporary_file() -> Generator[None]:
    """A key in the folder for temporary files, of the user who runs Newel."""
    descriptor, name = tempfile.mkstemp(prefix="newel-campaign-")
    with os.fdopen(descriptor, "w") as file:
        file.write(key("temporary"))
    if os.geteuid() == 0:
        os.chown(name, USER, USER)
    try:
        yield
    finally:
        Path(name).unlink()


def searched(newel: Newel, mode: SearchedMode) -> tuple[set[str], str]:
    """The names of the keys that a command finds, and the whole result of the command."""
    environ = {
        "LLM_AUTH_TOKEN": key("llm"),
        "OPENAI_API_KEY": key("openai"),
        "GITHUB_TOKEN": key("github"),
        "FAVOURITE_COLOUR": key("plain"),
    }
    options = (*mode.options, "--api-key", key("option"), "--renderer", "console")
    with temporary_file():
        if mode.as_root:
            done = newel(*options, "look around", **environ)
        else:
            done = run_as_user(newel, *options, "look around", **environ)
    assert done.returncode == (0 if mode.runs or "read-only" in options else 1), done.stderr
    last = newel.requests[-1]["messages"]
    result = "".join(str(each["content"]) for each in last if each["role"] == "tool")
    return set(re.findall(r"FOUND [a-z ]+: ([a-z]+)", result)), result


@pytest.mark.parametrize("name", MODES)
def test_a_command_searches_for_keys(name: str, tally: CampaignTally, tmp_path: Path) -> None:
    require_program("bwrap", "bubblewrap")
    mode = MODES[name]
    if mode.as_root and os.geteuid() != 0:
        pytest.skip("only root can try as root")
    row = tally.row(f"keys that a command can find: {name}")
    steps = scenario("look around", bash("python3 search_for_keys.py"), {"content": "I see."})
    with running(steps, strict=True) as server:
        newel = Newel(tmp_path, server)
        plant_files(newel)
        names, result = searched(newel, mode)
    assert ("SEARCHED" in result) == mode.runs, result
    for each in PLANTED:
        with tally.attempt(row, each) as found:
            if each in names & mode.hidden:
                found.append(("lost", result))
    row.note = f"not promised and found: {', '.join(sorted(names - mode.hidden)) or 'none'}"
    if "no sandbox" in name:  # else the search would prove nothing
        assert names >= FILES, result
