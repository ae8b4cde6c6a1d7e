"""An unattended agent in a terminal: its events, the verdicts on its contract, and the signals that end it."""

from __future__ import annotations

import signal
from contextlib import aclosing
from typing import TextIO

import msgspec

from newel.agent import events as e
from newel.agent.messages import AssistantMessage
from newel.contracts.contract_job import HeadlessRun
from newel.jobs.engine import Job
from newel.runs.event_hub import EventHub
from newel.runs.models import LiveSnapshot
from newel.runs.run_events import (
    AcceptanceEnd,
    AcceptanceStart,
    ContractState,
    Evaluation,
    FolderSnapshot,
    Notice,
    RunEvent,
)
from newel.terminal.renderers.call_outcome import last_lines
from newel.terminal.renderers.console import ConsoleRenderer
from newel.terminal.renderers.json_renderer import JsonRenderer
from newel.terminal.signals import die_of, exit_code, on_signals
from newel.terminal.stdout import discard_stdout
from newel.text.format import as_clause, format_duration, one_line

DONE, FAILED = 0, 1
SHORT_ID = 8
"""Characters of a run's ID that are shown."""


class ContractRenderer(ConsoleRenderer):
    """Draws the events of a run, live or from its journal, where a message comes without its pieces."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._streamed_id = ""
        """The message whose pieces were shown."""

    def handle(self, event: RunEvent, /) -> None:
        match event:
            case Evaluation():
                verdict = "The contract is fulfilled" if event.satisfied else "Not yet fulfilled"
                missing = f" Missing: {as_clause(event.missing)}." if event.missing else ""
                self.note(f"◆ {verdict}: {as_clause(event.why)}.{missing}")
            case AcceptanceStart():
                self.note(f"◆ Acceptance: {one_line(event.command)}")
            case AcceptanceEnd():
                mark = "✓ passed" if event.passed else "✗ failed"
                tail = [] if event.passed else last_lines(event.output)
                self.note("\n    ".join([f"  {mark} · {format_duration(event.duration)}", *tail]))
            case Notice():
                self.note(event.message)
            case ContractState():
                self.note(_state(event))
            case FolderSnapshot():
                if event.missing:
                    self.note(f"Not in the snapshots of the folder:\n{event.missing}")
            case e.MessageUpdate():
                self._streamed_id = event.message_id
                super().handle(event)
            case _:
                super().handle(event)

    def on_answer(self, message: AssistantMessage) -> None:
        if message.id != self._streamed_id:
            self.on_text(message.text)
        super().on_answer(message)

    def on_error(self, message: str) -> None:
        """The state of the contract, which is the next event, reports it."""

    def on_run_end(self, event: e.AgentEnd) -> None:
        super().on_run_end(msgspec.structs.replace(event, reason="done"))


def _state(event: ContractState) -> str:
    match event.state:
        case "completed":
            return "Completed."
        case "failed":
            return f"Failed: {event.reason}"
        case "stopped":
            return event.reason or "Stopped."
        case _:
            return ""


class _WatchedRun:
    """A run, its display, and the signals that it received."""

    def __init__(self, solo: HeadlessRun, screen: ContractRenderer | JsonRenderer) -> None:
        self.solo = solo
        self.screen = screen
        self.is_unseen = False
        """The display failed."""
        self.state: ContractState | None = None
        self.signals: list[signal.Signals] = []

    async def run(self) -> None:
        self.state = await self.solo.run()

    def show(self, event: RunEvent) -> None:
        if self.is_unseen:
            return
        try:
            self.screen.handle(event)
        except OSError as error:
            self.is_unseen = True
            discard_stdout(error)
            self.solo.stop(now=True)


async def watch(solo: HeadlessRun, feed: EventHub, job: Job, screen: ContractRenderer | JsonRenderer) -> int:
    """Run a contract and show its events. The first Ctrl+C stops the run before its next request; a second one, any other
    signal and a reader that has gone stop it at once; the third signal kills the process.

    Returns 0 if the contract was completed, 128 + N if signal N came before, else 1.
    """
    watched = _WatchedRun(solo, screen)

    def stop(number: signal.Signals) -> None:
        watched.signals.append(number)
        now = len(watched.signals) > 1 or number != signal.SIGINT
        if len(watched.signals) > 2:
            die_of(number)
        if not solo.stop(now=now):  # it has not started
            group.cancel_scope.cancel()

    about = f"Agent {job.id[:SHORT_ID]} in {solo.params.folder} · log: {solo.params.log}"
    watched.show(Notice(level="info", message=about))
    if watched.is_unseen:
        return FAILED
    async with on_signals(stop) as group:
        group.start_soon(watched.run)
        async with aclosing(feed.follow(job.id, job.seq)) as items:
            async for item in items:
                if not isinstance(item.event, LiveSnapshot):
                    watched.show(item.event)
    if not watched.is_unseen:
        screen.close()
    if watched.state is not None and watched.state.state == "completed":
        return DONE
    return exit_code(watched.signals[0]) if watched.signals else FAILED
