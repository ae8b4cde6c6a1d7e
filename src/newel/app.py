"""The one place where parts become a program: settings → provider, workspace, tools, session, screen."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from newel import config
from newel.agent.errors import ConfigError, UsageError
from newel.config import Endpoint, Flags, Settings
from newel.providers.urls import without_secrets
from newel.terminal.safe import safe

if TYPE_CHECKING:
    from newel.agent.ports import Model, Provider
    from newel.permissions.policy import Ask
    from newel.providers.openai_chat import OpenAIChat
    from newel.session.coding_agent import CodingAgent
    from newel.session.manager import SessionManager
    from newel.terminal.approval import Approver
    from newel.terminal.renderer import Renderer

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


# -- running --------------------------------------------------------------------------------------


def run_agent(options: Options) -> int:
    """Carry out what the command line asked for; returns the exit code."""
    # Loading makes many objects and no garbage: looking for some meanwhile costs a twentieth of the start.
    gc.disable()
    import anyio

    settings = config.load(options.flags, cwd=options.cwd, environ=os.environ)
    return anyio.run(run_with, settings, options)


async def run_with(settings: Settings, options: Options) -> int:
    """Choose the front end, build the agent, and let the one run the other."""
    interactive = sys.stdin.isatty() and not options.prompts and not options.simple
    screen = settings.renderer or ("rich" if _can_draw() else "console")
    json_in = screen == "json" and not options.prompts and not options.simple
    piped = "" if sys.stdin.isatty() or json_in or options.simple else await _read_stdin()
    if not (interactive or json_in or options.simple or options.prompts or piped.strip()):
        raise UsageError(
            "There is nothing to do: the prompt is empty. Give one, or start Newel in a terminal."
        )
    if settings.origins.get("approve") == config.ONLY_DOTENV and settings.endpoint:
        shown = without_secrets(settings.endpoint.base_url)
        words = f"only the .env of this folder names the server {shown}, so calls need your approval"
        print(f"newel: {safe(words)} (--approve auto lifts that)", file=sys.stderr)  # noqa: T201 — a person must know

    watched = sys.stdin.isatty() and sys.stdout.isatty() and screen != "json"
    approver = _approver() if interactive or json_in or watched else None
    async with opened(settings, options, approver) as agent:
        gc.freeze()
        gc.enable()
        if options.simple:
            from newel.terminal.renderer import text_stdout
            from newel.terminal.simple_repl import run_simple_repl

            return await run_simple_repl(agent, sys.stdin.fileno(), text_stdout(), approver=approver)
        if json_in:
            from newel.terminal.json_mode import run_json

            return await run_json(agent, sys.stdin.fileno(), sys.stdout.buffer, approver=_needed(approver))
        if interactive:
            from newel.terminal.repl import run_repl

            return await run_repl(
                agent,
                home=settings.home,
                approver=_needed(approver),
                screen="console" if screen == "console" else "rich",
                header=header(agent),
            )
        from newel.terminal.one_shot import run_prompts
        from newel.terminal.prompts import Prompt

        prompts = [Prompt(text) for text in options.prompts] or [Prompt("")]
        prompts[0] = Prompt(prompts[0].typed, piped)
        renderer = _renderer(screen, agent, echo=options.echo)
        return await run_prompts(agent, prompts, renderer, approver=approver)


def _can_draw() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _approver() -> Approver:
    from newel.terminal.approval import Approver

    return Approver()


def _needed(approver: Approver | None) -> Approver:
    assert approver is not None  # noqa: S101 — made wherever a person can answer
    return approver


def _renderer(name: str, agent: CodingAgent, *, echo: bool) -> Renderer:
    if name == "json":
        from newel.terminal.json_mode import JsonRenderer

        return JsonRenderer(sys.stdout.buffer)
    if name == "rich":
        from newel.terminal.rich_renderer import on_terminal

        return on_terminal(sys.stdout, window=agent.window)
    from newel.terminal.console import ConsoleRenderer
    from newel.terminal.renderer import text_stdout

    return ConsoleRenderer(text_stdout(), echo=echo, window=agent.window)


def header(agent: CodingAgent) -> str:
    """Where a conversation takes place, in a line; below it, what is wrong with its session's file."""
    from importlib.metadata import version

    folder = agent.workspace.root
    home = str(Path.home())
    if folder == home or folder.startswith(home + "/"):
        folder = "~" + folder.removeprefix(home)
    facts = [f"newel {version('newel')}", folder, agent.state.model.id, agent.approve, agent.instructions]
    return "\n".join([" · ".join(fact for fact in facts if fact), *agent.session.damage])


MAX_PIPED = 16 * 1024 * 1024
"""Bytes of standard input that a prompt may take along."""


async def _read_stdin() -> str:
    """Standard input to its end. A pipe that nobody closes would wait for ever, so say what is awaited."""
    import select

    if not select.select([sys.stdin], [], [], 2.0)[0]:
        print("newel: waiting for standard input to end (close it with < /dev/null)", file=sys.stderr)  # noqa: T201 — a person waits
    data = sys.stdin.buffer.read(MAX_PIPED + 1)
    if len(data) > MAX_PIPED:
        raise ConfigError(
            f"Standard input has more than {MAX_PIPED:,} bytes. Put it into a file and name that."
        )
    return data.decode(errors="replace")


# -- the parts ------------------------------------------------------------------------------------


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


def open_sessions(settings: Settings, *, ephemeral: bool) -> Callable[[str | None], SessionManager]:
    """Opens a session by its id, or begins one."""
    from newel.session.manager import SessionManager

    def open_session(session: str | None) -> SessionManager:
        return SessionManager(
            directory=settings.home / "sessions",
            cwd=str(settings.cwd),
            session=session,
            ephemeral=ephemeral and session is None,
        )

    return open_session


@asynccontextmanager
async def opened(settings: Settings, options: Options, ask: Ask | None) -> AsyncGenerator[CodingAgent]:
    """A coding agent from settings, and its connections and files closed afterwards.

    Raises ``ConfigError``, ``SessionError`` and ``ProviderError``.
    """
    endpoint = await find_endpoint(settings)
    client = connect(endpoint)
    try:
        model = await find_model(settings, endpoint, client)
        agent = build_agent(settings, options, client, model, ask)
        try:
            yield agent
        finally:
            agent.session.close()
    finally:
        await client.aclose()


def build_agent(
    settings: Settings, options: Options, client: OpenAIChat, model_name: str, ask: Ask | None
) -> CodingAgent:
    """Put the parts together."""
    from newel.agent.agent import ProviderTransport
    from newel.agent.ports import RunConfig
    from newel.agent.transform import Transformer
    from newel.context.compaction import Compactor
    from newel.context.instructions import describe, find_instructions
    from newel.context.templates import load as load_templates
    from newel.permissions.policy import policy
    from newel.providers.retry import Retrying
    from newel.providers.windows import find_window
    from newel.session.coding_agent import CodingAgent
    from newel.session.manager import SessionManager
    from newel.tools import coding_tools
    from newel.workspace.local import LocalWorkspace
    from newel.workspace.process import Limits

    describe_model = model_describer(settings, client.name)
    model = describe_model(model_name)
    provider: Provider = Retrying(client)
    session = SessionManager(
        directory=settings.home / "sessions",
        cwd=str(settings.cwd),
        continue_=options.continue_,
        session=options.session,
        ephemeral=options.ephemeral,
    )
    # A quarter of what the model can read, at about four characters a token, is enough for one command.
    limits = Limits()
    if model.context_window:
        limits = Limits(output=min(limits.output, model.context_window))
    workspace = LocalWorkspace(str(settings.cwd), limits=limits)
    tools = coding_tools(workspace, timeout=settings.bash_timeout)
    instructions = find_instructions(cwd=settings.cwd, home=settings.home)
    small = describe_model(settings.small_model) if settings.small_model else model
    compactor = Compactor(provider, small, context_window=None, find_window=partial(find_window, client))
    compactor.follow(model)
    run_config = RunConfig(
        model=model,
        transform=Transformer(),
        system_prompt=_system_prompt(settings, options, tools, instructions),
        tools=tools,
        thinking=settings.thinking,
        policy=policy(settings.approve, ask=ask, folder=str(settings.cwd)),
        limits=settings.limits,
        compact=compactor,
    )
    return CodingAgent(
        transport=ProviderTransport(provider),
        config=run_config,
        workspace=workspace,
        session=session,
        open_session=open_sessions(settings, ephemeral=options.ephemeral),
        list_models=client.models,
        describe_model=describe_model,
        templates=load_templates([settings.home / "prompts", settings.cwd / ".newel" / "prompts"]),
        compactor=compactor,
        approve=settings.approve,
        instructions=describe(instructions),
    )


def _system_prompt(settings: Settings, options: Options, tools: list[Any], instructions: list[Any]) -> str:
    import time

    from newel.context.system_prompt import system_prompt

    return system_prompt(  # noqa: S604 — `shell` is a name to tell, nothing is run
        cwd=str(settings.cwd),
        tools=[tool.spec for tool in tools],
        instructions=instructions,
        os_name=f"{os.uname().sysname} {os.uname().release}",
        shell="bash",
        date=time.strftime("%Y-%m-%d"),
        manner=options.system_prompt,
    )


# -- for programs -----------------------------------------------------------------------------------


def chat(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, model: str | None = None
) -> dict[str, Any]:
    """One question to the configured model, as plain as can be: no agent, no retry.

    ``messages`` and ``tools`` are OpenAI's. Returns the server's answer as it is. Raises ``ConfigError`` if no
    server or model is configured and the HTTP client's errors if the server refuses or cannot be reached.
    """
    import httpx2

    from newel.providers.urls import is_loopback

    settings = config.load(Flags(model=model), cwd=Path.cwd(), environ=os.environ)
    if settings.endpoint is None:
        raise ConfigError("No server is configured. Set LLM_BASE_URL (and LLM_AUTH_TOKEN).")
    if settings.model is None:
        raise ConfigError("No model is configured. Set LLM_DEFAULT_MODEL, or name one.")
    payload: dict[str, Any] = {"model": settings.model, "messages": messages, "max_tokens": 4096}
    if tools:
        payload["tools"] = tools
    key = settings.endpoint.api_key
    answer = httpx2.post(
        f"{settings.endpoint.base_url}/chat/completions",
        json=payload,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=120.0,
        trust_env=not is_loopback(settings.endpoint.base_url),  # no proxy stands before this machine itself
    )
    answer.raise_for_status()
    return answer.json()


def open_coding_agent(
    *,
    working_directory: Path | str = ".",
    session: str | None = None,
    continue_: bool = False,
    ephemeral: bool = False,
    ask: Ask | None = None,
    **flags: Any,
) -> AbstractAsyncContextManager[CodingAgent]:
    """A coding agent set up as the command line would: ``flags`` are those of ``newel.config.Flags``
    (``model``, ``base_url``, ``api_key``, ``approve``, …), everything else comes from the usual places.

        async with newel.open_coding_agent(model="qwen3-coder") as agent:
            await agent.prompt("Fix the bug in server.py")
    """
    options = Options(
        flags=Flags(**flags),
        cwd=Path(working_directory).resolve(),
        session=session,
        continue_=continue_,
        ephemeral=ephemeral,
    )
    settings = config.load(options.flags, cwd=options.cwd, environ=os.environ)
    return opened(settings, options, ask)
