"""If these fail, a user at the terminal cannot see what the model did: the output of a command, an edit, a thought, or how long it
takes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.served import wait_until
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def conversation(newel: Newel, *, columns: int = 80, rows: int = 40) -> Tmux:
    screen = Tmux([str(BIN / "newel")], newel.project, newel.environ, columns=columns, rows=rows)
    screen.wait_for("Enter sends")
    return screen


def say(screen: Tmux, words: str, *, until: str) -> None:
    screen.type(words, "Enter")
    screen.wait_for(until)


def test_the_end_of_an_output_is_below_its_command(with_model: Make) -> None:
    command = bash("for n in 1 2 3 4 5 6; do echo out $n; done")
    newel = with_model(scenario("", command, {"content": "Counted."}))
    with conversation(newel) as screen:
        say(screen, "go", until="Counted.")
        assert "\n  │ … 3 more lines\n  │ out 4\n  │ out 5\n  │ out 6\n" in screen.text


def test_an_edit_is_shown_in_its_place_with_the_changed_words_marked(with_model: Make) -> None:
    edit = {"file_path": "a.py", "old_string": "rate = 1", "new_string": "rate = 2"}
    call = {"tool_calls": [{"function": {"name": "edit", "arguments": edit}}]}
    newel = with_model(scenario("", bash("cat a.py"), call, {"content": "Edited."}))
    (newel.project / "a.py").write_text("def cost(hours):\n    rate = 1\n    return rate * hours\n")
    with conversation(newel) as screen:
        say(screen, "go", until="Edited.")
        shown = screen.text.partition("● edit a.py")[2]
        assert re.search(
            r"def cost\(hours\):\n.*2 . +rate = 1\n.*2 \+ +rate = 2\n.*return rate \* hours\n", shown
        ), shown
        marked = [line for line in screen.painted if re.search(r"rate = \x1b\[1;4m(\x1b\[\d+m)?[12]", line)]
        assert len(marked) == 2, screen.painted


def test_a_thought_leaves_a_line_and_is_in_the_transcript(with_model: Make) -> None:
    newel = with_model(scenario("", {"reasoning_content": "Monday was dry.", "content": "It rained."}))
    with conversation(newel) as screen:
        say(screen, "go", until="It rained.")
        assert re.search(r"\nThought for \d+ m?s\n", screen.text)
        assert "Monday" not in screen.text
        screen.type("", "C-o")
        screen.wait_for("Monday was dry.")


ANSWER = """\
# One

## Two

- [x] done
- [ ] open

See https://example.org/a/long/path/that/is/wider/than/a/hundred/columns/but/fits/into/the/window?x=1&y=2#z

```python
print(1)
```
"""


def test_an_answer_is_formatted_and_loses_no_text(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": ANSWER}))
    with conversation(newel, columns=120) as screen:
        say(screen, "go", until="print(1)")
        text = screen.text
        assert "\n ☑ done\n ☐ open\n" in text
        assert "\npython\nprint(1)\n" in text
        assert "See https://example.org/a/long/path/that/is/wider/than/a/hundred" in text
        assert "/columns/but/fits/into/the/window?x=1&y=2#z\n" in text.replace("hundred/", "/", 1)
        one, two = (
            line for line in screen.painted if re.sub(r"\x1b\[[0-9;]*m", "", line).strip() in {"One", "Two"}
        )
        assert one.replace("One", "") != two.replace("Two", ""), "headings look alike"


def test_long_code_is_seen_in_half_of_the_window_while_it_is_written(with_model: Make) -> None:
    code = "```\n" + "".join(f"row {number}\n" for number in range(200)) + "```"
    newel = with_model(scenario("", {"response": {"content": code}, "token_delay_ms": 15}))
    with conversation(newel, rows=40) as screen:
        screen.type("go", "Enter")
        wait_until(lambda: screen.view.count("\nrow ") >= 18, "half of the window")
        assert "Esc stops" in screen.view


@pytest.mark.slow  # seconds of waiting
def test_the_state_says_how_long_the_phase_and_the_run_take_and_what_they_use(with_model: Make) -> None:
    slow = {"response": bash("sleep 30"), "delay_ms": 1200}
    newel = with_model(scenario("", slow))
    with conversation(newel) as screen:
        screen.type("go", "Enter")
        state = r"bash · \d+ s · run \d+ s · [\d.]+k? tokens · Esc stops"
        wait_until(lambda: re.search(state, screen.view), "the state of the run")
        screen.type("", "Escape")
        screen.wait_for("Stopped")


def test_a_draft_that_ctrl_c_clears_comes_back_with_up(with_model: Make) -> None:
    newel = with_model()
    with conversation(newel) as screen:
        screen.type("a long thought")
        screen.wait_for(f"{MARK} a long thought")
        screen.type("", "C-c")
        wait_until(lambda: f"{MARK} a long" not in screen.view, "the empty input")
        screen.wait_for("Enter sends")  # and until nothing more is to be done
        screen.type("", "Up")
        screen.wait_for(f"{MARK} a long thought")
    assert newel.requests == []


def test_the_cost_is_known_for_a_model_with_prices_of_ones_own(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Cheap."}))
    (newel.home / ".newel").mkdir()
    prices = '[models."mock-model"]\ninput_price = 1000.0\noutput_price = 1000.0\ncontext_window = 100000\n'
    (newel.home / ".newel" / "config.toml").write_text(prices)
    with conversation(newel, columns=120) as screen:
        say(screen, "go", until="Cheap.")
        wait_until(lambda: re.search(r"mock-model · .*% of 100k · \$0\.\d+", screen.view), "the status line")
        screen.type("/cost", "Enter")
        wait_until(lambda: re.search(r"/cost\n\n.*\$0\.\d+", screen.text), "the cost")


def test_the_list_of_tools_is_aligned(with_model: Make) -> None:
    with conversation(with_model()) as screen:
        say(screen, "/tools", until="Fetch Web Page")
        rows = re.findall(r"^(\w+ +)[A-Z].*$", screen.text.partition("/tools\n")[2], re.MULTILINE)
        assert len(rows) > 4
        assert len({len(name) for name in rows}) == 1


def test_escape_stops_a_command_in_a_moment(with_model: Make) -> None:
    """The fastest of five counts: the machine may be busy."""
    newel = with_model(scenario("", bash("sleep 60")))
    took: list[float] = []
    with conversation(newel) as screen:
        for stopped in range(5):
            screen.type("go", "Enter")
            wait_until(lambda: "Esc stops" in screen.view, "the run")
            begun = time.monotonic()
            screen.type("", "Escape")
            while screen.text.count("\nStopped.") == stopped:
                assert time.monotonic() < begun + 20, screen.text
            took.append(time.monotonic() - begun)
    assert min(took) < 0.15, took


@pytest.mark.slow  # seconds of waiting
def test_an_idle_conversation_uses_no_processor(with_model: Make) -> None:
    with conversation(with_model()) as screen:
        time.sleep(0.5)
        before = _ticks(screen.pid)
        time.sleep(2)
        assert _ticks(screen.pid) - before <= 0.05 * os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    """The processor time of a process, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def test_leaving_says_how_to_come_back(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Answered."}))
    with Tmux(["sh"], newel.project, newel.environ | {"PS1": "$ "}) as screen:
        screen.type("newel first words", "Enter")
        screen.wait_for("Answered.")
        screen.wait_for("approve: auto")
        screen.type("", "C-d")
        screen.wait_for("`newel -c` resumes this conversation.")
        screen.type("clear; newel -c", "Enter")
        screen.wait_for(f"{MARK} first words")


def test_the_state_says_that_a_summary_is_written(with_model: Make) -> None:
    slow = scenario("<conversation>", {"response": {"content": "We said hello."}, "delay_ms": 1500})
    talk = scenario("go", {"content": "word " * 2_000}, {"content": "word " * 2_000})
    newel = with_model({"scenarios": [*slow["scenarios"], *talk["scenarios"]]})
    with conversation(newel) as screen:
        for number in (1, 2):
            screen.type("go", "Enter")
            wait_until(lambda number=number: len(newel.requests) == number, "the request")
            screen.wait_for(" out", times=number)
        screen.type("/compact", "Enter")
        wait_until(lambda: "summarizing the conversation" in screen.view, "the state of the summary")
        screen.wait_for("Summarized ")
        wait_until(lambda: "summarizing the conversation" not in screen.view, "the end of the summary")
