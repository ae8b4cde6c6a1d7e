"""If these fail, the Electron shell in ``desktop/`` is broken, or uses Electron in a way that its types do not allow."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.nodejs import DESKTOP, NODE, packages


@pytest.mark.timeout(120)  # the first of these installs the packages
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            ["node_modules/typescript/bin/tsc", "--project", "tsconfig.json"],
            marks=pytest.mark.slow,  # a compiler: ten seconds of a core
        ),
        pytest.param(
            ["--test", "--test-isolation=none", "tests/*.test.js"],
            marks=pytest.mark.slow,  # eight seconds of a core; tests/desktop/test_shell.py has two quick tests
        ),
    ],
    ids=["types", "unit tests"],
)
def test_the_shells_own_checks_pass(words: list[str]) -> None:
    """Electron itself is not installed for tests, so its types are what says that the calls exist."""
    packages(DESKTOP)
    done = subprocess.run([NODE, *words], cwd=DESKTOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_has_the_scripts_of_design_a() -> None:
    package = json.loads((DESKTOP / "package.json").read_text())
    assert package["main"] == "main.js"
    assert (package["scripts"]["start"], package["scripts"]["build"]) == ("electron .", "electron-builder")
    lock = (DESKTOP / "package-lock.json").read_text()
    assert '"resolved"' not in lock, (
        "a lock file names no registry: npm install --omit-lockfile-registry-resolved"
    )
