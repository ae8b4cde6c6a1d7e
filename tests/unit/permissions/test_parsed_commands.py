"""If these fail, a rule judges other commands than those that bash runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from newel.permissions.commands.judge import judge_command
from newel.permissions.commands.parse import MAX_TEXT, parse
from newel.permissions.rules import RuleSet, parse_rule
from tests.properties import examples
from tests.unit.permissions.test_hostile_commands import view_of

PROGRAMS: Final = ("one", "two", "git")

STUB: Final = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$@" "$END" >> "$LOG"
"""
"""Logs its words by one write, as the commands of a pipeline run at once."""


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("ls", [("ls",)]),
        ("ls -la src && git status", [("ls", "-la", "src"), ("git", "status")]),
        ("cat a | head -3 | wc", [("cat", "a"), ("head", "-3"), ("wc",)]),
        ("grep 'a b' \"c d\"", [("grep", "a b", "c d")]),
        ("a \\ b", []),
        ("a 'b'\\c", []),
        ("a b\\c", []),
        ("a 2>/dev/null; b 2>&1 || c", [("a",), ("b",), ("c",)]),
        ("a\nb\n", [("a",), ("b",)]),
        ("a # b; c", [("a",)]),
        ("# b\na", [("a",)]),
        ("a > f", []),
        ("a $x", []),
        ("a $(b)", []),
        ("a *.py", []),
        ("X=1 a", []),
        ("a &", []),
        ("(a)", []),
        ("if a; then b; fi", []),
        ("a() { b; }; a", []),
        ("a '", []),
        ("", []),
    ],
)
def test_a_plain_text_gives_its_commands(text: str, plain: list[tuple[str, ...]]) -> None:
    assert parse(text).plain == plain


def test_no_character_behind_a_brace_ends_the_program() -> None:
    """A model may write an emoji there; the parser's own code would read beyond its table."""
    program = "from newel.permissions.commands.parse import parse\nfor at in range(0x100, 0x110000, 0x700): parse('echo {' + chr(at) + '}')"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_word_that_the_parser_must_not_see_is_not_known() -> None:
    parsed = parse("rm 文件.txt && echo {a,b} && cat notes.txt")
    assert parsed.plain == []
    assert ("cat", "notes.txt") in parsed.commands
    assert ("rm", None) in parsed.commands
    assert parse("rm 文件.txt").plain == [("rm", "文件.txt")]


@example("\ud800")
@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_is_parsed(text: str) -> None:
    """A model may send anything, and an exception would end the run."""
    parse(text)
    parse(f"ls '{text}'; {text} | $({text}")
    parse("\\" * 5_000 + "\n" * 5_000 + text)


@pytest.mark.parametrize(
    "text",
    [
        "rm x",
        "/bin/rm x",
        "a; rm x",
        "a | rm x",
        "$(rm x)",
        "a `rm x`",
        "a <(rm x)",
        "(rm x)",
        "if rm x; then a; fi",
        "for i in a; do rm x; done",
        "f() { rm x; }",
        "X=1 rm x",
        "env X=1 rm x",
        "sudo -u me rm x",
        "timeout 5 rm x",
        "nice -n 5 rm x",
        "xargs rm x",
        "find . -exec rm x ;",
        "sh -c 'rm x'",
        'bash -c "a; rm x"',
        "bash -c 'sh -c \"rm x\"'",
        "eval rm x",
        "a <<EOF\n$(rm x)\nEOF",
        "\\rm x",
        "r''m x",
        "'rm' x",
        "command rm x",
        "! rm x",
        "time rm x",
        "cat > f && rm x",
        "[[ $(rm x) ]]",
        "r\\\nm x",
        "a; \\\nr\\\nm x",
        "env '-Srm x'",
        "env -iS'rm x'",
        "env --split-string='rm x'",
        "printf -v 'a[$(rm x)]' y",
        "test -v 'a[$(rm x)]'",
        "unset 'a[`rm x`]'",
        "let 'a[$(rm x)]'",
        "declare 'a[$(rm x)]=y'",
        "[ -v 'a[$(rm x)]' ]",
        "mapfile -C 'rm x' -c 1 < f",
        "git -c alias.z='!rm x' z",
        "git rebase --exec 'rm x' HEAD~1",
        "git rebase --exec='rm x' HEAD~1",
        "git submodule foreach rm x",
        "git -C sub bisect run rm x",
        "ssh-agent rm x",
        "caffeinate -i rm x",
        "kubectl exec p -- rm x",
        "sops exec-env f 'rm x'",
        "perf stat rm x",
        "chrt 1 rm x",
        "rm >f x",
        "rm 2>&1 x",
        "env 2>/dev/null rm x",
        "a | rm &>f x",
        "a && rm <f >g x",
        ">f >g rm >h x",
        "rm <<E x\ny\nE",
        "rm <<E >f x\ny\nE",
        "sh >f -c 'rm x'",
        "a `a \\`rm x\\``",
        "[[ 'a[$(rm x)]' -eq 1 ]]",
        "[ 'a[$(rm x)]' -eq 1 ]",
        "y='a[$(rm x)]'; ((y))",
        "y='$(rm x)'; : ${y@P}",
        "PS4='$(rm x)' bash -x -c :",
        "a['$(rm x)']=1",
        "shopt -s expand_aliases\nalias z='rm x'\nz",
        "compgen -C 'rm x'",
        "compgen -W '$(rm x)'",
        "git submodule foreach 'rm x'",
        "git -c core.sshCommand='rm x' fetch",
        "git difftool --extcmd='rm x'",
        "git grep -O'rm x' y",
        "git filter-branch --tree-filter 'rm x' HEAD",
        "pkexec rm x",
        "linux64 rm x",
        "conda run -n y rm x",
        "ls\n\\rm x",
        "ls\n\\/bin/rm x",
        "ls\n\t\\r\\\nm x",
        "if a\nthen\n  \\rm x\nfi",
        "r''\\m x",
        'r""\\m x',
        "bash -c -- 'rm\tx'",
        "ls # a \\\n\\rm x",
        "eval -- rm x",
        "fish --command 'rm\tx'",
    ],
)
def test_a_command_is_found_wherever_it_stands(text: str) -> None:
    """A rule that denies it would be no rule otherwise."""
    found = [((words[0] or "").rpartition("/")[2], *words[1:]) for words in parse(text).commands if words]
    assert ("rm", "x") in found


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("git push x", "deny"),
        ("git 2>&1 push x", "deny"),
        ("git -c alias.p=push p x", "deny"),
        ("git -c 'alias.p=push x' p", "deny"),
        ("git -c 'alias.p=-c a.b=c push' p x", "deny"),
        ("git --attr-source HEAD push x", "deny"),
        ("/usr/lib/git-core/git-push x", "deny"),
        ("xargs git push", "ask"),
        ("echo push x | xargs -n 2 git", "ask"),
        ("parallel git ::: push", "ask"),
        ("fd -x git", "ask"),
        ("ls | xargs git add", "none"),
        ("git -c alias.p=pull p x", "none"),
    ],
)
async def test_a_rule_for_git_sees_its_subcommand(text: str, effect: str, tmp_path: Path) -> None:
    rules = RuleSet(deny=(parse_rule("bash(git push x)"),))
    assert (await judge_command(text, rules, view_of(tmp_path, tmp_path))).effect == effect


def nested(command: str, depth: int) -> str:
    for _ in range(depth):
        command = f"sh -c {shlex.quote(command)}"
    return command


@pytest.mark.parametrize(
    "text",
    [
        "$X y",
        "${X} y",
        "$(echo rm) x",
        "`a` x",
        'bash -c "$X"',
        "eval $X",
        "echo 'rm x' | sh",
        "bash -s",
        "sh <<< 'rm x'",
        "bash /dev/stdin <<< 'rm x'",
        ". /dev/fd/0 <<< 'rm x'",
        "xargs -I{} {} x",
        "r`:`m x",
        "r$(:)`:`m x",
        "bash -s y <<< rm",
        "sh - y <<< rm",
        ". /dev/stdin <<< rm y",
        "python3 - y <<< rm | sh",
        "git -c alias.z=!rm z",
        'git -c "$X" z',
        "bash -o pipefail <<< rm",
        "bash -o pipefail -s y <<< rm",
        "bash -es y <<< rm",
        "bash +x <<< rm",
        "bash --rcfile y <<< rm",
        nested("rm x", 6),
        "a '",
        "{a,b}",
        "x" * 30_000,
    ],
)
def test_a_program_that_is_only_known_later_is_noticed(text: str) -> None:
    assert parse(text).hides_program


@pytest.mark.parametrize(
    "text",
    [
        *("bash -c -- rm", "bash -c -x rm y", "sh -lc -- 'rm'", "bash -c -o posix rm", "bash -co posix rm"),
        *("bash -c -O extglob +e rm", "bash -c --rcfile y rm", "fish --command rm"),
    ],
)
def test_a_script_of_one_word_is_found_behind_options(text: str) -> None:
    assert ("rm",) in parse(text).commands


@pytest.mark.parametrize(
    "text",
    [
        "ls\\\n -a",
        "cat 'a\n\\rm x'",
        "git -c a.b=c log",
        "bash x.sh <<< rm",
        "bash -o pipefail x.sh <<< rm",
        "bash -eo pipefail -c ls",
        "python3 x.py -",
        "git -C x log '$y'",
    ],
)
def test_a_known_program_hides_nothing(text: str) -> None:
    parsed = parse(text)
    assert not parsed.hides_program
    assert ("rm", "x") not in parsed.commands


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    for name in PROGRAMS:
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    (folder / "work").mkdir()
    return folder


PIECES: Final = st.sampled_from(
    [
        *PROGRAMS,
        *(
            " ",
            " ",
            " ",
            " ",
            "\t",
            "\n",
            ";",
            " && ",
            " || ",
            " | ",
            "&",
            "'",
            '"',
            "\\",
            "$",
            "`",
            "(",
            ")",
            "{",
            "}",
        ),
        *(
            "#",
            " #",
            "~",
            "*",
            "?",
            "[",
            "]",
            "!",
            "=",
            "<",
            ">",
            " 2>&1",
            " 2>/dev/null",
            " >/dev/null",
            ",",
            ":",
            "^",
            "%",
        ),
        *(
            "a",
            "b",
            "-c",
            "--x=1",
            "'q r'",
            '"s t"',
            "\\ ",
            "\\\n",
            "\r",
            "\u00a0",
            "\u200b",
            "é",
            "if",
            "then",
            "fi",
            "for",
            "in",
            "do",
            "done",
        ),
        *(
            "case",
            "esac",
            "function",
            "time",
            "[[",
            "]]",
            "((",
            "))",
            "$((",
            "<<E\n",
            "\nE\n",
            "<<<",
            "$'",
            "\\x41",
            "-",
            "--",
            "1",
            "\x01",
            "|&",
        ),
    ]
)


@pytest.mark.slow  # a second of a core
@settings(
    max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pieces=st.lists(PIECES, min_size=1, max_size=10), first=st.sampled_from(PROGRAMS))
def test_bash_runs_nothing_but_the_commands_of_a_plain_text(
    stubs: Path, pieces: list[str], first: str
) -> None:
    text = f"{first} {''.join(pieces)}"
    plain = parse(text).plain
    if not plain:
        return
    log = stubs / "log"
    log.write_bytes(b"")
    subprocess.run(
        ["/bin/bash", "-c", text],
        cwd=stubs / "work",
        env={"PATH": str(stubs), "LOG": str(log), "END": "\1", "HOME": str(stubs)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=10,
        check=False,
    )
    ran = [
        tuple(os.fsdecode(word) for word in entry.split(b"\0")[:-1])
        for entry in log.read_bytes().split(b"\1\0")
        if entry
    ]
    assert {*ran} <= {*plain}
    assert not list((stubs / "work").iterdir())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["{", "`", "a;", "'a' ", "(", "a\n", "git run ", "xargs a ", "eval 'sh x' "])
def test_a_long_command_is_parsed_in_a_time_that_grows_with_it(text: str) -> None:
    """It holds up the whole program, and a model may write any."""
    began = time.process_time()
    parsed = parse(text * (MAX_TEXT // len(text)))
    assert time.process_time() - began < 2
    assert sum(map(len, parsed.commands)) < 5_000_000


@pytest.mark.timeout(20)
def test_a_command_that_is_hard_to_parse_is_asked_about_and_spares_the_next_one() -> None:
    began = time.process_time()
    hidden = parse("a=(" * 6_000 + "\\\n")
    assert time.process_time() - began < 2
    assert hidden.hides_program
    assert parse("ls -l").plain == [("ls", "-l")]


@pytest.mark.anyio
@pytest.mark.parametrize("start", ["git run " * 40, "xargs " + "a " * 1000])
async def test_what_is_too_long_to_be_looked_through_is_asked_about(tmp_path: Path, start: str) -> None:
    rules = RuleSet(deny=(parse_rule("bash(rm *)"),))
    judged = await judge_command(f"{start}sh -c 'sh -c \"rm x\"'", rules, view_of(tmp_path, tmp_path))
    assert judged.effect in {"ask", "deny"}
