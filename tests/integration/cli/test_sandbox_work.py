"""If these fail, daily work does not run in the sandbox, and users turn it off. No test needs a network."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nodejs import NODE, NPM
from tests.processes import until_listening
from tests.requirements import require_program
from tests.support import Newel, bash, scenario

require_program("bwrap", "bubblewrap")

WithModel = Callable[..., Newel]


def run_in_sandbox(with_model: WithModel, prepare: Callable[[Path], None], *commands: str) -> list[str]:
    """Run a conversation whose model calls these commands; returns their results. Nobody answers questions."""
    newel = with_model(scenario("go", *map(bash, commands), {"content": "Done."}))
    prepare(newel.project)
    result = newel("--sandbox", "workspace", "go")
    assert result.returncode == 0, result.stderr
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def make_npm_project(project: Path) -> None:
    manifest = b'{"name": "left", "version": "1.0.0", "main": "index.js"}'
    with tarfile.open(project / "left-1.0.0.tgz", "w:gz") as package:
        for name, data in (("package.json", manifest), ("index.js", b"module.exports = () => 'left';")):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            package.addfile(member, io.BytesIO(data))
    (project / "package.json").write_text(
        '{"name": "app", "version": "1.0.0", "dependencies": {"left": "file:left-1.0.0.tgz"}}'
    )


@pytest.mark.slow  # like the next two a story of a tool; pytest's is quick, and notices when the sandbox is too narrow
def test_npm_installs_builds_and_serves(with_model: WithModel) -> None:
    npm = f"PATH={Path(NODE).parent}:$PATH {NODE} {NPM}"
    serve = (
        "require('http').createServer((_, answer) => answer.end(require('left')())).listen(8099, '127.0.0.1')"
    )
    results = run_in_sandbox(
        with_model,
        make_npm_project,
        f"{npm} install --package-lock-only --no-audit --no-fund && rm -rf node_modules && {npm} ci --no-audit --no-fund",
        f'{NODE} -e "{serve}" > server.log 2>&1 & {until_listening(8099)}',
        f"{NODE} -e \"fetch('http://127.0.0.1:8099').then(a => a.text()).then(console.log)\"",
    )
    assert "added 1 package" in results[0]
    assert results[2].startswith("stdout:\nleft\n"), results


def make_uv_project(project: Path) -> None:
    uv = require_program("uv")
    shutil.copy(uv, project / "uv")  # the sandbox has an empty /tmp, where a checkout may be
    info = "2.1\nName: right\nVersion: 1.0\n"
    files = {
        "right.py": "WORD = 'right'\n",
        "right-1.0.dist-info/METADATA": f"Metadata-Version: {info}",
        "right-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "right-1.0.dist-info/RECORD": "right.py,,\nright-1.0.dist-info/METADATA,,\nright-1.0.dist-info/WHEEL,,\nright-1.0.dist-info/RECORD,,\n",
    }
    (project / "wheels").mkdir()
    with zipfile.ZipFile(project / "wheels/right-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    (project / "pyproject.toml").write_text(
        '[project]\nname = "app"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["right"]\n'
        '[tool.uv]\npackage = false\nno-index = true\nfind-links = ["wheels"]\n'
    )


@pytest.mark.slow
def test_uv_syncs_and_runs(with_model: WithModel) -> None:
    results = run_in_sandbox(
        with_model,
        make_uv_project,
        f"./uv sync -q --offline --no-python-downloads --python {sys.executable}",
        ".venv/bin/python -c 'import right; print(right.WORD)'",
    )
    assert results[1].startswith("stdout:\nright\n"), results


def make_cargo_project(project: Path) -> None:
    files = {
        "Cargo.toml": '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nleft = { path = "left" }\n[workspace]\n',
        "src/main.rs": 'fn main() { println!("{}", left::word()); }\n',
        "left/Cargo.toml": '[package]\nname = "left"\nversion = "1.0.0"\nedition = "2021"\n',
        "left/src/lib.rs": 'pub fn word() -> &\'static str { "left" }\n#[test]\nfn works() { assert_eq!(word(), "left") }\n',
    }
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.slow
def test_cargo_builds_and_tests(with_model: WithModel) -> None:
    require_program("cargo")
    cargo = "PATH=/usr/bin:/usr/local/bin:$PATH cargo"  # that of rustup needs the home folder of its user
    results = run_in_sandbox(
        with_model,
        make_cargo_project,
        f"{cargo} build --quiet && target/debug/app",
        f"{cargo} test --package left 2>&1",
    )
    assert results[0].startswith("stdout:\nleft\n"), results
    assert "1 passed" in results[1]


def make_python_project(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import socket\n"
        "def test_files(tmp_path):\n    (tmp_path / 'a').write_text('b')\n"
        "def test_loopback():\n    s = socket.create_server(('127.0.0.1', 0))\n    socket.create_connection(s.getsockname()).close()\n"
    )


@pytest.mark.parametrize(
    "more",
    ["", pytest.param("-p xdist -n 2", marks=pytest.mark.slow)],  # two seconds of a core: three processes
)
def test_pytest_passes(with_model: WithModel, more: str) -> None:
    (result,) = run_in_sandbox(
        with_model,
        make_python_project,
        f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q {more} test_it.py",  # some load for seconds
    )
    assert "2 passed" in result


def make_home_of_links(home: Path) -> None:
    """Settings of git in a repository of dotfiles, a version of Node behind a link, an environment of Python, and a key."""
    files = {
        "dotfiles/gitconfig": "[include]\n  path = ~/dotfiles/work\n[include]\n  path = ~/.ssh/config\n",
        ".ssh/config": "very secret\n",
        "dotfiles/work": "[user]\n  name = Ada\n  email = ada@example.org\n",
        ".nvm/versions/v1/lib/node.sh": "#!/bin/sh\necho node v1\n",
        ".thing/bin/thing": "#!/bin/sh\necho thing\n",
        ".thing/config.yml": "very secret\n",
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (home / ".gitconfig").symlink_to("dotfiles/gitconfig")
    (home / ".nvm/versions/v1/bin").mkdir()
    (home / ".nvm/versions/v1/bin/node").symlink_to("../lib/node.sh")
    (home / ".nvm/current").symlink_to("versions/v1")
    venv.create(home / "environments/tools", with_pip=False)


def test_tools_of_the_home_folder_are_found_and_its_keys_are_not(with_model: WithModel) -> None:
    commands = (
        "git commit -q --allow-empty -m One && git log --format=%an",
        "node; thing",
        "python -c 'import sys; print(sys.prefix)'",
        "cat ~/.thing/config.yml ~/.ssh/config",
    )
    newel = with_model(scenario("go", *map(bash, commands), {"content": "Done."}))
    make_home_of_links(newel.home)
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    folders = [newel.home / name for name in (".nvm/current/bin", ".thing/bin", "environments/tools/bin")]
    result = newel(
        "--sandbox", "workspace", "go", PATH=os.pathsep.join([*map(str, folders), newel.environ["PATH"]])
    )
    assert result.returncode == 0, result.stderr
    found = [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]
    assert "Ada" in found[0]
    assert "node v1\nthing\n" in found[1]
    assert str(newel.home / "environments/tools") in found[2]
    assert "very secret" not in found[3]
    assert "No such file" in found[3]
