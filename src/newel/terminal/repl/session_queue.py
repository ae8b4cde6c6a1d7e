"""What waits to be sent, kept in the session's file: a message that was shown as queued survives the end of the program.

typed during a run ── keep ──> waits ── its message is saved, or ``settle`` ──> gone
                                 └── ``put_back`` into the input ── the input is sent ──> gone
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import msgspec

from newel.agent.messages import new_id
from newel.session.file_format import QueuedLine
from newel.session.typed_prompt import Prompt

if TYPE_CHECKING:
    from newel.session.coding_agent import CodingAgent


class SessionQueue:
    """The queue of a conversation as its session's file has it. All methods that write raise ``SessionError``."""

    def __init__(self, agent: CodingAgent) -> None:
        self._agent = agent
        self._here: set[str] = set()
        self._in_input: set[str] = set()

    def keep(self, prompt: Prompt) -> Prompt:
        """Make a prompt durable, in the place of what was in the input; returns it with its id."""
        prompt = msgspec.structs.replace(prompt, id=prompt.id or new_id())
        line = QueuedLine(prompt.id, prompt.typed, list(prompt.images))
        self._agent.keep_queued(line, instead_of=self._in_input)
        self._in_input.clear()
        self._here.add(prompt.id)
        return prompt

    @property
    def has_input(self) -> bool:
        """Whether something that was queued is in the input."""
        return bool(self._in_input)

    def put_back(self, prompts: Iterable[Prompt]) -> None:
        """These are in the input now. They are kept until it is sent."""
        self._in_input |= {prompt.id for prompt in prompts if prompt.id}

    def replace_input(self) -> None:
        """What was in the input is given up: a command was sent from there instead."""
        self._agent.keep_queued(instead_of=self._in_input)
        self._in_input.clear()

    def drop(self, prompt: Prompt) -> None:
        """A command runs, or is given up."""
        if prompt.id:
            self._agent.keep_queued(instead_of=[prompt.id])

    def settle(self, waiting: Collection[str]) -> None:
        """Give up all that waits nowhere: it was refused, or it failed before it was sent."""
        gone = self._here - set(waiting) - self._in_input
        self._agent.keep_queued(instead_of=gone)
        self._here -= gone

    def left(self) -> list[Prompt]:
        """What another process has left unsent in this session; each is returned once."""
        lines = [line for line in self._agent.session.queued() if line.id not in self._here]
        self._here |= {line.id for line in lines}
        return [Prompt(line.text, images=tuple(line.images), id=line.id) for line in lines]
