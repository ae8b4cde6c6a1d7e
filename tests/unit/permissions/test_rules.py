"""If these fail, a rule allows what it does not name, or a deny does nothing."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from newel.agent.errors import ConfigError
from newel.permissions.rules import (
    CommandRule,
    PathRule,
    ToolRule,
    describe_rules,
    expression,
    fits,
    parse_rule,
)
from newel.tools.selection import OWN_NAMES
from tests.properties import examples


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bash", ToolRule("bash")),
        ("bash(*)", ToolRule("bash")),
        ("write", ToolRule("write")),
        ("github__*", ToolRule("github__*")),
        ("github__create_issue", ToolRule("github__create_issue")),
        ("bash(git status)", CommandRule(("git", "status"))),
        ("bash(git status *)", CommandRule(("git", "status"), any_rest=True)),
        ("bash(git status:*)", CommandRule(("git", "status"), any_rest=True)),
        ("Bash(git status:*)", CommandRule(("git", "status"), any_rest=True)),
        ("Edit", ToolRule("edit")),
        ("bash(npm run 'a b')", CommandRule(("npm", "run", "a b"))),
        ("bash(python -c 'import a; b()')", CommandRule(("python", "-c", "import a; b()"))),
        ("bash(rm *.o)", CommandRule(("rm", "*.o"))),
        ("read(~/notes/**)", PathRule("read", "~/notes/**")),
        ("edit(src/**)", PathRule("write", "src/**")),
        ("write(./src)", PathRule("write", "src")),
        ("write(**/generated/**)", PathRule("write", "**/generated/**")),
    ],
)
def test_a_rule_is_parsed_and_written_as_it_reads(text: str, rule: object) -> None:
    parsed = parse_rule(text)
    assert parsed == rule
    assert parse_rule(str(parsed)) == parsed


@pytest.mark.parametrize("tool", [*OWN_NAMES, "github__create_issue"])
def test_a_rule_for_extensions_is_about_no_other_tool(tool: str) -> None:
    assert not ToolRule("extension:*").matches(tool)
    assert ToolRule("extension:*").matches("add_note")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "TOOL"),
        ("bsah", "No tool is called bsah"),
        ("bash()", "empty"),
        ("bash(git status; rm x)", "one rule for each"),
        ("bash(git status ; rm x)", "one rule for each"),
        ("bash(git status && rm x)", "one rule for each"),
        ("bash(git $(x))", "one rule for each"),
        ("bash(git 'x)", "cannot be split"),
        ("bash(* x)", "names no program"),
        ("read(../x)", r"no \.\."),
        ("read(~bob/x)", "begins with"),
        ("run(x)", "No tool is called run"),
        ("github__x(y)", "take a pattern"),
        ("bash(git status) x", "TOOL"),
        ("read(a(b))", "brackets"),
        ("extension:bash", "Newel's own.*`bash`"),
        ("extension:todo", "Newel's own.*no rule is about it"),
        ("todo", "Newel's own.*no rule is about it"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_rule(text)


WORDS = st.lists(st.text(st.sampled_from("ab -;|&<>()$`'\"\\=#~:é"), max_size=6), min_size=1, max_size=4)


@given(words=WORDS, any_rest=st.booleans())
def test_the_rule_of_an_answer_reads_as_it_was_made(words: list[str], any_rest: bool) -> None:
    """The question shows it, and the next session reads it. None is offered for words with ``*``, or without a program."""
    assume(words[0])
    rule = CommandRule(tuple(words), any_rest)
    assert parse_rule(str(rule)) == rule


@pytest.mark.parametrize(
    ("rule", "command", "matches"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status", "git statusx", False),
        ("git status *", "git status", True),
        ("git status *", "git status -s x", True),
        ("git status *", "git statusx", False),
        ("git *", "gitx status", False),
        ("npm run test*", "npm run test-all", True),
        ("npm run test*", "npm run test a", False),
        ("git * --force", "git push --force", True),
        ("git * --force", "git push x --force", False),
    ],
)
def test_a_rule_matches_whole_words(rule: str, command: str, matches: bool) -> None:
    parsed = parse_rule(f"bash({rule})")
    assert isinstance(parsed, CommandRule)
    assert parsed.matches(command.split()) is matches


def matches_path(pattern: str, path: str) -> bool:
    """What a pattern matches, tried out place by place."""

    @cache
    def fits_from(at: int, place: int) -> bool:
        later = range(place, len(path) + 1)
        if at == len(pattern):
            return place == len(path) or path[place] == "/"
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            starts = [each for each in later if each == place or path[each - 1] == "/"]
            return any(fits_from(at + 3, each) for each in starts)
        if pattern.startswith("**", at):
            return any(fits_from(at + 2, each) for each in later)
        if pattern[at] == "*":
            return any(fits_from(at + 1, each) for each in later if "/" not in path[place:each])
        if place == len(path):
            return False
        is_same = path[place] != "/" if pattern[at] == "?" else path[place] == pattern[at]
        return is_same and fits_from(at + 1, place + 1)

    return fits_from(0, 0)


@settings(max_examples=examples(1000), deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "/", "/", "*", "**", "**/", "?", "\n"]), max_size=9).map("".join),
    st.text("ab/\n", max_size=12),
)
def test_a_pattern_matches_the_paths_that_it_describes(pattern: str, path: str) -> None:
    pattern = pattern.rstrip("/")
    assert (re.fullmatch(expression(pattern), path) is not None) == matches_path(pattern, path)


@settings(max_examples=examples(500), deadline=None)
@given(st.text("ab*", max_size=9), st.text("ab\n", max_size=12))
def test_a_star_in_a_word_matches_any_characters(pattern: str, word: str) -> None:
    assert fits(pattern, word) == fnmatchcase(word, pattern)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("wild", ["*a", "**a", "/**/a*", "**/*a"])
def test_no_pattern_of_a_project_takes_long(wild: str) -> None:
    """A project's own rules hold without trust: the start must not wait for them."""
    assert not fits(wild * 50 + "*b", "a" * 4000)
    for path in ("/" + "a" * 4000, "/a" * 2000):
        assert not re.fullmatch(expression(wild * 50 + "*b"), path)


def test_a_rule_for_a_folder_holds_for_names_with_line_ends() -> None:
    assert re.fullmatch(expression("/p/private/**"), "/p/private/a\nb/c")
    assert re.fullmatch(expression("**/*.pem"), "/p/a\nb/c.pem")


def test_rules_are_described_in_words() -> None:
    rules = ["bash(npm test *)", "write(src/deep/**)", "write", "github__*"]
    assert (
        describe_rules(rules)
        == "npm test *, edits in src/deep/, all edits in the project, the tool github__*"
    )
