"""If these fail, a newcomer does not know that everything runs unasked, or an old hand reads it every day."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]


def first_lines(newel: Newel, *words: str) -> str:
    with Tmux([str(BIN / "newel"), *words], newel.project, newel.environ, columns=200, rows=24) as screen:
        screen.wait_for("Enter sends")
        return screen.text.partition("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")[0]


@pytest.mark.parametrize(
    ("words", "explained"),
    [
        (
            ["--sandbox", "off"],
            "auto (Shift+Tab): everything runs unasked, without a sandbox; /undo undoes it",
        ),
        (
            ["--approve", "ask"],
            "ask (Shift+Tab): each change and command is shown first; /undo undoes it",
        ),
        (
            ["--approve", "plan"],
            "plan (Shift+Tab): it looks around, changes nothing and writes a plan",
        ),
    ],
)
def test_a_newcomer_reads_what_the_approval_mode_means(
    with_model: Make, words: list[str], explained: str
) -> None:
    lines = first_lines(with_model(), *words)
    assert "mock-model (/model) · sandbox: " in lines
    assert explained in lines


HOOKS_DO_NOT_RUN = (
    "has 1 hook that Newel does not run. To run them, too: newel config set hooks.claude_settings true"
)


def with_a_hook_of_claude_code(newel: Newel) -> Newel:
    hook = {"type": "command", "command": "true"}
    (newel.home / ".claude").mkdir()
    (newel.home / ".claude" / "settings.json").write_text(
        json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}, "permissions": {"deny": ["Bash(curl:*)"]}})
    )
    return newel


def test_who_comes_from_claude_code_reads_that_their_hooks_and_rules_do_not_apply(with_model: Make) -> None:
    newel = with_a_hook_of_claude_code(with_model())
    config = newel.home / ".newel" / "config.toml"
    lines = first_lines(newel)
    assert HOOKS_DO_NOT_RUN in lines
    assert f'write them into [permissions] of {config}: deny = ["Bash(curl:*)"]' in " ".join(lines.split())
    config.write_text("[hooks]\nclaude_settings = true\n[permissions]\ndeny = ['bash(curl *)']\n")
    lines = first_lines(newel)
    assert "hooks" not in lines
    assert "curl" not in lines


def test_after_some_sessions_one_line_is_enough(with_model: Make) -> None:
    newel = with_a_hook_of_claude_code(with_model(scenario("", {"content": "Done."})))
    for _ in range(5):
        newel("hi")
    lines = first_lines(newel)
    assert "mock-model · approve: auto · sandbox: " in lines
    assert "Shift+Tab" not in lines
    assert HOOKS_DO_NOT_RUN not in lines
