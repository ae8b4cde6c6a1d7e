"""Translates ssh's error output into problems, each with a message and a remedy."""

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
    """``message`` and ``remedy`` are whole sentences. ``is_transient``: another attempt may succeed."""

    kind: Kind
    message: str
    remedy: str
    is_transient: bool = False

    def error(self) -> HostUnreachable:
        return HostUnreachable(f"{self.message} {self.remedy}", kind=self.kind)


_PROBLEMS: Final = {
    r"REMOTE HOST IDENTIFICATION HAS CHANGED|[Hh]ost key for .* has changed|Offending .* key in": SshProblem(
        "host_key_changed",
        "THE HOST KEY OF {host} HAS CHANGED. Someone may be intercepting the connection, or the host was reinstalled.",
        "Ask the host's administrator for its fingerprint. Only if it matches the new key, remove the old one "
        "(`ssh-keygen -R {name}`) and accept the new one with `{ssh_command}`.",
    ),
    r"No .* host key is known for|Host key verification failed": SshProblem(
        "host_key",
        "The host key of {host} is unknown, so its identity cannot be verified.",
        "Run `{ssh_command}` once, compare the fingerprint with the host's own, and accept it.",
    ),
    r"Could not resolve hostname|Name or service not known|nodename nor servname": SshProblem(
        "name",
        "Cannot resolve the host name {host}.",
        "Check the spelling; aliases are defined in ~/.ssh/config.",
        is_transient=True,
    ),
    r"Connection refused": SshProblem(
        "port",
        "{host} refused the connection: no SSH server is listening on that port.",
        "Check the port (`ssh://user@host:port/path`), and that sshd is running on the host.",
        is_transient=True,
    ),
    r"timed out|No route to host|Network is unreachable|Host is down|not responding": SshProblem(
        "network",
        "{host} is not responding.",
        "Check that it is switched on and reachable from this network; a firewall or a VPN may be in the way.",
        is_transient=True,
    ),
    r"Too many authentication failures": SshProblem(
        "key",
        "{host} closed the connection after too many keys were rejected.",
        "Select the right key in ~/.ssh/config: `IdentityFile …` and `IdentitiesOnly yes`.",
    ),
    r"UNPROTECTED PRIVATE KEY FILE|bad permissions": SshProblem(
        "key",
        "The private key for {host} is readable by others, so ssh ignores it.",
        "Run `chmod 600` on the key file.",
    ),
    r"Permission denied|no mutual signature|sign_and_send_pubkey": SshProblem(
        "key",
        "{host} denied {user} access: no key was accepted.{tried}",
        "Newel never asks for a password: install your public key with `ssh-copy-id`, or unlock it with "
        "`ssh-add`, until `{ssh_command}` works without a password.",
    ),
    r"[Bb]ad configuration option|configuration options, terminating|Bad owner or perm|Can't open user config file": SshProblem(
        "config", "ssh rejected its configuration.", "Fix this error: {output}"
    ),
    r"no matching .* found": SshProblem(
        "config",
        "ssh and {host} have no cipher, key exchange or signature algorithm in common.",
        "Allow one that the host offers in ~/.ssh/config: {output}",
    ),
    r"Session open refused by peer|administratively prohibited|open failed": SshProblem(
        "sessions",
        "{host} does not allow more sessions on one connection.",
        "Raise MaxSessions in its sshd_config; Newel needs one session, and one for each running command.",
    ),
    r"UNKNOWN port": SshProblem(
        "network",
        "{host} closed the connection, or the ProxyJump or ProxyCommand on the way to it did.",
        "ssh printed: {output}",
        is_transient=True,
    ),
    r"Connection (closed|reset)|Broken pipe|closed by remote host|kex_exchange_identification": SshProblem(
        "network",
        "{host} closed the connection.",
        "It may be starting up, or limit the number of connections; see its sshd log.",
        is_transient=True,
    ),
    r"This account is currently not available|nologin|account (is|has) (locked|expired)": SshProblem(
        "shell",
        "{host} does not allow {user} to log in.",
        "Give the account a login shell: `chsh -s /bin/sh`.",
    ),
}
"""Patterns of ssh's messages; the first that matches counts."""


def explain(stderr: str, target: Target, *, keys: Sequence[str] = ()) -> SshProblem:
    """Find the problem in ssh's standard error. ``keys`` are the files of the keys that ssh could try."""
    known_as = re.search(r"ssh-keygen .*-R (\S+)", stderr)
    names = {
        "host": target.host,
        "name": known_as[1] if known_as else target.host,
        "user": target.user or "you",
        "ssh_command": target.ssh_command,
        "tried": f" Tried: {', '.join(keys)}, and the keys of ssh-agent." if keys else "",
        "output": _last_line(stderr),
    }
    for pattern, problem in _PROBLEMS.items():
        if re.search(pattern, stderr):
            return problem._replace(
                message=problem.message.format_map(names),
                remedy=problem.remedy.format_map(names) + _fingerprint(stderr),
            )
    output = f": {names['output']}" if names["output"] else "."
    return no_answer(target, f"{target.host} did not start a shell{output}")


def no_answer(target: Target, message: str) -> SshProblem:
    return SshProblem(
        "shell",
        message,
        f"Check that `{target.ssh_command} true` works, and that the host has sh.",
        is_transient=True,
    )


def no_ssh(error: OSError) -> SshProblem:
    return SshProblem("config", f"Cannot start ssh: {error.strerror}.", "Install the OpenSSH client.")


def _fingerprint(stderr: str) -> str:
    match = re.search(r"SHA256:[A-Za-z0-9+/]{43}", stderr)
    return f" Its fingerprint is {match[0]}." if match else ""


def _last_line(stderr: str) -> str:
    """The end of the output, on one line, without control characters and the places of messages in ssh's source."""
    line = " ".join(re.sub(r"^\S+\.c:\S+ \(pid=\d+\): ", "", stderr, flags=re.MULTILINE).split())
    return "".join(sign for sign in line if sign.isprintable())[-400:]
