"""If this fails, docs/providers.md promises what no test checks, or leaves out a provider."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow  # collects the contract tests in a process of its own
def test_the_page_has_every_provider_and_every_contract_test() -> None:
    script = ROOT / "scripts" / "provider_matrix.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
