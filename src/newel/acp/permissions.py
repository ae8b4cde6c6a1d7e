"""Approval of tool calls by the user of the client."""

from __future__ import annotations

import json
import re
from typing import Final

from newel.acp import protocol as p
from newel.acp.client import SessionClient
from newel.acp.client_methods import PermissionOption
from newel.acp.json_rpc import JsonRpcError, PeerGone
from newel.acp.updates import KINDS, UpdateTranslator, diffs, fenced, title_of_call
from newel.agent.messages import new_id
from newel.permissions.approval import Approval, ApprovalRequest
from newel.text.sanitize import escape_invisible, escape_line

OPTIONS: Final = [
    PermissionOption(option_id="once", name="Allow", kind="allow_once"),
    PermissionOption(option_id="always", name="Always allow exactly this", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    PermissionOption(option_id="never", name="Always reject exactly this", kind="reject_always"),
]

FOR_NOW: Final = PermissionOption(option_id="once", name="Allow for this session", kind="allow_once")
"""The answer ``once`` about a server."""

YES_NO: Final = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]

NEVER: Final = "never run exactly this call in this session."

_DIFF: Final = re.compile(r"(?m)^--- .*\n\+\+\+ .*\n@@ ")

NOBODY: Final = Approval("nobody")


def _options(request: ApprovalRequest) -> list[PermissionOption]:
    if not request.offer:
        return OPTIONS
    name = f"Always allow in this project: {escape_line(request.offer)}"
    once, always, no, never = OPTIONS
    rule = PermissionOption(option_id="rule", name=name, kind="allow_always")
    return [FOR_NOW, rule, no] if request.kind == "server" else [once, always, rule, no, never]


class PermissionAsker:
    """Asks the user about each call, but one that they reject for good: implements ``newel.permissions.approval.AskApproval``."""

    def __init__(self, client: SessionClient, translator: UpdateTranslator) -> None:
        self._client = client
        self._translator = translator
        self._never: set[str] = set()

    async def __call__(self, request: ApprovalRequest) -> Approval:
        call = request.call
        key = f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
        if key in self._never:
            return Approval("no", NEVER)
        title = title_of_call(call)
        if request.subagent:
            self._translator.ask_nested(call.id)
        fields = p.CallFields(
            tool_call_id=call.id,
            title=f"Subagent “{request.subagent}”: {title}" if request.subagent else title,
            kind=KINDS.get(call.name, "other"),
            status="pending",
            content=self._preview(request),
            locations=self._translator.locations(call.arguments),
            raw_input=call.arguments,
        )
        try:
            outcome = await self._client.request_permission(fields, _options(request))
        except (JsonRpcError, PeerGone):  # the client cannot ask
            return NOBODY
        match outcome.option_id if outcome.outcome == "selected" else None:
            case "once":
                return Approval("once")
            case "always":
                return Approval("always")
            case "rule":
                return Approval("rule")
            case "never":
                self._never.add(key)
                return Approval("no", NEVER)
            case _:
                return Approval("no")

    async def confirm(self, question: str, about: str) -> bool:
        """Put a question of a command to the user. Without a user, the answer is no."""
        text = p.ContentOfCall(content=p.TextBlock(text=fenced(escape_invisible(about))))
        call = p.CallFields(
            tool_call_id=f"question-{new_id()}",
            title=question,
            kind="other",
            status="pending",
            content=[text],
        )
        try:
            outcome = await self._client.request_permission(call, YES_NO)
        except (JsonRpcError, PeerGone):
            return False
        return outcome.outcome == "selected" and outcome.option_id == "yes"

    def _preview(self, request: ApprovalRequest) -> list[p.ContentOfCall | p.DiffOfCall | p.TerminalOfCall]:
        """Exactly what would be done: the changes of a file, or the text of the request with hidden characters written out."""
        locations = self._translator.locations(request.call.arguments)
        is_new = "--- /dev/null\n" in request.preview
        shown = list(diffs(locations[0].path, request.preview, is_new=is_new)) if locations else []
        # Above the diff, a line may have the same beginning: the name of a file is the project's.
        start = _DIFF.search(request.preview) if shown else None
        head = request.preview[: start.start()].strip() if start else request.preview
        text = p.ContentOfCall(content=p.TextBlock(text=fenced(escape_invisible(head))))
        return [*([text] if head else []), *shown]
