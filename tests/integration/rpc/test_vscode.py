"""If this fails, the extension for VS Code cannot drive Newel, or cannot be installed."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.nodejs import EXTENSION, NODE, packages
from tests.support import BIN, Newel

MACHINE = {"newel.path", "newel.arguments", "newel.approval"}


@pytest.mark.slow  # ten seconds of a core; the same client is tested by test_node_client.py
@pytest.mark.timeout(180)  # installs the compiler
def test_the_extension_drives_a_real_newel(newel: Newel) -> None:
    """Its own tests: prompts, questions, cancellation, review, and the end of the process."""
    packages(EXTENSION)
    environ = {**newel.environ, "NEWEL_PATH": str(BIN / "newel"), "NEWEL_PROJECT": str(newel.project)}
    command = [NODE, "--test", "--test-isolation=none"]
    done = subprocess.run(command, cwd=EXTENSION, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow  # a compiler
@pytest.mark.timeout(180)
def test_its_types_hold() -> None:
    """A call that VS Code does not have fails in front of the user."""
    compiler = packages(EXTENSION) / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [NODE, str(compiler), "--noEmit"], cwd=EXTENSION, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_workspace_cannot_choose_what_runs() -> None:
    """A cloned repository starts a program of its own, or allows itself everything."""
    manifest = json.loads((EXTENSION / "package.json").read_text())
    settings = manifest["contributes"]["configuration"]["properties"]
    assert {name for name, setting in settings.items() if setting["scope"] == "machine"} == MACHINE
    assert manifest["capabilities"]["untrustedWorkspaces"]["supported"] is False


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_package_has_what_it_needs_and_no_more(tmp_path: Path) -> None:
    """The .vsix does not start, or carries sources and tests."""
    modules = packages(EXTENSION)
    vsce = modules / "@vscode" / "vsce" / "vsce"
    for command in (
        [NODE, "build.mjs"],
        [
            NODE,
            str(vsce),
            "package",
            "--no-dependencies",
            "--allow-missing-repository",
            "--out",
            str(tmp_path / "newel.vsix"),
        ],
    ):
        done = subprocess.run(command, cwd=EXTENSION, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(tmp_path / "newel.vsix") as package:
        files = {name for name in package.namelist() if name.startswith("extension/")}
        bundle = package.read("extension/dist/extension.cjs").decode()
    assert {name.lower() for name in files} == {
        "extension/dist/extension.cjs",
        "extension/icon.png",
        "extension/license.txt",
        "extension/package.json",
        "extension/readme.md",
    }
    assert 'require("newel-client")' not in bundle
