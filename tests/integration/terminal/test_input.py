"""If these fail, a draft is lost, sent too early, or cannot be edited with the keys that users of shells and other agents know."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
ESCAPE, INTERRUPT, END, UP, DOWN = "\x1b", "\x03", "\x04", "\x1b[A", "\x1b[B"
WAITING = "run until [ -e go ]; do sleep 0.05; done"


def ready(open_terminal: Open, **options: Any) -> Any:
    terminal = open_terminal("rich", **options)
    terminal.wait_for(f"{MARK}\n")
    return terminal


def say(terminal: Any, *texts: str) -> None:
    """Send messages, each after the answer to the one before."""
    for text in texts:
        terminal.send(f"{text}\r")
        terminal.wait_for(f"You said: {text}")
        wait_for_input(terminal, "")


def wait_for_input(terminal: Any, text: str) -> None:
    """Wait until this is all of the input; below it are hints or the status line."""
    shown = re.compile(rf"^{MARK} ?{re.escape(text)}\n(?:Enter|obedient)", re.MULTILINE)
    terminal.wait_for(lambda: shown.search(terminal.screen.text) is not None)


def install(folder: Path, name: str, script: str) -> str:
    """A program of the user; returns the ``PATH`` on which it is found first."""
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


# -- new lines and keys ---------------------------------------------------------------------------------


def test_each_usual_key_makes_a_new_line_and_none_sends(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    kitty, xterm, alt_kitty = "\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;3u"
    terminal.send(f"one\\\rtwo{kitty}three{xterm}four{alt_kitty}five\x1b\rsix\nseven")
    lines = ("one", "two", "three", "four", "five", "six", "seven")
    terminal.wait_for(f"{MARK} " + "\n  ".join(lines) + "\n")
    terminal.send("\r")
    terminal.wait_for("You said: one two three four five six seven")


def test_keys_that_the_terminal_reports_by_number_act_and_are_not_typed(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    terminal.send(
        "one two\x1b[98;3uX \x1b[97;133uY\x1b[57358u\x1b[1;129D"
    )  # Alt+B, Ctrl+A with num lock, Caps Lock, Left
    terminal.wait_for(f"{MARK} Yone X two\n")
    terminal.send("Z")
    terminal.wait_for(f"{MARK} ZYone X two\n")
    terminal.send("\x1b[99;5u")  # Ctrl+C
    terminal.wait_for(lambda: MARK in terminal.screen.lines)


def test_a_key_that_arrives_in_pieces_is_not_typed(open_terminal: Open) -> None:
    """As over a slow connection."""
    terminal = ready(open_terminal)
    terminal.send("one")
    terminal.wait_for(f"{MARK} one")
    terminal.send("\x1b[13")
    terminal._read(0.3)
    terminal.send(";2u")
    terminal.wait_for(f"{MARK} one\n\n")
    terminal.send("two")
    terminal.wait_for(f"{MARK} one\n  two\n")


def test_the_terminal_reports_keys_as_before_once_the_conversation_is_over(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    terminal.send(END)
    assert terminal.end() == 0
    assert terminal.raw.index("\x1b[>1u") < terminal.raw.index("\x1b[<u")
    assert terminal.raw.count("\x1b[>1u") == terminal.raw.count("\x1b[<u") == 1
    killed = ready(open_terminal)
    os.kill(killed.process.pid, signal.SIGTERM)
    assert killed.end() == 128 + signal.SIGTERM
    assert killed.raw.index("\x1b[>1u") < killed.raw.index("\x1b[<u")


def test_alt_enter_makes_a_new_line_while_a_run_can_be_stopped_by_escape(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal("rich", WAITING)
    terminal.wait_for("○ bash")
    terminal.send("one\x1b\rtwo")
    terminal.wait_for(f"{MARK} one\n  two\n")
    (tmp_path / "project" / "go").touch()
    terminal.wait_for("Done after 1 results.")


# -- pasted text ----------------------------------------------------------------------------------------


def test_a_long_paste_is_sent_whole_and_shown_folded(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    pasted = "\r\n".join(f"line {number}" for number in range(500))
    terminal.send(f"\x1b[200~{pasted}\x1b[201~")
    terminal.wait_for("  line 499\n")
    terminal.send("\r")
    terminal.wait_for("34 out")
    lines = terminal.screen.lines
    at = lines.index(f"{MARK} line 0")
    assert lines[at + 1 : at + 7] == [*(f"  line {number}" for number in range(1, 6)), "  … 494 more lines"]
    terminal.send(UP)
    terminal.wait_for("\n  line 498\n  line 499")
    session = next(
        Path(f"/proc/{terminal.process.pid}/cwd").resolve().parent.glob(".newel/sessions/**/*.jsonl")
    )
    assert "line 498\\nline 499" in session.read_text()


def test_lines_that_are_pasted_into_a_terminal_that_does_not_mark_a_paste_are_one_message(
    open_terminal: Open,
) -> None:
    """Otherwise the first line would run by itself, with whatever it then means, and the others would reach its run."""
    terminal = ready(open_terminal, TERM="linux")
    terminal.send("delete the old\rbackups, but not\rthose of today\r")
    terminal.wait_for(f"{MARK} delete the old\n  backups, but not\n  those of today\n")
    terminal.send("\r")
    terminal.wait_for("You said: delete the old backups, but not those of today")
    assert terminal.screen.text.count("You said") == 1


def test_a_tab_is_shown_as_space_and_sent_as_a_tab(open_terminal: Open, tmp_path: Path) -> None:
    terminal = ready(open_terminal)
    terminal.send("\x1b[200~all:\n\tgo build\x1b[201~")
    terminal.wait_for(f"{MARK} all:\n      go build\n")
    terminal.send("\r")
    terminal.wait_for("34 out")
    session = next((tmp_path / ".newel" / "sessions").rglob("*.jsonl"))
    assert "all:\\n\\tgo build" in session.read_text()


# -- what was sent earlier ------------------------------------------------------------------------------


def test_the_history_is_searched_further_and_further_back(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    say(terminal, "test the parser", "fix the bug", "test the printer")
    terminal.send("draft\x12")
    terminal.wait_for("Enter takes")
    terminal.send("test")
    terminal.wait_for(f"{MARK} test the printer\n  test the parser\n\n{MARK} test\n")
    terminal.send("\x12")
    terminal.wait_for(f"{MARK} test the parser\n")
    terminal.send("\r")
    wait_for_input(terminal, "test the parser")
    assert terminal.screen.text.count("You said: test the parser") == 1
    terminal.send("\x1f")  # undo: the draft
    wait_for_input(terminal, "draft")


def test_up_finds_what_begins_with_the_draft_and_down_brings_the_draft_back(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    say(terminal, "fix the parser", "test it all", "fix the docs", "push it")
    terminal.send("fix")
    wait_for_input(terminal, "fix")
    for key, shown in ((UP, "fix the docs"), (UP, "fix the parser"), (UP, "fix the parser")):
        terminal.send(key)
        wait_for_input(terminal, shown)
    for shown in ("fix the docs", "fix"):
        terminal.send(DOWN)
        wait_for_input(terminal, shown)
    terminal.send(" nothing like it")
    wait_for_input(terminal, "fix nothing like it")
    terminal.send(UP)
    terminal.send("!")
    wait_for_input(terminal, "fix nothing like it!")
    terminal.send("\x15" + UP)
    wait_for_input(terminal, "push it")  # without a draft, all


def test_a_search_that_is_given_up_returns_to_the_draft(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    for key in ("\x07", ESCAPE):
        terminal.send("mine\x12")
        terminal.wait_for("Enter takes")
        terminal.send("zzz")
        terminal.wait_for("nothing matches")
        terminal.send(key)
        wait_for_input(terminal, "mine")
        terminal.send(INTERRUPT)
        terminal.wait_for(f"{MARK}\n")


def test_the_history_begins_with_that_of_the_folder_and_an_old_file_is_read(
    open_terminal: Open, tmp_path: Path
) -> None:
    history = tmp_path / ".newel" / "history"
    history.parent.mkdir()
    history.write_text("\n# 2026-01-01 10:00:00.000000\n+from an older version\n+on two lines\n")
    history.chmod(0o644)
    terminal = ready(open_terminal)
    say(terminal, "here")
    terminal.send(END)
    terminal.end()
    text = history.read_text()
    history.write_text(f'{text}\n# 2030-01-01 10:00:00.000000\n# in "/elsewhere"\n+there\n')
    again = ready(open_terminal)
    for shown in (f"{MARK} here\n", f"{MARK} there\n", f"{MARK} from an older version\n  on two lines\n"):
        again.send(UP)
        again.wait_for(shown)
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


# -- the editor -----------------------------------------------------------------------------------------


def test_the_draft_is_edited_in_the_users_editor(open_terminal: Open, tmp_path: Path) -> None:
    log = tmp_path / "edited"
    path = install(
        tmp_path,
        "my-editor",
        f'printf "%s" "$2" > {log}; stat -c %a "$(dirname "$2")" >> {log}.mode; cat "$2" > {log}.draft; echo "and more" >> "$2"',
    )
    terminal = ready(open_terminal, PATH=path, VISUAL="my-editor --wait", EDITOR="false")
    for key in ("\x07", "\x18\x05"):  # Ctrl+G, Ctrl+X Ctrl+E
        terminal.send(f"first{key}")
        terminal.wait_for(f"{MARK} first\n  and more\n")
        terminal.send(INTERRUPT)
        terminal.wait_for(lambda: MARK in terminal.screen.lines)
    assert Path(f"{log}.draft").read_text() == "first\n"
    assert not Path(log.read_text()).parent.exists()
    assert Path(f"{log}.mode").read_text() == "700\n700\n"


def test_an_editor_that_fails_or_is_missing_leaves_the_draft(open_terminal: Open) -> None:
    terminal = ready(open_terminal, VISUAL="false")
    terminal.send("keep me\x07")
    terminal.wait_for("The editor false ended with exit code 1. The draft is as it was.")
    terminal.wait_for(f"{MARK} keep me\n")
    other = ready(open_terminal, EDITOR="no-such-editor -w")
    other.send("me, too\x07")
    other.wait_for("The editor no-such-editor of $EDITOR was not found.")
    other.wait_for(f"{MARK} me, too\n")


def test_ctrl_c_in_the_editor_ends_neither_the_run_nor_the_conversation(
    open_terminal: Open, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    path = install(
        tmp_path, "my-editor", f"touch {project}/editing; until [ -e {project}/done ]; do sleep 0.02; done"
    )
    terminal = open_terminal("rich", WAITING, PATH=path, VISUAL="my-editor")
    terminal.wait_for("○ bash")
    terminal.send("draft\x07")
    terminal.wait_for((project / "editing").exists)
    os.kill(terminal.process.pid, signal.SIGINT)
    (project / "go").touch()
    terminal.wait_for(lambda: terminal._read(0.3) is False)
    (project / "done").touch()
    terminal.wait_for("Done after 1 results.")
    terminal.wait_for(f"{MARK} draft")


def test_a_question_ends_a_search_and_the_draft_is_kept(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", "slow", "run touch asked", PROGRAM_APPROVE="ask")
    terminal.wait_for("writing")
    terminal.send("draft\x12sl")
    terminal.wait_for(f"{MARK} sl\nCtrl+R")
    terminal.wait_for("Run this?")
    terminal.answer("y\r")
    terminal.wait_for("Done after 1 results.")
    terminal.wait_for(f"{MARK} draft")
    assert (tmp_path / "project" / "asked").exists()


def test_the_editor_gets_the_keyboard_as_programs_know_it(open_terminal: Open, tmp_path: Path) -> None:
    path = install(tmp_path, "my-editor", 'printf "editing\\n"')
    terminal = ready(open_terminal, PATH=path, VISUAL="my-editor")
    terminal.send("x\x07")
    terminal.wait_for(lambda: terminal.raw.count("\x1b[>1u") == 2)
    first, second = terminal.raw.index("\x1b[>1u"), terminal.raw.rindex("\x1b[>1u")
    assert first < terminal.raw.index("\x1b[<u") < terminal.raw.index("editing") < second


# -- completion -----------------------------------------------------------------------------------------


def test_enter_takes_the_first_command_of_the_menu(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    terminal.send("/thi\r")
    terminal.wait_for(f"{MARK} /thinking\n\nThinking is off.")


def test_a_command_that_needs_arguments_waits_for_them(open_terminal: Open) -> None:
    terminal = ready(open_terminal)
    terminal.send("/kee\r")
    terminal.wait_for(f"{MARK} /keep\n")
    terminal.send("--all\r")
    terminal.wait_for(f"{MARK} /keep --all\n")


def test_a_command_that_was_guessed_is_shown_before_it_runs(open_terminal: Open) -> None:
    """It may do something else than was meant."""
    terminal = ready(open_terminal)
    terminal.send("/hlp\r")
    terminal.wait_for(f"{MARK} /help\n")
    assert "list the commands" not in terminal.screen.text
    terminal.send("\r")
    terminal.wait_for("list the commands")


def test_templates_are_in_the_menu_and_wait_for_their_arguments(open_terminal: Open, tmp_path: Path) -> None:
    prompts = tmp_path / "project" / ".newel" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "greet.md").write_text("---\ndescription: Say hello\n---\nGreet $1")
    (prompts / "sing.md").write_text("Sing a song")
    terminal = ready(open_terminal)
    terminal.send("/gre")
    terminal.wait_for("Say hello")
    terminal.send("\r")
    terminal.wait_for(f"{MARK} /greet\n")
    terminal.send("Ada\r")
    terminal.wait_for("You said: Greet Ada")
    terminal.send("/sin\r")
    terminal.wait_for("You said: Sing a song")


def test_file_names_are_found_by_their_letters_and_folders_lead_on(
    open_terminal: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "project" / "source" / "deep"
    folder.mkdir(parents=True)
    (folder / "test_parser.py").write_text("x = 1\n")
    terminal = ready(open_terminal)
    terminal.send("see @tpy")
    terminal.wait_for("\n source/deep/test_parser.py")
    terminal.send("\t")
    terminal.wait_for(f"{MARK} see @source/deep/test_parser.py\n")
    terminal.send("\x15@sour")
    terminal.wait_for("\n source/deep/\n")
    terminal.send("\t\r")
    terminal.wait_for(f"{MARK} @source/\n")
    terminal.send("deep/\t")
    terminal.wait_for(f"{MARK} @source/deep/\n")


def test_enter_takes_the_file_that_is_marked_and_sends_what_is_whole(
    open_terminal: Open, tmp_path: Path
) -> None:
    """Otherwise the model gets a part of a name, and no file."""
    (tmp_path / "project" / "app.py").write_text("x = 1\n")
    (tmp_path / "project" / "app.py.bak").write_text("x = 0\n")
    (tmp_path / "project" / "deep").mkdir()
    (tmp_path / "project" / "deep" / "module.py").write_text("x = 1\n")
    terminal = ready(open_terminal)
    terminal.send("see @ap")
    terminal.wait_for("\n app.py\n app.py.bak")
    terminal.send("\r")
    terminal.wait_for(f"{MARK} see @app.py\n")
    assert "You said" not in terminal.screen.text
    terminal.send("\r")
    terminal.wait_for("+ app.py\n")
    wait_for_input(terminal, "")
    terminal.send("and @app.py")
    terminal.wait_for("\n app.py\n app.py.bak")
    terminal.send("\r")
    terminal.wait_for("You said: and")
    wait_for_input(terminal, "")
    terminal.send("in @deep")
    terminal.wait_for("\n deep/\n")
    terminal.send("\r")
    terminal.wait_for("You said: in")


def test_enter_sends_a_name_that_only_shares_letters_with_a_file(open_terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "blobs.py").write_text("x = 1\n")
    terminal = ready(open_terminal)
    terminal.send("ask @bos")
    terminal.wait_for("\n blobs.py")
    terminal.send("\r")
    terminal.wait_for("You said: ask @bos")


def test_tab_completes_the_only_file_and_enter_sends(open_terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "app.py").write_text("x = 1\n")
    terminal = ready(open_terminal)
    terminal.send("see @ap")
    terminal.wait_for("\n app.py")
    terminal.send("\t\r")
    terminal.wait_for("+ app.py\n")


def test_files_at_home_and_absolute_paths_are_completed_and_attached(
    open_terminal: Open, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / "notes").mkdir(parents=True)
    (home / "notes" / "to do.txt").write_text("one thing\n")
    (home / ".hidden").write_text("")
    terminal = ready(open_terminal, columns=200, HOME=str(home))
    terminal.send("@~/")
    terminal.wait_for("\n ~/notes/")
    assert ".hidden" not in terminal.screen.text
    terminal.send("notes/td")
    terminal.wait_for("\n ~/notes/to do.txt")
    terminal.send("\t")
    terminal.wait_for(f'{MARK} @"~/notes/to do.txt"\n')
    terminal.send("\r")
    terminal.wait_for("+ to do.txt")
    terminal.wait_for("34 out")
    terminal.send(f"@{home}/.hid")
    terminal.wait_for(f"\n {home}/.hidden")


# -- leaving --------------------------------------------------------------------------------------------


def test_ctrl_c_leaves_only_if_it_is_pressed_twice_in_a_row(open_terminal: Open) -> None:
    """Who stops a run, begins to write and clears that at once has not asked to leave."""
    terminal = ready(open_terminal)
    terminal.send(INTERRUPT)
    terminal.wait_for("Ctrl+C again leaves")
    terminal.send("hello")
    terminal.wait_for(f"{MARK} hello\n")
    assert "again leaves" not in terminal.screen.text
    terminal.send(INTERRUPT)
    wait_for_input(terminal, "")
    say(terminal, "still here")


# -- a running agent ------------------------------------------------------------------------------------


def test_up_takes_the_last_queued_message_back(open_terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "a.txt").write_text("a\n")
    terminal = open_terminal("rich", WAITING)
    terminal.wait_for("○ bash")
    terminal.send("see @a.txt\r")
    terminal.send("not this\t")
    terminal.wait_for("  see a.txt  (next)\n  not this  (when it is done)\n")
    terminal.send(UP)
    terminal.wait_for(f"{MARK} not this\n  see a.txt  (next)\n")
    terminal.send("\x15")
    terminal.wait_for(lambda: MARK in terminal.screen.lines)
    terminal.send(UP)
    terminal.wait_for(f"{MARK} see @a.txt\n")  # as it was typed
    assert "(next)" not in terminal.screen.text
    terminal.send(", please\r")
    terminal.wait_for("see a.txt, please  (next)")
    (tmp_path / "project" / "go").touch()
    terminal.wait_for("You said: see a.txt, please")
    assert terminal.screen.text.count("+ a.txt") == 1
    assert "You said: not this" not in terminal.screen.text


def test_up_takes_back_a_command_that_waits(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal("rich", WAITING)
    terminal.wait_for("○ bash")
    terminal.send("/compact\r")
    terminal.wait_for("/compact  (queued)")
    terminal.send(UP)
    terminal.wait_for(f"{MARK} /compact\n")
    assert "(queued)" not in terminal.screen.text
    (tmp_path / "project" / "go").touch()
    terminal.wait_for("Done after 1 results.")


# -- vi -------------------------------------------------------------------------------------------------


def test_vi_keys_edit_and_their_mode_is_shown(open_terminal: Open) -> None:
    terminal = ready(open_terminal, PROGRAM_EDITING="vi")
    terminal.wait_for("INSERT · ")
    terminal.send("one two three")
    terminal.wait_for(f"{MARK} one two three")
    terminal.send(ESCAPE)
    terminal.wait_for("NORMAL")
    terminal.send("0dwA!")
    terminal.wait_for(f"{MARK} two three!\nINSERT")
    terminal.send("\r")
    terminal.wait_for("You said: two three!")


def test_escape_in_vi_leaves_insert_mode_before_it_stops_the_run(open_terminal: Open) -> None:
    terminal = open_terminal("rich", WAITING, PROGRAM_EDITING="vi")
    terminal.wait_for("○ bash")
    terminal.send("draft")
    terminal.wait_for(f"{MARK} draft")
    terminal.send(ESCAPE)
    terminal.wait_for("NORMAL")
    assert "Stopped." not in terminal.screen.text
    terminal.send(ESCAPE)
    terminal.wait_for("Stopped.")


# -- the clipboard --------------------------------------------------------------------------------------


def test_an_image_in_the_clipboard_is_attached(open_terminal: Open, tmp_path: Path) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "shot.png")
    path = install(tmp_path, "xclip", f'case "$*" in *image/png*) cat {tmp_path}/shot.png;; *) exit 1;; esac')
    terminal = ready(open_terminal, PATH=path, DISPLAY=":99")
    terminal.send("what is \x16")
    terminal.wait_for(f"{MARK} what is [image ")
    terminal.send("?\r")
    terminal.wait_for("  + image ")
    terminal.wait_for("34 out")
    assert '"mimeType":"image/png"' in next((tmp_path / ".newel" / "sessions").rglob("*.jsonl")).read_text()


def test_text_in_the_clipboard_is_pasted_and_without_a_program_the_user_is_told(
    open_terminal: Open, tmp_path: Path
) -> None:
    path = install(
        tmp_path, "wl-paste", 'case "$*" in *image/png*) exit 1;; *) printf "some\\r\\ntext";; esac'
    )
    terminal = ready(open_terminal, PATH=path, WAYLAND_DISPLAY="wayland-0")
    terminal.send("this: \x16")
    terminal.wait_for(f"{MARK} this: some\n  text\n")
    other = ready(open_terminal)
    other.send("\x16")
    other.wait_for("install wl-paste")


def test_the_next_word_begins_behind_a_completed_file_name(open_terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "project" / "parser.py").write_text("x = 1\n")
    terminal = ready(open_terminal)
    terminal.send("see @pars")
    terminal.wait_for("\n parser.py")
    terminal.send("\tplease")
    terminal.wait_for(f"{MARK} see @parser.py please\n")


def test_a_command_of_a_shell_is_not_completed_to_another_one(open_terminal: Open) -> None:
    terminal = ready(open_terminal, columns=120)
    terminal.send("/ls\r")
    terminal.wait_for("There is no command /ls. `!command` runs a command and shows it to the model.")
    assert "/tools" not in terminal.screen.text
