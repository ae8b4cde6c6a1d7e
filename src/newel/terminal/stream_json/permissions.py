"""Questions to the program that drives the agent: may this call run? ``--permission-prompt-tool stdio`` turns them on.

{"type": "control_request", "request_id": "…", "request": {"subtype": "can_use_tool", "tool_name": "bash", "input": {…}, …}}
{"type": "control_response", "response": {"subtype": "success", "request_id": "…", "response": {"behavior": "allow"}}}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio

from newel.agent.messages import new_id
from newel.permissions.approval import Approval, ApprovalRequest
from newel.terminal.stream_json.renderer import StreamJsonRenderer
from newel.terminal.stream_json.requests import InvalidInputLine
from newel.text.json import as_dict, as_str, to_json

NOBODY: Final = Approval("nobody")
CHANGED: Final = "The program that drives this run wants another input: {wanted}"


class _PermissionQuestion:
    """A question and, once ``answered``, its answer."""

    def __init__(self, request: ApprovalRequest) -> None:
        self.request = request
        self.answered = anyio.Event()
        self.answer = NOBODY


class PermissionQuestions:
    """The pending questions. ``stop`` ends the run, if an answer says so."""

    def __init__(self, renderer: StreamJsonRenderer, stop: Callable[[], object]) -> None:
        self._renderer = renderer
        self._stop = stop
        self._pending: dict[str, _PermissionQuestion] = {}
        self._closed = False

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Ask and wait. After the end of the input, nobody can answer."""
        if self._closed:
            return NOBODY
        call, number = request.call, new_id()
        question = self._pending[number] = _PermissionQuestion(request)
        asked: dict[str, Any] = {
            "subtype": "can_use_tool",
            "tool_name": call.name,
            "input": call.arguments,
            "tool_use_id": call.id,
            "permission_suggestions": [],
            "display_name": request.title,
            "description": request.preview,
        }
        self._renderer.write_control({"type": "control_request", "request_id": number, "request": asked})
        try:
            await question.answered.wait()
        except anyio.get_cancelled_exc_class():
            self._renderer.write_control({"type": "control_cancel_request", "request_id": number})
            raise
        finally:
            del self._pending[number]
        return question.answer

    def take(self, response: dict[str, Any]) -> None:
        """Take the answer to a question; the first one counts. Raises ``InvalidInputLine`` if there is no such question."""
        question = self._pending.get(as_str(response.get("request_id")))
        if question is None or question.answered.is_set():
            raise InvalidInputLine("No question with this request_id is waiting for an answer.")
        answer = as_dict(response.get("response"))
        question.answer = self._read(answer, question.request)
        question.answered.set()
        if answer.get("behavior") == "deny" and answer.get("interrupt") is True:
            self._stop()

    def _read(self, answer: dict[str, Any], request: ApprovalRequest) -> Approval:
        if answer.get("behavior") != "allow":  # a denial, an error of the program, or anything else
            return Approval("no", as_str(answer.get("message")))
        wanted = answer.get("updatedInput")
        if wanted is not None and wanted != request.call.arguments:
            # An approval holds for what was shown: the model has to make another call, which is planned and shown anew.
            return Approval("no", CHANGED.format(wanted=to_json(wanted).decode()))
        return Approval("once")

    def close(self) -> None:
        """The input has ended: nobody answers what is pending."""
        self._closed = True
        for question in self._pending.values():
            question.answered.set()
