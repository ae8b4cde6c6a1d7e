"""Why a host cannot be worked on, in words, each with its remedy: ssh's own words read by one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from newel.agent.errors import HostUnreachable
from newel.workspace.ssh.target import Target

Kind = Literal[
    "name", "port", "network", "host_key", "host_key_changed", "key", "sessions", "config", "shell", "path"
]


class SshProblem(NamedTuple):
    """``what`` went wrong and what to do: whole sentences. ``passing``: it may be gone at the next try."""

    kind: Kind
    message: str
    remedy: str
    is_transient: bool = False

    def error(self) -> HostUnreachable:
        return HostUnreachable(f"{self.message} {self.remedy}", kind=self.kind)


_TABLE: Final[tuple[tuple[str, SshProblem], ...]] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|[Hh]ost key for .* has changed|Offending .* key in",
        SshProblem(
            "host_key_changed",
            "THE HOST KEY OF {host} HAS CHANGED. Someone may be listening in, or the host was set up anew.",
            "Ask who runs the host for its fingerprint. Only if it is the new one, forget the old key "
            "(`ssh-keygen -R {name}`) and accept the new one with `{ssh_command}`.",
        ),
    ),
    (
        r"No .* host key is known for|Host key verification failed",
        SshProblem(
            "host_key",
            "The host key of {host} is not known here, so it is not certain who answers.",
            "Run `{ssh_command}` once, compare the fingerprint that it shows with the host's own, and accept it there.",
        ),
    ),
    (
        r"Could not resolve hostname|Name or service not known|nodename nor servname",
        SshProblem(
            "name",
            "No host is called {host}.",
            "Check the spelling; aliases are defined in ~/.ssh/config.",
            is_transient=True,
        ),
    ),
    (
        r"Connection refused",
        SshProblem(
            "port",
            "{host} answers, but no SSH server listens on that port.",
            "Check the port (`ssh://user@host:port/path`), and that sshd runs there.",
            is_transient=True,
        ),
    ),
    (
        r"timed out|No route to host|Network is unreachable|Host is down|not responding",
        SshProblem(
            "network",
            "{host} does not answer.",
            "Check that it is switched on and that this network reaches it; a firewall or a VPN may be in the way.",
            is_transient=True,
        ),
    ),
    (
        r"Too many authentication failures",
        SshProblem(
            "key",
            "{host} broke off after too many keys that do not fit.",
            "Name the right one in ~/.ssh/config: `IdentityFile …` and `IdentitiesOnly yes`.",
        ),
    ),
    (
        r"UNPROTECTED PRIVATE KEY FILE|bad permissions",
        SshProblem(
            "key",
            "The private key for {host} may be read by others, so ssh does not use it.",
            "Run `chmod 600` on the key file.",
        ),
    ),
    (
        r"Permission denied|no mutual signature|sign_and_send_pubkey",
        SshProblem(
            "key",
            "{host} does not let {user} in: no key was accepted.{tried}",
            "Newel never asks for a password: put your public key there with `ssh-copy-id`, or unlock it with "
            "`ssh-add`, until `{ssh_command}` works without one.",
        ),
    ),
    (
        r"[Bb]ad configuration option|configuration options, terminating|Bad owner or perm|Can't open user config file",
        SshProblem("config", "ssh does not accept its configuration.", "Fix what it reports: {words}"),
    ),
    (
        r"no matching .* found",
        SshProblem(
            "config",
            "This ssh and {host} have no way of encrypting or of proving keys in common.",
            "Allow one of those that the host offers in ~/.ssh/config: {words}",
        ),
    ),
    (
        r"Session open refused by peer|administratively prohibited|open failed",
        SshProblem(
            "sessions",
            "{host} allows no more sessions on one connection.",
            "Raise MaxSessions in its sshd_config; Newel needs one and one more for each command that runs.",
        ),
    ),
    (
        r"Connection (closed|reset)|Broken pipe|closed by remote host|kex_exchange_identification",
        SshProblem(
            "network",
            "{host} closed the connection.",
            "It may be starting, or turn away so many connections at once; its sshd's log says more.",
            is_transient=True,
        ),
    ),
    (
        r"This account is currently not available|nologin|account (is|has) (locked|expired)",
        SshProblem(
            "shell", "{user} may not log in on {host}.", "Give the account a login shell: `chsh -s /bin/sh`."
        ),
    ),
)


def explain(stderr: str, target: Target, *, keys: Sequence[str] = ()) -> SshProblem:
    """What ssh's own ``words`` mean. ``keys`` are the files of the keys that it could have tried."""
    known_as = re.search(r"ssh-keygen .*-R (\S+)", stderr)
    names = {
        "host": target.host,
        "name": known_as[1] if known_as else target.host,
        "user": target.user or "you",
        "ssh_command": target.ssh_command,
        "tried": f" Tried: {', '.join(keys)}, and what the agent holds." if keys else "",
        "words": _last_line(stderr),
    }
    for pattern, problem in _TABLE:
        if re.search(pattern, stderr):
            return problem._replace(
                message=problem.message.format_map(names),
                remedy=problem.remedy.format_map(names) + _fingerprint(stderr),
            )
    said = f": {names['words']}" if names["words"] else "."
    return no_answer(target, f"No shell of {target.host} answered{said}")


def no_answer(target: Target, message: str) -> SshProblem:
    return SshProblem(
        "shell",
        message,
        f"See whether `{target.ssh_command} true` works, and whether there is an sh.",
        is_transient=True,
    )


def no_ssh(error: OSError) -> SshProblem:
    return SshProblem("config", f"ssh could not be started: {error.strerror}.", "Install OpenSSH's client.")


def _fingerprint(stderr: str) -> str:
    found = re.search(r"SHA256:[A-Za-z0-9+/]{43}", stderr)
    return f" It showed {found[0]}." if found else ""


def _last_line(stderr: str) -> str:
    """The last of what was said, on one line, without what a terminal would obey."""
    line = " ".join(stderr.split())
    return "".join(sign for sign in line if sign.isprintable())[-400:]
