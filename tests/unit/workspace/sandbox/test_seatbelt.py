"""If these fail, a path of a hostile project changes the rules of the sandbox on macOS. There is no Mac here: the profile is only text."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from newel.workspace.sandbox.confinement import SandboxError
from newel.workspace.sandbox.policy import SandboxPolicy
from newel.workspace.sandbox.seatbelt import SeatbeltSandbox, seatbelt_profile

POLICY = SandboxPolicy(
    home="/Users/me",
    writable=["/Users/me/project"],
    readable=["/Users/me/.cargo/bin"],
    watched=["/Users/me/project/.git"],
    hidden=["/Users/me/.cargo/bin/key"],
    is_partial=True,
)


def decision(profile: str, act: str, path: str) -> str:
    """What the last rule that matches says."""
    found = "deny" if f"(deny {act})\n" in profile else "allow"
    for decided, of, how, name in re.findall(
        r'^\((allow|deny) (\S+) \((subpath|literal) "((?:[^"\\]|\\.)*)"\)\)$',
        profile,
        re.MULTILINE | re.DOTALL,
    ):
        place = re.sub(r"\\(.)", r"\1", name, flags=re.DOTALL)
        if of == act and (path == place or (how == "subpath" and path.startswith(f"{place}/"))):
            found = decided
    return found


@pytest.mark.parametrize(
    ("act", "path", "expected"),
    [
        ("file-write*", "/Users/me/project/a.txt", "allow"),
        ("file-write*", "/tmp/t/home/x", "allow"),  # noqa: S108 — only a text
        ("file-write*", "/Users/me/project/.git/hooks/x", "deny"),
        ("file-read*", "/Users/me/project/.git/HEAD", "allow"),
        ("file-read*", "/Users/me/.ssh/id", "deny"),
        ("file-read*", "/Users/other/x", "deny"),
        ("file-read*", "/private/tmp/other", "deny"),
        ("file-read*", "/Users/me/.cargo/bin/cargo", "allow"),
        ("file-read*", "/Users/me/.cargo/bin/key", "deny"),
        ("file-write*", "/Users/me/.cargo/bin/cargo", "deny"),
        ("file-write*", "/etc/hosts", "deny"),
        ("file-read*", "/usr/bin/git", "allow"),
    ],
)
def test_the_last_rule_decides(act: str, path: str, expected: str) -> None:
    assert decision(seatbelt_profile(POLICY, "/tmp/t"), act, path) == expected  # noqa: S108 — as above


def test_everything_is_denied_before_something_is_allowed() -> None:
    lines = seatbelt_profile(POLICY, "/t").splitlines()
    for act in ("network*", "file-write*", "mach-lookup", "signal"):
        first = next(line for line in lines if f" {act}" in line)
        assert first == f"(deny {act})"
    assert not any("network" in line for line in lines if line.startswith("(allow"))


@pytest.mark.parametrize(
    "name",
    [
        'a"))(allow file-write* (subpath "/',
        "a\\",
        '\\"',
        "a\n(allow default)",
        'a\\\\"b',
        "ä\udcff",
        "(",
        ";x",
    ],
)
def test_a_hostile_path_stays_a_path(name: str) -> None:
    project = f"/Users/me/{name}"
    policy = SandboxPolicy(home="/Users/me", writable=[project], watched=[f"{project}/.git"], is_partial=True)
    profile = seatbelt_profile(policy, "/t")
    assert decision(profile, "file-write*", f"{project}/a.txt") == "allow"
    assert decision(profile, "file-write*", f"{project}/.git/config") == "deny"
    # Outside of strings there is nothing but the rules that any other path has, too.
    plain = seatbelt_profile(
        SandboxPolicy(
            home="/Users/me", writable=["/Users/me/p"], watched=["/Users/me/p/.git"], is_partial=True
        ),
        "/t",
    )
    assert _without_strings(profile) == _without_strings(plain)


def _without_strings(profile: str) -> list[str]:
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', profile, flags=re.DOTALL)
    return [line for line in text.splitlines() if "file-read-metadata" not in line]


def test_what_a_profile_leaves_open_is_found(tmp_path: Path) -> None:
    """A sandbox-exec that confines nothing: the sandbox must not count."""
    program = tmp_path / "sandbox-exec"
    program.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    (home / "key").write_text("secret\n")
    policy = SandboxPolicy(home=str(home), writable=[str(home / "project")], is_partial=True)
    sandbox = SeatbeltSandbox(lambda: policy, str(program))
    failures = sandbox.test()
    sandbox.close()
    assert f"{home}/key can be read" in failures
    assert f"files can be created in {home}" in failures
    assert "servers of this machine can be reached" in failures
    assert "datagrams can be sent" in failures


def test_one_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    policy = SandboxPolicy(home=str(tmp_path), writable=[], is_partial=True)
    sandbox = SeatbeltSandbox(lambda: policy, "/bin/false")
    with pytest.raises(SandboxError, match="could not be started"):
        sandbox.test()
    sandbox.close()


def test_a_command_starts_with_its_profile_and_its_own_folders(tmp_path: Path) -> None:
    program = tmp_path / "sandbox-exec"
    program.write_text('#!/bin/sh\nshift\nprintf %s "$1" > $TMPDIR/../profile\nshift\nexec "$@"\n')
    program.chmod(0o755)
    policy = SandboxPolicy(home=str(tmp_path), writable=[str(tmp_path / "p")], is_partial=True)
    sandbox = SeatbeltSandbox(lambda: policy, str(program))
    read, write = os.pipe()
    with os.fdopen(read) as out:
        process = sandbox.start(
            ["/bin/sh", "-c", "echo $HOME; cat $TMPDIR/../profile"],
            cwd="/",
            env={"PATH": os.defpath, "HTTPS_PROXY": "http://x"},
            streams=(0, write, 2),
            mark="0" * 32,
        )
        os.close(write)
        home, _, profile = out.read().partition("\n")
        assert process.wait() == 0
    assert profile == seatbelt_profile(policy, str(Path(home).parent))
    sandbox.close()
    assert not Path(home).exists()
