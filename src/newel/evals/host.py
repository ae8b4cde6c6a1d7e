"""The host of a trial whose project lies on one: this machine, by an ``sshd`` of the trial's own.

ssh starts the sshd for each connection, as its proxy. So no port is open, and the keys in the trial's folder open nothing
else. The sshd ends with the connection, and with it all commands there, as on every host; the connection ends with the
agent. All of ssh's configuration is in the trial's folder, too: the user's ``~/.ssh`` is neither read nor written.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from newel.evals.checks import write_files
from newel.evals.task import TaskError, TaskHost
from newel.workspace.ssh.target import Target

ALIAS: Final = "eval-host"
LOCAL: Final = "local"
"""The folder in that of a trial in which an agent is started whose project lies on a host."""

_FOLDER: Final = "host"
_ADMINISTRATORS: Final = ("/usr/sbin", "/usr/local/sbin", "/sbin")
"""Where ``sshd`` is, which is rarely in an ordinary user's ``PATH``."""

_PACKAGES: Final = {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "sshd": "openssh-server"}

_SERVER: Final = """\
HostKey {host_key}
AuthorizedKeysFile {accepted}
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitUserRC no
PrintMotd no
PrintLastLog no
UseDNS no
MaxSessions 100
SetEnv {home} {path}
"""

_CLIENT: Final = """\
Host {alias}
  ProxyCommand {proxy}
  IdentityFile {user_key}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
"""


class TrialHost(msgspec.Struct, frozen=True):
    """The ``address`` of the project on the host, and the file that ssh has to read, ``config``."""

    address: str
    config: Path


async def make_host(host: TaskHost, place: Path, project: Path) -> TrialHost:
    """Make a host with the folder ``project``, and the folder ``LOCAL``, for the trial in the folder ``place``. Raises
    ``TaskError`` if this machine has no sshd, or one that refuses to run.
    """
    programs = {name: _find_program(name) for name in _PACKAGES}
    folder = place / _FOLDER
    await anyio.to_thread.run_sync(_make_folders, host, place)
    for name in ("host_key", "user_key"):
        await _run(
            programs["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)
        )
    config = await anyio.to_thread.run_sync(_configure, folder, programs["sshd"])
    await _run(programs["sshd"], "-t", "-f", str(folder / "sshd_config"))
    return TrialHost(Target(ALIAS, path=str(project)).url, config)


def _find_program(name: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_ADMINISTRATORS])
    found = shutil.which(name, path=path)
    if found is None:
        raise TaskError(
            f"A task on a host needs {name}, which is not installed: `apt-get install {_PACKAGES[name]}`."
        )
    return found


def _make_folders(host: TaskHost, place: Path) -> None:
    (place / _FOLDER / "home").mkdir(parents=True)
    (place / LOCAL).mkdir()
    write_files(place / LOCAL, host.local)


def _configure(folder: Path, sshd: str) -> Path:
    """Write the configuration of both sides, and return the file of ssh's."""
    server, client, known = folder / "sshd_config", folder / "ssh_config", folder / "known_hosts"
    known.write_text(f"{ALIAS} {(folder / 'host_key.pub').read_text()}")
    server.write_text(
        _SERVER.format(
            host_key=_quoted(folder / "host_key"),
            accepted=_quoted(_escaped(folder / "user_key.pub")),
            home=_quoted(f"HOME={folder / 'home'}"),
            path=_quoted(f"PATH={os.environ.get('PATH', os.defpath)}"),
        )
    )
    proxy = [sshd, "-i", "-f", str(server), "-E", str(folder / "log")]
    client.write_text(
        _CLIENT.format(
            alias=ALIAS,
            proxy=_escaped(shlex.join(proxy)),
            user_key=_quoted(_escaped(folder / "user_key")),
            known=_quoted(_escaped(known)),
        )
    )
    return client


def _escaped(text: str | Path) -> str:
    """For options in which ``%h`` and the like stand for something."""
    return str(text).replace("%", "%%")


def _quoted(text: str | Path) -> str:
    quoted = str(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


async def _run(program: str, *words: str) -> None:
    done = await anyio.run_process([program, *words], check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise TaskError(f"{program} has failed: {said or f'exit code {done.returncode}'}")
