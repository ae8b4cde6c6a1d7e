"""Pin the versions of a fresh resolution in pyproject.toml: as ``constraint-dependencies`` and
``build-constraint-dependencies`` of ``[tool.uv]``, and as lower bounds of the packages' dependencies and build
requirements. Upper bounds (``<5``) are written by hand and stay.

    ./run python scripts/pin.py            resolve and write
    ./run python scripts/pin.py --check    exit 1 if a used package has no pin, or a dependency another lower bound

``uv.lock`` names the registry of its resolution, so it is not in the repository; these pins give every checkout the
same versions from any registry.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
PROJECTS = [PYPROJECT, *sorted((ROOT / "packages").glob("*/pyproject.toml"))]
DEPENDENCIES = re.compile(r"(?ms)^(?:dependencies|socks|keyring|local|desktop|otel|requires) = \[\n.*?^\]$")
DEPENDENCY = re.compile(r'^    "(?P<name>[\w.-]+)(?P<extras>\[[^]]+\]|)(?P<bounds>[^"]*)",$', re.MULTILINE)
BLOCK = re.compile(r"^constraint-dependencies = \[\n(?:    .*\n)*\]\n", re.MULTILINE)
BUILD_BLOCK = re.compile(r"^build-constraint-dependencies = \[\n(?P<pins>(?:    .*\n)*)\]\n", re.MULTILINE)
PIN = re.compile(r'^    "([^"]+==[^"]+)",$', re.MULTILINE)


def resolve(text: str) -> list[str]:
    """The versions of all packages that the workspace needs, on all platforms and Pythons."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        (copy / "pyproject.toml").write_text(text)
        for project in PROJECTS[1:]:
            target = copy / "packages" / project.parent.name
            target.mkdir(parents=True)
            (target / "pyproject.toml").write_text(project.read_text())
        command = [
            "uv",
            "export",
            "--quiet",
            "--all-packages",
            "--all-groups",
            "--all-extras",
            "--no-hashes",
            "--no-emit-workspace",
            "--no-annotate",
        ]
        environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        done = subprocess.run(
            [*command, "--no-header"], cwd=copy, capture_output=True, text=True, check=True, env=environ
        )
    return pins_in(done.stdout)


def resolve_build(known: list[str]) -> list[str]:
    """The versions of all packages that building the workspace needs: the ``known`` ones, else the newest."""
    needed = {
        re.sub(r">=[^,]*,?", "", each)
        for project in PROJECTS
        for each in tomllib.loads(project.read_text())["build-system"]["requires"]
    }
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(known))
        constraints.flush()
        command = [
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--universal",
            "--python-version",
            "3.11",
            "--no-annotate",
        ]
        done = subprocess.run(
            [*command, "--no-header", "--constraint", constraints.name, "-"],
            input="\n".join(sorted(needed)),
            capture_output=True,
            text=True,
            check=True,
        )
    return pins_in(done.stdout)


def pins_in(output: str) -> list[str]:
    return sorted({line.replace('"', "'").strip() for line in output.splitlines() if "==" in line})


def block(name: str, pins: list[str]) -> str:
    return f"{name} = [\n" + "".join(f'    "{pin}",\n' for pin in pins) + "]\n"


def with_lower_bounds(text: str, pins: list[str]) -> str:
    """A pyproject.toml with the pinned versions as lower bounds of its dependencies."""
    versions = dict(pin.split(" ")[0].split("==") for pin in reversed(pins))

    def bound(found: re.Match[str]) -> str:
        caps = [part for part in found["bounds"].split(",") if part and not part.startswith(">=")]
        if found["name"] not in versions:
            return found[0]  # a package of the workspace
        bounds = ",".join([f">={versions[found['name']]}", *caps])
        return f'    "{found["name"]}{found["extras"]}{bounds}",'

    return DEPENDENCIES.sub(lambda block: DEPENDENCY.sub(bound, block[0]), text)


def main() -> int:
    is_check = "--check" in sys.argv[1:]
    text = PYPROJECT.read_text()
    pins = resolve(text if is_check else BLOCK.sub(block("constraint-dependencies", []), text))
    build_block = BUILD_BLOCK.search(text)
    known = PIN.findall(build_block["pins"]) if is_check and build_block else []
    build_pins = resolve_build(known)
    wrong = 0
    if is_check:
        missing = {*pins} - {*PIN.findall(BUILD_BLOCK.sub("", text))} | {*build_pins} - {*known}
        for name in sorted(missing):
            print(f"not pinned: {name}. Run scripts/pin.py and commit the result.")
            wrong = 1
    else:
        text = BLOCK.sub(lambda _: block("constraint-dependencies", pins), text)
        text = BUILD_BLOCK.sub(lambda _: block("build-constraint-dependencies", build_pins), text)
        PYPROJECT.write_text(text)
        print(f"{len(pins)} versions pinned in {PYPROJECT.name}, and {len(build_pins)} to build with")
    for path in PROJECTS:
        before = path.read_text()
        after = with_lower_bounds(before, [*pins, *build_pins])
        if is_check and after != before:
            print(f"{path.relative_to(ROOT)}: lower bounds are not the pinned versions. Run scripts/pin.py.")
            wrong = 1
        elif after != before:
            path.write_text(after)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
