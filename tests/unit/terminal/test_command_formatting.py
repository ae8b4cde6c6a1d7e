"""If these fail, a message names a command that does not exist where it is shown."""

from __future__ import annotations

import pytest

from newel.terminal.commands import rewrite_commands, shell_command, shell_command_for, slash_command


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("Run `newel undo`.", "Run `/undo`."),
        ("`newel undo cp_12` or `newel review`", "`/undo cp_12` or `/review`"),
        ("`newel checkpoints` lists them.", "`/rollback` lists them."),
        ("`newel permissions` lists rules.", "`/permissions` lists rules."),
        ("`newel permissions add RULE` adds one.", "`newel permissions add RULE` adds one."),
        ("`newel review --check`, `newel mcp list`", "`newel review --check`, `newel mcp list`"),
        ("newel undo without marks stays", "newel undo without marks stays"),
    ],
)
def test_a_conversation_has_commands_of_its_own(text: str, inside: str) -> None:
    assert rewrite_commands(text, slash_command) == inside
    assert rewrite_commands(text, shell_command) == text


def test_commands_for_a_host_name_it() -> None:
    text = rewrite_commands("look at it again: `newel review`", shell_command_for("shop"))
    assert text == "look at it again: `newel review --host shop`"
