"""If these fail, a command on a host changes what is not recorded, and the user does not hear of it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from newel.agent.events import AgentEvent, ErrorEvent
from newel.workspace.snapshots.uncovered import LocalEntries, UncoveredChanges, find_uncovered
from newel.workspace.ssh.snapshots import host_entries
from newel.workspace.ssh.snapshots.host_entries import HostEntries
from newel.workspace.ssh.snapshots.rooted_shell import RootedShell
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.thread_bridge import ThreadBridge
from tests.integration.review.recorded_agent import recorded_agent
from tests.opened_host import open_host
from tests.properties import one_in
from tests.requirements import require_program
from tests.review_bench import calls, says
from tests.shell_host import ShellHost, link_busybox
from tests.sshd import Sshd

pytestmark = pytest.mark.anyio

PATHS = [
    ".git",
    "sub/.git",
    "linked/.git",
    "node_modules",
    "target",
    "ignored.log",
    "odd \nname/x",
    "gone",
]
"""What snapshots of the project do not cover."""

ACTS = {
    "nothing": "true",
    "a hook": "echo x > .git/hooks/pre-commit",
    "a hook is replaced": "mv .git/hooks/old .git/hooks/new",
    "settings": "echo x >> .git/config",
    "an exclusion": "echo x >> .git/info/exclude",
    "a commit": "git -c user.name=n -c user.email=e commit -q --allow-empty -m x",
    "a new repository": "rm -rf sub && git init -q sub",
    "a name of a repository": "echo 'gitdir: /elsewhere' > linked/.git",
    "a build folder": "echo x > target/deep/er/out",
    "a file in it goes": "rm node_modules/deep/x",
    "only the mode": "chmod +x node_modules/deep/x",
    "an ignored file": "echo x >> ignored.log",
    "an odd name": "echo x > 'odd \nname/x/new\nfile'",
    "a folder goes": "rm -rf target",
    "a hidden file": "touch target/.hidden",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for below in ("sub", "linked", "node_modules/deep", "target/deep/er", "odd \nname/x"):
        (folder / below).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "init", "-q", str(folder / "sub")], check=True)
    for below in ("node_modules/deep/x", "ignored.log", ".git/hooks/old", "linked/.git", "target/deep/er/a"):
        (folder / below).write_text("1")
    return folder


@pytest.fixture(params=["gnu", "busybox"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ShellHost]:
    if request.param == "gnu":
        made = ShellHost()
    else:
        require_program("busybox")
        (programs := tmp_path / "programs").mkdir()
        link_busybox(programs)
        made = ShellHost(("busybox", "sh"), path=str(programs))
    yield made
    made.close()


async def found_on(host: ShellHost, root: Path, since_ns: int) -> UncoveredChanges:
    bridge = ThreadBridge(host)
    shell = RootedShell(bridge, str(root))
    return await bridge.run_in_thread(lambda: find_uncovered(HostEntries(shell, PATHS, since_ns), PATHS))


@pytest.mark.slow  # seconds of waiting
@pytest.mark.parametrize("act", one_in(2, list(ACTS)))
async def test_a_host_finds_what_this_machine_finds(act: str, root: Path, host: ShellHost) -> None:
    time.sleep(1.1)  # noqa: ASYNC251 — some hosts tell whole seconds
    since_ns = time.time_ns() - 50_000_000  # the clock of files is coarse
    subprocess.run(["sh", "-c", ACTS[act]], cwd=root, check=True)  # noqa: ASYNC221 — takes no time
    here = find_uncovered(LocalEntries(str(root), since_ns), PATHS)
    assert await found_on(host, root, since_ns) == here
    assert len(host.asked) <= 5  # with the programs and the clock, which are asked for anyway
    assert bool(here.files or here.trusted) == (act not in {"nothing", "a folder goes"})


async def test_what_is_too_large_is_named_so(
    root: Path, host: ShellHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_entries, "MAX_ENTRIES", 50)
    for number in range(60):
        (root / "target" / str(number)).touch()
    os.utime(root / "target")
    found = await found_on(host, root, time.time_ns() + 10**9)
    assert found == UncoveredChanges(unchecked=["target/"])


async def test_the_end_of_a_run_names_them(sshd: Sshd, tmp_path: Path, root: Path) -> None:
    said: list[str] = []

    def on_event(event: AgentEvent) -> None:
        if isinstance(event, ErrorEvent):
            said.append(event.message)

    script = [
        calls(
            "bash", command="echo x > .git/hooks/pre-commit; echo x > target/deep/er/out; echo seen > a.txt"
        ),
        says("Done."),
        calls("bash", command="true"),
        says("Done."),
    ]
    (root / ".gitignore").write_text("target\n")
    async with (
        open_host(Target("own", path=str(root)), config=str(sshd.config)) as workspace,
        recorded_agent(workspace, tmp_path / "home", script) as agent,
    ):
        agent.subscribe(on_event)
        await agent.prompt("go")
        words = "\n".join(said)
        assert "Changed, but not recorded: .git/hooks/pre-commit. Git obeys these files" in words
        assert "so undo does not restore it: target/." in words
