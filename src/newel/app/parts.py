"""The parts of an agent: settings → server, model, tools, session."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from newel import config
from newel.agent.errors import ConfigError
from newel.config import Endpoint, Flags, Settings
from newel.providers.urls import without_secrets
from newel.terminal.safe import safe

if TYPE_CHECKING:
    from newel.agent.ports import Emit, Model, Policy, Provider, Tool
    from newel.app.ground import Ground
    from newel.app.workspaces import Workspaces
    from newel.context.instructions import Instructions
    from newel.context.templates import Template
    from newel.mcp.questions import Elicit
    from newel.permissions.policy import Ask
    from newel.providers.openai_chat import OpenAIChat
    from newel.review.recording import Recorders
    from newel.session.coding_agent import CodingAgent
    from newel.session.manager import SessionManager
    from newel.workspace.port import Workspace

NOTHING_CONFIGURED = """\
No model is configured, and none was found on this machine
(Ollama 11434, LM Studio 1234, llama.cpp 8080, vLLM 8000). One of these mends it:
  export LLM_BASE_URL=… LLM_AUTH_TOKEN=… LLM_DEFAULT_MODEL=…      any OpenAI-compatible server
  export OPENAI_API_KEY=…                                          OpenAI
  newel demo                                                       a first look without a model"""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for."""

    flags: Flags
    cwd: Path
    prompts: list[str] = []
    continue_: bool = False
    session: str | None = None
    ephemeral: bool = False
    system_prompt: str | None = None
    simple: bool = False
    echo: bool = False
    """Whether a plain screen repeats the prompts, for a reader who did not type them."""


def connect(endpoint: Endpoint) -> OpenAIChat:
    """The client of a server."""
    from newel.providers.openai_chat import OpenAIChat
    from newel.providers.pricing import pricer

    return OpenAIChat(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        name=provider_name(endpoint.base_url),
        price=pricer(base_url=endpoint.base_url),
    )


def provider_name(base_url: str) -> str:
    """A server by its host, as sessions name it."""
    from urllib.parse import urlsplit

    try:
        host = urlsplit(base_url).hostname or "unknown"
    except ValueError:  # what is wrong with the URL is said where it is used
        host = "unknown"
    return "openai" if host == "api.openai.com" else host


def warn_of_strangers(settings: Settings) -> None:
    """Tell a person that a server which they may not know of makes calls need their approval."""
    if settings.origins.get("approve") == config.ONLY_DOTENV and settings.endpoint:
        shown = without_secrets(settings.endpoint.base_url)
        words = f"only the .env of this folder names the server {shown}, so calls need your approval"
        print(f"newel: {safe(words)} (--approve auto lifts that)", file=sys.stderr)  # noqa: T201 — a person must know


async def find_endpoint(settings: Settings) -> Endpoint:
    """What is configured, else the first local server that answers. Raises ``ConfigError``."""
    if settings.endpoint is not None:
        return settings.endpoint
    from newel.providers.local import discover

    for server in await discover():
        return Endpoint(server.base_url, f"{server.name}, found on this machine")
    raise ConfigError(NOTHING_CONFIGURED)


async def find_model(settings: Settings, endpoint: Endpoint, client: OpenAIChat) -> str:
    """The model that is configured, else the only one that the server has, or a local server's first."""
    if settings.model:
        return settings.model
    names = await client.models()
    if len(names) == 1 or (names and settings.endpoint is None):
        return names[0]
    offer = ", ".join(names[:8]) + (" …" if len(names) > 8 else "") if names else "it names none"
    raise ConfigError(
        f"No model is chosen. Set LLM_DEFAULT_MODEL or use --model. {without_secrets(endpoint.base_url)} has: {offer}."
    )


def model_describer(settings: Settings, provider: str) -> Callable[[str], Model]:
    """From a model's name to what the settings say of it."""
    from newel.agent.ports import Model

    def describe(name: str) -> Model:
        facts = settings.models.get(name, config.ModelFacts())
        return Model(name, provider, facts.context_window, facts.max_output)

    return describe


def open_sessions(
    settings: Settings, project: str, *, ephemeral: bool
) -> Callable[[str | None], SessionManager]:
    """Opens a session by its id, or begins one."""
    from newel.session.manager import SessionManager

    def open_session(session: str | None) -> SessionManager:
        return SessionManager(
            directory=settings.home / "sessions",
            cwd=project,
            session=session,
            ephemeral=ephemeral and session is None,
        )

    return open_session


@asynccontextmanager
async def opened(
    settings: Settings,
    options: Options,
    ask: Ask | None,
    elicit: Elicit | None = None,
    *,
    wait_for_tools: bool = True,
) -> AsyncGenerator[CodingAgent]:
    """A coding agent from settings, and its connections and files closed afterwards. MCP servers are waited for, or
    their tools come when they come; their questions go to ``elicit``.

    Raises ``ConfigError``, ``SessionError`` and ``ProviderError``.
    """
    from newel.agent.events import ErrorEvent
    from newel.app import servers
    from newel.app.ground import open_ground
    from newel.providers.retry import Retrying
    from newel.review.recording import Recorders
    from newel.session.manager import SessionManager

    endpoint = await find_endpoint(settings)
    client = connect(endpoint)
    recorders = Recorders(None if options.ephemeral else settings.home)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.aclose)
        ground = await stack.enter_async_context(open_ground(settings.cwd, settings.host))
        stack.callback(recorders.close)
        model = await find_model(settings, endpoint, client)
        place = Place(
            ground=ground,
            folder=ground.name,
            session=SessionManager(
                directory=settings.home / "sessions",
                cwd=ground.name,
                continue_=options.continue_,
                session=options.session,
                ephemeral=options.ephemeral,
            ),
            open_session=open_sessions(settings, ground.name, ephemeral=options.ephemeral),
            ask=ask,
            recorders=recorders,
        )
        provider = Retrying(client)
        agent = await build_agent(settings, client, provider, model, place, manner=options.system_prompt)
        stack.callback(agent.session.close)

        async def tell(words: str) -> None:
            await agent.agent.emit(ErrorEvent(code="connection", message=words))

        await stack.enter_async_context(ground.telling(tell))
        if servers.are_named(settings):
            tools = servers.joined_tools(settings, agent, provider, elicit, wait=wait_for_tools)
            await stack.enter_async_context(tools)
        yield agent


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent works and what it may: its folder on a ground, the session that keeps its conversation, how it finds
    another one, who is asked, who hears of each event before anybody else, and what records its changes of files.
    """

    ground: Ground
    folder: str
    session: SessionManager
    open_session: Callable[[str | None], SessionManager]
    ask: Ask | None = None
    journal: Emit | None = None
    recorders: Recorders | None = None


async def build_agent(
    settings: Settings,
    client: OpenAIChat,
    provider: Provider,
    model_name: str,
    place: Place,
    *,
    manner: str | None = None,
) -> CodingAgent:
    """Put the parts together. ``provider`` asks the server of ``client``. ``manner`` stands in for what Newel tells the model about its manner."""
    from newel.agent.agent import ProviderTransport
    from newel.agent.ports import RunConfig
    from newel.agent.transform import Transformer
    from newel.app.workspaces import open_workspaces
    from newel.context.compaction import Compactor
    from newel.context.instructions import describe
    from newel.providers.windows import find_window
    from newel.session.coding_agent import CodingAgent
    from newel.tools import coding_tools

    describe_model = model_describer(settings, client.name)
    model = describe_model(model_name)
    places = open_workspaces(settings, model, place.recorders, partial(place.ground.workspace, place.folder))
    tools = coding_tools(places.works_in, timeout=settings.bash_timeout)
    instructions, templates = await _what_is_said(settings, places.workspace)
    small = describe_model(settings.small_model) if settings.small_model else model
    compactor = Compactor(provider, small, context_window=None, find_window=partial(find_window, client))
    compactor.follow(model)
    run_config = RunConfig(
        model=model,
        transform=Transformer(),
        system_prompt=_system_prompt(manner, tools, instructions, places, place.ground.system),
        tools=tools,
        thinking=settings.thinking,
        policy=_policy(settings, place, tools if places.isolated else []),
        limits=settings.limits,
        compact=compactor,
    )
    agent = CodingAgent(
        transport=ProviderTransport(provider),
        config=run_config,
        workspace=places.workspace,
        works_in=places.works_in,
        session=place.session,
        open_session=place.open_session,
        journal=place.journal,
        list_models=client.models,
        describe_model=describe_model,
        templates=templates,
        compactor=compactor,
        approve=settings.approve,
        instructions=describe(instructions),
    )
    for each in (places.recording, places.isolated):
        if each is not None:
            each.attend(agent)
    return agent


async def _what_is_said(
    settings: Settings, project: Workspace
) -> tuple[list[Instructions], dict[str, Template]]:
    """The instructions and templates of the user, who is here, and of the project, which may be elsewhere."""
    from newel.context.files import Folder
    from newel.context.instructions import find_instructions
    from newel.context.templates import load
    from newel.workspace.local import LocalWorkspace

    home = LocalWorkspace("/", environ={})  # Newel's own folder may not be there yet
    prompts = [Folder(home, f"{settings.home}/prompts"), Folder(project, f"{project.root}/.newel/prompts")]
    return await find_instructions(project, home=Folder(home, str(settings.home))), await load(prompts)


def _policy(settings: Settings, place: Place, reviewed: list[Tool]) -> Policy:
    from newel.permissions.policy import policy

    names = [tool.spec.name for tool in reviewed]
    return policy(settings.approve, ask=place.ask, folder=place.folder, reviewed=names)


def _system_prompt(
    manner: str | None, tools: list[Any], instructions: list[Any], places: Workspaces, system: str
) -> str:
    import time

    from newel.context.system_prompt import system_prompt

    return system_prompt(  # noqa: S604 — `shell` is a name to tell, nothing is run
        cwd=places.works_in.root,
        copy_of=places.workspace.root if places.isolated else None,
        tools=[tool.spec for tool in tools],
        instructions=instructions,
        os_name=system,
        shell="bash",
        date=time.strftime("%Y-%m-%d"),
        manner=manner,
    )
