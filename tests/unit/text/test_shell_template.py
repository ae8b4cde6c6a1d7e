"""If these fail, a value in a command template runs as a command, or a routine does the wrong thing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from newel.text.shell_template import ShellTemplate, Variable
from tests.properties import examples
from tests.requirements import require_program

PRINT = "printf '%s\\0'"
RUNS = "\necho>RUN\n#"
RUNS_ANYHOW = (
    "$(echo>RUN)`echo>RUN`'$(echo>RUN)`echo>RUN`'\"$(echo>RUN)`echo>RUN`\n echo>RUN\n\"'\n) echo>RUN;;\n#"
)

VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20) | st.sampled_from(
    [
        "",
        "-rf",
        "--",
        "a b",
        "it's",
        '"',
        "$HOME",
        "$(id)",
        "`id`",
        "\n",
        "a\\",
        "*",
        "~",
        "#",
        "日本",
        "=x",
        "2",
        "if",
    ]
)
WORDS = st.sampled_from(["{a}", "{b}", " ", "x", "\\", "\n", "\\\n", "#", "'", '"', "$", ";", "<<", ")", "}"])
AROUND = st.sampled_from(
    [
        *[("'", "'"), ('"', '"'), ("$'", "'"), ('$"', '"'), ("`", "`"), ("\\`", "\\`"), ("$(", ")"), ("(", ")")],
        *[("((", "))"), ("$((", "))"), ("$[", "]"), ("${x:-", "}"), ("${x#", "}"), ("{ ", "; }"), ("", "|")],
        *[("case a in a) ", " ;; esac"), ("cat <<E\n", "\nE\n"), ("#", "\n"), ("\\ #", "\n"), ("echo ", "; "), ("x=", "")],
    ]
)  # fmt: skip
TEMPLATES = st.recursive(
    WORDS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join), st.tuples(AROUND, inner).map(lambda made: made[1].join(made[0]))
    ),
    max_leaves=8,
)


@cache
def shells() -> tuple[str, ...]:
    return require_program("dash"), require_program("bash")


def run(shell: str, command: str, folder: Path) -> bytes:
    """Its output; the shell finds no programs, and has only its built-in commands."""
    whole = [shell, "-c", command]
    return subprocess.run(
        whole, cwd=folder, env={"PATH": ""}, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
    ).stdout  # fmt: skip


def given_to_program(template: str, values: Mapping[str, str], folder: Path) -> list[list[str]]:
    """The arguments of a command's program, in each shell."""
    command = ShellTemplate(template, list(values)).fill(values)
    return [run(shell, command, folder).decode().split("\0")[:-1] for shell in shells()]


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES, VALUES)
def test_a_program_gets_any_value_exactly(tmp_path: Path, a: str, b: str) -> None:
    values = {"a": a, "b": b}
    told = given_to_program(
        f'{PRINT} {{a}} -{{b}}. {{a}}; ({PRINT} "$(printf %s {{b}}.)" # \'\n)', values, tmp_path
    )
    assert told == [[a, f"-{b}.", a, f"{b}."]] * 2


@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(TEMPLATES)
@example('"$(case a in a) echo "{a}";; esac)"')
@example("$'\\' {a}")
@example("\\ #'\n{b}")
@example("x\\\n#'\n{b}")
@example("$((case a in a) x case b in b) {b} ;; esac ;; esac)){b}")
@example("$((x) y) {a} ))")
@example("$(x)#'{a}\n{b}")
@example("((1))#'\n{b}")
@example("`echo {a}`")
@example("'{a}'")
@example("; x=(; {b})")
@example("$(({a}))")
@example("${x:-$[ {a}]}")
@example("#{a}")
@example("\"'{a}'\"")
@example("; cat <<E\n{a}\nE\n")
def test_no_accepted_template_lets_a_value_run(tmp_path: Path, template: str) -> None:
    declared = [name for name in "ab" if f"{{{name}}}" in template]
    try:
        command = ShellTemplate(f"echo {template}", declared).fill({"a": RUNS_ANYHOW, "b": RUNS})
    except ValueError:
        return
    for shell in shells():
        run(shell, command, tmp_path)
        assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize(
    "template",
    [
        "docker logs --tail={a} {b}",
        "cd {a} && ls -- {b} | wc -l > {a}.txt",
        "x=$(cat {a}); echo \"it's $x ${y:-none} $((6*7))\" '#' {b}",
        'echo "$(wc -l {a})" # how many',
        "echo `date`{a}; awk '{print $1}' {b}",
        'case "$1" in x) echo {a};; esac; cat < {b}',
    ],
)
def test_common_templates_are_accepted(template: str) -> None:
    declared = [name for name in "ab" if f"{{{name}}}" in template]
    filled = ShellTemplate(template, declared).fill({"a": "1", "b": "it's"})
    assert filled == template.replace("{a}", "'1'").replace("{b}", "'it'\\''s'")


def test_only_declared_names_are_placeholders() -> None:
    own = "docker ps --format '{{.Names}} {{name}}' | awk '{print}'; echo ${name} \\{name} {lines} {NAME}"
    assert ShellTemplate(own).fill({}) == own
    assert ShellTemplate(own + " {name}", ["name"]).fill({"name": "x"}) == own + " 'x'"


def test_a_default_replaces_a_missing_value() -> None:
    template = ShellTemplate("tail -n {lines} {name}{end}", ["name", "lines=100", "end="])
    assert template.variables == (Variable("name"), Variable("lines", "100"), Variable("end", ""))
    assert template.fill({"name": "a"}) == "tail -n '100' 'a'''"
    assert template.fill({"name": "a", "lines": "5", "end": "=b"}) == "tail -n '5' 'a''=b'"
    with pytest.raises(KeyError):
        template.fill({"lines": "5"})


@pytest.mark.parametrize(
    ("text", "declared", "words"),
    [
        ("echo {a} '{b}'", ["a", "b"], "{b} is inside quotes, where a value cannot be quoted safely"),
        ('echo "{a}"', ["a"], "{a} is inside quotes"),
        ("echo `echo {a}`", ["a"], "{a} is inside backquotes"),
        ("echo $((1 + {a}))", ["a"], "{a} is inside arithmetic"),
        ("echo ${x:-{a} }", ["a"], "{a} is inside ${…}"),
        ("echo # {a}", ["a"], "{a} is in a comment"),
        ("cat <<E\n{a}\nE", ["a"], "{a} is behind <<"),
        ("echo {b}", ["a"], "the variable a is not used"),
        ("echo ${a} {{a}}", ["a"], "the variable a is not used"),
        ("echo {a}", ["a", "a=1"], "the variable a is declared twice"),
        ("echo {a b}", ["a b"], "'a b' is not a variable"),
        ("echo {}", [""], "'' is not a variable"),
        ("echo {ä}", ["ä"], "'ä' is not a variable"),
        ("echo {a}", ["a=\0"], "the default of a contains a NUL character"),
    ],
)
def test_a_template_that_cannot_be_filled_safely_is_refused_with_a_message(
    text: str, declared: list[str], words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        ShellTemplate(text, declared)


def test_a_value_that_no_program_can_get_is_refused() -> None:
    with pytest.raises(ValueError, match="the value of a contains a NUL character"):
        ShellTemplate("echo {a}", ["a"]).fill({"a": "x\0y"})
