"""If these fail, what a user does all day in the installed Newel does not work: writing, steering, choosing, resuming, going back."""

from __future__ import annotations

from collections.abc import Callable

from tests.served import wait_until
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def conversation(newel: Newel, *words: str) -> Tmux:
    screen = Tmux([str(BIN / "newel"), *words], newel.project, newel.environ, columns=100, rows=40)
    screen.wait_for("approve: ")
    return screen


def said(newel: Newel) -> list[str]:
    """What the user said last in each request."""
    users = [[each for each in body["messages"] if each["role"] == "user"] for body in newel.requests]
    return [str(messages[-1]["content"]) for messages in users]


def test_a_message_is_written_with_the_keys_that_people_know(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Read."}))
    (newel.project / "src").mkdir()
    (newel.project / "src" / "pager.py").write_text("x = 1\n")
    editor = newel.home / "editor"
    editor.write_text('#!/bin/sh\nprintf "from the editor" > "$1"\n')
    editor.chmod(0o755)
    newel.environ["EDITOR"] = str(editor)
    with conversation(newel) as screen:
        screen.type("one\\", "Enter")
        screen.type("two", "C-j")
        screen.type("three", "Enter")
        screen.wait_for("Read.")
        assert said(newel) == ["one\ntwo\nthree"], "a key for a new line has sent the message"
        screen.type("", "C-r")
        screen.type("two")
        wait_until(lambda: "one" in screen.view.rpartition(MARK)[0].rpartition("Read.")[2], "the search")
        screen.type("", "Enter", "Enter")
        screen.wait_for("Read.", times=2)
        assert said(newel)[1] == said(newel)[0], "Ctrl+R has not brought the message back"
        screen.type("a draft", "C-g")
        screen.wait_for(f"{MARK} from the editor")
        screen.type("", "C-u")
        screen.type("look at @spg")
        screen.wait_for("src/pager.py")
        screen.type("", "Tab", "Enter")
        screen.wait_for("Read.", times=3)
        assert "x = 1" in said(newel)[2], "the file was not attached"


def test_messages_during_a_run_steer_it_wait_for_its_end_or_are_taken_back(with_model: Make) -> None:
    wait = bash("until [ -e go ]; do sleep 0.05; done")
    newel = with_model(
        {
            "scenarios": [
                {"name": "wait", "trigger": "begin", "steps": [{"response": wait}]},
                {"name": "any", "trigger": "", "steps": [{"response": {"content": "Heard."}}]},
            ]
        }
    )
    with conversation(newel) as screen:
        screen.type("begin", "Enter")
        screen.wait_for("○ bash until")
        screen.type("be quick", "Enter")
        screen.wait_for("be quick  (next)")
        screen.type("then stop", "Tab")
        screen.wait_for("then stop  (when it is done)")
        screen.type("not this", "Tab")
        screen.wait_for("not this  (when it is done)")
        screen.type("", "Up")
        wait_until(lambda: "not this  (when" not in screen.view, "the message taken back")
        screen.type("", "C-u")
        (newel.project / "go").touch()
        screen.wait_for("Heard.", times=2)
    assert said(newel) == ["begin", "be quick", "then stop"]


def test_own_commands_the_mode_and_the_model_are_at_hand(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Seen."}) | {"models": ["mock-model-mini"]})
    with conversation(newel) as screen:
        screen.type("!echo shared-$((1+1))", "Enter")
        screen.wait_for("shared-2")
        screen.type("!!echo private-$((1+1))", "Enter")
        screen.wait_for("private-2")
        screen.type("what is it?", "Enter")
        screen.wait_for("Seen.")
        assert "shared-2" in said(newel)[0]
        assert "private" not in said(newel)[0]
        screen.type("", "BTab")
        screen.wait_for("approve: plan")
        screen.type("/mod", "Enter")
        screen.wait_for("letters filter")
        screen.type("mini")
        screen.wait_for(f"{MARK} mock-model-mini")
        screen.type("", "Enter")
        screen.wait_for("The next prompt goes to mock-model-mini.")
        screen.wait_for("\nmock-model-mini · approve: plan · ")


def test_a_conversation_is_found_shown_again_and_taken_back(with_model: Make) -> None:
    change = {"tool_calls": [{"function": {"name": "bash", "arguments": {"command": "echo new > made"}}}]}
    newel = with_model(scenario("change it", change, {"content": "Changed."}))
    newel("-p", "how are you")
    with conversation(newel) as screen:
        screen.type("change it", "Enter")
        screen.wait_for("1 file +1 · /review · /undo")
        assert "  │ +1 new made\n" in screen.text, "what the command changed is not below it"
        screen.type("", "C-d")
        screen.wait_for("`newel -c` resumes this conversation.")
    with conversation(newel) as screen:
        screen.type("/resume", "Enter")
        screen.wait_for("letters filter")
        assert "how are you" in screen.view
        screen.type("change")
        wait_until(lambda: "how are you" not in screen.view, "the filtered list")
        screen.type("", "Enter")
        screen.wait_for("Changed.")
        assert "● bash echo new > made" in screen.text
        screen.type("", "Escape", "Escape")
        screen.wait_for("  change it  (1 file changed since)")
        screen.type("", "Enter")
        screen.wait_for("Go back to before")
        screen.type("", "Enter")
        screen.wait_for("Undo these changes? [y/N, v: diff]")
        screen.answer("y", "Enter")
        screen.wait_for("Undone in 1 file: made.")
        screen.wait_for(f"{MARK} change it\n", times=2)
    assert not (newel.project / "made").exists()


def test_a_rewound_conversation_is_resumed_where_it_was_rewound_to(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Read."}))
    with conversation(newel) as screen:
        for number, words in enumerate(("first", "second"), 1):
            screen.type(words, "Enter")
            screen.wait_for("Read.", times=number)
        screen.type("", "Escape")
        screen.wait_for("Esc again goes back")
        screen.type("", "Escape")
        screen.wait_for("Back to before which prompt?")
        screen.type("", "Enter")
        screen.wait_for("The conversation is back before this prompt.")
        screen.type("", "C-u", "C-d")
        screen.wait_for("resumes this conversation")
    assert newel("-c", "third").returncode == 0
    assert [each["content"] for each in newel.requests[-1]["messages"][1:]] == ["first", "Read.", "third"]
