"""The agents of a workbench: made from the settings, all on one model server, each with the tool servers' tools."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path

import msgspec

from newel.agent.events import Delta, Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import Model, ModelRequest, Provider, Tool
from newel.app.parts import Place, build_agent, model_describer
from newel.config import Settings
from newel.jobs.conversation import Seat
from newel.jobs.questions import PutQuestion, approval_by
from newel.jobs.tabs import Question
from newel.mcp.manager import McpManager
from newel.mcp.questions import Elicit, ElicitAnswer, ElicitRequest, Sample, SampleRequest
from newel.providers.openai_chat import OpenAIChat
from newel.session import locate
from newel.session.coding_agent import CodingAgent
from newel.session.listing import SessionSummary, list_sessions
from newel.session.manager import SessionManager


class AppCrew:
    """Fulfils ``newel.jobs.conversation.Crew``."""

    def __init__(
        self,
        settings: Settings,
        client: OpenAIChat,
        provider: Provider,
        model: str,
        servers: McpManager,
        *,
        ephemeral: bool,
    ) -> None:
        self._settings = settings
        self._client = client
        self.provider = provider
        self.model = model
        self._servers = servers
        self._ephemeral = ephemeral
        self._describe = model_describer(settings, client.name)
        self._own_tools: weakref.WeakKeyDictionary[CodingAgent, Sequence[Tool]] = weakref.WeakKeyDictionary()

    @property
    def secrets(self) -> Sequence[str]:
        endpoint = self._settings.endpoint
        return [endpoint.api_key] if endpoint and endpoint.api_key else []

    def make(self, seat: Seat) -> CodingAgent:
        def open_session(session: str | None) -> SessionManager:
            # Calls that a crash left open are the run's, which knows how to go on with them.
            return SessionManager(
                directory=self._settings.home / "sessions",
                cwd=seat.folder,
                own_id=session,
                ephemeral=self._ephemeral,
                settle=False,
            )

        place = Place(
            session=open_session(seat.session),
            open_session=open_session,
            ask=approval_by(seat.put),
            journal=seat.journal,
        )
        settings = msgspec.structs.replace(self._settings, cwd=Path(seat.folder))
        agent = build_agent(settings, self._client, seat.model or self.model, place)
        self._own_tools[agent] = agent.state.tools
        return agent

    def prepare(self, agent: CodingAgent, seat: Seat) -> None:
        agent.agent.set_tools([*self._own_tools[agent], *self._servers.tools(elicit_by(seat.put))])

    def judge(self, agent: CodingAgent, *, small: bool) -> Model:
        name = self._settings.small_model if small else None
        return self._describe(name) if name else agent.state.model

    async def models(self) -> list[str]:
        return await self._client.models()

    def sessions(self) -> list[SessionSummary]:
        return list_sessions(self._settings.home / "sessions", str(self._settings.cwd), limit=200)

    def session_file(self, session: str, folder: str) -> Path | None:
        if self._ephemeral:
            return None
        return locate.known(self._settings.home / "sessions", folder, session)


def elicit_by(put: PutQuestion) -> Elicit:
    """A tool server's way to ask a person, by putting a question."""

    async def elicit(request: ElicitRequest) -> ElicitAnswer:
        title = f"{request.server}: {request.message}"
        if request.url is not None:
            question = Question(id="", kind="link", title=title, url=request.url)
        else:
            question = Question(id="", kind="form", title=title, fields=request.schema or {})
        try:
            return msgspec.convert(await put(question), ElicitAnswer)
        except msgspec.ValidationError:
            return ElicitAnswer(action="cancel")

    return elicit


def sampler(provider: Provider, model: Model) -> Sample:
    """A tool server's way to ask the model."""

    async def ignore(_: Delta | Retry) -> None:
        pass

    async def sample(request: SampleRequest) -> AssistantMessage:
        bounded = msgspec.structs.replace(model, max_output=request.max_tokens)
        question = ModelRequest(model=bounded, system_prompt=request.system_prompt, messages=request.messages)
        return await provider.complete(question, ignore)

    return sample
