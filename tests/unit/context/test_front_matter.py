"""If these fail, what a skill or a prompt of other agents says of itself is misread, and the file is left out or offered for something
else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import cast

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from newel.context.front_matter import MAX_CHARACTERS, split_front_matter
from tests.forked import start
from tests.support import BIN


def front(source: str) -> str:
    return f"---\n{source}\n---\nBody.\n"


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        (
            "name: pdf\ndescription: Fills forms, reads tables (also scans).",
            {"name": "pdf", "description": "Fills forms, reads tables (also scans)."},
        ),
        ('description: "Quoted: yes"', {"description": "Quoted: yes"}),
        ("description: >\n  folded\n  lines", {"description": "folded lines\n"}),
        ("allowed-tools: [Read, 'Bash(git *)']", {"allowed-tools": ["Read", "Bash(git *)"]}),
        ("metadata:\n  author: me\n  version: '1'", {"metadata": {"author": "me", "version": "1"}}),
        ("disable-model-invocation: true", {"disable-model-invocation": True}),
        ("# a comment\n\nname: x", {"name": "x"}),
        (
            "description: Use it when: the user asks # about that",
            {"description": "Use it when: the user asks # about that"},
        ),
        ("argument-hint: [issue] [priority]", {"argument-hint": "[issue] [priority]"}),
        ("allowed-tools: Bash(git add:*), Write", {"allowed-tools": "Bash(git add:*), Write"}),
        ("a: !!python/object/apply:os.system ['false']", {"a": "!!python/object/apply:os.system ['false']"}),
        ("", {}),
    ],
)
def test_fields_are_read_as_they_are_meant(source: str, fields: dict[str, object]) -> None:
    found = split_front_matter(front(source))
    assert (dict(found.fields), found.body, found.problem) == (fields, "Body.\n", "")


@pytest.mark.parametrize(
    ("source", "line", "problem"),
    [
        ('name: x\ndescription: "a', 4, "unexpected end of stream"),
        ("name: x\n\tdescription: y", 3, "tab character"),
        ("- a\n- b", 2, "list of fields"),
        ("[" * 5_000, 2, "nesting depth"),
        ("a: " + "x" * MAX_CHARACTERS, 1, "32,000 characters"),
        ("a: 2026-99-99", 1, "not valid YAML"),
        ("a:\n- &x [1]\n- *x", 4, "alias"),
    ],
)
def test_a_problem_has_a_line(source: str, line: int, problem: str) -> None:
    found = split_front_matter(front(source))
    assert problem in found.problem
    assert (found.problem_line, dict(found.fields)) == (line, {})


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "source",
    [
        "\n".join(f"a{n}:\n- &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(20))
        + "\nname:\n- *a19\nargument-hint:\n- *a19",
        "name: x" + " " * 30_000 + "y:",
        "name: x" + " \t" * 15_000 + "y: [",
        "name:" + " " * 30_000 + "\tx",
    ],
)
def test_no_file_of_a_project_takes_long(source: str) -> None:
    """Prompts of a project are read without trust, at each start."""
    found = split_front_matter(front(source))
    assert len(found.hint) + len(str(found.fields.get("name"))) < 100_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\nname: x\ndescription: y\n\nBody.\n", "the line `---` that ends it is missing"),
        ("---\nBetween two rules.\n", ""),
        ("---\n\ndescription: of a paragraph\n", ""),
    ],
)
def test_front_matter_without_its_end_is_a_problem_and_a_rule_is_none(text: str, problem: str) -> None:
    found = split_front_matter(text)
    assert (found.problem, found.problem_line, dict(found.fields), found.body) == (problem, 1, {}, text)


LINES = st.lists(
    st.sampled_from(["name: ", "a-b: ", "x:", "  - ", "# ", "", "'", '"']).flatmap(
        lambda start: st.text("abcYy1:.#'\"\\ -[]{}&*!|>%@`,?=~\u00e4\u2028\t", max_size=12).map(
            start.__add__
        )
    ),
    max_size=4,
)


@given(LINES)
def test_what_is_read_without_the_library_is_what_the_library_reads(lines: list[str]) -> None:
    source = "\n".join(lines)
    try:
        expected = yaml.safe_load(f"{source}\n")
        events = cast("Iterator[yaml.Event]", yaml.parse(source))  # pyright: ignore[reportUnknownMemberType] — not typed
        assume(not any(isinstance(event, yaml.AliasEvent) for event in events))
    except (yaml.YAMLError, ValueError):
        return
    if isinstance(expected, dict) and "---" not in source and "\r" not in source:
        texts = {name: value for name, value in expected.items() if isinstance(name, str)}  # pyright: ignore[reportUnknownVariableType]
        assert split_front_matter(front(source)).fields == texts


def test_common_files_do_not_load_the_library() -> None:
    script = (
        "import sys; from newel.context.front_matter import split_front_matter as split;"
        "split('---\\nname: a\\ndescription: \"Does: b.\"\\nallowed-tools: Read Grep\\n---\\n');"
        "sys.exit('yaml' in sys.modules)"
    )
    with start([sys.executable, "-c", script], cwd=BIN, env={}) as process:
        process.communicate()
    assert process.wait() == 0
