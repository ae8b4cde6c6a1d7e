"""If these fail, commands start wrongly, or their output and exit codes are lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from newel.agent.errors import WorkspaceError
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import Workspace
from newel.workspace.process.environment import child_env
from newel.workspace.process.output import OutputLimits
from newel.workspace.process.runner import exit_descriptor_by_thread

pytestmark = pytest.mark.anyio


def root(workspace: Workspace) -> Path:
    return Path(workspace.root)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def words(path: str) -> list[str]:
    return sorted(Path(path).read_text().split())


async def test_both_outputs_and_the_exit_code_come_back(workspace: Workspace) -> None:
    done = await workspace.run("echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3)
    assert not done.timed_out
    assert not done.truncated
    assert done.output_file is None


async def test_a_command_runs_in_the_root_with_the_expected_shell(workspace: Workspace) -> None:
    done = await workspace.run("pwd; [[ abc == a* ]] && echo bash")
    assert done.stdout == f"{workspace.root}\nbash\n"


async def test_a_signal_gives_the_shells_exit_code(workspace: Workspace) -> None:
    assert (await workspace.run("kill -9 $$")).exit_code == 137


async def test_a_command_that_starts_with_a_dash_is_not_an_option(workspace: Workspace) -> None:
    done = await workspace.run("-x; echo ran")
    assert done.stdout == "ran\n"


async def test_no_start_up_file_is_read(tmp_path: Path) -> None:
    """Not even by a bash that believes it was started by sshd, as on a remote host."""
    (tmp_path / ".bashrc").write_text("echo sourced\n")
    environ = child_env({**os.environ, "HOME": str(tmp_path), "SSH_CLIENT": "1.2.3.4 5 6", "SHLVL": "0"})
    clean = LocalWorkspace(str(tmp_path), environ=environ)
    assert (await clean.run("echo ran")).stdout == "ran\n"


async def test_input_is_closed(workspace: Workspace) -> None:
    """Otherwise a command that asks takes the user's keys or hangs until the timeout."""
    done = await workspace.run("cat; read -r answer || echo none", timeout=5)
    assert done.stdout == "none\n"
    assert not done.timed_out


async def test_without_bash_sh_is_used(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/bin/sh")
    plain = LocalWorkspace(str(tmp_path), environ={"PATH": str(tmp_path / "bin")})
    assert (await plain.run("-x; echo ran")).stdout == "ran\n"


async def test_output_streams_while_the_command_runs(workspace: Workspace) -> None:
    """The command waits for a file that is created only after its first output was shown."""
    shown: list[str] = []

    async def on_output(piece: str) -> None:
        shown.append(piece)
        (root(workspace) / "seen").touch()

    done = await workspace.run(
        "echo first; until [ -e seen ]; do sleep 0.01; done; echo second", timeout=10, on_output=on_output
    )
    assert not done.timed_out
    assert "".join(shown) == done.stdout == "first\nsecond\n"


async def test_output_of_any_bytes_is_text(workspace: Workspace) -> None:
    done = await workspace.run(r"printf 'caf\351 \303\251\r\n'")
    assert done.stdout == "caf\ufffd é\r\n"


async def test_output_over_the_limit_is_cut_and_saved_to_a_file(tmp_path: Path) -> None:
    workspace = LocalWorkspace(
        str(tmp_path), limits=OutputLimits(output=1_000, spill_dir=str(tmp_path / "spill"))
    )
    done = await workspace.run("seq 10000; echo short >&2")
    assert done.truncated
    assert done.stderr == "short\n"
    assert done.output_file is not None
    assert done.output_file in done.stdout
    assert done.stdout.startswith("1\n2\n3\n")
    assert done.stdout.endswith("9999\n10000\n")
    assert len(done.stdout) < 1_300
    whole = "".join(f"{number}\n" for number in range(1, 10_001))
    assert words(done.output_file) == sorted(f"{whole}short".split())


async def test_a_command_that_cannot_start_gives_the_reason(workspace: Workspace) -> None:
    with pytest.raises(WorkspaceError, match=r"300,00\d bytes long"):
        await workspace.run(f"echo {'x' * 300_000}")
    with pytest.raises(WorkspaceError, match="null byte"):
        await workspace.run("echo \0")
    with pytest.raises(WorkspaceError, match="surrogate"):
        await workspace.run("echo \ud800")
    root(workspace).rmdir()
    with pytest.raises(WorkspaceError, match="No such file or directory"):
        await workspace.run("true")


async def test_no_descriptor_stays_open_after_many_commands(workspace: Workspace) -> None:
    """Otherwise a long session runs out of file descriptors."""
    await workspace.run("true")
    before = len(names(Path("/dev/fd")))
    for _ in range(20):
        await workspace.run("echo x; echo y >&2")
    assert len(names(Path("/dev/fd"))) == before


NO_DESCRIPTORS = """
import os, resource, anyio
from newel.agent.errors import WorkspaceError
from newel.workspace.local import LocalWorkspace

async def main():
    workspace = LocalWorkspace(".")
    await workspace.run("true")
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    failed = 0
    while True:
        try:
            await workspace.run("true")
            break
        except WorkspaceError:
            failed += 1
            os.close(taken.pop())
    print(failed > 5)

anyio.run(main)
"""


def test_running_out_of_descriptors_is_an_error_at_any_point_and_leaks_nothing(tmp_path: Path) -> None:
    """The script gets one descriptor more each time until a command can run."""
    command = [sys.executable, "-W", "error", "-c", NO_DESCRIPTORS]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("True\n", "")


async def test_commands_run_concurrently(workspace: Workspace) -> None:
    """Each waits for the other's file."""
    async with anyio.create_task_group() as group:
        for one, other in (("a", "b"), ("b", "a")):
            command = f"touch {one}; until [ -e {other} ]; do sleep 0.01; done"
            group.start_soon(lambda command=command: workspace.run(command, timeout=10))
    assert names(root(workspace)) == ["a", "b"]


def test_without_pidfds_a_thread_waits_for_the_end() -> None:
    """Such as macOS."""
    process = subprocess.Popen(["/bin/sh", "-c", "exit 7"])
    descriptor = exit_descriptor_by_thread(process)
    try:
        assert os.read(descriptor, 1) == b""
        assert process.wait() == 7
    finally:
        os.close(descriptor)
