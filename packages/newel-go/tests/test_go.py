"""In a checkout, a shell whose PATH begins with its environment must not lose the Go toolchain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.prefix, "bin")


@pytest.fixture
def toolchain(tmp_path: Path) -> str:
    go = tmp_path / "go"
    go.write_text('#!/bin/sh\necho "toolchain: $*"\n')
    go.chmod(0o755)
    return str(tmp_path)


def typed(path: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "go", *words], env={"PATH": path}, capture_output=True, text=True, check=False, timeout=20
    )


@pytest.mark.parametrize("words", [("version",), ("test", "./...", "-run", "x y")])
def test_a_subcommand_goes_to_the_toolchain(toolchain: str, words: tuple[str, ...]) -> None:
    done = typed(f"{BIN}:{toolchain}:/usr/bin:/bin", *words)
    assert (done.stdout, done.returncode) == (f"toolchain: {' '.join(words)}\n", 0)


def test_options_are_those_of_the_workbench(toolchain: str) -> None:
    assert "usage: go" in typed(f"{BIN}:{toolchain}:/usr/bin:/bin", "--help").stdout


def test_without_a_toolchain_the_workbench_lists_its_arguments() -> None:
    done = typed(str(BIN), "version")
    assert done.returncode == 2
    assert "Unexpected argument: version." in done.stderr
