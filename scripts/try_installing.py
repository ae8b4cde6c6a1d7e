"""Install Newel in every way that docs/install.md names, each into a temporary place, and run its main job.

    ./run python scripts/try_installing.py [WAY …]

Uses the package index that pip and uv are configured for. Installations from git use the last commit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {"coding-agent", "jexida", "lsimons-agent", "lsimons-agent-web", "mock-llm-server", "newel"}
OUTER = ("VIRTUAL_ENV", "UV", "UV_RUN_RECURSION_DEPTH", "PYTHONPATH")


def run(*words: str | Path, cwd: Path, **environ: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name not in OUTER}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=inherited | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def install_with_pip(folder: Path, what: str | Path) -> Path:
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    run(folder / "venv/bin/pip", "install", "--quiet", what, cwd=folder)
    return folder / "venv/bin"


def wheel(folder: Path) -> Path:
    """Install one wheel, without the other packages of the checkout beside it."""
    run("uv", "build", "--quiet", "--package", "newel", "--out-dir", folder / "dist", cwd=ROOT)
    (built,) = (folder / "dist").glob("*.whl")
    return install_with_pip(folder, built)


def checkout(folder: Path) -> Path:
    return install_with_pip(folder, ROOT)


def git(folder: Path) -> Path:
    return install_with_pip(folder, f"git+{ROOT.as_uri()}")


def pipx(folder: Path) -> Path:
    places = {"PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "bin")}
    run(
        "uv",
        "tool",
        "run",
        "--quiet",
        "pipx",
        "install",
        "--python",
        sys.executable,
        ROOT,
        cwd=folder,
        **places,
    )
    return folder / "bin"


def install_with_uv(folder: Path, what: str | Path) -> Path:
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    run("uv", "tool", "install", "--quiet", "--python", sys.executable, what, cwd=folder, **places)
    return folder / "bin"


def uv_checkout(folder: Path) -> Path:
    return install_with_uv(folder, ROOT)


def uv_git(folder: Path) -> Path:
    return install_with_uv(folder, f"git+{ROOT.as_uri()}")


WAYS: Mapping[str, Callable[[Path], Path]] = {
    "pip-wheel": wheel,
    "pip-checkout": checkout,
    "pip-git": git,
    "pipx-checkout": pipx,
    "uv-checkout": uv_checkout,
    "uv-git": uv_git,
}


def check(bin_: Path, folder: Path) -> None:
    """Check that the installation works, and installs Newel's commands and no others."""
    brought = {path.name for path in bin_.iterdir()} & {*COMMANDS, "go"}
    if brought != COMMANDS:
        sys.exit(f"{bin_} has {sorted(brought)}, not {sorted(COMMANDS)}")
    home = folder / "user"
    home.mkdir()
    environ = {"HOME": str(home), "TMPDIR": str(home), "NEWEL_HOME": str(home / "newel")}
    if not run(bin_ / "newel", "--version", cwd=home, **environ).startswith("newel "):
        sys.exit("newel --version says nothing")
    run(bin_ / "newel", "demo", cwd=home, **environ)
    if not list(home.glob("newel-demo-*/hello.py")):
        sys.exit("newel demo made no file")
    run(
        bin_ / "mock-llm-server",
        "check",
        ROOT / "packages/mock-llm-server/scenarios.json",
        cwd=home,
        **environ,
    )


def main() -> int:
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(try_way, sys.argv[1:] or WAYS):
            print(done, flush=True)
    return 0


def try_way(name: str) -> str:
    folder = Path(tempfile.mkdtemp(prefix=f"newel-{name}-"))
    begun = time.monotonic()
    try:
        check(WAYS[name](folder), folder)
    finally:
        shutil.rmtree(folder)
    return f"{name}: installed and used in {time.monotonic() - begun:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
