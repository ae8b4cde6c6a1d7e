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
from newel.agent.events import AgentEnd, AgentEvent, ErrorEvent
from newel.agent.formatting import pluralize
from newel.agent.messages import AppMessage, AssistantMessage, ToolResultMessage, UserMessage
from newel.permissions.approval import NOBODY_TO_ASK
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandFormatter, shell_command
from newel.terminal.renderers.base import Renderer, RendererSubscription, animate, report_damage
from newel.terminal.repl.repl import Prompt, prepare
from newel.terminal.review.review_ui import NOT_RECORDING, PendingNotice
from newel.terminal.signals import die_of, exit_code, on_signals
from newel.terminal.stdout import TextSink, discard_stdout
from newel.text.format import one_line
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.terminal.ui.approval import Approver

DONE, FAILED = 0, 1

CUT_OFF = (
    "The answer was cut off at the longest output that the model may write. "
    'Ask for less, or set [models."{model}"] max_output in config.toml.'
)
WITHHELD = "The answer was withheld: {why}"
NOTHING = "The model returned an empty answer. Try again, or choose another with --model."
UNASKED = (
    "{calls} did not run, because nobody could approve them. --approve auto runs such calls without asking."
)


async def run_prompts(
    agent: CodingAgent,
    prompts: Sequence[Prompt],
    renderer: Renderer,
    *,
    approver: Approver | None = None,
    format_command: CommandFormatter = shell_command,
    answers: AnswerOutput | None = None,
) -> int:
    """Run each prompt, up to the first that fails. ``approver`` is given where standard input is a terminal: there the user
    is asked. ``format_command`` writes commands for the user.
    ``answers`` gets the text that each run ends with.

    Returns 0 if all are done, 1 if a run failed, hit a limit, lost its reader or did not do all (see ``shortfall``), 128 + N if signal N
    stopped it (130 for Ctrl+C). A second signal kills the process.
    """
    notice = PendingNotice(agent, format_command)
    if not isinstance(agent.workspace, RecordingWorkspace):
        _print_notice(NOT_RECORDING)
    if agent.where:
        _print_notice(f"The model is {one_line(agent.state.model.id)} {agent.where}.")
    try:
        code = await _run(agent, prompts, renderer, approver, answers or AnswerOutput())
        if message := await notice.text():
            _print_notice(message)
        return code
    finally:
        notice.close()


def _print_notice(message: str) -> None:
    """Print a message to standard error."""
    with contextlib.suppress(OSError):
        print(f"newel: {message}", file=sys.stderr)  # noqa: T201 — standard output is for the answer


async def _run(
    agent: CodingAgent,
    prompts: Sequence[Prompt],
    renderer: Renderer,
    approver: Approver | None,
    answers: AnswerOutput,
) -> int:
    stopped_by: signal.Signals | None = None
    preparing = anyio.CancelScope()

    def stop(number: signal.Signals) -> None:
        nonlocal stopped_by
        if stopped_by is not None:
            renderer.close()
            die_of(number)
        stopped_by = number
        preparing.cancel()
        agent.abort()

    if approver is not None:
        from newel.terminal.ui.line_reader import LineReader, TerminalAsk

        approver.attend(TerminalAsk(renderer, LineReader(sys.stdin.fileno()), sys.stdout))
    subscription = RendererSubscription(renderer, agent.abort)
    unsubscribe = agent.subscribe(subscription.handle)
    try:
        report_damage(agent, renderer)
        async with on_signals(stop) as group:
            group.start_soon(animate, renderer)
            for prompt in prompts:
                preparing = anyio.CancelScope()
                start = len(agent.state.messages)
                end = await _answer(agent, prompt, renderer, preparing)
                subscription.check()
                if stopped_by is not None:
                    return exit_code(stopped_by)
                if end is None or end.reason != "done":
                    return FAILED
                answers.add(_last_text(agent))
                if message := shortfall(agent.state.messages[start:]):
                    _print_notice(message)
                    return FAILED
            return DONE
    except OSError as error:  # the screen's own: all other errors were shown as events
        discard_stdout(error)
        return FAILED
    finally:
        unsubscribe()
        renderer.close()


def _last_text(agent: CodingAgent) -> str:
    texts = (
        message.text for message in reversed(agent.state.messages) if isinstance(message, AssistantMessage)
    )
    return next(texts, "")


async def _answer(
    agent: CodingAgent, prompt: Prompt, renderer: Renderer, preparing: anyio.CancelScope
) -> AgentEnd | None:
    """Return how the run ended; None if it raised, as its events have shown, or if ``preparing`` was cancelled before it."""
    message: UserMessage | None = None
    with preparing:
        try:
            message = await prepare(agent, prompt, renderer.note)
        except WorkspaceError as error:
            renderer.note(str(error), "workspace_error")
    if message is None or preparing.cancel_called:
        return None
    try:
        return await agent.prompt(message.text, message.attachments)
    except Exception:  # noqa: BLE001 — an event has shown it
        return None


def shortfall(messages: Sequence[AppMessage]) -> str:
    """Why a run that ended well is incomplete; empty if it is complete. ``messages`` are those of the run."""
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    if not answers:
        return ""
    last = answers[-1]
    if last.stop_reason == "length":
        return CUT_OFF.format(model=last.model)
    if last.stop_reason == "error":
        return WITHHELD.format(why=last.error_message or "the server gave no reason.")
    results = [message for message in messages if isinstance(message, ToolResultMessage)]
    if not results and not last.text.strip():
        return NOTHING
    unasked = sum(result.is_error and result.output == NOBODY_TO_ASK for result in results)
    return UNASKED.format(calls=pluralize(unasked, "tool call")) if unasked else ""


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
    """A subscriber that writes errors of runs to ``out``, for runs displayed elsewhere."""

    def on_event(event: AgentEvent) -> None:
        if isinstance(event, ErrorEvent) and not event.is_notice:
            out.write(f"newel: {sanitize(event.message)}\n")

    return on_event
