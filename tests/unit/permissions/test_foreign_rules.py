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
        ("fetch(example.com)", "`web_fetch(example.com)`"),
        ("url(example.com)", "`web_fetch(example.com)`"),
        ("WebFetch(https://example.com/docs/*)", "`web_fetch(example.com)`"),
        ("WebFetch(domain:)", "It names a server"),
        ("WebSearch", "no tool that searches the web"),
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


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("WebFetch(domain:example.com)", "web_fetch(example.com)"),
        ("WebFetch(domain:*.Example.com)", "web_fetch(*.example.com)"),
        ("webfetch(example.com:8443)", "web_fetch(example.com:8443)"),
        ("web_fetch([2001:DB8::1])", "web_fetch([2001:db8::1])"),
        ("web_fetch(bücher.example)", "web_fetch(xn--bcher-kva.example)"),
        ("WebFetch", "web_fetch"),
        ("WebFetch(domain:*)", "web_fetch"),
    ],
)
def test_a_rule_for_pages_of_another_agent_works_as_it_is(text: str, ours: str) -> None:
    assert str(parse_rule(text)) == ours
    assert str(parse_rule(ours)) == ours


def test_a_path_with_two_slashes_is_the_one_with_one() -> None:
    """Claude Code's way to write a path from the root: a deny that never matches protects nothing."""
    assert parse_rule("Read(//etc/shadow)") == PathRule("read", "/etc/shadow")
    assert parse_rule("write(src//gen)") == PathRule("write", "src/gen")
