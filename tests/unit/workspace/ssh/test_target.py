"""If these fail, a host's address is misread, or reaches ssh as an option."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import WorkspaceError
from newel.workspace.ssh.target import Target
from tests.requirements import require_program


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("user@host:/path", Target("host", "user", None, "/path")),
        ("host:/path", Target("host", None, None, "/path")),
        ("host", Target("host")),
        ("user@host", Target("host", "user")),
        ("host:", Target("host")),
        ("host:src/newel", Target("host", None, None, "src/newel")),
        ("host:~/src", Target("host", None, None, "~/src")),
        ("host:/with spaces/a@b:c", Target("host", None, None, "/with spaces/a@b:c")),
        ("me@example.org@host:/p", Target("host", "me@example.org", None, "/p")),
        ("ssh://user@host:2222/path", Target("host", "user", 2222, "/path")),
        ("ssh://host", Target("host")),
        ("ssh://host/a%20b", Target("host", None, None, "/a b")),
        ("ssh://host:2222/~/src", Target("host", None, 2222, "~/src")),
        ("ssh://host/%7E/src", Target("host", None, None, "/~/src")),
        ("[::1]:/path", Target("::1", None, None, "/path")),
        ("user@[fe80::1%eth0]", Target("fe80::1%eth0", "user")),
        ("ssh://user@[2001:db8::7]:22/p", Target("2001:db8::7", "user", 22, "/p")),
        ("192.168.1.224", Target("192.168.1.224")),
    ],
)
def test_each_form_has_user_host_port_and_path(text: str, target: Target) -> None:
    assert Target.parse(text) == target


@pytest.mark.parametrize(
    "text",
    [
        *("", "@", ":/path", "user@", "user@:/path", "@host", "ssh://", "ssh:///path", "::1:/path", "[]:/p"),
        *("-oProxyCommand=id", "-oProxyCommand=id:/path", "user@-oProxyCommand=id", "-l@host", "ssh://-oProxyCommand=id/p"),
        *("ho st", "ho\tst", "host\n", "\nhost", "host\x00", "host\x1b[0m", "$(id)", "`id`", "host;id", "host|id", "host&id"),
        *("host>x", "ho'st", 'ho"st', "ho\\st", "ho*st", "{host}", "ho/st", "us er@host", "$(id)@host", "a;b@host", "%h@host"),
        *("ssh://host:0/", "ssh://host:65536/", "ssh://host:x/", "ssh://host:-1/", "ssh://host:٢٢/", "ssh://user%0a@host/"),
        *("h" * 300, "u" * 300 + "@host", "host:/a\0b", "[fe80::1%$(id)]", "ssh://%2doProxyCommand=id/"),
    ],
)  # fmt: skip
def test_anything_that_could_be_an_option_or_a_command_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(WorkspaceError, match=r"\.$"):
        Target.parse(text)


names = st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,20}", fullmatch=True)


@settings(max_examples=60)
@given(
    host=names | st.just("2001:db8::1"),
    user=st.none() | names,
    port=st.none() | st.integers(1, 65_535),
    path=st.none()
    | st.text(st.characters(exclude_characters="\0", codec="utf-8")).map("/{}".format)
    | st.sampled_from(["/\udcff", "~/a b", "~/", "/~/x", "/~x", "/~"]),
)
def test_the_url_of_a_target_parses_to_it(
    host: str, user: str | None, port: int | None, path: str | None
) -> None:
    target = Target(host, user, port, path)
    assert Target.parse(target.url) == target


@settings(max_examples=40)
@given(text=st.text(max_size=30) | st.from_regex(r"[-a-z@:;$ /\[\]]{1,12}", fullmatch=True))
def test_ssh_never_takes_an_accepted_target_for_an_option(text: str) -> None:
    try:
        words = Target.parse(text).ssh_args
    except WorkspaceError:
        return
    assert words[-2] == "--"
    assert not any(word.startswith("-") for word in (words[-1], *words[1:-2:2]))


def test_ssh_understands_the_arguments() -> None:
    target = Target.parse("ssh://me@example.org:2222/p")
    done = subprocess.run(
        [require_program("ssh", "openssh-client"), "-F", "/dev/null", "-G", *target.ssh_args],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"user me", "hostname example.org", "port 2222"} <= set(done.stdout.splitlines())
