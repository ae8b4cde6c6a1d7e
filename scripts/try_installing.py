"""Install Newel in every way that docs/install.md and packaging/ name, each into a temporary place, and use it.

    ./run python scripts/try_installing.py [--python PYTHON …] [WAY …]

Uses the package index that pip and uv are configured for. Installations from git use the last commit. The wheel is also
installed for each PYTHON.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {"coding-agent", "jexida", "lsimons-agent", "lsimons-agent-web", "mock-llm-server", "newel"}
OUTER = ("VIRTUAL_ENV", "UV", "UV_RUN_RECURSION_DEPTH", "PYTHONPATH")
PIP_SETTINGS = {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""Most of the modules that pip would compile are never imported here."""


def run(*words: str | Path, cwd: Path, **environ: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name not in OUTER}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=inherited | PIP_SETTINGS | environ,
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


@cache
def distributions() -> Path:
    """A folder with the wheels and source distributions of the published packages, built once."""
    dist = Path(tempfile.mkdtemp(prefix="newel-dist-"))
    atexit.register(shutil.rmtree, dist)
    for package in ("newel", "mock-llm-server"):
        run("uv", "build", "--quiet", "--package", package, "--out-dir", dist, cwd=ROOT)
    return dist


def built(pattern: str) -> Path:
    (found,) = distributions().glob(pattern)
    return found


def wheel(folder: Path) -> Path:
    """Install one wheel, without the other packages of the checkout beside it."""
    return install_with_pip(folder, built("newel-*.whl"))


def source(folder: Path) -> Path:
    return install_for(sys.executable, folder, built("newel-*.tar.gz"))


def wheel_for(python: str, folder: Path) -> Path:
    return install_for(python, folder, built("newel-*.whl"))


def install_for(python: str, folder: Path, what: Path) -> Path:
    """Install for this Python; with uv, because it has most packages in its cache by now."""
    run("uv", "venv", "--quiet", "--no-project", "--python", python, folder / "venv", cwd=folder)
    words = ("uv", "pip", "install", "--quiet", "--python", folder / "venv/bin/python")
    run(*words, what, cwd=folder)
    return folder / "venv/bin"


def mock_wheel(folder: Path) -> Path:
    return install_with_pip(folder, built("mock_llm_server-*.whl"))


def mock_source(folder: Path) -> Path:
    return install_with_pip(folder, built("mock_llm_server-*.tar.gz"))


def container(folder: Path) -> Path:
    """The steps that build the image of packaging/Containerfile, with hashes, in other folders."""
    lines = (ROOT / "packaging/Containerfile").read_text().replace("\\\n", "").splitlines()
    stage = lines[: lines.index("", lines.index("COPY . /src"))]
    run("git", "clone", "--quiet", ROOT, folder / "src", cwd=folder)
    environ = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line in stage:
        if line.startswith("RUN "):
            step = (
                line.removeprefix("RUN ").replace("/opt/", f"{folder}/opt/").replace("/src", f"{folder}/src")
            )
            run("sh", "-ec", step, cwd=folder, **environ)
    return folder / "opt/newel/bin"


def checkout(folder: Path) -> Path:
    return install_with_pip(folder, ROOT)


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
    "uv-sdist": source,
    "mock-wheel": mock_wheel,
    "mock-sdist": mock_source,
    "container": container,
    "pip-checkout": checkout,
    "pipx-checkout": pipx,
    "uv-checkout": uv_checkout,
    "uv-git": uv_git,
}


def check(name: str, bin_: Path, folder: Path) -> None:
    """Check that the installation works, and installs Newel's commands and no others."""
    wanted = {"mock-llm-server"} if name.startswith("mock-") else COMMANDS
    brought = {path.name for path in bin_.iterdir()} & {*COMMANDS, "go"}
    if brought != wanted:
        sys.exit(f"{bin_} has {sorted(brought)}, not {sorted(wanted)}")
    home = folder / "user"
    home.mkdir()
    environ = {"HOME": str(home), "TMPDIR": str(home), "NEWEL_HOME": str(home / "newel")}
    for command in sorted(wanted):
        said = run(bin_ / command, "--version", cwd=home, **environ)
        if not re.fullmatch(r"(newel|mock-llm-server) [\d.]+\n", said):
            sys.exit(f"{command} --version says {said!r}")
    scenarios = ROOT / "packages/mock-llm-server/scenarios.json"
    run(bin_ / "mock-llm-server", "check", scenarios, cwd=home, **environ)
    if "newel" in wanted:
        check_newel(bin_, home, environ)


def check_newel(bin_: Path, home: Path, environ: Mapping[str, str]) -> None:
    """Check the agent, its page, documentation, manual pages and completions."""
    run(bin_ / "newel", "demo", cwd=home, **environ)
    if not list(home.glob("newel-demo-*/hello.py")):
        sys.exit("newel demo made no file")
    manual = (bin_ / "newel").resolve().parent.parent / "share/man/man1"
    if "SYNOPSIS" not in (manual / "newel.1").read_text() or not (manual / "newel-undo.1").exists():
        sys.exit(f"{manual} has no manual pages")
    if "# Five minutes" not in run(bin_ / "newel", "docs", "quick-start", cwd=home, **environ):
        sys.exit("newel docs has no pages")
    for shell in ("bash", "zsh", "fish"):
        script = run(bin_ / "newel", "completion", shell, cwd=home, **environ)
        if "checkpoints" not in script:
            sys.exit(f"newel completion {shell} does not know the commands")
    check_page(bin_, home, environ)


def check_page(bin_: Path, home: Path, environ: Mapping[str, str]) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in OUTER}
    server = subprocess.Popen(
        [str(bin_ / "newel"), "web", "--port", "0"],
        cwd=home,
        env={**inherited, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # says that there is no model yet
        text=True,
    )
    try:
        addresses = (re.search(r"http://\S+", line) for line in server.stdout or ())
        address = next((found[0] for found in addresses if found), None)
        if address is None:
            sys.exit("newel web says no address")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=60) as answer:
            if b"app.js" not in answer.read():
                sys.exit("newel web serves no page")
    finally:
        server.terminate()
        server.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Install Newel in every way that is documented, and use it.")
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"only these: {', '.join(WAYS)}")
    parser.add_argument(
        "--python", action="append", default=[], help="also install the wheel for this Python"
    )
    options = parser.parse_args()
    ways = {name: WAYS[name] for name in options.ways or WAYS}
    ways |= {python: partial(wheel_for, python) for python in options.python}
    distributions()
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(try_way, ways, ways.values()):
            print(done, flush=True)
    return 0


def try_way(name: str, install: Callable[[Path], Path]) -> str:
    folder = Path(tempfile.mkdtemp(prefix="newel-install-"))
    begun = time.monotonic()
    try:
        check(name, install(folder), folder)
    finally:
        shutil.rmtree(folder)
    return f"{name}: installed and used in {time.monotonic() - begun:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
