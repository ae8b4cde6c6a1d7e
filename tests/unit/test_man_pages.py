"""If these fail, `man newel` is missing after an installation, says what no longer holds, or is shown with gaps."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from newel.cli import MODULES
from newel.cli.main import agent_parser
from tests.requirements import require_program

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted((ROOT / "packaging/man").glob("*.1"))


def test_the_pages_say_what_the_parsers_say() -> None:
    """On every Python: they do not depend on how its argparse lays out a help."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/man_pages.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_each_command_that_is_installed_has_a_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    commands = {*project["project"]["scripts"], *(f"newel-{name}" for name in MODULES)}
    assert {page.stem for page in PAGES} == commands
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shared == {"packaging/man": "share/man/man1"}


def test_each_page_has_the_exit_status_where_a_reader_looks_for_it() -> None:
    for page in PAGES:
        text = page.read_text()
        if not text.startswith(".so ") and page.stem != "mock-llm-server":
            _, _, status = text.partition(".SH EXIT STATUS\n")
            assert (page.name, re.findall(r"^\\fB(\d)", status, re.MULTILINE)[:3]) == (
                page.name,
                ["0", "1", "2"],
            )
            assert (page.name, text.count("exit codes")) == (page.name, 0)


def test_troff_warns_of_nothing(tmp_path: Path) -> None:
    groff = require_program("groff", "groff-base")
    shutil.copytree(ROOT / "packaging/man", tmp_path / "man1")
    for page in PAGES:
        words = [groff, "-man", "-Tutf8", "-ww", "-z", f"-I{tmp_path}", tmp_path / "man1" / page.name]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (page.name, done.returncode, done.stderr) == (page.name, 0, "")


@pytest.mark.parametrize("page", ["newel", "coding-agent"])
def test_a_reader_sees_all_options(page: str, tmp_path: Path) -> None:
    groff = require_program("groff", "groff-base")
    shutil.copytree(ROOT / "packaging/man", tmp_path / "man1")
    words = [groff, "-man", "-Tascii", "-P-c", "-P-b", "-P-u", "-rLL=300n", f"-I{tmp_path}"]
    shown = subprocess.run(
        [*words, tmp_path / "man1" / f"{page}.1"], capture_output=True, text=True, check=True
    ).stdout
    options = {name for action in agent_parser("newel")._actions for name in action.option_strings}
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown)) >= options
    assert "start a conversation" in shown
