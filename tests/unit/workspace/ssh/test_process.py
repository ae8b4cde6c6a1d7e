"""If these fail, commands on a host lose output or exit codes, or leak keys."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.agent.errors import ConnectionLost, WorkspaceError
from newel.workspace.process.output import OutputLimits
from newel.workspace.ssh.process import run_on_host, run_program_on_host
from tests.unit.workspace.ssh.hosts import (
    LIMITS,
    SHELLS,
    client,
    output_of,
    program,
    wait_for_condition,
    with_programs,
    with_shell,
)

pytestmark = pytest.mark.anyio

HOST = client()
ANY_BYTE = os.fsdecode(bytes(range(1, 256)))
names = st.binary(min_size=1, max_size=12).filter(lambda name: b"\0" not in name).map(os.fsdecode)


def words(path: str) -> list[str]:
    return sorted(Path(path).read_text().split())


@pytest.mark.parametrize("shell", SHELLS)
async def test_outputs_and_the_exit_code_are_returned_from_any_shell(shell: str, tmp_path: Path) -> None:
    host = with_shell(tmp_path / "bin", shell)
    command = f"pwd; printf %s {shlex.quote(ANY_BYTE)} >&2; exit 255"
    done = await run_on_host(host, command, root=str(tmp_path), limits=LIMITS)
    assert (done.stdout, done.exit_code) == (f"{tmp_path}\n", 255)
    assert done.stderr == os.fsencode(ANY_BYTE).decode(errors="replace")
    for number in (2, 9, 15):
        done = await run_on_host(host, f"kill -{number} $$", root="/", limits=LIMITS)
        assert (done.stdout, done.stderr, done.exit_code) == ("", "", 128 + number)


@pytest.mark.parametrize("login", ["bash", "zsh", "fish", "tcsh"])
async def test_sh_runs_the_command_with_any_login_shell(login: str) -> None:
    assert await output_of(client(program(login), "-c"), 'echo "it\'s $((6 * 7))!"') == "it's 42!\n"


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names.filter(lambda name: "/" not in name and name not in (".", "..")), value=names)
async def test_folders_and_variables_with_any_name_and_value_are_passed(
    tmp_path: Path, name: str, value: str
) -> None:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    command = 'touch seen; printf %s "$VALUE" > value'
    await run_on_host(HOST, command, root=str(folder), limits=LIMITS, env={"VALUE": value})
    assert (folder / "value").read_bytes() == os.fsencode(value)


async def test_a_command_has_no_terminal(tmp_path: Path) -> None:
    """Otherwise it asks and waits, pages its output, or runs a start-up file."""
    (tmp_path / "rc").write_text("echo sourced\n")
    environ = {**os.environ, "BASH_ENV": str(tmp_path / "rc"), "ENV": str(tmp_path / "rc")}
    said = await output_of(client("bash", "-c", environ=environ), "cat; read -r a || echo none; echo $PAGER")
    assert said == "none\ncat\n"


async def test_keys_of_the_hosts_user_do_not_reach_a_command() -> None:
    keys = {"HOST_API_KEY": "k1", "db_password": "k2", "BUILD_TOKENS": "seen", "A_LIST": "x\nB_TOKEN=y z=q"}
    environ = {**os.environ, **keys, "FORCE_COLOR": "1"}
    command = 'echo $HOST_API_KEY $db_password $FORCE_COLOR $GIVEN_TOKEN $BUILD_TOKENS; echo "$A_LIST"'
    done = await run_on_host(
        client(environ=environ), command, root="/", limits=LIMITS, env={"GIVEN_TOKEN": "g"}
    )
    assert done.stdout == "g seen\nx\nB_TOKEN=y z=q\n"


async def test_keys_that_are_not_text_do_not_reach_a_command() -> None:
    keys = {"LC_ALL": "C.UTF-8", "HOST_API_KEY": ANY_BYTE, "OTHER_TOKEN": "\n"}
    command = "echo ${HOST_API_KEY-gone} ${OTHER_TOKEN-gone}"
    done = await run_on_host(client(environ={**os.environ, **keys}), command, root="/", limits=LIMITS)
    assert done.stdout == "gone gone\n"


@pytest.mark.parametrize("missing", ["env", "sed", "grep"])
async def test_if_keys_cannot_be_removed_no_command_runs(missing: str, tmp_path: Path) -> None:
    host = with_programs(tmp_path / "bin", *{"sh", "sleep", "setsid", "env", "sed", "grep"} - {missing})
    done = await run_on_host(host, "echo ran", root="/", limits=LIMITS)
    assert (done.exit_code, done.stdout) == (126, "")
    assert (
        done.stderr
        == "Not run: secrets cannot be withheld from commands here. Install env, sed and grep on this host.\n"
    )


async def test_a_command_that_starts_with_a_dash_is_not_an_option() -> None:
    assert (await run_on_host(HOST, "-x; echo ran", root="/", limits=LIMITS)).stdout == "ran\n"


async def test_without_bash_sh_is_used(tmp_path: Path) -> None:
    host = with_programs(tmp_path / "bin", "sh", "sleep", "setsid", "env", "sed", "grep")
    assert (await run_on_host(host, "-x; echo ran", root="/", limits=LIMITS)).stdout == "ran\n"


async def test_output_of_start_up_files_is_not_the_commands_output() -> None:
    host = client("sh", "-c", 'echo welcome; echo trouble >&2; eval "$0"')
    assert await output_of(host, "echo out") == "out\n"


async def test_output_that_resembles_its_end_is_output() -> None:
    line = "\x1e0123456789abcdef0123456789abcdef 000\x1e"
    done = await run_on_host(HOST, f"printf '{line}'; printf '{line}' >&2; exit 1", root="/", limits=LIMITS)
    assert (done.stdout, done.stderr, done.exit_code) == (line, line, 1)


async def test_output_streams_while_the_command_runs(tmp_path: Path) -> None:
    """The command waits for a file that is created only after its first output was shown."""
    shown: list[str] = []

    async def on_output(piece: str) -> None:
        shown.append(piece)
        (tmp_path / "seen").touch()

    command = "echo first; until [ -e seen ]; do sleep 0.01; done; echo second"
    done = await run_on_host(HOST, command, root=str(tmp_path), limits=LIMITS, on_output=on_output)
    assert "".join(shown) == done.stdout == "first\nsecond\n"


async def test_a_long_output_is_cut_and_saved_to_a_file(tmp_path: Path) -> None:
    limits = OutputLimits(output=1_000, spill_dir=str(tmp_path))
    done = await run_on_host(HOST, "seq 1000000; echo short >&2", root="/", limits=limits)
    assert (done.truncated, done.stderr) == (True, "short\n")
    assert done.stdout.startswith("1\n2\n3\n")
    assert done.stdout.endswith("999999\n1000000\n")
    assert done.output_file is not None
    whole = "".join(f"{number}\n" for number in range(1, 1_000_001))
    assert words(done.output_file) == sorted(f"{whole}short".split())


async def test_a_long_command_works_and_an_overlong_one_is_refused() -> None:
    assert await output_of(HOST, f"printf %s {'x' * 120_000} | wc -c") == "120000\n"
    with pytest.raises(WorkspaceError, match=r"300,00\d bytes long"):
        await run_on_host(HOST, f"echo {'x' * 300_000}", root="/", limits=LIMITS)


async def test_a_command_that_cannot_start_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "shut").mkdir(mode=0)
    wanted = {"gone": "No such file or directory", "file": "Not a directory"}
    for name, reason in (
        wanted.items() if os.geteuid() == 0 else {**wanted, "shut": "Permission denied"}.items()
    ):
        with pytest.raises(WorkspaceError, match=f"could not be started in .*{name}: {reason}"):
            await run_on_host(HOST, "touch ran", root=str(tmp_path / name), limits=LIMITS)
    with pytest.raises(WorkspaceError, match="null byte"):
        await run_on_host(HOST, "echo \0", root="/", limits=LIMITS)
    with pytest.raises(WorkspaceError, match="surrogate"):
        await run_on_host(HOST, "echo \ud800", root="/", limits=LIMITS)
    with pytest.raises(WorkspaceError, match="'A B' is not a valid name"):
        await run_on_host(HOST, "true", root="/", limits=LIMITS, env={"A B": "x"})


async def test_no_process_list_shows_the_input_of_a_command() -> None:
    command = (
        'echo "$SECRET" | wc -c; for each in /proc/[0-9]*/cmdline; do tr "\\0" " " <$each; done 2>/dev/null'
    )
    done = await run_on_host(HOST, command, root="/", limits=LIMITS, env={"SECRET": "k-a1b2c3d4e5"})
    assert done.stdout.startswith("13\n")
    assert "printf %b" in done.stdout  # the shell that knows it
    assert "a1b2c3d4e5" not in done.stdout


async def test_two_commands_at_once_stay_separate(tmp_path: Path) -> None:
    """Each waits for the other's file."""
    said: list[str] = []

    async def run(one: str, other: str) -> None:
        command = f"touch {one}; until [ -e {other} ]; do sleep 0.01; done; echo {one}"
        said.append(await output_of(HOST, command, str(tmp_path)))

    async with anyio.create_task_group() as group:
        group.start_soon(run, "a", "b")
        group.start_soon(run, "b", "a")
    assert sorted(said) == ["a\n", "b\n"]


async def test_a_failing_client_is_quoted_and_one_that_ends_early_leaves_the_outcome_unknown() -> None:
    with pytest.raises(ConnectionLost, match=r"The connection to here failed: no; way there\."):
        await run_on_host(
            client("sh", "-c", "echo no >&2; echo way there >&2; exit 255"), "true", root="/", limits=LIMITS
        )
    with pytest.raises(ConnectionLost, match=r"here was lost while.* unknown and it was not run again"):
        await run_on_host(HOST, "kill -9 $PPID", root="/", limits=LIMITS)


async def test_a_command_that_arrived_incompletely_does_not_run(tmp_path: Path) -> None:
    host = client("sh", "-c", """tr -d '\\n' | sh -c "$0" """)
    with pytest.raises(ConnectionLost):
        await run_on_host(host, "touch ran", root=str(tmp_path), limits=LIMITS, timeout=0.2)
    assert not (tmp_path / "ran").exists()


async def test_a_program_whose_input_arrived_incompletely_does_not_run(tmp_path: Path) -> None:
    async def on_stdout(_: bytes) -> None:
        raise AssertionError

    host = client("sh", "-c", 'head -c 10000 | sh -c "$0"')
    with pytest.raises(WorkspaceError):
        await run_program_on_host(
            host, ["touch", f"{tmp_path}/ran"], stdin=b"x" * 10_000, on_stdout=on_stdout
        )
    assert not (tmp_path / "ran").exists()


async def test_a_program_reads_any_bytes_and_its_output_is_passed_on_unchanged() -> None:
    data = os.urandom(3_000_000)
    pieces: list[bytes] = []

    async def on_stdout(piece: bytes) -> None:
        pieces.append(piece)

    argv = ["sh", "-c", "cat; echo progress >&2; exit 7"]
    done = await run_program_on_host(HOST, argv, stdin=data, on_stdout=on_stdout)
    assert (done.exit_code, done.stderr) == (7, b"progress\n")
    assert b"".join(pieces) == data


async def test_a_program_that_reads_nothing_or_is_missing_says_so() -> None:
    async def on_stdout(piece: bytes) -> None:
        raise AssertionError(piece)

    assert (
        await run_program_on_host(HOST, ["true"], stdin=b"x" * 300_000, on_stdout=on_stdout)
    ).exit_code == 0
    done = await run_program_on_host(HOST, ["no-such-program"], on_stdout=on_stdout)
    assert done.exit_code == 127
    assert b"no-such-program" in done.stderr


async def test_the_input_of_a_program_is_in_no_file(tmp_path: Path) -> None:
    pieces: list[bytes] = []

    async def on_stdout(piece: bytes) -> None:
        pieces.append(piece)

    host = client(environ={**os.environ, "TMPDIR": str(tmp_path)})
    await run_program_on_host(
        host, ["sh", "-c", f"ls -A {tmp_path}; cat"], stdin=b"words", on_stdout=on_stdout
    )
    assert b"".join(pieces) == b"words"
    nowhere = client(environ={**os.environ, "TMPDIR": str(tmp_path / "gone")})
    with pytest.raises(WorkspaceError, match="could not be written to the temporary folder"):
        await run_program_on_host(nowhere, ["cat"], stdin=b"words", on_stdout=on_stdout)


async def test_an_error_of_a_listener_ends_the_program(tmp_path: Path) -> None:
    async def on_stdout(_: bytes) -> None:
        raise ConnectionAbortedError

    argv = ["sh", "-c", f"echo $$ > {tmp_path}/pid; echo x; exec sleep 1000"]
    with pytest.raises(ConnectionAbortedError):
        await run_program_on_host(HOST, argv, on_stdout=on_stdout)
    await wait_for_condition(
        lambda: not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists(), "its end"
    )
