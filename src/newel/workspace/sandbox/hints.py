"""Says when a command most likely failed because of the sandbox, and how the user can allow more.

Programs report what the kernel says, such as "Read-only file system", which neither a model nor a user can tell from a fault of the machine.
"""

from __future__ import annotations

import re
from typing import Final, Unpack

import msgspec

from newel.workspace.port import Completed, DelegatingWorkspace, RunOptions, Workspace
from newel.workspace.sandbox.policy import SandboxPolicy, is_below

WAY_OUT: Final = "in config.toml, or start Newel with --sandbox off."

WRITING: Final = (
    'The sandbox lets commands change {writable}. To allow more, the user can set [sandbox] writable = ["/path"] '
    + WAY_OUT
)

PARTIAL: Final = (
    "The partial sandbox lets commands change {writable}, and read the system, but little of the home folder; temporary files belong into TMPDIR, not into "
    '/tmp. To allow more, the user can set [sandbox] writable = ["/path"] or readable = ["/path"] ' + WAY_OUT
)

READING: Final = (
    "The sandbox shows commands little of the home folder: toolchains and git's settings, no keys and no logins. To show more, the user can set "
    '[sandbox] readable = ["~/path"] ' + WAY_OUT
)

NETWORK: Final = (
    "The sandbox lets commands reach no server but those that the user allows, over HTTP and HTTPS through the proxy in HTTPS_PROXY; ssh reaches "
    'none. To allow one, the user can set [sandbox] domains = ["example.org"] ' + WAY_OUT
)

NETWORK_OF_A_HOST: Final = (
    "The sandbox on a host lets commands reach no server but those that they start themselves. The user can run the command there, or start Newel "
    "with --sandbox off."
)

SERVICES: Final = (
    "Commands in the sandbox reach no service of this machine, such as Docker or an SSH agent. The user can run the command themselves, or start "
    "Newel with --sandbox off."
)

LEAVE: Final = " Or run the command with `unsandboxed`, outside of the sandbox: the user is asked."

LOST: Final = (
    "New files in the home folder exist in the sandbox only, and are lost at its end. To keep them, the user can set "
    '[sandbox] writable = ["~/path"] ' + WAY_OUT
)

SIGNS: Final = {
    WRITING: r"Read-only file system|EROFS|\bos error 30\b",
    NETWORK: r"Not allowed by the sandbox|CONNECT tunnel failed, response 403|Could not resolve|Temporary failure in name resolution|"
    r"Name or service not known|\bENOTFOUND\b|\bEAI_AGAIN\b|Network is unreachable|\bENETUNREACH\b|failed to lookup address",
    SERVICES: r"Cannot connect to the Docker daemon|docker\.sock|podman\.sock|authentication agent|system_bus_socket",
}
"""Regular expressions of the outputs that a hint explains."""

DENIED: Final = r"Permission denied|EACCES|\bos error 13\b"
"""The same for ``PARTIAL``, where nothing is hidden, and closed instead."""

MISSING: Final = r"(?:~|{home})/[^\n]{0,300}?(?:No such file|not found|does not exist|ENOENT)|gh auth login"
"""The same for ``READING``, in one line. Bounded, because a hostile output must not take the time of its square."""

WRITTEN: Final = r"(?:>\s*|\b(?:tee|cp|mv|mkdir|touch|ln|install)\s(?:[^\n;|&]{0,300}?\s)?)[\"']?(?:~|\$HOME|\$\{HOME\}|{home})/([^\s\"';|&)]+)"
"""A path below the home folder that a command writes, by its words: such a command succeeds."""

MAX_SCANNED: Final = 20_000
"""Characters of each output, at its end."""


class SandboxHints(DelegatingWorkspace[Workspace]):
    """A workspace that adds each hint to the result of one command, the first that needs it: the model knows it from then on. ``may_leave``:
    it may ask to run a command outside.
    """

    def __init__(
        self, inner: Workspace, policy: SandboxPolicy, *, is_on_host: bool = False, may_leave: bool = False
    ) -> None:
        super().__init__(inner)
        self._policy = policy
        self._written = re.compile(WRITTEN.replace("{home}", re.escape(policy.home)))
        writable = "the project only, without settings such as .git" if policy.writable else "nothing"
        signs = dict(SIGNS)
        if is_on_host:
            signs[NETWORK_OF_A_HOST] = signs.pop(NETWORK)
        if policy.is_partial:
            writable = "the project only"
            signs[PARTIAL] = DENIED
        signs[READING] = MISSING.replace("{home}", re.escape(policy.home))
        leave = LEAVE if may_leave else ""
        self._signs = {hint.replace("{writable}", writable) + leave: sign for hint, sign in signs.items()}
        self._warns_of_loss = True

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> Completed:
        done = await self._inner.run(command, **options)
        if options.get("unsandboxed"):
            return done
        output = f"{done.stdout[-MAX_SCANNED:]}\n{done.stderr[-MAX_SCANNED:]}"
        hints = [hint for hint, sign in self._signs.items() if re.search(sign, output)]
        if self._warns_of_loss and self._is_lost(command):
            self._warns_of_loss = False
            hints.append(LOST)
        for hint in hints:
            self._signs.pop(hint, None)
            separator = "" if done.stderr.endswith("\n") or not done.stderr else "\n"
            done = msgspec.structs.replace(done, stderr=f"{done.stderr}{separator}{hint}\n")
        return done

    def _is_lost(self, command: str) -> bool:
        home = self._policy.home
        # Writing what is read-only fails, and is explained then.
        shown = [*self._policy.writable, *self._policy.readable]
        written = [f"{home}/{name}" for name in re.findall(self._written, command[:MAX_SCANNED])]
        return any(not is_below(path, shown) for path in written)
