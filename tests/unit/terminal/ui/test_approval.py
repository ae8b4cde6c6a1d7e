"""If these fail, something runs that nobody agreed to, or that looked like something else."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.messages import ToolCall
from newel.permissions.approval import Approval, ApprovalRequest
from newel.terminal.ui.approval import QUESTION_WITH_RULE, Approver, describe_answer, present, understand
from newel.terminal.ui.hints import SEPARATOR, wrap_hints


@pytest.mark.parametrize("answer", ["y", "Y", " yes "])
def test_a_plain_yes_allows_once(answer: str) -> None:
    assert understand(answer) == Approval("once")


def test_always_needs_its_own_answer() -> None:
    assert understand("a") == Approval("always")


@pytest.mark.parametrize("answer", ["", "n", "No", None, "   "])
def test_no_answer_is_no(answer: str | None) -> None:
    assert understand(answer) == Approval("no")


@pytest.mark.parametrize("answer", ["use rg instead", "n use rg instead", "no use rg instead"])
def test_other_text_is_a_refusal_that_the_model_gets(answer: str) -> None:
    assert understand(answer) == Approval("no", "use rg instead")


@given(st.text())
def test_only_a_plain_yes_or_always_allows(answer: str) -> None:
    allowed = understand(answer).decision != "no"
    assert allowed == (answer.strip().lower() in {"y", "yes", "a", "always", "p", "project"})


def test_the_question_hides_nothing() -> None:
    command = "ls \x1b[8m; rm -rf ~\x1b[0m\n\u202egpj.exe"
    text = present(ApprovalRequest(ToolCall("1", "bash", {}), "Run a command", command, "/src/shop"))
    assert text == (
        "Run a command in /src/shop on this machine:\n\n    ls ␛[8m; rm -rf ~␛[0m\n    <U+202E>gpj.exe\n"
    )


@given(st.integers(20, 160))
def test_no_row_of_the_question_begins_with_a_separator(columns: int) -> None:
    """It reads like a list of which the first answers are no part."""
    rows = wrap_hints(QUESTION_WITH_RULE, columns).split("\n")
    assert not any(row.startswith(SEPARATOR.strip()) for row in rows)
    answers = QUESTION_WITH_RULE.replace(SEPARATOR, " ").split()
    assert " ".join(rows).replace(SEPARATOR.rstrip(), "").split() == answers


LONG = "".join(f"line {number}\n" for number in range(200))


def test_of_a_command_no_line_is_left_out() -> None:
    """A command that looks like a long diff could hide what it does in its middle."""
    request = ApprovalRequest(ToolCall("1", "bash", {}), "Run", f"--- a\n+++ b\n@@ -1 +1 @@\n{LONG}", "/src")
    assert present(request, fold=True) == present(request)


def test_of_a_long_edit_the_lines_left_out_are_counted() -> None:
    request = ApprovalRequest(ToolCall("1", "edit", {}), "Edit", f"a link: b\n{LONG}", "/src")
    text = present(request, fold=True)
    assert "    a link: b\n    line 0\n" in text
    assert "    line 18\n    … 173 more lines" in text
    assert "\n    line 192\n" in text
    assert text.endswith("    line 199\n")


def test_the_question_names_the_machine() -> None:
    """Otherwise a user takes a command on a server for one on their own machine, or the reverse."""
    there = "ssh://deploy@shop.example:2222/srv/a%20b"
    text = present(ApprovalRequest(ToolCall("1", "bash", {}), "Run a command", "ls", there))
    assert text == "Run a command in /srv/a b on deploy@shop.example:\n\n    ls\n"


@pytest.mark.parametrize(
    ("name", "arguments", "decision", "line"),
    [
        ("bash", {"command": "git push"}, "once", "Allowed once: git push"),
        ("bash", {"command": "git push"}, "rule", "Allowed in this project: git push *"),
        (
            "bash",
            {"command": "git push", "unsandboxed": True},
            "always",
            "Allowed for this session, unsandboxed: git push",
        ),
        ("bash", {"command": "a\x1b[8m\nb \u202ec"}, "no", "Denied: a␛[8m␊b <U+202E>c"),
        ("edit", {"file_path": "a.py", "old_string": "x"}, "no", "Denied: edit a.py"),
        ("db__query", {"q": "drop"}, "once", 'Allowed once: db__query {"q":"drop"}'),
    ],
)
def test_the_record_of_an_answer_says_what_was_decided_and_hides_nothing(
    name: str, arguments: dict[str, object], decision: Literal["once", "always", "rule", "no"], line: str
) -> None:
    request = ApprovalRequest(ToolCall("1", name, arguments), "Tool", "", "/", rules=["bash(git push *)"])
    assert describe_answer(request, Approval(decision)) == line


@pytest.mark.parametrize(
    ("decision", "line"),
    [
        ("once", "Allowed for this session: the server example.org"),
        ("rule", "Allowed in this project: the server example.org"),
        ("no", "Denied: the server example.org"),
    ],
)
def test_the_record_of_an_answer_about_a_server_says_how_long_it_holds(
    decision: Literal["once", "rule", "no"], line: str
) -> None:
    call = ToolCall("1", "bash", {"server": "example.org"})
    request = ApprovalRequest(call, "Network", "", "/", kind="server")
    assert describe_answer(request, Approval(decision)) == line


@pytest.mark.anyio
async def test_without_a_front_end_nothing_is_allowed() -> None:
    request = ApprovalRequest(ToolCall("1", "bash", {}), "Run a command", "ls", "/")
    assert (await Approver()(request)).decision == "nobody"
