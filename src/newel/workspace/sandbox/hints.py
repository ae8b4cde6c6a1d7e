"""Says when a command most likely failed because of the sandbox, and how the user can allow more.

Programs report what the kernel says, such as "Read-only file system", which neither a model nor a user can tell from a fault of the machine.
"""

from __future__ import annotations

import re
from typing import Final, Unpack

import msgspec

from newel.workspace.port import Completed, DelegatingWorkspace, RunOptions, Workspace
from newel.workspace.sandbox.policy import SandboxPolicy

WAY_OUT: Final = "in config.toml, or start Newel with --sandbox off."

WRITING: Final = (
    'The sandbox lets commands change {writable}. To allow more, the user can set [sandbox] writable = ["/path"] '
    + WAY_OUT
)

READING: Final = (
    "The sandbox shows commands little of the home folder: toolchains and git's settings, no keys and no logins. To show more, the user can set "
    '[sandbox] readable = ["~/path"] ' + WAY_OUT
)

NETWORK: Final = (
    "The sandbox lets commands reach no server but those that the user allows, over HTTP and HTTPS through the proxy in HTTPS_PROXY; ssh reaches "
    'none. To allow one, the user can set [sandbox] domains = ["example.org"] ' + WAY_OUT
)

SERVICES: Final = (
    "Commands in the sandbox reach no service of this machine, such as Docker or an SSH agent. The user can run the command themselves, or start "
    "Newel with --sandbox off."
)

SIGNS: Final = {
    WRITING: r"Read-only file system|EROFS|\bos error 30\b",
    NETWORK: r"Not allowed by the sandbox|CONNECT tunnel failed, response 403|Could not resolve|Temporary failure in name resolution|"
    r"Name or service not known|\bENOTFOUND\b|\bEAI_AGAIN\b|Network is unreachable|\bENETUNREACH\b|failed to lookup address",
    SERVICES: r"Cannot connect to the Docker daemon|docker\.sock|podman\.sock|authentication agent|system_bus_socket",
}
"""Regular expressions of the outputs that a hint explains."""

MISSING: Final = r"(?:~|{home})/\S*.*(?:No such file|not found|does not exist|ENOENT)|gh auth login"
"""The same for ``READING``, in one line."""

MAX_SCANNED: Final = 20_000
"""Characters of each output, at its end."""


class SandboxHints(DelegatingWorkspace[Workspace]):
    """A workspace that adds each hint to the result of one command, the first that needs it: the model knows it from then on."""

    def __init__(self, inner: Workspace, policy: SandboxPolicy) -> None:
        super().__init__(inner)
        writable = "the project only, without settings such as .git" if policy.writable else "nothing"
        self._signs = {hint.replace("{writable}", writable): sign for hint, sign in SIGNS.items()}
        self._signs[READING] = MISSING.replace("{home}", re.escape(policy.home))

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> Completed:
        done = await self._inner.run(command, **options)
        output = f"{done.stdout[-MAX_SCANNED:]}\n{done.stderr[-MAX_SCANNED:]}"
        for hint in [hint for hint, sign in self._signs.items() if re.search(sign, output)]:
            del self._signs[hint]
            separator = "" if done.stderr.endswith("\n") or not done.stderr else "\n"
            done = msgspec.structs.replace(done, stderr=f"{done.stderr}{separator}{hint}\n")
        return done
