"""If these fail, an installation brings what nobody asked for: a stranger's package, or a command that hides another."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import Any

import pytest

import mock_llm_server
from tests.requirements import require_program

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


def test_the_mock_server_tells_the_version_of_its_package() -> None:
    assert (
        mock_llm_server.__version__
        == read(ROOT / "packages/mock-llm-server/pyproject.toml")["project"]["version"]
    )


@pytest.mark.parametrize("name", ["requirements.txt", "image-requirements.txt", "build-requirements.txt"])
def test_hashed_requirements_are_the_pins_and_name_no_registry(name: str) -> None:
    """Otherwise an image contains versions that no test ran with, or a company's mirror cannot serve it."""
    uv = read(ROOT / "pyproject.toml")["tool"]["uv"]
    pins = {
        pin.split(" ")[0] for key in ("constraint", "build-constraint") for pin in uv[f"{key}-dependencies"]
    }
    text = (ROOT / "packaging" / name).read_text()
    entries = text.replace("\\\n", "").splitlines()
    assert entries
    assert all(" --hash=sha256:" in entry for entry in entries)
    assert {entry.split(" ")[0] for entry in entries} <= pins
    assert "//" not in text


def test_the_image_has_what_a_fleet_and_telemetry_need() -> None:
    """Otherwise a worker in a container ends at its start. ``scripts/pin.py --hashes`` writes the file."""
    extras = read(ROOT / "pyproject.toml")["project"]["optional-dependencies"]
    needed = {re.split(r"[^\w.-]", each)[0] for name in ("fleet", "otel") for each in extras.get(name, [])}
    pinned = re.findall(r"(?m)^([\w.-]+)==", (ROOT / "packaging/image-requirements.txt").read_text())
    assert needed - {*pinned} == set()
    assert "image-requirements.txt" in (ROOT / "packaging/Containerfile").read_text()


@pytest.mark.parametrize("name", ["packaging/Containerfile", ".devcontainer/Containerfile"])
def test_containers_are_built_from_supported_pythons_and_files_that_exist(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
    known = {"FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "ENTRYPOINT"}
    assert {line.split(" ")[0] for line in lines} <= known
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":  # a name alone: the builder's own settings choose the registry
            base = re.fullmatch(r"python:3\.(\d+)-\w+( AS \w+)?", rest)
            assert base, line
            assert int(base[1]) >= 11
        if word == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)
            for path in re.findall(r"/src/([\w./-]+)", rest):
                assert (ROOT / path).is_file()


def test_the_devcontainer_has_what_ci_needs() -> None:
    folder = ROOT / ".devcontainer"
    container = json.loads((folder / "devcontainer.json").read_text())
    installed = set(shlex.split((folder / container["build"]["dockerfile"]).read_text()))
    ci = (ROOT / ".ci/run").read_text()
    packages = {each for found in re.findall(r"missing\+=\(([\w -]+)\)", ci) for each in found.split()}
    assert packages - installed == set()


def test_the_flake_starts_newel_with_the_pins() -> None:
    """With a stand-in for nixpkgs, which is not on this machine."""
    nix = require_program("nix-instantiate", "nix-bin")
    stub = (
        'let pkgs = { python313 = ""; uv = ""; git = ""; openssh = ""; ripgrep = ""; bubblewrap = ""; '
        "stdenv.isLinux = true; lib.optional = _: each: [ each ]; mkShell = each: each; "
        "writeShellApplication = each: each.text; }; in "
        f'((import {ROOT}/flake.nix).outputs {{ self = {{ outPath = "/src"; }}; nixpkgs = {{ '
        "lib.genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names); "
        "legacyPackages = { x86_64-linux = pkgs; }; }; }).packages.x86_64-linux.default"
    )
    done = subprocess.run([nix, "--eval", "--json", "-E", stub], capture_output=True, text=True, check=True)
    words = shlex.split(json.loads(done.stdout))
    assert (words[:4], words[-3:]) == (["exec", "uv", "tool", "run"], ["/src", "newel", "$@"])
    assert "/src/packaging/requirements.txt" in words
