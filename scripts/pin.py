"""Pin the versions of a fresh resolution in pyproject.toml: as ``constraint-dependencies`` and
``build-constraint-dependencies`` of ``[tool.uv]``, and as lower bounds of the packages' dependencies and build
requirements. Upper bounds (``<5``) are written by hand and stay. The hashes of what an installation, a container image and a
build download go into requirements.txt, image-requirements.txt and build-requirements.txt in packaging, for pip's
``--require-hashes``.

    ./run python scripts/pin.py                        resolve and write; versions younger than a week do not count
    ./run python scripts/pin.py --cooldown "0 days"    likewise, with all versions: for a fix that cannot wait, and for
                                                       registries that do not tell when a version was uploaded
    ./run python scripts/pin.py --hashes               write the files with hashes only, for the versions that are pinned
    ./run python scripts/pin.py --check                exit 1 if a used package has no pin, a dependency another lower
                                                       bound, or a hashed file another version

``uv.lock`` names the registry of its resolution, so it is not in the repository; these pins give every checkout the
same versions from any registry.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
PROJECTS = [PYPROJECT, *sorted((ROOT / "packages").glob("*/pyproject.toml"))]
DEPENDENCIES = re.compile(
    r"(?ms)^(?:dependencies|socks|keyring|local|desktop|fleet|otel|requires) = \[\n.*?^\]$"
)
DEPENDENCY = re.compile(r'^    "(?P<name>[\w.-]+)(?P<extras>\[[^]]+\]|)(?P<bounds>[^"]*)",$', re.MULTILINE)
BLOCK = re.compile(r"^constraint-dependencies = \[\n(?:    .*\n)*\]\n", re.MULTILINE)
BUILD_BLOCK = re.compile(r"^build-constraint-dependencies = \[\n(?P<pins>(?:    .*\n)*)\]\n", re.MULTILINE)
HASHED = {
    name: ROOT / "packaging" / name
    for name in ("requirements.txt", "image-requirements.txt", "build-requirements.txt")
}
IN_IMAGE = ("fleet", "otel")
"""The extras of the container image."""
COOLDOWN = "7 days"
"""Most malicious releases are found and removed within days."""
PIN = re.compile(r'^    "([^"]+==[^"]+)",$', re.MULTILINE)


def resolve(text: str, *cooldown: str) -> list[str]:
    """The versions of all packages that the workspace needs, on all platforms and Pythons."""
    every = ("--all-packages", "--all-groups", "--all-extras", "--no-hashes", "--no-emit-workspace")
    return pins_in(export(text, *every, *cooldown))


def export(text: str, *options: str) -> str:
    """The requirements that uv resolves for a workspace whose pyproject.toml is ``text``."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        (copy / "pyproject.toml").write_text(text)
        for project in PROJECTS[1:]:
            target = copy / "packages" / project.parent.name
            target.mkdir(parents=True)
            (target / "pyproject.toml").write_text(project.read_text())
        environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        command = ["uv", "export", "--quiet", "--no-annotate", "--no-header", *options]
        return run(command, cwd=copy, env=environ)


def run(command: list[str], **more: Any) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **more)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")  # uv has said why
    return done.stdout


def resolve_build(known: list[str], *options: str) -> str:
    """The requirements for building the workspace: the ``known`` versions, else the newest."""
    needed = {
        re.sub(r">=[^,]*,?", "", each)
        for project in PROJECTS
        for each in tomllib.loads(project.read_text())["build-system"]["requires"]
    }
    with tempfile.TemporaryDirectory() as folder:  # where uv finds no constraints of a project
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("\n".join(known))
        command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"]
        command += ["--no-annotate", "--no-header", "--constraint", str(constraints), *options, "-"]
        return run(command, cwd=folder, input="\n".join(sorted(needed)))


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


def wrong_in_hashed_files(pins: list[str]) -> list[str]:
    """Complaints about files that do not have the versions of ``pins``. Hashes are not compared: a release may get more
    files, and a registry may have fewer.
    """
    found: list[str] = []
    for name, path in HASHED.items():
        text = path.read_text() if path.exists() else ""
        entries = text.replace("\\\n", "").splitlines()
        versions = {entry.split("--hash")[0].strip() for entry in entries}
        if not entries or any(" --hash=sha256:" not in entry for entry in entries):
            found.append(f"packaging/{name}: a package has no hash.")
        bare = {pin.split(" ")[0] for pin in pins}
        found += [
            f"packaging/{name}: {each} is not pinned."
            for each in sorted(versions)
            if each.split(" ")[0] not in bare
        ]
    return found


def write_hashed_files(text: str, build_pins: list[str]) -> None:
    """Write the requirements of an installation and of a build, with hashes."""
    runtime = ("--no-default-groups", "--no-emit-workspace", "--package", "newel")
    extras = [option for name in IN_IMAGE for option in ("--extra", name)]
    HASHED["requirements.txt"].write_text(export(text, *runtime))
    HASHED["image-requirements.txt"].write_text(export(text, *runtime, *extras))
    HASHED["build-requirements.txt"].write_text(resolve_build(build_pins, "--generate-hashes"))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Pin the versions of a fresh resolution.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if something is not pinned"
    )
    parser.add_argument("--hashes", action="store_true", help="write only the files with hashes")
    parser.add_argument(
        "--cooldown", default=COOLDOWN, metavar="TIME", help="ignore younger versions (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> int:
    options = parse()
    text = PYPROJECT.read_text()
    if options.check:
        return check(text)
    if options.hashes:
        build_block = BUILD_BLOCK.search(text)
        write_hashed_files(text, PIN.findall(build_block["pins"]) if build_block else [])
        return 0
    cooldown = f"--exclude-newer={options.cooldown}"
    pins = resolve(BLOCK.sub(block("constraint-dependencies", []), text), cooldown)
    build_pins = pins_in(resolve_build(pins, cooldown))
    text = BLOCK.sub(lambda _: block("constraint-dependencies", pins), text)
    text = BUILD_BLOCK.sub(lambda _: block("build-constraint-dependencies", build_pins), text)
    PYPROJECT.write_text(text)
    for path in PROJECTS:
        path.write_text(with_lower_bounds(path.read_text(), [*pins, *build_pins]))
    write_hashed_files(PYPROJECT.read_text(), build_pins)
    print(f"{len(pins)} versions pinned in {PYPROJECT.name}, and {len(build_pins)} to build with")
    return 0


def check(text: str) -> int:
    pins = resolve(text)
    build_block = BUILD_BLOCK.search(text)
    known = PIN.findall(build_block["pins"]) if build_block else []
    build_pins = pins_in(resolve_build(known))
    missing = {*pins} - {*PIN.findall(BUILD_BLOCK.sub("", text))} | {*build_pins} - {*known}
    wrong = [f"not pinned: {name}." for name in sorted(missing)]
    for path in PROJECTS:
        before = path.read_text()
        if with_lower_bounds(before, [*pins, *build_pins]) != before:
            wrong.append(f"{path.relative_to(ROOT)}: lower bounds are not the pinned versions.")
    wrong += wrong_in_hashed_files([*pins, *build_pins])
    for complaint in wrong:
        print(complaint, "Run scripts/pin.py and commit the result.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
