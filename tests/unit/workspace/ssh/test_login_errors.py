"""If these fail, a failed login hides its reason and remedy, or ssh accepts an unknown host."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import anyio
import pytest

from newel.agent.errors import HostUnreachable, WorkspaceError
from newel.workspace.port import DirectoryEntry
from newel.workspace.ssh.connection_errors import explain
from newel.workspace.ssh.shell import HostShell, ShellEnded
from newel.workspace.ssh.target import Target
from tests.opened_host import open_host
from tests.requirements import require_program
from tests.sshd import Sshd

pytestmark = pytest.mark.anyio

Refused = Callable[..., object]


async def refused(config: Path, target: str = "host", **options: float) -> HostUnreachable:
    with pytest.raises(HostUnreachable) as error:
        async with open_host(Target.parse(target), config=str(config)):
            pass
    return error.value


@pytest.fixture
def configured(sshd: Sshd, tmp_path: Path) -> Callable[..., Path]:
    """An ssh_config with other options, which come first and therefore win."""

    def write(first: str = "", **options: object) -> Path:
        path = tmp_path / "ssh_config"
        path.write_text(first + sshd.client_config(**options))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] — as each test says
        return path

    return write


class TestHostKeys:
    async def test_an_unknown_host_key_is_refused_with_a_remedy(
        self, configured: Callable[..., Path], tmp_path: Path
    ) -> None:
        known = tmp_path / "known"
        known.touch()
        for first in ("", "StrictHostKeyChecking no\n", "StrictHostKeyChecking accept-new\n"):
            error = await refused(configured(first, known=known))
            assert error.kind == "host_key"
            assert "`ssh host`" in str(error)
            assert known.read_bytes() == b"", "nothing is learned on the way"

    async def test_a_changed_host_key_is_refused_with_a_warning(
        self, sshd: Sshd, configured: Callable[..., Path], tmp_path: Path
    ) -> None:
        known = tmp_path / "known"
        known.write_text(f"{sshd.alias} {(sshd.folder / 'user_key.pub').read_text()}")
        error = await refused(configured("StrictHostKeyChecking no\n", known=known))
        assert error.kind == "host_key_changed"
        assert "HAS CHANGED" in str(error)
        assert sshd.alias in str(error), "what to forget"


class TestReasons:
    async def test_a_refused_key_is_reported(self, sshd: Sshd, configured: Callable[..., Path]) -> None:
        error = await refused(configured(key="host_key"))
        assert error.kind == "key"
        assert "ssh-copy-id" in str(error)
        assert f"{sshd.folder}/host_key" in str(error)

    async def test_an_unknown_host_name_is_reported(self, configured: Callable[..., Path]) -> None:
        error = await refused(configured("Host host\nHostName a..b\n"))
        assert error.kind == "name"

    async def test_a_closed_port_is_reported(self, configured: Callable[..., Path]) -> None:
        with socket.socket() as there:  # bound, but not listening
            there.bind(("127.0.0.1", 0))
            error = await refused(configured(port=there.getsockname()[1]))
        assert error.kind == "port"

    async def test_a_server_that_is_not_ssh_is_reported(self, configured: Callable[..., Path]) -> None:
        error = await refused(configured("ProxyCommand sh -c 'echo HTTP/1.1 400 Bad Request'\n"))
        assert error.kind == "network"

    async def test_a_failed_program_on_the_way_is_reported_with_its_error(
        self, configured: Callable[..., Path]
    ) -> None:
        error = await refused(configured("ProxyCommand no-such-program %h\n"))
        assert "no-such-program" in str(error)

    async def test_a_host_with_other_algorithms_is_reported(self, configured: Callable[..., Path]) -> None:
        """As old appliances have."""
        error = await refused(configured("HostKeyAlgorithms ssh-rsa\n"))
        assert error.kind == "config"
        assert "no matching host key type found. Their offer: ssh-ed25519" in str(error)
        assert "pid=" not in str(error)

    async def test_a_missing_remote_path_is_reported(self, sshd: Sshd) -> None:
        error = await refused(sshd.config, "host:/no/such/path")
        assert error.kind == "path"
        assert "/no/such/path on host" in str(error)
        assert "No such file or directory" in str(error)
        assert "Not a directory" in str(await refused(sshd.config, "host:/etc/passwd"))

    async def test_invalid_ssh_options_are_reported(self, configured: Callable[..., Path]) -> None:
        error = await refused(configured("NoSuchOption yes\n"))
        assert error.kind == "config"
        assert "nosuchoption" in str(error).lower()

    async def test_a_user_who_may_not_log_in_is_reported(self, sshd: Sshd) -> None:
        host = sshd.login("nologin", "echo 'This account is currently not available.'; exit 1")
        error = await refused(sshd.config, host)
        assert error.kind == "shell"
        assert f"{host} does not allow you to log in" in str(error)

    async def test_a_login_that_ends_says_why_in_its_output(self, sshd: Sshd) -> None:
        host = sshd.login("sftp", "echo 'This service allows sftp connections only.'; exit 1")
        error = await refused(sshd.config, host)
        assert f"{host} did not start a shell: This service allows sftp connections only." in str(error)

    async def test_a_host_without_required_programs_is_reported(self, sshd: Sshd) -> None:
        folder = sshd.folder / "bin-few"
        folder.mkdir()
        for name in ("sh", "env", "head", "cat", "id", "uname", "ls", "date"):
            (folder / name).symlink_to(require_program(name))
        host = sshd.login("few", f'PATH={folder}; export PATH; eval "$SSH_ORIGINAL_COMMAND"')
        error = await refused(sshd.config, host)
        assert error.kind == "shell"
        assert "sha256sum" in str(error)
        assert "readlink" in str(error)

    async def test_a_missing_ssh_program_is_reported(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        error = await refused(sshd.config)
        assert error.kind == "config"
        assert "OpenSSH" in str(error)

    async def test_a_login_shell_that_prints_endlessly_is_given_up(self, sshd: Sshd) -> None:
        error = await refused(sshd.config, sshd.login("endless", "exec yes"))
        assert error.kind == "shell"


async def test_broken_remote_programs_give_an_error_and_no_crash(sshd: Sshd) -> None:
    folder = sshd.folder / "bin-nonsense"
    folder.mkdir()
    for name, answer in {"stat": "non sense", "readlink": "", "sha256sum": "none"}.items():
        (folder / name).write_text(f"#!/bin/sh\necho {answer}\n")
        (folder / name).chmod(0o755)
    host = sshd.login("nonsense", f'PATH={folder}:$PATH; export PATH; eval "$SSH_ORIGINAL_COMMAND"')
    project = sshd.project("nonsense")
    (project / "link").symlink_to("f")
    async with open_host(Target(host, path=str(project)), config=str(sshd.config)) as workspace:
        with pytest.raises(WorkspaceError, match="malformed"):
            await workspace.stat(str(project))
        with pytest.raises(WorkspaceError, match="malformed"):
            await workspace.stats([str(project)])
        with pytest.raises(WorkspaceError):
            await workspace.write_bytes(f"{project}/f", b"x", expect="0" * 64)
        assert await workspace.resolve("link/x") == f"{project}/x"
        assert await workspace.list(str(project)) == [DirectoryEntry("link", "other", is_link=True)]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("ssh: connect to host h port 22: Connection timed out", "network"),
        ("ssh: connect to host h port 22: No route to host", "network"),
        ("ssh: Could not resolve hostname h: nodename nor servname provided, or not known", "name"),
        ("Received disconnect from 1.2.3.4 port 22:2: Too many authentication failures", "key"),
        (
            "Unable to negotiate with 1.2.3.4 port 22: no matching host key type found. Their offer: ssh-rsa",
            "config",
        ),
        ("kex_exchange_identification: read: Connection reset by peer", "network"),
        ("Timeout, server h not responding.", "network"),
        ("mux_client_request_session: session request failed: Session open refused by peer", "sessions"),
        ("ControlSocket path too long \x1b[31m\x07", "shell"),
        ("", "shell"),
    ],
)
def test_messages_of_ssh_are_explained_and_harmless(words: str, kind: str) -> None:
    problem = explain(words, Target("h", "u"))
    assert problem.kind == kind
    assert problem.message
    assert problem.remedy
    assert (problem.message + problem.remedy).isprintable()


async def test_a_connection_closed_without_a_message_is_reported() -> None:
    # ssh logs "banner exchange: Broken pipe" below the requested level, and fails with its own exit code.
    shell = HostShell(["sh", "-c", "exit 255"], dict(os.environ))
    try:
        with pytest.raises(ShellEnded) as ended:
            await shell.start("/")
    finally:
        await shell.close()
    assert explain(ended.value.message, Target("h")).kind == "network"


NOISE = "head -c 300000 /dev/urandom; echo; echo noise >&2; "


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh", "dash"])
async def test_each_login_shell_works_however_much_it_prints(sshd: Sshd, shell: str) -> None:
    host = sshd.login(f"login-{shell}", f'{NOISE} exec {require_program(shell)} -c "$SSH_ORIGINAL_COMMAND"')
    async with open_host(Target(host), config=str(sshd.config)) as workspace:
        assert await workspace.resolve("~") == str(sshd.home)
        assert (await workspace.run("echo out; exit 3")).exit_code == 3


@pytest.fixture
def agent() -> Generator[Path]:
    """The socket of a user's agent."""
    with tempfile.TemporaryDirectory(prefix="newel-agent-", dir="/tmp") as folder:
        socket = Path(folder) / "socket"
        with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it listens
            yield socket
            process.terminate()


async def test_a_configuration_for_other_sessions_does_no_harm(
    configured: Callable[..., Path], tmp_path: Path, agent: Path
) -> None:
    """Terminals, commands, ports and agents of the user's own sessions, and options of another system's ssh; in a file that is named
    from the current folder.
    """
    hostile = (
        "IgnoreUnknown UseKeychain,GSSAPI*",
        "UseKeychain yes",
        "GSSAPIDelegateCredentials yes",
        "RequestTTY force",
        "RemoteCommand echo mine",
        "SessionType none",
        "StdinNull yes",
        "ForkAfterAuthentication yes",
        "ControlMaster auto",
        f"ControlPath {tmp_path}/theirs",
        "ControlPersist yes",
        "ForwardAgent yes",
        f"IdentityAgent {agent}",
        "ForwardX11 yes",
        "ExitOnForwardFailure yes",
        "LocalForward 1 localhost:1",
        "PermitLocalCommand yes",
        f"LocalCommand touch {tmp_path}/local",
        "LogLevel DEBUG3",
        "BatchMode no",
        "EscapeChar a",
    )
    config = os.path.relpath(configured("\n".join([*hostile, ""])))  # noqa: ASYNC240 — no file is touched
    async with open_host(Target("own", path=str(tmp_path)), config=config) as workspace:
        await workspace.write_bytes(f"{tmp_path}/f", b"a.\na.\r\n~.\n")
        assert await workspace.read_bytes(f"{tmp_path}/f") == b"a.\na.\r\n~.\n"
        assert (await workspace.run("echo $SSH_AUTH_SOCK$DISPLAY; tty")).stdout == "\nnot a tty\n"
        assert [entry.name for entry in await workspace.list(str(tmp_path))] == ["f", "ssh_config"]
        ssh = workspace.connection.ssh
        options = (await ssh.run(["ssh", "-G", *ssh.session_args()[1:]])).stdout
        assert b"gssapidelegatecredentials yes" not in options, "tickets are keys, too"
    running = (await anyio.run_process(["ps", "-A", "-o", "args"])).stdout.decode()
    assert f"/newel-ssh-{os.getpid()}-" not in running
