"""If these fail, a rule brought along from another agent is accepted and never holds, or its user must guess at ours."""

from __future__ import annotations

import pytest

from newel.agent.errors import ConfigError
from newel.mcp.types import offered_name
from newel.permissions.rules import PathRule, ToolRule, parse_rule


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("mcp__github__create_issue", "`github__create_issue`"),
        ("mcp__github__delete_*", "`github__delete_*`"),
        ("mcp__github__*", "`github__*`"),
        ("mcp__github", "`github__*`"),
        ("mcp__my-db__query(select *)", "`my-db__query`"),
        ("mcp__*", "`*__*`"),
        ("Mcp(github:create_issue)", "`github__create_issue`"),
        ("Mcp(github:*)", "`github__*`"),
        ("github__create_issue(title)", "`github__create_issue`"),
        ("my.server__query", "`my_server__query_*`"),
        ("MultiEdit(src/**)", "`write(src/**)`"),
        ("NotebookEdit", "`write`"),
        ("replace(src/**)", "`write(src/**)`"),
        ("read_file(.env)", "`read(.env)`"),
        ("run_shell_command(git status)", "`bash(git status *)`"),
        ("Shell(git:*)", "`bash(git *)`"),
        ("PowerShell", "`bash`"),
        ("Glob", "`find`"),
        ("Glob(**)", "`find`"),
        ("list_directory(src)", "`read(src)`"),
        ("Grep(src/**)", "`read(src/**)`"),
        ("WebFetch(domain:example.com)", 'domains = ["example.com"]'),
        ("web_fetch", "`domains`"),
        ("WebSearch", "`domains`"),
        ("Bash[ls]", "TOOL(PATTERN)"),
    ],
)
def test_a_rule_of_another_agent_is_refused_with_ours(text: str, instead: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_rule(text)
    assert instead in str(refused.value)
    for ours in str(refused.value).split("`")[1::2]:
        if "(" in ours or "__" in ours:
            parse_rule(ours)


@pytest.mark.parametrize("text", ["TodoWrite", "Skill(pdf)"])
def test_a_tool_that_newel_lacks_is_told_with_those_that_it_has(text: str) -> None:
    with pytest.raises(ConfigError, match=r"No tool is called .*Tools are read, write, edit, bash"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("server", "tool"), [("github", "create_issue"), ("my server", "query"), ("a.b", "x"), ("mcp", "x")]
)
def test_one_rule_covers_all_tools_of_a_server(server: str, tool: str) -> None:
    """Whatever its name: characters that a tool's name cannot have become ``_``, and a server may be called mcp."""
    plain = "".join(letter if letter.isalnum() else "_" for letter in server)
    rule = parse_rule("mcp*__*" if server == "mcp" else f"{plain}__*")
    assert isinstance(rule, ToolRule)
    assert rule.matches(offered_name(server, tool))


def test_a_path_with_two_slashes_is_the_one_with_one() -> None:
    """Claude Code's way to write a path from the root: a deny that never matches protects nothing."""
    assert parse_rule("Read(//etc/shadow)") == PathRule("read", "/etc/shadow")
    assert parse_rule("write(src//gen)") == PathRule("write", "src/gen")
