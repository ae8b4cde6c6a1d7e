"""A contract that runs in this process without a user to ask."""

from __future__ import annotations

from pathlib import Path

import msgspec

from newel.contracts.contract_job import CONTRACT, ContractParams, outcome, prepare, run_contract_job
from newel.jobs.engine import Engine, EngineError, Job
from newel.permissions.approval import Preset
from newel.runs.chat_session import AgentFactory, ChatChange, ChatSession
from newel.runs.event_hub import EventHub
from newel.runs.models import Contract
from newel.runs.run_events import ContractState
from newel.text.json import to_json


async def submit(
    engine: Engine,
    contract: Contract,
    factory: AgentFactory,
    *,
    project: str,
    home: Path,
    name: str,
    approve: Preset,
) -> str:
    """Submit a contract for an agent of that name; returns the run. Raises ``WorktreeError``."""
    params = await prepare(contract, factory, project=project, home=home, name=name, approve=approve)
    return await engine.submit(CONTRACT, to_json(params), queue=params.session)


class HeadlessRun:
    """A run that was submitted, or that an earlier process left."""

    def __init__(self, engine: Engine, hub: EventHub, factory: AgentFactory, job: Job) -> None:
        self.params = msgspec.json.decode(job.params, type=ContractParams)
        self._engine = engine
        self._hub = hub
        self._job = job
        self._chat = ChatSession(
            session=self.params.session,
            folder=self.params.folder,
            model=None,
            factory=factory,
            on_change=self._decline_questions,
        )

    async def run(self) -> ContractState:
        """Run it. If it is cancelled, it can be resumed later. Raises ``EngineError`` and ``LeaseLost``."""
        leases = await self._engine.claim(1, "agent", queues=[self._job.queue])
        if not leases:
            raise EngineError("This run has ended, or another process runs it.")
        state = await run_contract_job(leases[0], self.params, self._chat, self._engine, self._hub)
        await self._engine.finish(leases[0], outcome(state))
        return state

    def stop(self, *, now: bool = False) -> bool:
        """End it before its next request, or at once; False if it is not in progress."""
        is_active = self._chat.active_agent is not None
        self._chat.stop(now=now)
        return is_active

    def _decline_questions(self, change: ChatChange) -> None:
        """Without this a question would block the run forever."""
        questions = self._chat.questions
        for question in questions.pending if change == "questions" else []:
            is_approval = question.kind == "approval"
            questions.answer(question.id, {"decision": "nobody"} if is_approval else {"action": "decline"})
