"""The ``if`` of a hook: a permission rule as Claude Code writes it, such as ``Bash(git *)`` or ``Edit(*.ts)``.

It only saves the start of a program: a hook that may be meant runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from newel.agent.errors import ConfigError
from newel.hooks.hook import matches
from newel.hooks.tool_names import hook_names
from newel.permissions.rules import CommandRule, PathRule, RuleSet, expression, parse_rule


class _NullProjectView:
    """A ``ProjectView`` of which nothing is known: whether a command only reads does not matter here."""

    async def may_read(self, paths: Iterable[str], /, *, recurses: bool) -> bool:
        del paths, recurses
        return False

    async def is_own_program(self, name: str, /) -> bool:
        del name
        return False

    async def is_git_safe(self, folder: str, /) -> bool:
        del folder
        return False

    async def has_no_repository(self, folder: str, /) -> bool:
        del folder
        return False


async def may_hold(condition: str, tool: str, given: Mapping[str, Any], *, root: str, home: str) -> bool:
    """Whether a hook with this condition runs for a call. ``given`` are its arguments, with absolute paths."""
    if not condition:
        return True
    rule = re.fullmatch(r"\s*([\w*.-]+)\s*(?:\((.*)\))?\s*", condition, re.DOTALL)
    if rule is None:
        return True
    name, pattern = rule[1], (rule[2] or "*").strip()
    if not matches(name, hook_names(tool)):
        return False
    if pattern in {"*", "**"}:
        return True
    command, path = given.get("command"), given.get("file_path") or given.get("path")
    if isinstance(command, str):
        return await _is_about_command(pattern, command)
    return not isinstance(path, str) or _is_about_path(pattern, path, root=root, home=home)


async def _is_about_command(pattern: str, command: str) -> bool:
    from newel.permissions.commands.judge import judge_command

    pattern = re.sub(r":\*$", "* *", pattern)  # there, it stands for anything that begins so
    try:
        rule = parse_rule(f"bash({pattern})")
    except ConfigError:
        return True
    if not isinstance(rule, CommandRule):
        return True
    judged = await judge_command(command, RuleSet(deny=(rule,)), _NullProjectView())
    return judged.effect in {"deny", "ask"}


def _is_about_path(pattern: str, path: str, *, root: str, home: str) -> bool:
    try:
        rule = parse_rule(f"read({pattern})")
    except ConfigError:
        return True
    if not isinstance(rule, PathRule):
        return True
    wanted = rule.pattern
    if wanted.startswith("~/"):
        wanted = f"{home}{wanted[1:]}"
    elif "/" not in wanted:
        wanted = f"{root}/**/{wanted}"  # a name alone is one in any folder
    elif not wanted.startswith(("/", "**/")):
        wanted = f"{root}/{wanted}"
    return re.fullmatch(expression(wanted), path) is not None
