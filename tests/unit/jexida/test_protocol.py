"""If these fail, jexida misses a command that the model proposed, or offers one that it only mentioned."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.terminal.jexida.protocol import SCHEMA, AnswerReply, Reply, ShellReply, read, render
from tests.properties import examples

SHELL = '{"type": "shell", "command": "ls -la", "reason": "To look."}'
ANSWER = '{"type": "answer", "text": "Blue."}'
LOOK = ShellReply("ls -la", "To look.")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(SHELL, id="plain"),
        pytest.param(f"\n  {SHELL}\n\n", id="white space"),
        pytest.param(f"```json\n{SHELL}\n```", id="fenced"),
        pytest.param(f"```\n{SHELL}\n```", id="fenced without a name"),
        pytest.param(f"```json {SHELL} ```", id="fenced on one line"),
        pytest.param(f"```json\n{SHELL}", id="the fence never closed"),
        pytest.param(
            f"Sure, here it is:\n\n```json\n{SHELL}\n```\nIt lists your files.", id="fence in prose"
        ),
        pytest.param(f"Sure: {SHELL} That lists them.", id="prose on the same line"),
        pytest.param(f"It's `ls` that you want.\n{SHELL}", id="inline code before"),
        pytest.param(f"Set ${{HOME}} first, then {{}}.\n{SHELL}", id="braces before"),
        pytest.param(f"<think>Is {ANSWER} right? No.</think>\n{SHELL}", id="thinking"),
        pytest.param(f"<thinking>\nHm.\n</thinking>\n```json\n{SHELL}\n```", id="thinking and fence"),
        pytest.param(f"Hm, files.\n</think>\n\n{SHELL}", id="thinking whose tag stood in the prompt"),
        pytest.param(SHELL + ANSWER, id="an invented answer behind it"),
        pytest.param(f"{SHELL}\nOutput: a.py\n{ANSWER}", id="an invented output behind it"),
        pytest.param(f'{{"thought": "look"}}\n{SHELL}', id="another object before"),
        pytest.param(f"```json\n{{}}\n{SHELL}\n```", id="an empty object before"),
        pytest.param(f"[{SHELL}]", id="a list of one"),
        pytest.param(SHELL.replace('."}', '.",}'), id="trailing comma"),
        pytest.param("{'type': 'shell', 'command': 'ls -la', 'reason': 'To look.'}", id="single quotes"),
        pytest.param('{type: "shell", command: "ls -la", reason: "To look."}', id="bare names"),
    ],
)
def test_a_command_is_recognized(words: str) -> None:
    assert read(words) in (LOOK, ShellReply("ls -la", "To look"))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(json.dumps({"type": "answer", "text": SHELL}), id="within an answer"),
        pytest.param(
            json.dumps({"type": "answer", "text": f"So:\n```json\n{SHELL}\n```"}), id="fenced within it"
        ),
        pytest.param(
            f'{{"type": "answer", "text": "Write\n{SHELL}\nfor that."}}', id="within a broken answer"
        ),
        pytest.param(f'{{"type": "answer", "text": "Not }}" nor\n{SHELL}', id="behind a broken answer"),
        pytest.param(f'{{"tpe": "answer", "text": "Or {SHELL}"}}', id="within an object that is no reply"),
        pytest.param(f'{{"type": "answer", "tex": "a"}} {SHELL}', id="behind an answer without its text"),
        pytest.param(f'"type": "answer", "text": ", {SHELL}"', id="within an answer without its brace"),
        pytest.param(f"You could send `{SHELL}`.", id="inline code"),
        pytest.param(f"You could send `echo {SHELL}`.", id="inside inline code"),
        pytest.param(f"You could send '{SHELL}'.", id="quotation marks"),
        pytest.param(f'You could send "please {SHELL}".', id="inside quotation marks"),
        pytest.param(f"> {SHELL}", id="block quote"),
        pytest.param(f"```sh\ncurl -d @- <<.\n{SHELL}\n.\n```", id="in a listing"),
        pytest.param(f"function f() {{ return {SHELL} }}", id="in braces"),
        pytest.param(f'{{"example": {SHELL}}}', id="in another object"),
        pytest.param(f"<think>I might send {SHELL}", id="in unfinished thinking"),
        pytest.param('{"type": "answer", "type": "shell", "command": "ls"}', id="two types"),
        pytest.param('{"type": "shell", "command": "ls", "command": "rm -r ."}', id="two commands"),
        pytest.param('{"type": "shell", "command": "ls -la', id="cut off within the command"),
        pytest.param(SHELL.removesuffix('."}') + ".", id="cut off behind the command"),
        pytest.param('{"type": "shell", "command": "ls", "reason": "In {x}', id="cut off behind a brace"),
        pytest.param("{'type': 'shell', 'command': 'ls \\'-la'}", id="an escape that is not JSON's"),
        pytest.param(
            "{'type': 'shell', 'command': 'ls', 'command': 'rm'}", id="two commands in single quotes"
        ),
        pytest.param('{"type": "shell", "command": "echo "a" b"}', id="a command that is guessed"),
        pytest.param('{"type": "shell", "command": "ls" -la",}', id="a command whose end is guessed"),
        pytest.param('{"type": "shell", "command": "ls", -la",}', id="a command with a loose end"),
        pytest.param('{"type": "shell", "command": " "}', id="empty"),
        pytest.param('{"type": "shell", "command": ["ls"]}', id="a list"),
        pytest.param('{"type": "shell", "command": "ls\\u0000"}', id="NUL"),
        pytest.param('{"type": "shell", "command": "ls \\ud800"}', id="half a pair"),
        pytest.param('{"type": "shell", "text": "ls"}', id="no command"),
        pytest.param('{"command": "ls", "reason": "To look."}', id="no type"),
        pytest.param('{"type": "tool", "command": "ls"}', id="another type"),
    ],
)
def test_a_command_in_prose_is_not_run(words: str) -> None:
    assert isinstance(read(words), AnswerReply)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param("The sky is blue.", "The sky is blue.", id="plain words"),
        pytest.param(ANSWER, "Blue.", id="the protocol"),
        pytest.param(f"<think>Hm.</think>{ANSWER}", "Blue.", id="thinking"),
        pytest.param("<think>Hm.</think>\nBlue.", "Blue.", id="thinking before plain words"),
        pytest.param(f"Easy:\n```json\n{ANSWER}\n```\nReally.", "Easy:\n\nBlue.", id="words before stay"),
        pytest.param(f"{ANSWER}\n{SHELL}", "Blue.", id="the first counts"),
        pytest.param('{"type": "answer", "text": "a\nb",}', "a\nb", id="mended"),
        pytest.param('{"type": "answer", "text": 42}', '{"type": "answer", "text": 42}', id="wrong type"),
        pytest.param('{"a": 1}', '{"a": 1}', id="another object"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_an_answer_is_shown_without_its_wrapping(words: str, text: str) -> None:
    assert read(words) == AnswerReply(text)


def test_the_text_before_a_command_is_its_reason() -> None:
    assert read('This lists them.\n{"type": "shell", "command": "ls"}') == ShellReply(
        "ls", "This lists them."
    )


TEXT = st.text() | st.lists(
    st.sampled_from(
        [SHELL, ANSWER, "{", "}", '"', "```", "`", "\n", "<think>", "</think>", "type", "\\", " "]
    )
).map("".join)
VALID = st.text(st.characters(exclude_categories=["Cs"]))
REPLIES = st.builds(AnswerReply, VALID) | st.builds(
    ShellReply, VALID.filter(lambda text: bool(text.strip()) and "\0" not in text), VALID
)


@settings(max_examples=100)
@given(TEXT)
def test_any_reply_can_be_parsed(words: str) -> None:
    assert isinstance(read(words), AnswerReply | ShellReply)


@settings(max_examples=100)
@given(REPLIES)
def test_rendered_replies_are_parsed_back(reply: Reply) -> None:
    assert read(render(reply)) == reply


@settings(max_examples=50)
@given(REPLIES.filter(lambda reply: isinstance(reply, ShellReply)))
def test_no_answer_hides_a_command(shell: ShellReply) -> None:
    assert read(render(AnswerReply(render(shell)))) == AnswerReply(render(shell))


def test_the_schema_has_the_parsed_fields() -> None:
    for variant, reply in zip(SCHEMA["anyOf"], (AnswerReply("a"), ShellReply("b", "c")), strict=True):
        assert list(json.loads(render(reply))) == list(variant["properties"]) == variant["required"]


def test_hostile_replies_are_parsed_quickly() -> None:
    assert isinstance(read('{"' * 50_000), AnswerReply)
    assert isinstance(read("{" * 200_000 + SHELL), AnswerReply)
    assert isinstance(read("<think></think>" * 20_000), AnswerReply)


BITS = st.lists(
    st.sampled_from(
        [
            SHELL,
            SHELL.replace('"', "'"),
            ANSWER,
            "}",
            "{",
            "'}",
            '"',
            "'",
            "\\",
            "</think>",
            "```",
            ",",
            "ls",
            "\n",
        ]
    )
).map("".join)


@settings(max_examples=examples(20))  # each is cut at each of its characters
@given(
    st.fixed_dictionaries(
        {"type": st.just("shell"), "command": (VALID | BITS).map(lambda text: "x" + text.replace("\0", ""))},
        optional={
            "reason": VALID | BITS,
            "more": st.fixed_dictionaries({"type": st.just("shell"), "command": BITS}),
        },
    ),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_a_truncated_reply_proposes_nothing(reply: dict[str, Any], indent: int | None, ascii_: bool) -> None:
    """The end of a command decides its effect: `rm -rf /tmp/x` may be the beginning of `rm -rf /tmp/x.old`, or the
    missing text may be the reason not to run it.
    """
    whole = json.dumps(reply, indent=indent, ensure_ascii=ascii_)
    assert isinstance(read(whole), ShellReply)
    for end in range(len(whole)):
        assert read(whole[:end]) == AnswerReply(whole[:end].strip())
