"""If these fail, a name in a snapshot is a path that leads out of its repository, or a job with an ordinary branch cannot move."""

from __future__ import annotations

import os
import subprocess

import pytest

from newel.fleet.git_names import is_oid, is_ref_name, is_remote_name

NAMES = (
    "refs/heads/main",
    "refs/heads/fix/a-b_c.d",
    "refs/heads/-",
    "refs/heads/@",
    "refs/heads/a@b",
    "refs/heads/{a}",
    "refs/heads/a.lock.b",
    "refs/heads/locked",
    "refs/heads/\xe4\xb8\xad",
    "refs/stash",
    "refs/heads/a..b",
    "refs/heads/../../config",
    "refs/heads/..",
    "refs/heads/.",
    "refs/heads/.hidden",
    "refs/heads/a/.b",
    "refs/heads/a.lock",
    "refs/heads/a.lock/b",
    "refs/heads/a@{1}",
    "refs/heads/a b",
    "refs/heads/a\nb",
    "refs/heads/a\n",
    "refs/heads/a\tb",
    "refs/heads/a\x7f",
    *(f"refs/heads/a{each}b" for each in "~^:?*[\\"),
    "refs/heads/",
    "refs/heads//a",
    "refs/heads/a/",
    "refs/heads/a.",
    "refs/",
    "/refs/heads/a",
)


@pytest.mark.parametrize("name", NAMES)
def test_git_has_the_same_names_of_refs(name: str) -> None:
    words = ["git", "check-ref-format", name.encode("latin-1")]
    done = subprocess.run(words, check=False, env={"PATH": os.environ["PATH"]})
    assert is_ref_name(name) == (done.returncode == 0)


@pytest.mark.parametrize(
    "name",
    [
        *("", "refs", "HEAD", "config", "heads/main", "--delete", "objects/info/alternates"),
        "refs/heads/a\0b",
        f"refs/heads/{'a' * 251}",
        "refs/" + "a/" * 600 + "a",
        "refs/heads/\u0394",
    ],
)
def test_a_name_that_is_no_place_below_refs_is_refused(name: str) -> None:
    assert not is_ref_name(name)


def test_a_name_may_be_as_long_as_that_of_a_file() -> None:
    assert is_ref_name(f"refs/heads/{'a' * 250}")


@pytest.mark.parametrize(("text", "is_one"), [("a1" * 20, True), ("a1" * 32, True), ("a1" * 25, False)])
def test_an_object_has_a_full_name(text: str, is_one: bool) -> None:
    assert is_oid(text) == is_one
    assert not is_oid(text.upper())
    assert not is_oid(text + "\n")


@pytest.mark.parametrize(
    "name", ["/x", "../x", "ext::sh", "https://x", "host:x", "-u", "a b", "", "..", "a\n"]
)
def test_an_address_is_no_name_of_a_remote(name: str) -> None:
    assert not is_remote_name(name)
    assert is_remote_name("origin")
    assert is_remote_name(".")
