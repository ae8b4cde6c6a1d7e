"""If this fails, a command changes something that is neither undone nor named. The tricks are those of the tests of review, which run
as they are: a trick that is added there counts here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.campaign.tally import CampaignTally

ROOT = Path(__file__).resolve().parents[2]
LARGE = 100
TRICKS = "tests/integration/review/test_escapes.py"


def test_changes_that_try_to_escape_the_record(tmp_path: Path, tally: CampaignTally, kills: int) -> None:
    if kills < LARGE:
        pytest.skip("a small campaign leaves these to the quick tests")
    report = tmp_path / "report.xml"
    words = ["-q", "-n", "0", "-m", "", f"--junitxml={report}", f"--basetemp={tmp_path}/tests"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words, TRICKS],
        cwd=ROOT,
        capture_output=True,
        timeout=900,
        check=False,
    )
    row = tally.row("changes that try to escape the record")
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 — written by pytest
        if case.find("skipped") is None:
            failed = [*case.findall("failure"), *case.findall("error")]
            with tally.attempt(row, case.get("name", "")) as found:
                found.extend(("lost", each.get("message", "")) for each in failed)
    assert row.tried >= 28
    row.note = "undone, or named at the end of the run"
