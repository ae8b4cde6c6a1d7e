"""If these fail, users keep, undo, approve or trust text that the screen did not show."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import newel
from newel.app.local_server import describe
from newel.providers.discovery import LocalServer
from newel.text.sanitize import escape_invisible
from tests.integration.cli.proposals import Proposals, insert, replace
from tests.integration.terminal.conftest import Terminal
from tests.support import BIN, Newel, scenario

Make = Callable[..., Newel]
Open = Callable[..., Terminal]

HIDDEN: Final = {
    "title with a payload": ("\x1b]0;$(touch PWNED)\x07", "␛]0;$(touch PWNED)␇"),
    "clipboard": ("\x1b]52;c;cm0gLXJmIH4=\x1b\\", "␛]52;c;cm0gLXJmIH4=␛\\"),
    "link": ("\x1b]8;;https://evil.example\x07", "␛]8;;https://evil.example␇"),
    "device control": ("\x1bPrm -rf ~\x1b\\", "␛Prm -rf ~␛\\"),
    "application command": ("\x1b_id\x1b\\", "␛_id␛\\"),
    "privacy message": ("\x1b^id\x1b\\", "␛^id␛\\"),
    "invisible colour": ("\x1b[8m;id\x1b[0m", "␛[8m;id␛[0m"),
    "erased line": ("\x1b[2K\x1b[A", "␛[2K␛[A"),
    "C1 title": ("\x9d0;id\x9c", "<U+009D>0;id<U+009C>"),
    "C1 device control": ("\x90id\x9c", "<U+0090>id<U+009C>"),
    "C1 sequence": ("\x9b2J", "<U+009B>2J"),
    "next line": ("\x85", "<U+0085>"),
    "carriage return": ("\rid", "␍id"),
    "backspaces": ("\b\b\bid", "␈␈␈id"),
    "form feed": ("\f", "␌"),
    "vertical tab": ("\v", "␋"),
    "delete": ("\x7f", "␡"),
    "bell": ("\x07", "␇"),
    "no-break space": ("\xa0", "<U+00A0>"),
    "soft hyphen": ("\xad", "<U+00AD>"),
    "space without width": ("\u200b", "<U+200B>"),
    "joiner": ("\u200d", "<U+200D>"),
    "word joiner": ("\u2060", "<U+2060>"),
    "byte order mark": ("\ufeff", "<U+FEFF>"),
    "grapheme joiner": ("\u034f", "<U+034F>"),
    "override": ("\u202e", "<U+202E>"),
    "isolate": ("\u2067", "<U+2067>"),
    "Arabic mark": ("\u061c", "<U+061C>"),
    "line separator": ("\u2028", "<U+2028>"),
    "paragraph separator": ("\u2029", "<U+2029>"),
    "thin space": ("\u2009", "<U+2009>"),
    "ideographic space": ("\u3000", "<U+3000>"),
    "braille blank": ("\u2800", "<U+2800>"),
    "Hangul filler": ("\u3164", "<U+3164>"),
    "jamo filler": ("\u115f", "<U+115F>"),
    "half-width filler": ("\uffa0", "<U+FFA0>"),
    "variation selector": ("\ufe0f", "<U+FE0F>"),
    "supplementary selector": ("\U000e0101", "<U+E0101>"),
    "tag": ("\U000e0041\U000e007f", "<U+E0041><U+E007F>"),
    "private use": ("\ue000", "<U+E000>"),
    "annotation anchor": ("\ufff9", "<U+FFF9>"),
    "invisible times": ("\u2062", "<U+2062>"),
    "Mongolian separator": ("\u180e", "<U+180E>"),
}
"""What a person cannot see, and how a view must write it."""

MARKED: Final = {
    name: (f"{at:02d}[{raw}]", f"{at:02d}[{shown}]") for at, (name, (raw, shown)) in enumerate(HIDDEN.items())
}
TEXT: Final = "".join(f"{raw}\n" for raw, _ in MARKED.values())
NAME: Final = "n" + "".join(raw for raw, _ in HIDDEN.values() if len(raw) == 1) + "\x1b]0;x\x07.txt"
"""A name that a file can have; a component takes 255 bytes."""


def unseen(shown: str, *, of: str = "") -> list[str]:
    """The hidden characters that a view does not escape; and ``of`` itself, if a name is given."""
    missing = [name for name, (_, wanted) in MARKED.items() if wanted not in shown]
    missing += [
        name for name, (raw, _) in HIDDEN.items() if len(raw) == 1 and raw in shown.replace("\r\n", "\n")
    ]
    return missing + ([of] if of and escape_invisible(of) not in shown else [])


def write(content: str) -> dict[str, object]:
    arguments = {"file_path": NAME, "content": content}
    return {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}


@pytest.fixture
def newel_(with_model: Make) -> Newel:
    newel = with_model(scenario("go", write(TEXT), {"content": "I did."}))
    (newel.project / "app.sh").write_text("one\ntwo\nthree\n")
    return newel


@pytest.fixture
def proposals(newel_: Newel) -> Proposals:
    made = Proposals(newel_.home / ".newel", newel_.project)
    made.propose("build", {NAME: [insert(1, TEXT)]})
    return made


@pytest.fixture
def opened(newel_: Newel) -> Iterator[Open]:
    terminals: list[Terminal] = []

    def start(*words: str, **environ: str) -> Terminal:
        env = newel_.environ | {"TERM": "xterm-256color"} | environ
        terminals.append(Terminal([str(BIN / "newel"), *words], newel_.project, 400, 90, env))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def until(terminal: Terminal, words: str) -> str:
    terminal.wait_for(words)
    return terminal.screen.text


# -- what waits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["review"], ["keep", "--all", "--yes"], ["reject", "--all", "--yes"]])
def test_commands_show_hidden_characters_of_pending_changes(
    words: list[str], newel_: Newel, proposals: Proposals
) -> None:
    assert unseen(newel_(*words).stdout, of=NAME) == []


@pytest.mark.parametrize("words", [["decide"], ["keep", "--all"], ["reject", "--all"]])
def test_questions_show_hidden_characters_of_pending_changes(
    words: list[str], proposals: Proposals, opened: Open
) -> None:
    terminal = opened(*words)
    assert unseen(until(terminal, "? ["), of=NAME) == []
    assert unseen(terminal.raw) == []


def test_the_pager_shows_hidden_characters(proposals: Proposals, opened: Open, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    terminal = opened("review", PAGER=f"tee {seen}", LINES="10")
    terminal.resize(400, 10)
    terminal.end()
    assert unseen(terminal.screen.text, of=NAME) == []
    if seen.exists():
        assert unseen(seen.read_text(), of=NAME) == []


@pytest.mark.parametrize("screen", ["rich", "console"])
@pytest.mark.parametrize("command", ["/review", "/decide", "/keep --all", "/reject --all"])
def test_a_conversation_shows_hidden_characters_of_pending_changes(
    screen: str, command: str, proposals: Proposals, opened: Open
) -> None:
    terminal = opened("--renderer", screen)
    until(terminal, "Enter sends" if screen == "rich" else "newel ")
    terminal.send(f"{command}\r")
    terminal.wait_for(lambda: not unseen(terminal.screen.text, of=NAME))


# -- whom to trust ------------------------------------------------------------------------------------


def test_a_discovered_server_cannot_hide_characters_in_its_models() -> None:
    """The user is asked whether it may read and run everything that they could."""
    for raw, wanted in HIDDEN.values():
        found = LocalServer("LM Studio", "http://127.0.0.1:1234/v1", [f"a{raw}z"])
        assert f"a{wanted}z" in describe(found)


# -- what was done ------------------------------------------------------------------------------------


@pytest.fixture
def done(newel_: Newel) -> str:
    """The checkpoint of a run that has written hidden characters."""
    assert newel_("go").returncode == 0
    return json.loads(newel_("checkpoints", "--json").stdout)["checkpoints"][0]["checkpoint_id"]


@pytest.mark.parametrize(
    "words", [["review"], ["review", "CP"], ["undo", "--yes"], ["rollback", "CP", "--yes"]]
)
def test_commands_show_hidden_characters_of_applied_changes(
    words: list[str], newel_: Newel, done: str
) -> None:
    shown = newel_(*(done if word == "CP" else word for word in words)).stdout
    assert unseen(shown, of=NAME) == []


@pytest.mark.parametrize("screen", ["rich", "console"])
@pytest.mark.parametrize("command", ["/review", "/review CP", "/undo", "/rollback CP"])
def test_a_conversation_shows_hidden_characters_of_applied_changes(
    screen: str, command: str, done: str, opened: Open
) -> None:
    terminal = opened("--renderer", screen)
    until(terminal, "Enter sends" if screen == "rich" else "newel ")
    terminal.send(f"{command.replace('CP', done)}\r")
    if not command.startswith("/review"):
        terminal.wait_for("v: diff")
        terminal.send("v\r")
    terminal.wait_for(lambda: not unseen(terminal.screen.text, of=NAME))


# -- before it is done --------------------------------------------------------------------------------


@pytest.mark.parametrize("screen", ["rich", "console"])
def test_an_approval_shows_hidden_characters(screen: str, newel_: Newel, opened: Open) -> None:
    terminal = opened("--renderer", screen, "--approve", "ask")
    until(terminal, "Enter sends" if screen == "rich" else "newel ")
    terminal.send("go\r")
    terminal.wait_for("Make this change?")
    assert escape_invisible(NAME) in terminal.screen.text
    terminal.answer("v\r")
    terminal.wait_for(lambda: unseen(terminal.screen.text) == [])


def test_the_question_of_a_one_shot_run_shows_hidden_characters(newel_: Newel, opened: Open) -> None:
    terminal = opened("--approve", "ask", "go")
    terminal.wait_for("Make this change?")
    terminal.answer("v\r")
    terminal.wait_for(lambda: unseen(terminal.screen.text) == [])


def test_the_question_about_an_mcp_server_shows_hidden_characters(newel_: Newel) -> None:
    hidden = [raw for raw, _ in MARKED.values()]
    servers = {"mcpServers": {"s": {"command": "run", "args": hidden, "env": {hidden[0]: hidden[1]}}}}
    (newel_.project / ".mcp.json").write_text(json.dumps(servers))
    for words in (["trust", "s", "--yes"], ["list"]):
        shown = newel_("mcp", *words).stdout
        if words[0] == "trust":
            assert unseen(shown) == []
        assert not set("\x1b\u200b\u202e\xa0") & set(shown)


# -- white space, and what is too long ----------------------------------------------------------------


def test_changed_white_space_is_visible(newel_: Newel, proposals: Proposals) -> None:
    (newel_.project / "Makefile").write_text("all:\n\tcc a.c\nend\n")
    proposals.propose("indent", {"Makefile": [replace(2, 3, "        cc a.c\nfin \t\n")]})
    shown = newel_("review").stdout
    assert "-→cc·a.c\n" in shown
    assert "+········cc·a.c\n" in shown
    assert "+fin·→\n" in shown


def test_line_endings_are_shown_only_where_they_differ(newel_: Newel, proposals: Proposals) -> None:
    (newel_.project / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (newel_.project / "mixed.txt").write_bytes(b"one\ntwo\r\nthree\n")
    proposals.propose("dos", {"dos.txt": [replace(2, 2, "TWO\n")]})
    proposals.propose("mixed", {"mixed.txt": [replace(1, 1, "ONE\n")]})
    shown = newel_("review").stdout
    assert "-two\n+TWO\n" in shown
    assert " two␍\n" in shown


@pytest.mark.parametrize("lines", [45, 3_000])
def test_omitted_lines_are_counted_and_can_be_shown(lines: int, newel_: Newel, proposals: Proposals) -> None:
    """A cut says how much is missing, and the command that it names shows everything."""
    text = "".join(f"line {number}\n" for number in range(lines))
    proposals.propose("long", {"long.txt": [insert(1, text)]})
    asked = newel_("keep", "long.txt").stdout
    if lines == 45:
        assert "more" not in asked
        assert "+line 44\n" in asked
    else:
        rest = "more lines: `newel review` shows the whole diff"
        assert rest in asked
        said = int(asked.split(f" {rest}")[0].split("… ")[-1].replace(",", ""))
        assert said + asked.count("\n+line ") == lines
    assert newel_("review").stdout.count("\n+line ") == lines


def test_modules_that_compose_questions_cannot_hide_characters() -> None:
    """``sanitize`` and ``one_line`` are for reading: they drop characters that a question must show."""
    root = Path(newel.__file__).parent
    found: list[str] = []
    for module in (
        "terminal/ui/approval.py",
        "terminal/review/interactive.py",
        "terminal/review/review_ui.py",
        "terminal/ui/elicitation.py",
        "terminal/review/hunk_format.py",
        "terminal/review/commands.py",
        "cli/decide.py",
        "cli/review_session.py",
        "cli/mcp.py",
        "cli/review.py",
        "cli/trace.py",
        "cli/undo.py",
    ):
        for node in ast.walk(ast.parse((root / module).read_text())):
            if isinstance(node, ast.ImportFrom):
                found += [
                    f"{module}: {name.name}"
                    for name in node.names
                    if name.name in {"safe", "one_line", "clause"}
                ]
    assert found == []
