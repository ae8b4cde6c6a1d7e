"""If these fail, a command that a model wrote finds the user's keys in Newel's processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from tests.ordinary_user import run_as_user
from tests.support import Newel, bash, scenario

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="where there is no /proc, there is nothing to read"
)

KEY = "sk-very-secret-0123456789"
OTHER = "ghp_other-secret-987654321"

LOOK = r"""
import os, re
for pid in sorted(int(each) for each in os.listdir("/proc") if each.isdigit()):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            cmdline = file.read()
    except OSError:
        continue
    if b"newel" not in cmdline or os.stat(f"/proc/{pid}/cmdline").st_uid not in (0, os.getuid()):
        continue
    print("process", cmdline)
    for name in ("environ", "mem"):
        try:
            with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
                if name == "environ":
                    print(file.read())
                    continue
                print("memory was opened")
        except OSError as error:
            print(name, error.strerror)
"""


@pytest.mark.parametrize("words", [[], ["--api-key", KEY], [f"--api-key={KEY}"]])
def test_commands_cannot_find_a_key(with_model: Callable[..., Newel], words: list[str]) -> None:
    """Neither in its own process nor in any that Newel started; and the key still works."""
    command = 'python3 look.py; echo "parent $PPID"; cat /proc/$PPID/environ /proc/$PPID/cmdline; env'
    newel = with_model(scenario("look", bash(command), {"content": "Nothing."}))
    (newel.project / "look.py").write_text(LOOK)
    environ = {"GH_TOKEN": OTHER} | ({} if words else {"LLM_AUTH_TOKEN": KEY})
    ran = run_as_user(newel, *words, "--base-url", f"{newel.server.url}/v1", "look", **environ)
    assert ran.returncode == 0, ran.stderr
    heard = newel.requests[-1]["messages"][-1]["content"]
    assert "parent " in heard
    assert "newel.cli.main" in heard  # it has searched Newel itself
    assert "newel-watchdog" in heard  # and the process beside it
    assert KEY not in heard
    assert OTHER not in heard
    assert "memory was opened" not in heard.partition("newel.cli.main")[2].partition("process")[0]
    assert (
        newel.server.requests[-1]["headers"]["authorization"] == "***"
    )  # a key was sent, and Newel keeps none


@pytest.mark.skipif(os.geteuid() != 0, reason="looks with the rights of root")
def test_not_even_commands_of_root_find_a_key_in_newels_environment(with_model: Callable[..., Newel]) -> None:
    """In a container the user is mostly root, who may read every process: so the key must not be there."""
    look = "tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline"
    newel = with_model(scenario("look", bash(look), {"content": "Nothing."}))
    # Not forked from another process, unlike other tests: the initial environment counts.
    ran = newel("--api-key", KEY, "look", LLM_AUTH_TOKEN=OTHER, PYTHONDONTWRITEBYTECODE="1")
    assert ran.returncode == 0, ran.stderr
    heard = newel.requests[-1]["messages"][-1]["content"]
    assert "LLM_AUTH_TOKEN=" in heard
    assert "--api-key" in heard
    assert KEY not in heard
    assert OTHER not in heard
