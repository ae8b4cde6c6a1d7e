"""If this fails, the extension for VS Code cannot be used, or does what nobody has allowed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.nodejs import EXTENSION, NODE, packages
from tests.support import BIN, Newel, bash

WithModel = Callable[..., Newel]


def scenarios() -> dict[str, Any]:
    def steps(*responses: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"response": response} for response in responses]

    done = {"content": "Done."}
    hidden = {"content": "red \033[31m, reversed \u202e, and nothing \u200b."}
    replies = {
        "hello there": steps({"content": "Hello from the model."}),
        "make a file": steps(bash("echo made > made.txt"), done),
        "wait long": steps(bash("sleep 60"), done),
        "escape": steps(hidden),
    }
    return {"scenarios": [{"name": name, "trigger": name, "steps": each} for name, each in replies.items()]}


def build() -> None:
    packages(EXTENSION)
    subprocess.run([NODE, "build.mjs"], cwd=EXTENSION, check=True, timeout=60)


@pytest.mark.timeout(120)  # installs the bundler
def test_the_extension_drives_a_real_newel(with_model: WithModel) -> None:
    """Its own tests, with a stand-in for VS Code: prompts, approvals, stop, review, undo, a killed Newel."""
    build()
    newel = with_model(scenarios())
    environ = newel.environ | {"NEWEL_PATH": str(BIN / "newel"), "NEWEL_PROJECT": str(newel.project)}
    command = [NODE, "--test", "--test-isolation=none"]
    done = subprocess.run(command, cwd=EXTENSION, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(120)
def test_its_types_are_those_of_vs_code() -> None:
    modules = packages(EXTENSION)
    compiler = str(modules / "typescript" / "bin" / "tsc")
    done = subprocess.run(
        [NODE, compiler, "-p", "tsconfig.json"], cwd=EXTENSION, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_folder_can_change_its_settings() -> None:
    """The settings of a folder come with a cloned repository."""
    manifest = json.loads((EXTENSION / "package.json").read_text())
    properties = manifest["contributes"]["configuration"]["properties"]
    assert {each["scope"] for each in properties.values()} == {"machine"}
    assert manifest["capabilities"]["untrustedWorkspaces"]["supported"] is False


def test_each_command_of_the_manifest_exists() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    source = (EXTENSION / "src" / "extension.js").read_text()
    names = {each["command"].removeprefix("newel.") for each in manifest["contributes"]["commands"]}
    for name in names:
        assert f"function {name}(" in source
