"""``--input-format stream-json``: prompts and control requests in, lines of the run out, for programs that drive the agent.

    {"type": "user", "message": {"role": "user", "content": "…"}}                             a prompt; queued
    {"type": "control_request", "request_id": "…", "request": {"subtype": "interrupt"}}       acts at once

``initialize`` and ``set_model`` are the other requests; ``newel.terminal.stream_json.permissions`` asks some of its own. An invalid line is
answered by an ``error`` line and has no other effect.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from newel.agent.errors import NewelError
from newel.agent.formatting import describe_error
from newel.agent.messages import UserMessage
from newel.session.coding_agent import CodingAgent
from newel.terminal.model_names import expand_model_name
from newel.terminal.prompt_record import HeldAnswer, PromptRecord
from newel.terminal.renderers.base import RendererSubscription, report_start
from newel.terminal.run_result import FAILED, describe_session
from newel.terminal.signals import code_without_reader, exit_code, on_signals
from newel.terminal.stdout import discard_stdout
from newel.terminal.stream_json.lines import notice_line
from newel.terminal.stream_json.permissions import PermissionQuestions
from newel.terminal.stream_json.renderer import StreamJsonRenderer
from newel.terminal.stream_json.requests import (
    ControlRequest,
    ControlResponse,
    InputLine,
    InvalidInputLine,
    KeepAlive,
    UserLine,
    prompt_of,
    read_line,
)
from newel.terminal.ui.approval import Approver
from newel.terminal.ui.line_reader import LineReader, serve_lines


async def run_stream_json(
    agent: CodingAgent,
    stdin: int,
    renderer: StreamJsonRenderer,
    *,
    approver: Approver | None = None,
    held: HeldAnswer | None = None,
) -> int:
    """Serve the lines that come from the file descriptor ``stdin`` until it ends, and finish the prompts. ``approver`` is given if the
    program answers questions, ``held`` if the answers are held to a schema.

    Returns 0, 1 if the last prompt failed or the reader has gone, 128 + N if signal N ended it.
    """
    questions = PermissionQuestions(renderer, agent.abort)
    mode = _StreamJsonMode(agent, renderer, held, questions)
    if approver is not None:
        approver.handler = questions.ask
    unsubscribe = agent.subscribe(mode.output.handle)
    try:
        renderer.on_session(describe_session(agent))
        report_start(agent, renderer)
        async with on_signals(lambda number: mode.end(exit_code(number))) as group:
            group.start_soon(mode.work)
            with mode.reading:
                await serve_lines(LineReader(stdin), mode)
                mode.finish()
            await mode.finished.wait()
        mode.output.check()
    except OSError as error:
        discard_stdout(error)
        return code_without_reader()
    finally:
        unsubscribe()
        if approver is not None:
            approver.handler = None
    return mode.code


class _StreamJsonMode:
    def __init__(
        self,
        agent: CodingAgent,
        renderer: StreamJsonRenderer,
        held: HeldAnswer | None,
        questions: PermissionQuestions,
    ) -> None:
        self.output = RendererSubscription(renderer, self.end)
        self.reading = anyio.CancelScope()
        self.finished = anyio.Event()
        self.code = 0
        self._agent = agent
        self._renderer = renderer
        self._held = held
        self._questions = questions
        self._prompts: deque[UserMessage] = deque()
        self._more = anyio.Event()
        self._no_more = False
        self._ended = False
        self._running: anyio.CancelScope | None = None

    def end(self, code: int = 0) -> None:
        """Stop everything and end with this exit code."""
        self.code, self._ended = code, True
        self.interrupt()
        self.reading.cancel()
        self.finish()

    def finish(self) -> None:
        """The input has ended: answer the queued prompts."""
        self._no_more = True
        self._more.set()
        self._questions.close()

    def interrupt(self) -> None:
        if self._running is not None:
            self._running.cancel()

    # -- input ------------------------------------------------------------------------------------

    async def serve(self, line: str, number: int, /) -> None:
        try:
            await self._act_on(read_line(line))
        except InvalidInputLine as error:
            self.skip(str(error), number)

    def skip(self, problem: str, number: int, /) -> None:
        message = f"Line {number}: {problem}"
        self._renderer.write(notice_line(InvalidInputLine.code, message, is_error=True))

    async def _act_on(self, line: InputLine) -> None:
        match line:
            case UserLine() as sent:
                self._prompts.append(prompt_of(sent))
                self._more.set()
                await checkpoint()  # let an idle worker start before the next line acts
            case ControlRequest() as request:
                await self._control(request)
            case ControlResponse(response=response):
                self._questions.take(response)
            case KeepAlive():
                pass

    async def _control(self, control: ControlRequest) -> None:
        answer: dict[str, Any] = {"subtype": "success", "request_id": control.request_id}
        try:
            answer["response"] = await self._act(control.request)
        except NewelError as error:
            answer |= {"subtype": "error", "error": str(error)}
        self._renderer.write_control({"type": "control_response", "response": answer})

    async def _act(self, request: dict[str, Any]) -> dict[str, Any]:
        agent = self._agent
        match request:
            case {"subtype": "interrupt"}:
                self.interrupt()
                return {}
            case {"subtype": "initialize"}:
                commands = [
                    {"name": name, "description": template.description, "argumentHint": template.hint}
                    for name, template in sorted(agent.templates.items())
                ]
                return {
                    "commands": commands,
                    "output_style": "default",
                    "available_output_styles": ["default"],
                }
            case {"subtype": "set_model", "model": str() as name} if name.strip():
                agent.set_model(await expand_model_name(agent, name))
                return {}
            case {"subtype": str() as name}:
                raise InvalidInputLine(
                    f"Newel has no control request {name[:80]!r} with these fields. It has initialize, interrupt and set_model."
                )
            case _:
                raise InvalidInputLine("The request has no subtype.")

    # -- prompts ----------------------------------------------------------------------------------

    async def work(self) -> None:
        while True:
            while self._prompts:
                await self._answer(self._prompts.popleft())
            if self._no_more:
                self.finished.set()
                return
            self._more = anyio.Event()
            await self._more.wait()

    async def _answer(self, prompt: UserMessage) -> None:
        record, problem = PromptRecord(self._agent, self._held), ""
        with anyio.CancelScope() as self._running:
            if self._ended:
                problem = "Newel was stopped before this prompt."
            else:
                problem = await self._ask(prompt)
        self._running = None
        result = record.result(problem=problem, exit_code=self.code if self._ended else None)
        self.output.guard(partial(self._renderer.on_result, result))
        if not self._ended:
            self.code = FAILED if result.exit_code else 0

    async def _ask(self, prompt: UserMessage) -> str:
        """Answer a prompt. Returns what ended its run, if an error did."""
        try:
            await self._agent.answer([prompt])
        except Exception as error:  # noqa: BLE001 — a failed prompt must not end the others
            return describe_error(error)
        return ""
