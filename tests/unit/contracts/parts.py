"""Runs contracts: a real agent with a session, a workspace and tools; only the model is scripted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from newel.agent.agent import ProviderTransport
from newel.agent.errors import ConfigError
from newel.agent.events import MessageEnd
from newel.agent.messages import AssistantMessage, TextContent, ToolCall, Usage, UserMessage, new_id
from newel.agent.ports import Limits, Model, ModelRequest, Provider, RunConfig
from newel.agent.transform import Transformer
from newel.contracts.run_log import RunLog
from newel.contracts.runner import run_contract
from newel.runs.models import Contract
from newel.runs.run_events import ContractState, RunEvent, decode, encode, is_lasting
from newel.session.coding_agent import CodingAgent
from newel.session.manager import SessionManager
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace
from tests.scripted_models import ScriptedModels
from tests.scripted_provider import Answer, ScriptedProvider

MODEL = Model("worker")
SMALL = Model("small")
WORK, VERDICT = Usage(100, 10), Usage(50, 5)


def says(text: str) -> AssistantMessage:
    return AssistantMessage(content=[TextContent(text)], usage=WORK)


def calls(command: str) -> AssistantMessage:
    call = ToolCall(new_id(), "bash", {"command": command})
    return AssistantMessage(content=[call], usage=WORK, stop_reason="toolUse")


def verdict(*, satisfied: bool, why: str = "seen", missing: str = "") -> AssistantMessage:
    arguments = {"satisfied": satisfied, "why": why, "missing": missing}
    return AssistantMessage(content=[ToolCall(new_id(), "verdict", arguments)], usage=VERDICT)


def is_question(request: ModelRequest) -> bool:
    """Whether a request asks for a verdict."""
    last = request.messages[-1]
    return isinstance(last, UserMessage) and "is the contract fulfilled?" in last.text


class Work:
    """Runs contracts in a folder. It keeps the journal of the latest run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.sessions = folder / "sessions"
        self.journal: list[RunEvent] = []
        self.agent: CodingAgent
        self.awaited: type[Any] | None = None
        self.reached = anyio.Event()
        """Set when an event of the kind that is awaited has come."""
        self.is_priced = True

    def sit(self, provider: Provider, earlier: Sequence[RunEvent] = ()) -> CodingAgent:
        """An agent whose session contains earlier messages."""
        session = SessionManager(directory=self.sessions, cwd=str(self.folder), settle=False)
        session.start_session({})
        for event in earlier:
            if isinstance(event, MessageEnd):
                session.append_message(event.message)
        workspace = LocalWorkspace(str(self.folder))
        self.journal = list(earlier)
        self.agent = CodingAgent(
            transport=ProviderTransport(provider),
            config=RunConfig(
                model=MODEL,
                transform=Transformer(),
                system_prompt="Be good.",
                tools=coding_tools(workspace),
                limits=Limits(max_turns=2),
                check_cost=self.check_cost,
            ),
            workspace=workspace,
            session=session,
            open_session=lambda _: session,
            models=ScriptedModels(MODEL.id),
            templates={},
            journal=self.keep,
        )
        return self.agent

    async def check_cost(self, _: Model) -> None:
        if not self.is_priced:
            raise ConfigError("The price is unknown.")

    async def keep(self, event: RunEvent) -> None:
        if is_lasting(event):
            self.journal.append(decode(encode(event)))
        if self.awaited is not None and isinstance(event, self.awaited):
            self.reached.set()

    async def __call__(
        self,
        contract: Contract,
        script: Sequence[Answer] | Provider,
        *,
        earlier: Sequence[RunEvent] = (),
        judge: Model = MODEL,
        log: RunLog | None = None,
    ) -> ContractState:
        provider = ScriptedProvider(script) if isinstance(script, Sequence) else script
        agent = self.sit(provider, earlier)
        try:
            return await run_contract(
                contract, agent, provider=provider, judge=judge, emit=self.keep, earlier=earlier, log=log
            )
        finally:
            agent.session.close()

    def told(self, *kinds: type[Any]) -> list[Any]:
        return [event for event in self.journal if isinstance(event, kinds)]
