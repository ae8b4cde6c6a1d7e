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
    what: str
    remedy: str
    passing: bool = False

    def error(self) -> HostUnreachable:
        return HostUnreachable(f"{self.what} {self.remedy}", kind=self.kind)


_TABLE: Final[tuple[tuple[str, SshProblem], ...]] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|[Hh]ost key for .* has changed|Offending .* key in",
        SshProblem(
            "host_key_changed",
            "THE HOST KEY OF {host} HAS CHANGED. Someone may be listening in, or the host was set up anew.",
            "Ask who runs the host for its fingerprint. Only if it is the new one, forget the old key "
            "(`ssh-keygen -R {name}`) and accept the new one with `{by_hand}`.",
        ),
    ),
    (
        r"No .* host key is known for|Host key verification failed",
        SshProblem(
            "host_key",
            "The host key of {host} is not known here, so it is not certain who answers.",
            "Run `{by_hand}` once, compare the fingerprint that it shows with the host's own, and accept it there.",
        ),
    ),
    (
        r"Could not resolve hostname|Name or service not known|nodename nor servname",
        SshProblem(
            "name",
            "No host is called {host}.",
            "Check the spelling; aliases are defined in ~/.ssh/config.",
            passing=True,
        ),
    ),
    (
        r"Connection refused",
        SshProblem(
            "port",
            "{host} answers, but no SSH server listens on that port.",
            "Check the port (`ssh://user@host:port/path`), and that sshd runs there.",
            passing=True,
        ),
    ),
    (
        r"timed out|No route to host|Network is unreachable|Host is down|not responding",
        SshProblem(
            "network",
            "{host} does not answer.",
            "Check that it is switched on and that this network reaches it; a firewall or a VPN may be in the way.",
            passing=True,
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
            "`ssh-add`, until `{by_hand}` works without one.",
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
            passing=True,
        ),
    ),
    (
        r"This account is currently not available|nologin|account (is|has) (locked|expired)",
        SshProblem(
            "shell", "{user} may not log in on {host}.", "Give the account a login shell: `chsh -s /bin/sh`."
        ),
    ),
)


def explain(words: str, target: Target, *, keys: Sequence[str] = ()) -> SshProblem:
    """What ssh's own ``words`` mean. ``keys`` are the files of the keys that it could have tried."""
    known_as = re.search(r"ssh-keygen .*-R (\S+)", words)
    names = {
        "host": target.host,
        "name": known_as[1] if known_as else target.host,
        "user": target.user or "you",
        "by_hand": target.by_hand,
        "tried": f" Tried: {', '.join(keys)}, and what the agent holds." if keys else "",
        "words": _tail(words),
    }
    for pattern, problem in _TABLE:
        if re.search(pattern, words):
            return problem._replace(
                what=problem.what.format_map(names),
                remedy=problem.remedy.format_map(names) + _fingerprint(words),
            )
    said = f": {names['words']}" if names["words"] else "."
    return no_answer(target, f"No shell of {target.host} answered{said}")


def no_answer(target: Target, what: str) -> SshProblem:
    return SshProblem(
        "shell", what, f"See whether `{target.by_hand} true` works, and whether there is an sh.", passing=True
    )


def no_ssh(error: OSError) -> SshProblem:
    return SshProblem("config", f"ssh could not be started: {error.strerror}.", "Install OpenSSH's client.")


def _fingerprint(words: str) -> str:
    found = re.search(r"SHA256:[A-Za-z0-9+/]{43}", words)
    return f" It showed {found[0]}." if found else ""


def _tail(words: str) -> str:
    """The last of what was said, on one line, without what a terminal would obey."""
    line = " ".join(words.split())
    return "".join(sign for sign in line if sign.isprintable())[-400:]
