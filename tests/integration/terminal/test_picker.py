"""If these fail, somebody cannot choose from a list with the keys that every other tool has, or chooses what they did not mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
UP, DOWN, ESCAPE = "\x1b[A", "\x1b[B", "\x1b"


def open_list(open_terminal: Open, *, rows: int = 24) -> Any:
    """A conversation of three messages, and the list of them."""
    terminal = open_terminal("rich", "first words", "second words", rows=rows)
    terminal.wait_for("You said: second words")
    terminal.wait_for(f"{MARK}\n")
    terminal.send("/branch\r")
    terminal.wait_for("Esc cancels")
    return terminal


def test_arrows_move_and_enter_chooses(open_terminal: Open) -> None:
    terminal = open_list(open_terminal)
    terminal.wait_for(f"{MARK} you    first words\n")
    terminal.send(DOWN)
    terminal.send(DOWN)
    terminal.wait_for(f"{MARK} you    second words\n")
    terminal.send("\r")
    terminal.wait_for(f"{MARK} second words\n")


def test_letters_narrow_the_list(open_terminal: Open) -> None:
    terminal = open_list(open_terminal)
    terminal.send("you scnd")
    terminal.wait_for(f"{MARK} you    second words\n")
    terminal.wait_for(f"{MARK} you scnd\n")
    assert "you    first words" not in terminal.screen.text.rpartition("Go back to")[2]
    terminal.send("\r")
    terminal.wait_for(f"{MARK} second words\n")


def test_escape_chooses_nothing_and_stops_nothing(open_terminal: Open) -> None:
    terminal = open_list(open_terminal)
    terminal.send("zzz")
    terminal.wait_for("nothing matches")
    terminal.send("\r")
    terminal.send(ESCAPE)
    terminal.wait_for(lambda: "nothing matches" not in terminal.screen.text)
    terminal.send("on\r")
    terminal.wait_for("You said: on")
    assert "New branch" not in terminal.screen.text


def test_what_arrives_together_with_a_choice_is_not_lost(open_terminal: Open) -> None:
    """Over a slow connection, what is typed behind Enter comes with it."""
    terminal = open_list(open_terminal)
    terminal.send("scnd\rplease")
    terminal.wait_for(f"{MARK} second words\n  please\n")


def test_a_long_list_shows_what_surrounds_the_choice(open_terminal: Open) -> None:
    terminal = open_terminal("rich", *(f"words {number}" for number in range(30)), rows=16)
    terminal.wait_for("You said: words 29")
    terminal.wait_for(f"{MARK}\n")
    terminal.send("/branch\r")
    terminal.wait_for(f"{MARK} you    words 0\n")
    terminal.wait_for("more rows")
    terminal.send(UP)
    terminal.wait_for(f"{MARK} agent  You said: words 29\n")


def test_a_part_of_a_models_name_offers_the_models_and_the_name_itself(open_terminal: Open) -> None:
    """If this fails, `/model claude` sends the next prompt to a model of that name, which there is not."""
    terminal = open_terminal("rich", columns=100)
    terminal.wait_for("approve: auto")
    terminal.send("/model obed\r")
    terminal.wait_for("obed  (the server does not list it)")
    terminal.send("\r")
    terminal.wait_for("The next prompt goes to obedient.")
    terminal.send("/model oth\r")
    terminal.wait_for("oth  (the server does not list it)")
    terminal.send("\x1b[B\r")
    terminal.wait_for("The next prompt goes to oth. The server does not list it")
