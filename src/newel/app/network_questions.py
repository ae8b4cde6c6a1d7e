"""Asks the user about servers that commands in a sandbox want to reach, and keeps the answers (``newel.permissions.allowlist``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from newel.agent.errors import ConfigError
from newel.text.format import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from newel.permissions.allowlist import ServerAllowlist
    from newel.permissions.approval import Approval, ApprovalRequest, AskApproval, Report
    from newel.workspace.sandbox.domains import Domain

MAX_QUESTIONS: Final = 20
"""Questions of one session: a command that asks for one name after the other must not keep the user answering."""

QUESTION: Final = "{rule}\n\n{who} wants to reach this server,\nand may send it anything that it can read."

COMMAND: Final = "A command in the sandbox"

TOOL_SERVER: Final = "The MCP server {name}, in a sandbox,"

MAX_NAME: Final = 60
"""Characters of a tool server's name."""

UNTIL: Final = "until the session ends"


class NetworkQuestions:
    """The decisions on servers for one session of a project. ``ask`` is None where nobody can answer; ``report`` is told of answers that
    cannot be saved, ``note_refused`` of servers that a command may not reach.
    """

    def __init__(
        self,
        allowlist: ServerAllowlist,
        folder: str,
        ask: AskApproval | None,
        report: Report,
        note_refused: Callable[[str], None],
    ) -> None:
        self._allowlist = allowlist
        self._folder = folder
        self._ask = ask
        self._report = report
        self._note_refused = note_refused
        self._answers: dict[tuple[str, str], bool] = {}
        self._asked = 0
        self._turn = anyio.Lock()
        self._asking = anyio.CancelScope()
        self._runs = 0

    def withdraw(self) -> None:
        """Refuse all that is asked now: the run has ended, and its commands with it."""
        self._runs += 1
        self._asking.cancel()

    def allowed(self) -> Sequence[Domain]:
        """The servers that are allowed for the project, as of now."""
        return self._allowlist.current()

    async def allows(self, rule: str) -> bool:
        """Whether a command may reach the server ``rule``, which is not kept; asks once for each."""
        is_allowed = await self._allows(COMMAND, rule)
        if not is_allowed:
            self._note_refused(rule)
        return is_allowed

    async def allows_tool_server(self, name: str, rule: str) -> bool:
        """Whether a tool server may, while it works for the agent. It may have keys that commands have not, so it is another question."""
        return await self._allows(TOOL_SERVER.format(name=one_line(name, MAX_NAME)), rule)

    async def _allows(self, who: str, rule: str) -> bool:
        key = (who, rule)
        if self._ask is None or key in self._answers:  # what is decided does not wait for another question
            return self._answers.get(key, False)
        run = self._runs
        async with self._turn:
            if rule in map(str, self.allowed()):  # the answer to another connection, meanwhile
                return True
            if run != self._runs:
                return False
            if key not in self._answers and self._asked < MAX_QUESTIONS:
                self._asked += 1
                answer = None
                with anyio.CancelScope() as self._asking:
                    answer = await self._ask(self._request(who, rule))
                if answer is None or answer.decision == "nobody":
                    return False
                if answer.decision == "rule" and await self._is_saved(rule):
                    return True  # for as long as it is kept
                self._answers[key] = answer.decision in {"once", "always", "rule"}
            return self._answers.get(key, False)

    async def _is_saved(self, rule: str) -> bool:
        from newel.permissions.approval import NOT_SAVED

        try:
            self._allowlist.add([rule])
        except ConfigError as error:
            await self._report(NOT_SAVED.format(what=f"the server {rule}", error=error, until=UNTIL))
            return False
        return True

    def _request(self, who: str, rule: str) -> ApprovalRequest:
        from newel.agent.messages import ToolCall
        from newel.permissions.approval import ApprovalRequest

        return ApprovalRequest(
            call=ToolCall(id=f"network-{self._asked}", name="network", arguments={"server": rule}),
            label="Network",
            preview=QUESTION.format(rule=rule, who=who),
            folder=self._folder,
            kind="server",
        )


def in_turn(ask: AskApproval) -> AskApproval:
    """Ask one question at a time: about a call, or about a server while another call runs."""
    turn = anyio.Lock()

    async def ask_in_turn(request: ApprovalRequest) -> Approval:
        async with turn:
            return await ask(request)

    return ask_in_turn
