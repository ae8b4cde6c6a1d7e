"""If these fail, a user who mistypes a hook reads the words of a parser, or searches the whole file for the mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.hooks.hook_files import MAX_PROBLEMS, read_hook_files

GROUP = '{\n "hooks": {\n  "Stop": [\n   %s\n  ]\n }\n}'
HOOK = GROUP % '{"hooks": [{"command": "a", "timeout": 5},\n    {"command": "a",\n     %s}]}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            HOOK % '"timeout": "abc"',
            'line 6: Stop: `timeout` is "abc", and has to be a number of seconds, such as 60. This hook does not run.',
        ),
        (
            HOOK % '"timeout": true',
            "line 6: Stop: `timeout` is true, and has to be a number of seconds, such as 60. This hook does not run.",
        ),
        (
            HOOK % '"args": ["x", 1]',
            'line 6: Stop: `args` is ["x", 1], and has to be a list of strings, such as ["check", "--fix"]. This hook does not run.',
        ),
        (
            HOOK % '"async": "yes"',
            'line 6: Stop: `async` is "yes", and has to be true or false. This hook does not run.',
        ),
        (
            HOOK % '"if": ["Bash(rm *)"]',
            'line 6: Stop: `if` is ["Bash(rm *)"], and has to be one permission rule as a string, such as "Bash(git *)". This hook does not run.',
        ),
        (
            GROUP % '{"hooks": ["ruff format"]}',
            'line 4: Stop: a hook is "ruff format", and has to be an object, such as {"type": "command", "command": "ruff format"}. This hook does not run.',
        ),
        (
            GROUP % '{"matcher": ["Edit"],\n    "hooks": []}',
            'line 4: Stop: `matcher` is ["Edit"], and has to be a string, such as "Edit|Write". The hooks of this entry do not run.',
        ),
        (
            GROUP % '{"hooks":\n    {"command": "a"}}',
            'line 4: Stop: `hooks` is {"command": "a"}, and has to be a list of hooks, such as [{"type": "command", "command": "ruff format"}]. The hooks of this entry do not run.',
        ),
        (
            GROUP % '"ruff format"',
            'line 4: Stop: an entry is "ruff format", and has to be an object, such as {"matcher": "Edit", "hooks": []}. The hooks of this entry do not run.',
        ),
        (
            '{"hooks": {\n"Stop": {"command": "a"}}}',
            'line 2: Stop: its value is {"command": "a"}, and has to be a list of objects, such as [{"matcher": "Edit", "hooks": []}]. Its hooks do not run.',
        ),
        (
            '{\n"hooks": [{"command": "a"}]}',
            'line 2: `hooks` is [{"command": "a"}], and has to be an object with a list for each event, such as {"Stop": []}. None of its hooks runs.',
        ),
        (
            '{"hooks": {},\n"disableAllHooks": "no"}',
            'line 2: `disableAllHooks` is "no", and has to be true or false. None of its hooks runs.',
        ),
        (
            '[{"hooks": {}}]',
            'line 1: the file is [{"hooks": {}}], and has to be an object, such as {"hooks": {"Stop": []}}. None of its hooks runs.',
        ),
        (
            GROUP % '{"matcher": "Edit", "command": "a"}',
            'line 4: Stop: an entry is {"matcher": "Edit", "command": "a"}, and has to be an object with a list `hooks`, such as {"matcher": "Edit", "hooks": [{"type": "command", "command": "ruff format"}]}. The hooks of this entry do not run.',
        ),
        (
            '{"x": 1,\n"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "a"}]}]}',
            'line 2: `PreToolUse` has to be in `hooks`: {"hooks": {"PreToolUse": […]}}. None of its hooks runs.',
        ),
        (
            '{"Stop": [{"command": "a"}]}',
            'line 1: `Stop` has to be in `hooks`: {"hooks": {"Stop": […]}}. None of its hooks runs.',
        ),
        (
            '{"hooks": {\n "Stop": [}\n',
            "line 2: this is not valid JSON: Expecting value. None of its hooks runs.",
        ),
    ],
)
def test_a_wrong_type_is_named_with_its_line_and_what_is_expected(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "hooks.json"
    file.write_text(text)
    assert list(read_hook_files([file], "user").problems) == [f"{file}, {problem}"]


def test_a_value_without_end_and_hidden_characters_are_cut_and_written_out(tmp_path: Path) -> None:
    file = tmp_path / "hooks.json"
    file.write_text(HOOK % ('"timeout": "\u202e' + "x" * 1_000 + '"'), encoding="utf-8")
    (problem,) = read_hook_files([file], "user").problems
    assert "\u202e" not in problem
    assert len(problem) < 400


def test_the_hooks_beside_a_mistake_run(tmp_path: Path) -> None:
    file = tmp_path / "hooks.json"
    fine = '{"hooks": [{"command": "%s"}]}'
    file.write_text(GROUP % f'{fine % "one"}, {{"hooks": 1}}, {{"hooks": [2]}}, {fine % "two"}')
    read = read_hook_files([file], "user")
    assert [each.command for each in read.hooks] == ["one", "two"]
    assert len(read.problems) == 2


def test_a_key_that_is_there_twice_is_a_mistake_like_others(tmp_path: Path) -> None:
    file = tmp_path / "hooks.json"
    file.write_text(HOOK % '"timeout": "abc", "timeout": 5')
    (problem,) = read_hook_files([file], "user").problems
    assert "a hook has a key twice" in problem


def test_many_mistakes_of_a_strange_project_take_no_time(tmp_path: Path) -> None:
    """To look for the line of each would take minutes, and this test would time out."""
    file = tmp_path / "hooks.json"
    hooks = ", ".join(['{"command": "a", "timeout": "abc"}'] * 20_000)
    file.write_text(GROUP % f'{{"hooks": [{hooks}]}}')
    assert len(read_hook_files([file], "project").problems) == MAX_PROBLEMS
