"""Asks the user about servers that commands in a sandbox want to reach, and keeps the answers.

A server that is allowed for good is kept for its project in ``sandbox_servers.json`` of Newel's own folder, as ``[sandbox] domains``
would name it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from newel.agent.errors import ConfigError
from newel.storage.files import make_private, read_regular, replace_file
from newel.workspace.sandbox.domains import Domain, parse_domain

if TYPE_CHECKING:
    from newel.permissions.approval import Approval, ApprovalRequest, Ask

KEPT: Final = "sandbox_servers.json"

MAX_QUESTIONS: Final = 20
"""Questions of one process: a command that asks for one name after the other must not keep the user answering."""

QUESTION: Final = (
    "{rule}\n\nA command in the sandbox wants to reach this server, and may send it anything that it can read. Always: for this project, also "
    "in later sessions."
)


class NetworkQuestions:
    """The decisions on servers for one project. ``ask`` is None where nobody can answer."""

    def __init__(self, home: Path, folder: str, ask: Ask | None) -> None:
        self._path = home / KEPT
        self._folder = folder
        self._ask = ask
        self._answers: dict[str, bool] = {}
        self._asked = 0
        self._turn = anyio.Lock()

    def kept(self) -> list[Domain]:
        """The servers that are allowed for good."""
        domains: list[Domain] = []
        for text in _read(self._path).get(self._folder, []):
            with contextlib.suppress(ConfigError):
                domains.append(parse_domain(text))
        return domains

    async def allows(self, rule: str) -> bool:
        """Whether a command may reach the server ``rule``; asks once for each."""
        if self._ask is None:
            return False
        async with self._turn:
            if rule not in self._answers and self._asked < MAX_QUESTIONS:
                self._asked += 1
                answer = await self._ask(self._request(rule))
                if answer.decision == "nobody":
                    return False
                self._answers[rule] = answer.decision in {"once", "always"}
                if answer.decision == "always":
                    with contextlib.suppress(OSError):  # then it is asked again in another session
                        self._keep(rule)
            return self._answers.get(rule, False)

    def _request(self, rule: str) -> ApprovalRequest:
        from newel.agent.messages import ToolCall
        from newel.permissions.approval import ApprovalRequest

        return ApprovalRequest(
            call=ToolCall(id=f"network-{self._asked}", name="network", arguments={"server": rule}),
            label="Network",
            preview=QUESTION.format(rule=rule),
            folder=self._folder,
        )

    def _keep(self, rule: str) -> None:
        kept = _read(self._path)
        kept[self._folder] = [*dict.fromkeys([*kept.get(self._folder, []), rule])]
        make_private(self._path.parent)
        replace_file(self._path, msgspec.json.format(msgspec.json.encode(kept)))


def in_turn(ask: Ask) -> Ask:
    """Ask one question at a time: about a call, or about a server while another call runs."""
    turn = anyio.Lock()

    async def ask_in_turn(request: ApprovalRequest) -> Approval:
        async with turn:
            return await ask(request)

    return ask_in_turn


def _read(path: Path) -> dict[str, list[str]]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(read_regular(path), type=dict[str, list[str]])
    return {}
