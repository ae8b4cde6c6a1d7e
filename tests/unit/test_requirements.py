"""If this fails, a test run on a bare machine skips tests without naming the missing programs."""

from __future__ import annotations

import pytest

from tests.requirements import skip_or_fail, summary


def test_the_end_of_a_test_run_says_what_to_install() -> None:
    reasons = [
        "Skipped: needs sshd: `apt-get install openssh-server`",
        "Skipped: needs strace: `apt-get install strace`",
        "Skipped: needs sshd: `apt-get install openssh-server`",
        "Skipped: needs the npm packages of web/, and the npm registry cannot be reached",
        "Skipped: root may write anywhere",
    ]
    assert summary(reasons) == (
        "4 tests were skipped for want of: apt-get install openssh-server strace; "
        "the npm packages of web/, and the npm registry cannot be reached"
    )
    assert summary(["Skipped: root may write anywhere"]) == ""


def test_a_module_with_a_missing_requirement_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise `./run test` fails on macOS, which has no `prlimit`, before a test of that module has run."""
    monkeypatch.delenv("NEWEL_TESTS_NEED_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        skip_or_fail("needs prlimit: `apt-get install util-linux`")
    assert skipped.value.allow_module_level
