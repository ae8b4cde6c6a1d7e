"""If these fail, a person who goes on typing while a question appears runs a command that they have not read."""

from __future__ import annotations

import json
import random
import string
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from newel.terminal.ui.line_reader import QUIET_S
from tests.integration.terminal.conftest import PROGRAM, Terminal, environment
from tests.terminal_waits import TAKEN

TERMINALS: Final = 20
QUESTIONS: Final = 50
"""In each terminal."""


class HastyTypist:
    """Types at random moments around each question, and answers it once it takes answers. ``typed`` are all the letters that were no
    answer.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        self.sessions = folder / ".newel" / "sessions"
        self.typed = ""
        self.tries = 0
        self._random = random.Random(seed)  # noqa: S311 — moments, not secrets
        program = [*PROGRAM, "rich"]
        self.terminal = Terminal(program, self.project, 80, 24, environment(folder, PROGRAM_APPROVE="ask"))

    def work(self) -> None:
        self.terminal.wait_for("obedient")
        self.terminal.send(f"run {' && '.join(f'touch q{number}' for number in range(QUESTIONS))}\r")
        for number in range(QUESTIONS):
            self._type_meanwhile(f"    touch q{number}\n")
            self.terminal.wait_for(self._is_answerable, painted=False)
            assert f"    touch q{number}\n" in self._shown()
            assert f": touch q{number}\n" not in self._shown(), "answered before it could be read"
            assert not (self.project / f"q{number}").exists()
            self._answer(number)
        self.terminal.wait_for(" in · ")  # the line at the end of the run
        self.terminal.send("z\r")  # whatever of the draft was not sent is sent now
        self.typed += "z"
        self.terminal.wait_for(lambda: "".join(self.sent()) == self.typed)

    def _type_meanwhile(self, question: str) -> None:
        """Type some letters, ``y`` and Enter, beginning up to a third of a pause before or after the question appears. What the machine
        holds up for so long that the question could be read is not typed.
        """
        letters = "".join(self._random.choices(string.ascii_lowercase, k=self._random.randint(0, 6)))
        after = self._random.random() < 0.5
        if after:
            self.terminal.wait_for(lambda: question in self._shown(), painted=False)  # the moment counts
        last = time.monotonic()
        delay = self._random.uniform(0, QUIET_S / 3)
        for key in f"{letters}y\r":
            self.terminal.watch(last + delay - time.monotonic())
            if time.monotonic() - last > QUIET_S / 2 or self._is_answerable():
                return
            self.terminal.send(key)
            self.typed += key.strip()
            last, delay = time.monotonic(), self._random.uniform(0, 0.06)
        self.tries += 1

    def _answer(self, number: int) -> None:
        is_yes = self._random.random() < 0.25
        self.terminal.send("y\r" if is_yes else self._random.choice(["\r", "n\r"]))
        line = f"{'Allowed once' if is_yes else 'Denied'}: touch q{number}\n"
        self.terminal.wait_for(lambda: line in self._shown(), painted=False)
        if is_yes:
            self.terminal.wait_for((self.project / f"q{number}").exists)

    def _shown(self) -> str:
        """The last question and answer, without those before."""
        return self.terminal.screen.latest(40)

    def _is_answerable(self) -> bool:
        return any(words in self._shown() for words in TAKEN)

    def sent(self) -> Iterator[str]:
        """The messages that the model got, without the first one."""
        [session] = self.sessions.glob("**/*.jsonl")
        *lines, _ = session.read_text().split("\n")  # the last one may be half written
        for line in lines:
            message = json.loads(line).get("message", {})
            if message.get("role") == "user" and not str(message["content"]).startswith("run touch"):
                yield message["content"]


@pytest.mark.slow  # a thousand pauses before a question takes an answer
@pytest.mark.timeout(600)
def test_no_key_that_was_begun_before_a_question_answers_it_and_no_letter_is_lost(tmp_path: Path) -> None:
    """A thousand questions, each with a draft, ``y`` and Enter at random moments around its appearance."""
    seed = random.randrange(10**6)  # noqa: S311 — as above
    print(f"seed {seed}")  # noqa: T201 — to repeat it
    typists = [HastyTypist(tmp_path / str(number), seed + number) for number in range(TERMINALS)]
    try:
        with ThreadPoolExecutor(TERMINALS) as pool:
            for done in [pool.submit(typist.work) for typist in typists]:
                done.result()
    finally:
        for typist in typists:
            typist.terminal.close()
    tries = sum(typist.tries for typist in typists)
    assert tries > 0.8 * TERMINALS * QUESTIONS
