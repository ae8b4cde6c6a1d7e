"""If these fail, the shipped page is not the one built from the sources, or its scripts are broken."""

from __future__ import annotations

import subprocess

import pytest

from tests.nodejs import NODE, PAGE, packages


@pytest.mark.timeout(120)  # the first of these installs the packages
@pytest.mark.parametrize(
    "words",
    [["build.mjs", "--check"], ["--test", "--test-isolation=none"]],
    ids=["built files", "unit tests"],
)
def test_the_javascript_tests_pass(words: list[str]) -> None:
    """The shipped page equals its sources; its state is folded from the server's messages as the protocol defines them."""
    packages(PAGE)
    done = subprocess.run([NODE, *words], cwd=PAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
