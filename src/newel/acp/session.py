"""One session of a client: an agent in a folder, its prompts one after the other, its mode and its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar, get_args

import anyio
import anyio.abc
import msgspec

from newel.acp import protocol as p
from newel.acp.client import SessionClient
from newel.acp.commands import available_commands, find_command, run_command
from newel.acp.content import PromptContent
from newel.acp.json_rpc import INVALID_PARAMS, INVALID_REQUEST, JsonRpcError
from newel.acp.permissions import PermissionAsker
from newel.acp.updates import UpdateTranslator, fenced
from newel.agent.errors import NewelError
from newel.agent.events import AgentEnd, AgentEvent, MessageEnd, StateUpdate
from newel.agent.formatting import describe_error
from newel.agent.messages import AssistantMessage, Usage, now
from newel.agent.ports import ThinkingLevel
from newel.concurrency import background_tasks
from newel.permissions.approval import ApprovalMode, AskApproval
from newel.providers.listed_models import ModelDetails
from newel.review.tracking.recording_workspace import title_of
from newel.session.coding_agent import CodingAgent
from newel.session.typed_prompt import Prompt, prepare
from newel.terminal.commands import rewrite_commands, slash_command
from newel.terminal.model_names import expand_model_name

T = TypeVar("T")

MODES: Final[dict[ApprovalMode, tuple[str, str]]] = {
    "ask": ("Ask", "Ask before each change and each command"),
    "auto": ("Auto", "Change files and run commands without asking"),
    "review": ("Review", "Work on a copy of the project; you keep or reject each change"),
    "plan": ("Plan", "Look around without changing anything, and write a plan"),
    "read-only": ("Read only", "Change nothing"),
}

LIST_MODELS_S: Final = 10.0
"""Seconds for the server to list its models."""

MAX_MODELS: Final = 200

_STOP_REASONS: Final[dict[str, p.StopReason]] = {
    "done": "end_turn",
    "stopped": "cancelled",
    "aborted": "cancelled",
    "max_turns": "max_turn_requests",
    "max_tool_calls": "max_turn_requests",
    "max_tokens": "max_tokens",
    "max_cost": "max_turn_requests",
}


class AgentOpener(Protocol):
    """Opens the agent of a session with an approval mode. Raises ``NewelError``."""

    def __call__(
        self, mode: ApprovalMode, parts: SessionParts, /
    ) -> AbstractAsyncContextManager[CodingAgent]: ...


class SessionParts(msgspec.Struct, frozen=True):
    """What a session adds to its agent: ``ask`` for approvals, ``on_terminal`` for its commands' terminals, ``note`` for messages to the
    user.
    """

    ask: AskApproval
    on_terminal: Callable[[str], object]
    note: Callable[[str], object]


class AcpSession:
    """``open_agent`` opens its agent, ``client`` is the client for this session, ``home`` Newel's own folder, ``root`` that of
    the session. ``run`` has to run as long as the session is open.
    """

    def __init__(
        self, open_agent: AgentOpener, client: SessionClient, mode: ApprovalMode, *, root: str, home: Path
    ) -> None:
        self.mode: ApprovalMode = mode
        self.root = root
        self.client = client
        self._open_agent = open_agent
        self._home = home
        self._leave = anyio.Event()
        self.is_closed = False
        self._opened = anyio.Event()
        self._problem: NewelError | None = None
        self._turn = anyio.Lock()
        self._prompts: set[anyio.CancelScope] = set()
        self._agent: CodingAgent | None = None
        self._translator = UpdateTranslator(root, client.update)
        self._asker = PermissionAsker(client, self._translator)
        self._parts = SessionParts(self._asker, self._translator.in_terminal, self._translator.note)
        self._mode_before: ApprovalMode = mode
        self._models: list[ModelDetails] = []
        self._ended = anyio.Event()
        self._is_released = False

    @property
    def agent(self) -> CodingAgent:
        assert self._agent is not None  # noqa: S101 — nobody gets a session before `run` has opened it
        return self._agent

    # -- its life ---------------------------------------------------------------------------------

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep the agent open until ``close``; it is opened again if a change of the mode needs it. Raises ``NewelError`` if it
        cannot be opened. A failure after that ends this session alone.
        """
        try:
            await self._hold(task_status.started)
            while not self.is_closed:
                try:
                    await self._hold()
                except NewelError as error:
                    self._problem, self.mode = error, self._mode_before
                    await self._hold()
        except Exception as error:
            if self._agent is None:
                raise
            self._problem = NewelError(f"The session has ended. {describe_error(error)}")
            self._translator.note(str(self._problem))
            self.close()
        finally:
            self._opened.set()
            self._ended.set()

    async def _hold(self, on_open: Callable[[], object] | None = None) -> None:
        """Open the agent, and keep it until it is to be left."""
        async with self._open_agent(self.mode, self._parts) as agent:
            self._agent, self._leave = agent, anyio.Event()
            self.mode = agent.approve  # `ask` in place of another one, where there is no sandbox
            self._release()
            agent.subscribe(self._on_event)
            self._opened.set()
            if on_open is not None:
                on_open()
            async with background_tasks(self._list_models):
                await self._leave.wait()

    def close(self) -> None:
        self.cancel()
        self.is_closed = True
        self._leave.set()

    async def end(self) -> None:
        """Close it, and wait until its file is free."""
        self.close()
        await self._ended.wait()

    async def _list_models(self) -> None:
        with anyio.move_on_after(LIST_MODELS_S), suppress(NewelError):
            self._models = (await self.agent.models.list_details())[:MAX_MODELS]
            self._show_options()

    # -- events -----------------------------------------------------------------------------------

    async def announce(self) -> None:
        """Tell the client what it can offer, and what protects it."""
        if self.agent.info.sandbox_problem:
            self._translator.note(self.agent.info.sandbox_problem)
        for notice in self.agent.info.start_notices:
            self._translator.note(notice)
        self.client.update(p.AvailableCommandsUpdate(available_commands=available_commands(self.agent)))
        self._show_usage()

    def replay(self) -> None:
        """Show the messages so far."""
        self._translator.replay(self.agent.history())

    def _on_event(self, event: AgentEvent) -> None:
        self._translator(event)
        match event:
            case MessageEnd(message=AssistantMessage()):
                self._show_usage()
            case StateUpdate(changed=changed) if {"model", "thinkingLevel"} & {*changed}:
                self._show_options()
            case _:
                pass

    def _show_usage(self) -> None:
        totals, window = self.agent.totals(), self.agent.window()
        if window:
            cost = None if totals.cost is None else p.Cost(amount=totals.cost, currency="USD")
            self.client.update(p.UsageUpdate(used=totals.context, size=window, cost=cost))

    def _show_options(self) -> None:
        self.client.update(p.ConfigOptionUpdate(config_options=self.options()))

    # -- prompts ----------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[p.Content]) -> p.PromptResponse:
        """Answer a prompt, after those before it. Raises ``NewelError``."""
        result = p.PromptResponse(stop_reason="cancelled")
        with anyio.CancelScope() as scope:
            self._prompts.add(scope)
            try:
                async with self._turn:
                    result = await self._answer_with_session(blocks)
            finally:
                self._prompts.discard(scope)
        return result

    def cancel(self) -> None:
        """End the running prompt and drop those that wait."""
        for scope in self._prompts:
            scope.cancel()

    async def _answer_with_session(self, blocks: Sequence[p.Content]) -> p.PromptResponse:
        """Hold the session's file for one prompt only: in between, the user may continue in a terminal, or in another client."""
        try:
            if self._is_released:
                self.agent.reopen()
                self._is_released = False
            return await self._answer(blocks)
        except NewelError as error:  # some clients do not show the message of an error response
            self._say(str(error))
            raise
        finally:
            self._release()

    def _release(self) -> None:
        if self.agent.session.has_data():
            self.agent.release()
            self._is_released = True

    async def _answer(self, blocks: Sequence[p.Content]) -> p.PromptResponse:
        agent, content = self.agent, PromptContent()
        for block in blocks:
            await content.add(block, agent.attachable)
        if not (content.text.strip() or content.attachments):
            raise JsonRpcError(INVALID_PARAMS, "The prompt is empty.")
        if command := find_command(content.text):
            try:
                await run_command(
                    *command, agent=agent, home=self._home, say=self._say, confirm=self._asker.confirm
                )
            except NewelError as error:  # clients show an error response as a failure of the agent
                self._say(rewrite_commands(str(error), slash_command))
            return p.PromptResponse(stop_reason="end_turn")
        message = await prepare(agent, Prompt(content.text), lambda text, _="": content.notes.append(text))
        message = msgspec.structs.replace(message, attachments=[*content.attachments, *message.attachments])
        for note in content.notes:
            self._translator.note(note)
        title = agent.session.get_name() or title_of(content.text)
        if not agent.session.has_data():
            self.client.update(p.SessionInfoUpdate(title=title, updated_at=now()))
        end = await agent.answer([message])
        return p.PromptResponse(stop_reason=self._stop_reason(end), usage=_usage(end.usage))

    def _say(self, text: str) -> None:
        self.client.update(p.AgentMessageChunk(content=p.TextBlock(text=fenced(text))))

    def _stop_reason(self, end: AgentEnd) -> p.StopReason:
        messages = self.agent.state.messages
        last = messages[-1] if messages else None
        if isinstance(last, AssistantMessage) and last.stop_reason == "length":
            return "max_tokens"
        if end.message and end.reason.startswith("max_"):
            self._translator.note(end.message)
        return _STOP_REASONS.get(end.reason, "end_turn")

    # -- mode and options -------------------------------------------------------------------------

    def modes(self) -> p.ModeState:
        choices = [p.ModeChoice(id=mode, name=name, description=text) for mode, (name, text) in MODES.items()]
        return p.ModeState(current_mode_id=self.mode, available_modes=choices)

    def options(self) -> list[p.ConfigOption]:
        state = self.agent.state
        listed = {model.name: model.summary for model in self._models}
        models = {state.model.id: listed.get(state.model.id, "")} | listed
        modes = [
            p.ConfigChoice(value=mode, name=name, description=text) for mode, (name, text) in MODES.items()
        ]
        return [
            p.ConfigOption(
                id="mode", name="Approval mode", category="mode", current_value=self.mode, options=modes
            ),
            p.ConfigOption(
                id="model",
                name="Model",
                category="model",
                current_value=state.model.id,
                options=[
                    p.ConfigChoice(value=name, name=name, description=summary or None)
                    for name, summary in models.items()
                ],
            ),
            p.ConfigOption(
                id="thinking",
                name="Thinking",
                category="thought_level",
                current_value=state.thinking_level,
                options=[
                    p.ConfigChoice(value=level, name=level.capitalize()) for level in get_args(ThinkingLevel)
                ],
            ),
        ]

    async def set_option(self, name: str, value: str) -> None:
        """Set an option by its id. Raises ``JsonRpcError``."""
        match name:
            case "mode":
                await self.set_mode(value)
            case "model":
                if not value.strip():
                    raise JsonRpcError(INVALID_PARAMS, "The name of the model is empty.")
                self.agent.set_model(await expand_model_name(self.agent, value))
            case "thinking":
                self.agent.set_thinking_level(_one_of(value, get_args(ThinkingLevel), "thinking level"))
            case _:
                raise JsonRpcError(
                    INVALID_PARAMS, f"There is no option {name!r}. The options are mode, model and thinking."
                )

    async def set_mode(self, value: str) -> None:
        """Change the approval mode, from the next tool call on. Raises ``NewelError``, and then changes nothing."""
        mode: ApprovalMode = _one_of(value, tuple(MODES), "mode")
        if mode == self.mode:
            return
        if "review" not in {mode, self.mode}:
            self.agent.set_approve(mode)
            self.mode = mode
        elif self._prompts:
            raise JsonRpcError(
                INVALID_REQUEST,
                "Review works on a copy of the project, so it can be entered and left between prompts only.",
            )
        else:
            async with self._turn:
                await self._switch(mode)
        self.client.update(p.CurrentModeUpdate(current_mode_id=self.mode))
        self._show_options()

    async def _switch(self, mode: ApprovalMode) -> None:
        self._mode_before, self.mode = self.mode, mode
        self._opened = anyio.Event()
        self._leave.set()
        await self._opened.wait()
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
        if self.mode != mode:
            raise NewelError(self.agent.info.sandbox_problem)


def _one_of(value: str, choices: tuple[T, ...], what: str) -> T:
    for choice in choices:
        if choice == value:
            return choice
    names = ", ".join(map(str, choices))
    raise JsonRpcError(INVALID_PARAMS, f"There is no {what} {value!r}. Choose one of {names}.")


def _usage(usage: Usage) -> p.PromptUsage:
    return p.PromptUsage(
        total_tokens=usage.total,
        input_tokens=usage.input,
        output_tokens=usage.output,
        cached_read_tokens=usage.cache_read,
        cached_write_tokens=usage.cache_write,
    )
