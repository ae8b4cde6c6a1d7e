"""Says when a command most likely failed because of the sandbox, and how the user can allow more.

Programs report what the kernel says, such as "Read-only file system", which neither a model nor a user can tell from a fault of the
machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Unpack

import msgspec

from newel.text.format import one_line
from newel.workspace.port import CommandResult, DelegatingWorkspace, RunOptions, Workspace
from newel.workspace.sandbox.policy import SandboxPolicy, is_below

WAY_OUT: Final = "in ~/.newel/config.toml, or start Newel with --sandbox off."

WRITING: Final = (
    'The sandbox lets commands change {writable}. To allow more, the user can set [sandbox] writable = ["/path"] '
    + WAY_OUT
)

GIT: Final = (
    "In the sandbox git changes the repository only to commit, switch, merge and the like. The user can fetch, push and change its settings "
    'themselves, or allow it: set [sandbox] writable = ["{git}"] ' + WAY_OUT
)

GIT_ON_A_HOST: Final = (
    "In the sandbox of a host git does not change the repository. The user can commit there themselves, or allow it: set [sandbox] "
    'writable = ["{git}"] ' + WAY_OUT
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
    "{refused}Commands in the sandbox reach only servers that the user allows, over HTTP and HTTPS through the proxy in HTTPS_PROXY; ssh reaches none. To "
    "allow more, the user can set [sandbox] domains = [{servers}] " + WAY_OUT
)

REFUSED: Final = "Refused by the sandbox: {servers}."
"""Comes first: a screen shows the beginning of the last line."""

NETWORK_OF_A_HOST: Final = (
    "Commands in the sandbox on a host reach no server but those that they start themselves. The user can run the command there, or start Newel "
    "with --sandbox off."
)

LOOPBACK: Final = (
    "Commands in the sandbox have a localhost of their own: they reach servers that a command has started, not those of this machine. To reach "
    "those, the user can start Newel with --sandbox off."
)

SERVICES: Final = (
    "Commands in the sandbox reach no service of this machine, such as Docker or an SSH agent. The user can run the command themselves, or start "
    "Newel with --sandbox off."
)

LEAVE: Final = " Or run the command with `unsandboxed`, outside of the sandbox: the user is asked."

LOST: Final = (
    "Lost when the sandbox ends: {paths}. To keep what commands write into a folder of the home folder, the user can set "
    '[sandbox] writable = ["~/folder"] ' + WAY_OUT
)

IN_GIT: Final = r"\.git/[^\n]{0,300}?Read-only file system"
"""Explained by ``GIT`` and not by ``WRITING``."""

SIGNS: Final = {
    WRITING: r"Read-only file system|EROFS|\bos error 30\b",
    NETWORK: r"Not allowed by the sandbox|CONNECT tunnel failed, response 403|Could not resolve|Temporary failure in name resolution|"
    r"Name or service not known|\bENOTFOUND\b|\bEAI_AGAIN\b|Network is unreachable|\bENETUNREACH\b|failed to lookup address",
    SERVICES: r"Cannot connect to the Docker daemon|docker\.sock|podman\.sock|authentication agent|system_bus_socket",
    LOOPBACK: r"(?:localhost|127\.0\.0\.1|\[?::1\]?)[^\n]{0,200}?(?:refused|Couldn't connect|Could not connect)|"
    r"(?:ECONNREFUSED|refused|Could not connect)[^\n]{0,80}?(?:localhost|127\.0\.0\.1|::1)",
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

MAX_NAMED: Final = 3
"""Files that a hint names."""


class SandboxHints(DelegatingWorkspace[Workspace]):
    """A workspace that adds each hint to the result of one command, the first that needs it: the model knows it from then on.

    ``take_refused`` returns the servers that the proxy has refused since its last call, as rules that would allow them.
    ``may_leave``: the model may ask to run a command outside.
    """

    def __init__(
        self,
        inner: Workspace,
        policy: SandboxPolicy,
        take_refused: Callable[[], Sequence[str]],
        *,
        is_on_host: bool = False,
        may_leave: bool = False,
    ) -> None:
        super().__init__(inner)
        self._policy = policy
        self._take_refused = take_refused
        self._written = WRITTEN.replace("{home}", re.escape(policy.home))
        writable = (
            "the project only, without settings such as .git and scripts that hooks run"
            if policy.writable
            else "nothing"
        )
        self._git = ""
        if policy.writable and not policy.is_partial:
            top = policy.repository.common if policy.repository is not None else f"{policy.writable[0]}/.git"
            self._git = (GIT_ON_A_HOST if is_on_host else GIT).replace("{git}", top)
        signs = dict(SIGNS)
        if is_on_host:
            signs[NETWORK_OF_A_HOST] = signs.pop(NETWORK)
        if policy.is_partial:
            writable = "the project only"
            signs[PARTIAL] = DENIED
        signs[READING] = MISSING.replace("{home}", re.escape(policy.home))
        self._signs = {hint.replace("{writable}", writable): sign for hint, sign in signs.items()}
        self._said: set[str] = set()
        self._leave = LEAVE if may_leave else ""

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        done = await self._inner.run(command, **options)
        if options.get("unsandboxed"):
            return done
        refused = list(dict.fromkeys(self._take_refused()))
        if texts := self._explain(done, command, refused):
            separator = "" if done.stderr.endswith("\n") or not done.stderr else "\n"
            lines = "".join(f"{text}\n" for text in texts)
            return msgspec.structs.replace(done, stderr=f"{done.stderr}{separator}{lines}")
        return done

    def _explain(self, done: CommandResult, command: str, refused: Sequence[str]) -> list[str]:
        """The lines to add to the result of a command."""
        output = f"{done.stdout[-MAX_SCANNED:]}\n{done.stderr[-MAX_SCANNED:]}"
        hints: list[str] = []
        if self._git:
            output, found = re.subn(IN_GIT, "", output)
            hints += [self._git] * bool(found)
        hints += [hint for hint, sign in self._signs.items() if re.search(sign, output)]
        if refused and done.exit_code and NETWORK not in hints:  # a program need not print why it failed
            hints.append(NETWORK)
        lost = self._find_lost(command)
        hints += [LOST] * bool(lost)
        named = REFUSED.format(servers=", ".join(refused)) if refused else ""
        words = {
            "{refused}": f"{named} " if named else "",
            "{servers}": ", ".join(f'"{rule}"' for rule in refused) or '"example.org"',
            "{paths}": ", ".join(lost[:MAX_NAMED]) + " …" * (len(lost) > MAX_NAMED),
        }
        texts = [
            _fill(hint, words) + ("" if hint is LOST else self._leave)
            for hint in hints
            if hint not in self._said
        ]
        if named and NETWORK in hints and NETWORK in self._said:
            texts.insert(0, named)
        self._said.update(hints)
        return texts

    def _find_lost(self, command: str) -> list[str]:
        """What a command writes into the home folder, by its words, where it is not kept."""
        home = self._policy.home
        # Writing what is read-only fails, and is explained then.
        shown = [*self._policy.writable, *self._policy.readable]
        names: list[str] = re.findall(self._written, command[:MAX_SCANNED])
        return [one_line(f"~/{name}", 80) for name in names if not is_below(f"{home}/{name}", shown)]


def _fill(hint: str, words: Mapping[str, str]) -> str:
    for name, text in words.items():
        hint = hint.replace(name, text)
    return hint
