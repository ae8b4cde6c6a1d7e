"""An agent on its own: one contract, carried out by this process, with nobody to ask."""

from __future__ import annotations

from pathlib import Path

import msgspec

from newel.contracts.contract_job import CONTRACT, ContractParams, carry_out_contract, outcome, prepare
from newel.jobs.engine import Engine, EngineError, Job
from newel.permissions.approval import Preset
from newel.runs.chat_session import AgentFactory, ChatSession, Heard
from newel.runs.event_hub import EventHub
from newel.runs.models import Contract
from newel.runs.run_events import ContractState
from newel.text.json import to_json


async def submit(
    engine: Engine,
    contract: Contract,
    crew: AgentFactory,
    *,
    project: str,
    home: Path,
    name: str,
    approve: Preset,
) -> str:
    """Put a contract into the engine, for an agent of that name; returns the run. Raises ``WorktreeError``."""
    params = await prepare(contract, crew, project=project, home=home, name=name, approve=approve)
    return await engine.submit(CONTRACT, to_json(params), queue=params.session)


class HeadlessRun:
    """A run that was submitted, or that an earlier process left."""

    def __init__(self, engine: Engine, feed: EventHub, crew: AgentFactory, job: Job) -> None:
        self.params = msgspec.json.decode(job.params, type=ContractParams)
        self._engine = engine
        self._feed = feed
        self._job = job
        self._conversation = ChatSession(
            session=self.params.session,
            folder=self.params.folder,
            model=None,
            crew=crew,
            changed=self._heard,
        )

    async def run(self) -> ContractState:
        """Carry it out. Cancelled, it can be gone on with later. Raises ``EngineError`` and ``Lost``."""
        leases = await self._engine.claim(1, "agent", queues=[self._job.queue])
        if not leases:
            raise EngineError("This run has ended, or another process carries it out.")
        state = await carry_out_contract(leases[0], self.params, self._conversation, self._engine, self._feed)
        await self._engine.finish(leases[0], outcome(state))
        return state

    def stop(self, *, now: bool = False) -> bool:
        """End it before its next request, or at once; False if it is not under way."""
        working = self._conversation.working is not None
        self._conversation.stop(now=now)
        return working

    def _heard(self, what: Heard) -> None:
        """A question would wait for ever."""
        questions = self._conversation.questions
        for question in questions.waiting if what == "questions" else []:
            if question.kind == "approval":
                questions.answer(question.id, {"decision": "nobody"})
            else:
                questions.answer(question.id, {"action": "decline"})
