"""Runs the prompts of the command line one after the other, and exits. Answers are written apart from the progress."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from newel.agent.errors import ConfigError, UsageError, WorkspaceError
from newel.agent.events import AgentEvent, ErrorEvent
from newel.agent.formatting import describe_error
from newel.agent.messages import AssistantMessage, UserMessage
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.session.typed_prompt import Prompt, prepare
from newel.terminal.commands import CommandFormatter, shell_command
from newel.terminal.prompt_record import HeldAnswer, PromptRecord, RunReporter
from newel.terminal.renderers.base import Renderer, RendererSubscription, animate, report_start
from newel.terminal.review.run_notice import NOT_RECORDING, RunNotice
from newel.terminal.signals import code_without_reader, die_of, exit_code, on_signals
from newel.terminal.stdout import TextSink, discard_stdout
from newel.text.format import one_line
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.terminal.ui.approval import Approver

DONE, FAILED = 0, 1


async def run_prompts(
    agent: CodingAgent,
    prompts: Sequence[Prompt],
    renderer: Renderer,
    *,
    approver: Approver | None = None,
    format_command: CommandFormatter = shell_command,
    answers: AnswerOutput | None = None,
    report: RunReporter | None = None,
    held: HeldAnswer | None = None,
) -> int:
    """Run each prompt, up to the first that fails. ``approver`` is given where standard input is a terminal: there the user
    is asked. ``format_command`` writes commands for the user.
    ``answers`` gets the text that each run ends with, ``report`` the session and each result. ``held`` is set if the answers are held to
    a schema.

    Returns 0 if all are done, 1 if a run failed, hit a limit, lost its reader or did not do all (see ``run_result.shortfall``), 128 + N if
    signal N stopped it (130 for Ctrl+C). A second signal kills the process.
    """
    notice = RunNotice(agent, format_command, sums_up=sys.stderr.isatty())
    if not isinstance(agent.workspace, RecordingWorkspace):
        _print_notice(NOT_RECORDING)
    if agent.models.where:
        _print_notice(f"The model is {one_line(agent.state.model.id)} {agent.models.where}.")
    try:
        run = _PromptRun(agent, renderer, answers or AnswerOutput(), report, held)
        code = await run.run(prompts, approver)
        if message := await notice.text():
            _print_notice(message)
        return code
    finally:
        notice.close()


def _print_notice(message: str) -> None:
    """Print a message to standard error."""
    with contextlib.suppress(OSError):
        print(f"newel: {message}", file=sys.stderr)  # noqa: T201 — standard output is for the answer


class _PromptRun:
    """Runs the prompts, and stops when a signal arrives."""

    def __init__(
        self,
        agent: CodingAgent,
        renderer: Renderer,
        answers: AnswerOutput,
        report: RunReporter | None,
        held: HeldAnswer | None,
    ) -> None:
        self._agent = agent
        self._renderer = renderer
        self._answers = answers
        self._report = report
        self._held = held
        self._stopped_by: signal.Signals | None = None
        self._preparing = anyio.CancelScope()

    async def run(self, prompts: Sequence[Prompt], approver: Approver | None) -> int:
        agent, renderer = self._agent, self._renderer
        if approver is not None:
            from newel.terminal.ui.line_reader import LineReader, TerminalAsk

            approver.attend(TerminalAsk(renderer, LineReader(sys.stdin.fileno()), sys.stdout))
        subscription = RendererSubscription(renderer, agent.abort)
        unsubscribe = agent.subscribe(subscription.handle)
        try:
            if self._report is not None:
                from newel.terminal.run_result import describe_session

                self._report.on_session(describe_session(agent))
            report_start(agent, renderer)
            async with on_signals(self._stop) as group:
                group.start_soon(animate, renderer)
                for prompt in prompts:
                    if code := await self._answer(prompt, subscription):
                        return code
                return DONE
        except OSError as error:  # the screen's own: all other errors were shown as events
            discard_stdout(error)
            return code_without_reader()
        finally:
            unsubscribe()
            renderer.close()

    def _stop(self, number: signal.Signals) -> None:
        if self._stopped_by is not None:
            self._renderer.close()
            die_of(number)
        self._stopped_by = number
        self._preparing.cancel()
        self._agent.abort()

    async def _answer(self, prompt: Prompt, subscription: RendererSubscription) -> int:
        """Run one prompt; returns its exit code."""
        record = PromptRecord(self._agent, self._held)
        problem = await self._ask(prompt)
        subscription.check()
        result = record.result(problem=problem, exit_code=self._stopped_by and exit_code(self._stopped_by))
        if self._report is not None:
            self._report.on_result(result)
        if result.reason == "done" and not result.schema_error and self._stopped_by is None:
            self._answers.add(self._held.text if self._held else _last_text(self._agent))
        if result.reason == "done" and result.message:
            _print_notice(result.message)
        if result.schema_error:
            _print_notice(f"The answer was:\n{sanitize(result.text)}")
        return result.exit_code

    async def _ask(self, prompt: Prompt) -> str:
        """Send a prompt. Returns why there was no run, if so; how a run ended, its events have shown."""
        message: UserMessage | None = None
        self._preparing = anyio.CancelScope()
        with self._preparing:
            try:
                message = await prepare(self._agent, prompt, self._renderer.note)
            except WorkspaceError as error:
                self._renderer.note(str(error), "workspace_error")
                return str(error)
        if message is None or self._preparing.cancel_called:
            return "Stopped."
        try:
            await self._agent.prompt(message.text, message.attachments)
        except Exception as error:  # noqa: BLE001 — an event has shown it
            return describe_error(error)
        return ""


def _last_text(agent: CodingAgent) -> str:
    texts = (message.text for message in reversed(agent.history()) if isinstance(message, AssistantMessage))
    return next(texts, "")


# -- the final answers, separate from the progress ----------------------------------------------------------


class AnswerOutput:
    """Writes each answer to ``out``, made inert, and all of them to the file at ``path``, verbatim.

    Raises ``UsageError`` if the file is not writable.
    """

    def __init__(self, out: TextSink | None = None, path: Path | None = None) -> None:
        self._out = out
        self._path = path
        self._texts: list[str] = []
        if path and (path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK)):
            raise UsageError(f"--output: {path} is not writable.")

    def add(self, text: str) -> None:
        """Raises ``OSError`` if the reader of ``out`` has gone, ``ConfigError`` if the file cannot be written."""
        text = text.strip("\n")
        if not text:
            return
        self._texts.append(text)
        if self._out is not None:
            self._out.write(f"{sanitize(text)}\n")
            self._out.flush()
        if self._path is not None:
            try:
                self._path.write_bytes("\n".join([*self._texts, ""]).encode(errors="replace"))
            except OSError as error:
                raise ConfigError(
                    f"The answer cannot be written to {self._path}: {error.strerror}."
                ) from error


def errors_to(out: TextSink) -> Callable[[AgentEvent], None]:
    """A subscriber that writes errors and warnings of runs to ``out``, for runs displayed elsewhere."""

    def on_event(event: AgentEvent) -> None:
        if isinstance(event, ErrorEvent) and event.level != "info":
            out.write(f"newel: {sanitize(event.message)}\n")

    return on_event
