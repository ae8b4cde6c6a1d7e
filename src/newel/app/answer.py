"""``newel.ask``: one prompt from a script or a notebook, and its answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import UsageError
from newel.agent.events import EndReason
from newel.agent.formatting import pluralize
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    Attachment,
    Usage,
    has_tool_results,
    new_id,
)
from newel.app.api import AgentFlags, open_coding_agent
from newel.app.held_answers import hold
from newel.context.attachments import check_prompt
from newel.review.project import ProjectReview, RunFile, load_run
from newel.review.tracking.recording_workspace import RecordingWorkspace, ledger_folder
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.agent.ports import Tool
    from newel.permissions.approval import AskApproval
    from newel.session.coding_agent import CodingAgent
    from newel.text.json_schema import AnswerSchema

T = TypeVar("T")


class AskOptions(AgentFlags, total=False):
    """The keyword options of ``ask``: those of ``open_coding_agent``."""

    working_directory: Path | str
    session: str | None
    continue_: bool
    ephemeral: bool
    system_prompt: str | None
    tools: Sequence[Tool]
    ask: AskApproval | None


class Answer(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The end of a run that a prompt has started.

    ``text`` is the model's last text, as it wrote it; ``str(answer)`` is the same without terminal escape sequences. ``messages``
    are those of the run. ``changes`` are the files that it changed, each with its unified diff (``patch``) and its ``hunks``; there
    are none where changes are not recorded. ``usage`` counts tokens, ``cost`` is in US dollars, None if the price is
    unknown. ``session`` is the session's id, ``run`` that of the run. ``reason`` says how the run ended: ``done``, ``aborted``,
    ``max_cost``, …; ``problem`` says why an answer is incomplete, and is empty if it is complete. With a schema, ``value`` is the decoded
    answer, None if it does not fit.
    """

    text: str
    messages: tuple[AppMessage, ...]
    changes: tuple[RunFile, ...]
    usage: Usage
    cost: float | None
    session: str
    run: str
    reason: EndReason
    problem: str
    value: Any = None
    model: str
    working_directory: str
    host: str | None = None

    def __str__(self) -> str:
        return sanitize(self.text)

    def __repr__(self) -> str:
        shown = f"{self.text[:60]}…" if len(self.text) > 60 else self.text
        return f"Answer({shown!r}, changes={[file.file_path for file in self.changes]!r}, reason={self.reason!r})"

    def _repr_html_(self) -> str:
        """The answer for a notebook: its Markdown as HTML, and the diffs. Everything is escaped, and nothing is loaded."""
        from newel.app.answer_html import answer_html

        facts = [self.model, pluralize(self.usage.total, "token")]
        facts += [] if self.cost is None else [f"${self.cost:.4f}"]
        return answer_html(self.text, self.problem, self.changes, [*facts, f"session {self.session[:8]}"])

    def undo(self) -> list[str]:
        """Undo what is left of the run's changes, on disk and pending; later changes stay. Returns the paths of the files.

        Raises ``NothingToUndo`` if nothing of it is left or recorded, and what writing files raises. Blocks; works inside a
        running event loop too.
        """
        return run_in_thread(lambda _: partial(self.aundo))

    async def aundo(self) -> list[str]:
        """``undo`` for asynchronous code."""
        from newel.app.hosts import open_host
        from newel.config.settings import newel_home
        from newel.permissions.nested import refuse_decision
        from newel.review.model.history import NothingToUndo
        from newel.review.tracking.change_recorder import ChangeRecorder
        from newel.workspace.process.output import OutputLimits

        refuse_decision("undo", ())
        home = newel_home(os.environ)
        async with open_host(Path(self.working_directory), self.host) as host:
            folder = ledger_folder(home, host.name)
            if not self.changes or not await anyio.Path(folder).is_dir():
                raise NothingToUndo("This run changed no file, or its changes were not recorded.")
            workspace = host.workspace(host.name, OutputLimits())
            recorder = await ChangeRecorder.open(workspace, folder, left_out=[str(home)])
            try:
                return await _undo(recorder.project, self.run)
            finally:
                recorder.close()


async def _undo(project: ProjectReview, run: str) -> list[str]:
    from newel.review.model.history import NothingToUndo

    checkpoint = await anyio.to_thread.run_sync(project.ledger.checkpoint_of_run, run)
    if checkpoint is None:
        raise NothingToUndo("The changes of this run were not recorded, so they cannot be undone.")
    plan = await project.undo(checkpoint)
    if not plan.files and plan.conflicts:
        raise NothingToUndo(f"Nothing was undone: {plan.conflicts[0].reason}")
    return [saved.path for saved in await project.apply(plan)]


# -- asking -------------------------------------------------------------------------------------------


def ask(
    prompt: str,
    *,
    attachments: Sequence[Attachment | Path] = (),
    progress: bool = False,
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[AskOptions],
) -> Answer:
    """Run a coding agent on one prompt, and wait for its answer.

        answer = newel.ask("Which tests cover the parser?", approve="read-only")
        print(answer)

    It works in a thread with an event loop of its own, so a notebook can call it although its own loop is running.
    ``attachments`` may be paths of files, relative to the working directory. With ``progress``, text and tool calls are
    printed as they arrive. ``schema`` is a JSON Schema that the answer has to fit. ``options`` are those of
    ``open_coding_agent``; by default the agent works in the current folder, and runs tools without asking.

    Ctrl+C aborts the run, its commands included, and raises ``KeyboardInterrupt``; the session stays valid. A limit that is
    reached raises nothing: see ``Answer.reason``. Raises what ``open_coding_agent`` and ``Agent.prompt`` raise.
    """
    return run_in_thread(
        lambda write: partial(
            _ask,
            prompt,
            attachments=attachments,
            write=write if progress else None,
            schema=schema,
            options=options,
        ),
        write=_print_progress,
    )


async def aask(
    prompt: str,
    *,
    attachments: Sequence[Attachment | Path] = (),
    progress: bool = False,
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[AskOptions],
) -> Answer:
    """``ask`` for asynchronous code. Cancelling it aborts the run."""
    write = _print_progress if progress else None
    return await _ask(prompt, attachments=attachments, write=write, schema=schema, options=options)


def _print_progress(text: str) -> None:
    """Print with a ``?`` for what the encoding lacks, which must not end the run. A program without a console has no standard output."""
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def run_in_thread(
    make: Callable[[Callable[[str], object]], Callable[[], Any]],
    *,
    write: Callable[[str], object] | None = None,
) -> Any:
    """Run a coroutine function in a thread with an event loop of its own. An interrupt of the caller cancels it, and waits for its
    end. ``make`` gets a function that hands text to ``write``, which is called in the caller's thread.
    """
    from queue import SimpleQueue

    from anyio.from_thread import start_blocking_portal

    texts = SimpleQueue[str | None]()
    # an exception that leaves this block cancels what runs in the portal
    with start_blocking_portal() as portal:
        future = portal.start_task_soon(make(texts.put))
        future.add_done_callback(lambda _: texts.put(None))
        while (text := texts.get()) is not None:
            if write is not None:
                write(text)
        return future.result()


async def _ask(
    prompt: str,
    *,
    attachments: Sequence[Attachment | Path],
    write: Callable[[str], object] | None,
    schema: Mapping[str, Any] | None,
    options: AskOptions,
) -> Answer:
    from newel.terminal.run_result import shortfall

    check_prompt(prompt, ())
    if not prompt.strip() and not attachments:
        raise UsageError("The prompt is empty. Give the agent a task.")
    shape = None if schema is None else _compiled(schema)
    async with open_coding_agent(**options) as agent:
        held = None if shape is None else hold(agent, shape)
        agent.run_id = new_id()
        files = [
            item if isinstance(item, Attachment) else await _load(agent, str(item)) for item in attachments
        ]
        start = len(agent.state.messages)
        unsubscribe = _show_progress(agent, write)
        try:
            end = await agent.prompt(prompt, files)
        finally:
            unsubscribe()
        messages = tuple(agent.state.messages[start:])
        return Answer(
            text=next((said.text for said in reversed(messages) if isinstance(said, AssistantMessage)), ""),
            messages=messages,
            changes=await _changes(agent) if has_tool_results(messages) else (),
            usage=end.usage,
            cost=end.cost,
            session=agent.session.get_id(),
            run=agent.run_id,
            reason=end.reason,
            problem=end.message if end.reason != "done" else (held and held.problem) or shortfall(messages),
            value=None if held is None or held.value is msgspec.UNSET else held.value,
            model=agent.state.model.id,
            working_directory=agent.workspace.root,
            host=options.get("host"),
        )


def _compiled(schema: object) -> AnswerSchema:
    """Python does not check what the caller gives."""
    from newel.text.json_schema import compile_schema

    if not isinstance(schema, Mapping):
        raise UsageError("schema must be a dict with a JSON Schema.")
    return compile_schema(dict(cast("Mapping[str, Any]", schema)), "schema")


async def _load(agent: CodingAgent, path: str) -> Attachment:
    from newel.context.attachments import load_attachment

    workspace = agent.attachable.workspace
    return await load_attachment(workspace, await workspace.resolve(path), name=path)


async def _changes(agent: CodingAgent) -> tuple[RunFile, ...]:
    """The files that the run has changed, or would change. A ledger that cannot be read is reported during the run."""
    from newel.review.model.file_review import ReviewError

    workspace = agent.workspace
    if not isinstance(workspace, RecordingWorkspace):
        return ()
    try:
        project = (await workspace.recorder()).project
        checkpoint = await anyio.to_thread.run_sync(project.ledger.checkpoint_of_run, agent.run_id)
        return (await load_run(project, checkpoint)).files if checkpoint else ()
    except ReviewError:
        return ()


class _Writer:
    """A sink of text that a function takes."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def write(self, text: str, /) -> int:
        self._write(text)
        return len(text)

    def flush(self) -> None:
        pass


def _show_progress(agent: CodingAgent, write: Callable[[str], object] | None) -> Callable[[], None]:
    """Print the run as the terminal would. Returns a function that ends it."""
    if write is None:
        return lambda: None
    from newel.terminal.renderers.base import RendererSubscription
    from newel.terminal.renderers.console import ConsoleRenderer

    renderer = ConsoleRenderer(_Writer(write), separate_runs=False)
    unsubscribe = agent.subscribe(RendererSubscription(renderer, agent.abort).handle)

    def end() -> None:
        unsubscribe()
        renderer.close()

    return end
