"""If these fail, a person at a terminal sees an answer torn, doubled, coloured wrongly, or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from newel.agent.events import AgentEnd, AgentEvent, ErrorEvent, Retry
from newel.agent.messages import ToolCall
from newel.terminal.renderers.rich import RichRenderer
from newel.terminal.renderers.styles import Styles
from tests.properties import examples

READ = ToolCall("1", "read", {"file_path": "importer/cli.py"})
EDIT = ToolCall("2", "edit", {"file_path": "importer/cli.py"})
BASH = ToolCall("3", "bash", {"command": "pytest -q tests/test_cli.py"})
DIFF = (
    "--- a\n+++ b\n@@ -40,3 +40,3 @@\n x\n-    run(source)\n+    run(source, dry_run=True)\n y\n"
    "@@ -90,2 +90,3 @@\n x\n+\tdone\n y\n"
)
COLOURS = {"TERM": "xterm-256color"}
SGR = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[!-~]*\x1b\\")
"""Colours and links."""
LINKED = re.compile(r"\x1b\]8;id=\d+;(?P<target>[!-~]+?)\x1b\\(?P<text>.*?)\x1b\]8;;\x1b\\")


class Paper:
    """A screen that keeps the printed lines, and every state of the live ones."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.printed = ""
        self.live: list[list[str]] = []

    def size(self) -> tuple[int, int]:
        return self.columns, self.rows

    def draw(self, above: str, live: Sequence[str]) -> None:
        self.printed += above
        self.live.append(list(live))

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    @property
    def text(self) -> str:
        """Without colours, and in characters that can be typed."""
        text = SGR.sub("", self.printed)
        return text.replace("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", ">").replace(
            "\N{MINUS SIGN}", "-"
        )


def tick(renderer: RichRenderer) -> None:
    while not renderer.tick():
        pass


def show(
    events: Sequence[AgentEvent], *, columns: int = 80, environ: dict[str, str] = COLOURS, rows: int = 24
) -> Paper:
    paper = Paper(columns, rows)
    renderer = RichRenderer(paper, Styles(environ), window=lambda: 128_000, clock=lambda: 0.0)
    for event in events:
        renderer.handle(event)
        tick(renderer)
    renderer.close()
    return paper


def test_a_whole_run_is_in_the_scroll_back_as_designed(scene: Callable[..., Any]) -> None:
    events = (
        scene("add a flag\nand test it")
        .say("", READ, EDIT, BASH)
        .run(READ, "…", linesRead=212)
        .run(EDIT, "…", diff=DIFF, took=6)
        .run(BASH, "stdout:\n12 passed\nstderr:\n\nexit code: 0", exitCode=0, took=1900)
        .say("The flag is in place: `--dry-run` writes nothing.\n\n- one\n- two")
        .end()
    )
    assert show(events).text == (
        "> add a flag\n"
        "  and test it\n"
        "\n"
        "● read importer/cli.py                                           212 lines  4 ms\n"
        "● edit importer/cli.py                                               +2 -1  6 ms\n"
        "  │ 40   x\n"
        "  │ 41 -     run(source)\n"
        "  │ 41 +     run(source, dry_run=True)\n"
        "  │ 42   y\n"
        "  │ ⋮\n"
        "  │ 90   x\n"
        "  │ 91 +     done\n"
        "  │ 92   y\n"
        "● bash pytest -q tests/test_cli.py                              12 passed  1.9 s\n"
        "\n"
        "The flag is in place: --dry-run writes nothing.\n"
        "\n"
        " • one\n"
        " • two\n"
        "\n"
        "3.1k in · 420 out · $0.004 · 3 % of 128k · 6.2 s\n"
    )


def test_a_run_without_an_answer_does_not_report_the_context_of_an_earlier_conversation(
    scene: Callable[..., Any],
) -> None:
    earlier = scene().say("An answer.").end()
    stopped = AgentEnd(timestamp=earlier[-1].timestamp, reason="aborted")
    text = show([*earlier, *scene().events, stopped]).text
    assert text.count(" % of 128k") == 1
    assert text.endswith("\n6.2 s\n")


def test_text_is_printed_once_however_it_arrives(scene: Callable[..., Any]) -> None:
    answer = "# Plan\n\nFirst *this*.\n\n```python\ndef f():\n\n    return 1\n```\n\n1. a\n2. b\n\nEnd."
    whole = show(scene().say(answer, pieces=10_000).end()).text
    assert all(show(scene().say(answer, pieces=size).end()).text == whole for size in (1, 3, 11))
    assert "def f():\n\n    return 1\n" in whole


def test_code_can_be_copied_as_written(scene: Callable[..., Any]) -> None:
    line = "x = '" + "long " * 40 + "'"
    paper = show(scene().say(f"```python\n{line}\n```").end(), columns=40)
    assert f"\n{line}\n" in paper.text


def test_a_failed_call_shows_its_last_lines(scene: Callable[..., Any]) -> None:
    paper = show(scene().say("", BASH).run(BASH, "stdout:\na\nstderr:\nboom\nexit code: 1", exitCode=1).end())
    assert "exit code 1  4 ms\n  │ a\n  │ boom\n" in paper.text
    assert "\x1b[31m● " in paper.printed


def test_the_output_of_a_command_is_three_lines_below_it(scene: Callable[..., Any]) -> None:
    lines = "".join(f"line {number}\n" for number in range(1, 101))
    output = f"stdout:\n{lines}{'wide ' * 30}\nstderr:\n\nexit code: 0"
    text = show(scene().say("", BASH).run(BASH, output, exitCode=0).end()).text
    cut = ("wide " * 30)[:75].rstrip() + "…"
    assert f"  4 ms\n  │ … 98 more lines\n  │ line 99\n  │ line 100\n  │ {cut}\n\n" in text


def test_the_number_of_lines_of_a_result_that_omits_some_is_a_minimum(scene: Callable[..., Any]) -> None:
    result = "stdout:\n1\n2\n[… 9 characters omitted …]\n7\n8\n9\nstderr:\n\nexit code: 0"
    for truncated, words in ((True, "at least 3 more lines"), (False, "3 more lines")):
        paper = show(scene().say("", BASH).run(BASH, result, exitCode=0, truncated=truncated).end())
        assert f"  │ … {words}\n  │ 7\n" in paper.text


def test_binary_output_of_a_command_is_inert(scene: Callable[..., Any]) -> None:
    noise = bytes(range(256)).decode("latin-1") * 8
    paper = show(scene().say("", BASH).run(BASH, f"stdout:\n{noise}\nexit code: 0", exitCode=0).end())
    assert not [char for char in SGR.sub("", paper.printed) if not char.isprintable() and char != "\n"]
    assert max(map(cell_len, paper.text.split("\n"))) <= 80


def test_an_unknown_tool_shows_its_output(scene: Callable[..., Any]) -> None:
    call = ToolCall("4", "time__now", {"zone": "UTC"})
    text = show(scene().say("", call).run(call, "It is noon.\nThe zone is UTC.").end()).text
    assert "4 ms\n  │ It is noon.\n  │ The zone is UTC.\n" in text


def test_thinking_leaves_one_line(scene: Callable[..., Any]) -> None:
    now = [0.0]
    paper = Paper()
    renderer = RichRenderer(paper, Styles(COLOURS), clock=lambda: now[0])
    for event in scene().say("Done.", BASH, thinking="First I look. " * 20).run(BASH, "stdout:\nx").end():
        renderer.handle(event)
        tick(renderer)
        if "thinking" in "".join(paper.live[-1]):
            now[0] += 0.08
    assert paper.text.count("Thought for ") == 1
    assert "> do it\n\nThought for 3.2 s\n\nDone.\n" in paper.text
    assert "First I look" not in paper.text


def test_thoughts_between_calls_stand_close_to_them(scene: Callable[..., Any]) -> None:
    run = scene().say("", BASH, thinking="Hm.").run(BASH, "stdout:\nx")
    text = show(run.say("", READ, thinking="Aha.").run(READ, "", linesRead=1).end()).text
    assert "Thought for 0 ms\n● bash" in text
    assert "x  4 ms\nThought for 0 ms\n● read" in text


def test_a_running_answer_may_take_half_of_the_screen(scene: Callable[..., Any]) -> None:
    code = "```\n" + "line\n" * 100
    paper = show(scene().say(code).events, rows=40)
    assert max(sum("line" in line for line in lines) for lines in paper.live) == 20


@pytest.mark.parametrize("columns", range(16, 100, 3))
def test_however_narrow_the_line_of_state_says_how_to_stop(scene: Callable[..., Any], columns: int) -> None:
    now = [0.0]
    paper = Paper(columns)
    renderer = RichRenderer(paper, Styles(COLOURS), clock=lambda: now[0])
    for event in scene().say("", BASH).start(BASH).events:
        renderer.handle(event)
        now[0] += 11.0
    tick(renderer)
    state = SGR.sub("", paper.live[-1][-1])[2:]
    assert state.endswith("Esc stops")
    if columns > 58:
        assert state == "bash · 11 s · run 1 min 17 s · 3.5k tokens · Esc stops"
    if columns > 42:
        assert "run 1 min 17 s" in state


def test_an_address_is_a_link_to_itself_alone(scene: Callable[..., Any]) -> None:
    """Otherwise somebody opens an address other than the one that they read."""
    answer = (
        "[https://bank.example](https://evil.example) <https://a.example> [x](javascript:alert) "
        "(see https://b.example/c_(d)). [file](file:///etc/passwd) https://b\u0430nk.example/x"
    )
    paper = show(scene().say(answer).end())
    links = [(found["target"], found["text"]) for found in LINKED.finditer(paper.printed)]
    assert {target for target, _ in links} == {
        "https://bank.example",
        "https://evil.example",
        "https://a.example",
        "https://b.example/c_(d)",
    }
    assert all(SGR.sub("", text) == target for target, text in links)
    assert "https://bank.example (https://evil.example) https://a.example [x](javascript:alert)" in " ".join(
        paper.text.split()
    )


@pytest.mark.parametrize("term", ["linux", "vt100"])
def test_a_terminal_without_links_gets_none(scene: Callable[..., Any], term: str) -> None:
    assert "\x1b]" not in show(scene().say("https://a.example").end(), environ={"TERM": term}).printed


@pytest.mark.parametrize("before", ["", "Look at ", "- ", "1. **", "> "])
def test_an_address_that_fits_is_never_broken(scene: Callable[..., Any], before: str) -> None:
    address = "https://example.org/" + "way/" * 22
    paper = show(
        scene().say(f"Words before it, so that it moves. {before}{address}\n\nEnd.").end(), columns=120
    )
    assert any(address in line for line in paper.text.split("\n"))
    prose = show(scene().say("word " * 100).end(), columns=120).text
    assert max(map(len, prose.split("\n"))) <= 100


@pytest.mark.parametrize("columns", [120, 50])
def test_an_address_in_a_table_is_a_link_even_where_it_is_folded(
    scene: Callable[..., Any], columns: int
) -> None:
    address = "https://example.org/a/long/way/to/go"
    paper = show(scene().say(f"| a | b |\n|---|---|\n| {'word ' * 30} | {address} |").end(), columns=columns)
    assert {found["target"] for found in LINKED.finditer(paper.printed)} == {address}


def test_headings_tasks_and_code_are_told_apart(scene: Callable[..., Any]) -> None:
    answer = "# One\n\n## Two\n\n- [ ] open\n- [X] done\n- [link]\n\n```rust\nlet x;\n```\n\n```\nplain\n```"
    paper = show(scene().say(answer).end())
    assert " ☐ open\n ☑ done\n • [link]\n\nrust\nlet x;\n\nplain\n" in paper.text
    one, two = (line for line in paper.printed.split("\n") if SGR.sub("", line) in {"One", "Two"})
    assert one.replace("One", "") != two.replace("Two", "")
    (plain,) = (line for line in paper.printed.split("\n") if SGR.sub("", line) == "plain")
    assert "\x1b[36m" in plain


def test_during_a_run_the_last_lines_show_the_activity_and_how_to_stop(scene: Callable[..., Any]) -> None:
    paper = show(scene().say("Now the tests.", BASH).start(BASH, "one\ntw", "o\nthree\nfour").events)
    lines = [SGR.sub("", line) for line in paper.live[-2]]  # the last one is after close()
    assert lines[-5:] == [
        "○ bash pytest -q tests/test_cli.py",
        "  │ two",
        "  │ three",
        "  │ four",
        lines[-1],
    ]
    assert lines[-1][1:] == " bash · 3.5k tokens · Esc stops"
    assert paper.live[-1] == []


def test_text_voided_by_a_retry_is_marked(scene: Callable[..., Any]) -> None:
    run = scene().say("First half.\n\nSecond ha")
    run.events.pop()
    run.add(Retry(attempt=1, max_attempts=5, delay=2.0, reason="connection lost"))
    text = show(run.say("All of it.").end()).text
    assert "Second ha" not in text
    assert "connection lost. Ignore the text above. Trying again in 2 s (1 of 5)." in " ".join(text.split())
    assert text.count("All of it.") == 1


def test_a_retry_is_described_in_whole_sentences(scene: Callable[..., Any]) -> None:
    run = scene().add(Retry(attempt=2, max_attempts=5, delay=7.588, reason="Too many requests (429)."))
    text = show(run.events).text
    assert "The request failed: Too many requests (429). Trying again in 7.6 s (2 of 5).\n" in text


def test_repeated_failures_are_printed_once_with_a_count(scene: Callable[..., Any]) -> None:
    """If this fails, a server that is overloaded for minutes fills the scroll-back."""
    run = scene()
    for attempt in range(2, 11):
        run.add(Retry(attempt=attempt, max_attempts=10, delay=17.4, reason="Overloaded (529)"))
    run.add(Retry(attempt=10, max_attempts=10, delay=1, reason="Unavailable (503)"))
    paper = show(run.events)
    assert paper.text.count("Overloaded (529)") == 1
    assert paper.text.count("Unavailable (503)") == 1
    assert any("waiting 17.4 s to try again (9 of 10)" in line for lines in paper.live for line in lines)


def test_a_long_line_of_a_failed_call_wraps_between_words(scene: Callable[..., Any]) -> None:
    output = (
        "stdout:\n  error: the file notes.txt was not found in the folder\n" + "x" * 50 + "\nexit code: 1"
    )
    paper = show(scene().say("", BASH).run(BASH, output, exitCode=1).end(), columns=40)
    assert (
        f"  │   error: the file notes.txt was not\n  │ found in the folder\n  │ {'x' * 36}\n  │ {'x' * 14}\n"
    ) in paper.text


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(scene: Callable[..., Any], columns: int) -> None:
    wide = ToolCall("9", "bash", {"command": "echo 日本語 🙂 " * 20})
    events = (
        scene("日本語のテスト " * 10)
        .say(
            "Prose with 日本語 and 🙂 in it. " * 10 + "\n\n| a | b |\n|---|---|\n| 日本 | " + "x " * 80 + "|",
            wide,
        )
        .start(wide, "出力\t出力 " * 30 + "\n")
        .finish(wide, "stdout:\n" + "漢字" * 100 + "\nexit code: 1", exitCode=1, diff=DIFF)
        .end()
    )
    paper = show(events, columns=columns)
    assert max(cell_len(line) for line in paper.text.split("\n")) <= columns
    live = [SGR.sub("", line) for lines in paper.live for line in lines]
    assert max(map(cell_len, live)) < columns
    assert not [line for line in live if "\n" in line]


def test_the_live_part_leaves_room_on_a_small_terminal(scene: Callable[..., Any]) -> None:
    paper = show(scene().say("- item\n" * 100, BASH).start(BASH, "x\n" * 100).events, rows=10)
    assert max(len(lines) for lines in paper.live) <= 8


def test_no_color_means_no_colour(scene: Callable[..., Any]) -> None:
    events = scene().say("# T\n\n`x`\n\n```py\nx = 1\n```", EDIT).run(EDIT, "", diff=DIFF).end()
    codes = {
        code
        for found in SGR.findall(show(events, environ={**COLOURS, "NO_COLOR": "1"}).printed)
        for code in found[2:-1].split(";")
    }
    assert codes <= {"0", "1", "2", "3", "4"}


def test_a_question_about_a_server_stands_apart_from_that_about_its_call() -> None:
    paper = Paper()
    renderer = RichRenderer(paper, Styles(COLOURS), window=lambda: 128_000, clock=lambda: 0.0)
    renderer.note("Execute Shell Command:\n\n    npm install\n", "question")
    renderer.note("Network:\n\n    example.org\n", "question")
    assert "npm install\n\nNetwork:" in paper.text


HOSTILE = st.lists(st.sampled_from([*"\x1b[]\x07;H2Ka\n\r`\x9b", "&#27;", "&#155;"]), max_size=12).map(
    "".join
)


def test_the_return_of_a_host_is_not_an_error(scene: Callable[..., Any]) -> None:
    back = ErrorEvent(code="connection", message="The connection to shop is back.", level="info")
    written = show(scene().add(back).end("done")).printed
    assert "The connection to shop is back." in written
    assert "Error" not in written


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(20)
)  # the fixture is a class
@given(text=HOSTILE, pieces=st.integers(1, 5))
def test_only_the_renderers_own_colours_reach_the_terminal(
    scene: Callable[..., Any], text: str, pieces: int
) -> None:
    call = ToolCall("1", "bash", {"command": text})
    odd = ToolCall("2", text, {text: text})
    link = f"[{text}](http://x/{text} '{text}')\n\n```{text}\n{text}\n```"
    events = (
        scene(text)
        .say(text + "\n\n" + link, call, odd, pieces=pieces, thinking=text)
        .start(call, text, text)
        .finish(call, text, exitCode=1, diff="@@ -1,9 +1,9 @@\n-" + text + "\n+" + text)
        .start(odd, text)
        .result(odd, text, is_error=True)
        .add(Retry(attempt=1, max_attempts=2, delay=1, reason=text), ErrorEvent(code="x", message=text))
        .end("stopped", text)
    )
    paper = show(events)
    for written in (paper.printed, *("\n".join(lines) for lines in paper.live)):
        rest = SGR.sub("", written)
        assert not [char for char in rest if not char.isprintable() and char != "\n"]


WORDS = [
    "importer.parse",
    "a_rather_long_identifier_of_code",
    "日本語の長い名前",
    "🙂🙂🙂",
    "https://example.org/a/long/way",
    "x",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
@given(
    rows=st.lists(st.lists(st.sampled_from(WORDS), min_size=4, max_size=4), min_size=1, max_size=3),
    columns=st.integers(20, 100),
    number=st.integers(1, 4),
    mark=st.sampled_from(["", "`", "**"]),
)
def test_a_table_loses_no_text_however_narrow_the_terminal(
    scene: Callable[..., Any], rows: list[list[str]], columns: int, number: int, mark: str
) -> None:
    cells = [[f"{mark}{word}{mark}" for word in row[:number]] for row in rows]
    table = "\n".join(f"| {' | '.join(row)} |" for row in [["Name"] * number, ["---"] * number, *cells])
    paper = show(scene().say(f"{table}\n\nEnd.").end(), columns=columns)
    assert "…" not in paper.text
    assert max(cell_len(line) for line in paper.text.split("\n")) <= columns
    for letter in set("".join(word for row in rows for word in row[:number])):
        there = sum(word.count(letter) for row in rows for word in row[:number])
        assert paper.text.count(letter) >= there


def test_the_columns_of_a_table_are_aligned_and_only_wide_ones_are_folded(scene: Callable[..., Any]) -> None:
    table = (
        "| Name | Use | Of | Size |\n|---|:-:|---|---:|\n"
        "| 日本 | x | every word of a long sentence that is folded | 5 |\n| b | yyyyy | | 1000 |\n"
    )
    text = show(scene().say(f"{table}\nEnd.").end(), columns=44).text
    assert text.split("\n")[2:9] == [
        " Name   Use   Of                       Size",
        " ──────────────────────────────────────────",
        " 日本    x    every word of a long        5",
        "              sentence that is folded",
        " b     yyyyy                           1000",
        "",
        "End.",
    ]


def test_a_table_that_is_too_wide_becomes_records(scene: Callable[..., Any]) -> None:
    table = "| Function | Module | What it does |\n|---|---|---|\n| `importer.parse` | importer/reading/parse.py | reads |\n"
    text = show(scene().say(f"{table}\nEnd.").end(), columns=34).text
    assert text.startswith(
        "> do it\n\nFunction: importer.parse\nModule: importer/reading/parse.py\nWhat it does: reads\n\nEnd.\n"
    )


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ("Wrap it in <Suspense> or <b>bold</b>.", ["Wrap it in <Suspense> or <b>bold</b>."]),
        ("Press Ctrl</kbd> or <kbd>Esc</kbd>.", ["Press Ctrl</kbd> or <kbd>Esc</kbd>."]),
        ("<ul>\n  <li>yes</li>\n</ul>", ["<ul>", "  <li>yes</li>", "</ul>"]),
        ("<!-- keep -->\n\n- <i>one</i>", ["<!-- keep -->", "", " • <i>one</i>"]),
        ("one<br>two<br/>three", ["one", "two", "three"]),
        ("See ![the plan](docs/plan.png).", ["See the plan (docs/plan.png)."]),
        ("![](plan.png)", ["plan.png"]),
        ("42.", [" 42"]),
        ("- one\n-\n- two", [" • one", " •", " • two"]),
        (
            "As the [guide][1] says.\n\nMore.\n\n[1]: https://a.example/guide",
            ["As the [guide][1] says.", "", "More.", "", "[1]: https://a.example/guide"],
        ),
    ],
)
def test_no_word_of_an_answer_is_taken_for_invisible_markup(
    scene: Callable[..., Any], answer: str, lines: list[str]
) -> None:
    text = show(scene().say(answer).end()).text
    assert [line.rstrip() for line in text.split("\n")][2 : 2 + len(lines)] == lines


@pytest.mark.parametrize("columns", [80, 20])
def test_a_line_break_in_a_table_begins_a_new_line_of_the_cell(
    scene: Callable[..., Any], columns: int
) -> None:
    table = "| Name | Use |\n|---|---|\n| a | one<br>two |\n"
    text = show(scene().say(f"{table}\nEnd.").end(), columns=columns).text
    assert text.split("\n")[2:7] == [" Name  Use", " ─────────", " a     one", "       two", ""]
