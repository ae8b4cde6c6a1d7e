"""Prompts from the command line: answered one after another, then the program ends."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from newel.agent.errors import WorkspaceError
from newel.agent.events import AgentEnd
from newel.agent.messages import AssistantMessage
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandFormatter, shell_command
from newel.terminal.missing_model import shortfall
from newel.terminal.renderers.base import Renderer, RendererSubscription, animate, report_damage
from newel.terminal.repl.prompt_input import Prepared, Prompt, prepare
from newel.terminal.review.pending_notice import PendingNotice
from newel.terminal.review.review_ui import NOT_RECORDING
from newel.terminal.signals import die_of, exit_code, on_signals
from newel.terminal.stdout import discard_stdout
from newel.terminal.ui.answers import Answers
from newel.text.format import one_line

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
    answers: Answers | None = None,
) -> int:
    """Answer each prompt; the first that does not end well is the last. ``approver`` is given where
    standard input is a terminal: there the person is asked. ``format_command`` writes commands for the user.
    ``answers`` gets the text that each run ends with.

    Returns 0 if all are done, 1 if a run failed, hit a limit, lost its reader or did not do all (see ``shortfall``), 128 + N if signal N
    stopped it (130 for Ctrl+C). The second signal ends the process where it stands.
    """
    notice = PendingNotice(agent, format_command)
    _tell_unrecorded(agent)
    if agent.where:
        _say(f"The model is {one_line(agent.state.model.id)} {agent.where}.")
    try:
        code = await _run(agent, prompts, renderer, approver, answers or Answers())
        if words := await notice.text():
            _say(words)
        return code
    finally:
        notice.close()


def _tell_unrecorded(agent: CodingAgent) -> None:
    """Say that changes of files cannot be taken back, where that is so."""
    if not isinstance(agent.workspace, RecordingWorkspace):
        _say(NOT_RECORDING)


def _say(words: str) -> None:
    """Tell the person, and not whoever reads the answer."""
    with contextlib.suppress(OSError):
        print(f"newel: {words}", file=sys.stderr)  # noqa: T201 — a person must know


async def _run(
    agent: CodingAgent,
    prompts: Sequence[Prompt],
    renderer: Renderer,
    approver: Approver | None,
    answers: Answers,
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
        from newel.terminal.ui.line_reader import LineReader
        from newel.terminal.ui.prompt_line import TerminalAsk

        approver.attend(TerminalAsk(renderer, LineReader(sys.stdin.fileno()), sys.stdout))
    audience = RendererSubscription(renderer, agent.abort)
    unsubscribe = agent.subscribe(audience.handle)
    try:
        report_damage(agent, renderer)
        async with on_signals(stop) as group:
            group.start_soon(animate, renderer)
            for prompt in prompts:
                preparing = anyio.CancelScope()
                begun = len(agent.state.messages)
                ended = await _answer(agent, prompt, renderer, preparing)
                audience.check()
                if stopped_by is not None:
                    return exit_code(stopped_by)
                if ended is None or ended.reason != "done":
                    return FAILED
                answers.add(_last_text(agent))
                if words := shortfall(agent.state.messages[begun:]):
                    _say(words)
                    return FAILED
            return DONE
    except OSError as error:  # all else that can fail has been told as an event: this is the screen itself
        discard_stdout(error)
        return FAILED
    finally:
        unsubscribe()
        renderer.close()


def _last_text(agent: CodingAgent) -> str:
    said = (
        message.text for message in reversed(agent.state.messages) if isinstance(message, AssistantMessage)
    )
    return next(said, "")


async def _answer(
    agent: CodingAgent, prompt: Prompt, renderer: Renderer, preparing: anyio.CancelScope
) -> AgentEnd | None:
    """How the run ended; None if it raised, which its events have told, or if ``preparing`` was cancelled before it."""
    prepared: Prepared | None = None
    with preparing:
        try:
            prepared = await prepare(agent, prompt)
        except WorkspaceError as error:
            renderer.note(str(error), "workspace_error")
    if prepared is None or preparing.cancel_called:
        return None
    for note in prepared.notes:
        renderer.note(note)
    try:
        return await agent.prompt(prepared.text, prepared.attachments)
    except Exception:  # noqa: BLE001 — the error event that came before says what it was; the screen's are the audience's
        return None
