"""Requests without input that the host answers at once: those that wait at the same time share a round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.workspace.ssh.port import AnswerTooLong, HostAnswer
from newel.workspace.ssh.shell import HostShell

REQUESTS_PER_BATCH: Final = 64
"""Requests that are sent together."""

BYTES_OF_CHANGES: Final = 16 << 10
"""What a pipe takes in one write: changes that are sent together are sent whole."""


class QuickRequest:
    """``outcome`` is None until it has one. A change is sent only once."""

    def __init__(self, script: str, *, is_change: bool = False) -> None:
        self.script = script
        self.is_change = is_change
        self.outcome: HostAnswer | AnswerTooLong | None = None
        self._is_sent = False

    @property
    def is_waiting(self) -> bool:
        """Whether it is to be sent."""
        return self.outcome is None and not self.is_under_way

    @property
    def is_under_way(self) -> bool:
        """Whether it is a change that is sent and has no answer yet, or gets none."""
        return self.outcome is None and self.is_change and self._is_sent

    def mark_sent(self) -> None:
        self._is_sent = True


async def send_together(shell: HostShell, first: QuickRequest, others: Sequence[QuickRequest]) -> None:
    """Send a request with the ``others`` of its kind that wait. If this fails, those without an answer send themselves, unless they are
    changes: each is the first then, so that no other one can keep it from its answer.
    """
    together = [first]
    left = BYTES_OF_CHANGES - len(first.script)
    for each in others:
        if each is first or not each.is_waiting or each.is_change != first.is_change:
            continue
        left -= len(each.script)
        if len(together) == REQUESTS_PER_BATCH or (first.is_change and left < 0):
            break
        together.append(each)
    for each in together:
        each.mark_sent()
    answers: list[HostAnswer] = []
    try:
        await shell.ask_all([each.script for each in together], answers, settle=first.is_change)
    except AnswerTooLong as error:
        together[len(answers)].outcome = error
    finally:
        for each, answer in zip(together, answers, strict=False):
            each.outcome = answer
