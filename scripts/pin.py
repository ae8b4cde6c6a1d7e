"""Write the versions of a fresh resolution into ``[tool.uv] constraint-dependencies`` of pyproject.toml.

    ./run python scripts/pin.py            resolve anew and write
    ./run python scripts/pin.py --check    exit 1 if a package in use has no pin

``uv.lock`` names the registry it was resolved from and so stays out of the repository; these pins give every
checkout the same versions from whichever registry it has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
BLOCK = re.compile(r"^constraint-dependencies = \[\n(?:    .*\n)*\]\n", re.MULTILINE)


def resolve(text: str) -> list[str]:
    """Every package that the workspace needs, with its version, for all platforms and Pythons."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        (copy / "pyproject.toml").write_text(text)
        for project in (ROOT / "packages").iterdir():
            target = copy / "packages" / project.name
            target.mkdir(parents=True)
            (target / "pyproject.toml").write_text((project / "pyproject.toml").read_text())
        command = [
            "uv",
            "export",
            "--quiet",
            "--all-packages",
            "--no-hashes",
            "--no-emit-workspace",
            "--no-annotate",
        ]
        environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        done = subprocess.run(
            [*command, "--no-header"], cwd=copy, capture_output=True, text=True, check=True, env=environ
        )
    return sorted({line.replace('"', "'").strip() for line in done.stdout.splitlines() if "==" in line})


def main() -> int:
    text = PYPROJECT.read_text()
    if "--check" in sys.argv[1:]:
        missing = sorted(set(resolve(text)) - set(re.findall(r'^    "([^"]+==[^"]+)",$', text, re.MULTILINE)))
        for name in missing:
            print(f"not pinned: {name}. Run scripts/pin.py and commit the result.")
        return 1 if missing else 0
    pins = resolve(BLOCK.sub("constraint-dependencies = [\n]\n", text))
    block = "constraint-dependencies = [\n" + "".join(f'    "{pin}",\n' for pin in pins) + "]\n"
    PYPROJECT.write_text(BLOCK.sub(lambda _: block, text))
    print(f"{len(pins)} versions pinned in {PYPROJECT.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
