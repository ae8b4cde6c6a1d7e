"""If these fail, an installation brings what nobody asked for: a stranger's package, or a command that hides another."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECTS = sorted((ROOT / "packages").glob("*/pyproject.toml"))


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def test_installing_adds_newels_commands_and_shadows_no_other() -> None:
    assert {each.name for each in distribution("newel").entry_points} == {
        "coding-agent",
        "jexida",
        "lsimons-agent",
        "lsimons-agent-web",
        "mock-llm-server",
        "newel",
    }


def test_newel_depends_on_no_package_of_this_checkout() -> None:
    """They are on no index: whoever registers such a name there could run code on every installation of Newel."""
    own = {read(path)["project"]["name"] for path in PROJECTS}
    assert own == {"mock-llm-server", "newel-go"}
    needed = {re.split(r"[^\w.-]", each)[0] for each in requires("newel") or []}
    assert not needed & {*own, "newel"}


@pytest.mark.parametrize(
    "project", [ROOT / "pyproject.toml", ROOT / "packages/mock-llm-server/pyproject.toml"]
)
def test_every_dependency_has_a_tested_lower_bound(project: Path) -> None:
    """Otherwise an installation beside older packages seems to work, and breaks later."""
    pins = set(read(ROOT / "pyproject.toml")["tool"]["uv"]["constraint-dependencies"])
    for each in read(project)["project"]["dependencies"]:
        found = re.match(r"([\w.-]+)>=([\w.]+)(,|$)", each)
        assert found, each
        assert f"{found[1]}=={found[2]}" in pins


@pytest.mark.parametrize("project", [ROOT / "pyproject.toml", *PROJECTS])
def test_build_requirements_are_pinned_in_a_checkout_and_bounded_elsewhere(project: Path) -> None:
    """Otherwise a release of the build backend breaks every installation from a checkout or a git URL, or changes its
    content.
    """
    pins = set(read(ROOT / "pyproject.toml")["tool"]["uv"]["build-constraint-dependencies"])
    for each in read(project)["build-system"]["requires"]:
        found = re.fullmatch(r"([\w.-]+)>=([\w.]+),<\d+", each)
        assert found, each
        assert f"{found[1]}=={found[2]}" in pins


def test_every_published_package_contains_the_licence() -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    assert (ROOT / "packages/mock-llm-server/LICENSE").read_bytes() == licence
