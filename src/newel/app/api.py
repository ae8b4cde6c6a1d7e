"""The public Python API."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast, get_type_hints

import msgspec

from newel.agent.errors import ConfigError, UsageError, WorkspaceError
from newel.agent.ports import ThinkingLevel, Tool, ToolCallMode
from newel.app.agent_factory import AgentOptions, AgentParts, open_agent
from newel.concurrency import hosted
from newel.config.jexida import Through
from newel.config.settings import Approve, Flags, RendererName, load_settings
from newel.providers.families import Api, speaks_chat
from newel.providers.routing import AgentMode
from newel.text.type_errors import describe_type_error
from newel.workspace.sandbox.policy import SandboxMode

if TYPE_CHECKING:
    import httpx2

    from newel.permissions.approval import Approval, ApprovalRequest, AskApproval
    from newel.providers.openai.encoder import ServerCompat
    from newel.session.coding_agent import CodingAgent

MAX_OUTPUT: Final = 4096
"""Output tokens of ``chat``."""

_learned: Final[dict[tuple[str, str], ServerCompat]] = {}
"""Compatibility flags by server address and model, so that ``chat`` is refused once, not each time."""


def chat(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, model: str | None = None
) -> dict[str, Any]:
    """Send one request to the configured model, without an agent and without retries.

    ``messages`` and ``tools`` are OpenAI's. If a server refuses the parameter for the output limit, the request is repeated with the
    other parameter, or without a limit. Returns the server's JSON unchanged. Raises ``ConfigError`` if no
    server or model is configured and the HTTP client's errors if the server refuses or cannot be reached.
    """
    import httpx2

    from newel.providers.http.urls import chat_completions_url, is_loopback, split_base_url
    from newel.text.sanitize import redact_url

    settings = load_settings(Flags(model=model), cwd=Path.cwd(), environ=os.environ)
    if settings.endpoint is None:
        remedy = "Set LLM_BASE_URL (and LLM_AUTH_TOKEN)."
        if settings.ignored is not None and settings.ignored.address:
            from newel.app.trusting import trust_command

            remedy += f" To use the server that .env names: {trust_command(settings.ignored)}"
        raise ConfigError(f"No server is configured. {remedy}")
    if settings.model is None:
        raise ConfigError("No model is configured. Set LLM_DEFAULT_MODEL, or name one.")
    payload: dict[str, Any] = {"model": settings.model, "messages": messages}
    if tools:
        payload["tools"] = tools
    key = settings.endpoint.api_key
    base_url, query = split_base_url(chat_completions_url(settings.endpoint.base_url))
    if not speaks_chat(base_url, settings.endpoint.api):
        raise ConfigError(
            f"newel.chat speaks chat completions, and {redact_url(base_url)} does not. Set LLM_BASE_URL to a server that does."
        )
    url = f"{base_url}/chat/completions{query}"
    answer = _post(
        url,
        payload,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=120.0,
        trust_env=not is_loopback(base_url),  # no proxy for this machine itself
    )
    if not answer.is_success:  # the client's own message would show a password in the URL
        message = f"{redact_url(url)} answered with {answer.status_code} {answer.reason_phrase}"
        raise httpx2.HTTPStatusError(message, request=answer.request, response=answer)
    return answer.json()


def _post(url: str, payload: dict[str, Any], **options: Any) -> httpx2.Response:
    """Post with an output limit; if the server refuses its parameter, with the other one or without."""
    import httpx2

    from newel.agent.ports import Model, ModelRequest
    from newel.providers.errors import EndpointDescription, error_from_response
    from newel.providers.openai.encoder import ServerCompat

    request = ModelRequest(Model(payload["model"], max_output=MAX_OUTPUT), "", [])
    asked = (url, payload["model"])
    compat = _learned.get(asked) or ServerCompat(stream=False)
    while True:
        limit = compat.limit
        answer = httpx2.post(url, json=payload | ({limit: MAX_OUTPUT} if limit else {}), **options)
        if answer.is_success:
            _learned[asked] = compat
        if answer.is_success or limit is None:
            return answer
        error = error_from_response(
            answer.status_code, answer.headers, answer.content, EndpointDescription(url)
        )
        change = compat.adapted_to(error, request)
        if change is None or change[0].limit == limit:
            return answer
        compat = change[0]


class AgentFlags(TypedDict, total=False):
    """The keyword options that are settings. A missing one comes from the usual places: ``docs/settings.md``.

    ``max_turns`` counts requests to the model, ``max_cost`` is in US dollars; both are limits of one prompt.
    """

    base_url: str | None
    api_key: str | None
    api: Api | None
    model: str | None
    thinking: ThinkingLevel | None
    approve: Approve | None
    renderer: RendererName | None
    max_turns: int | None
    max_cost: float | None
    host: str | None
    through: Through | None
    agent_mode: AgentMode | None
    tool_calls: ToolCallMode | None
    sandbox: SandboxMode | None
    extensions: bool | None


def open_coding_agent(
    *,
    working_directory: Path | str = ".",
    session: str | None = None,
    continue_: bool = False,
    ephemeral: bool = False,
    system_prompt: str | None = None,
    tools: Sequence[Tool] = (),
    ask: AskApproval | None = None,
    **flags: Unpack[AgentFlags],
) -> AbstractAsyncContextManager[CodingAgent]:
    """A coding agent set up as the command line would; its connections and its session are closed at the end of the block.

        async with newel.open_coding_agent(model="qwen3-coder") as agent:
            await agent.prompt("Fix the bug in server.py")

    ``session`` resumes a session by its id or a prefix of it, ``continue_`` the folder's latest one, and ``ephemeral`` saves
    none. ``tools`` are added to the agent's own; ``ask`` is awaited for each call that needs approval, and without it such calls
    are refused. ``system_prompt`` replaces Newel's instructions on style. ``flags`` are those of ``AgentFlags``.

    Raises ``ConfigError`` for a missing or wrong setting, ``UsageError`` for options that exclude each other and for a tool
    whose name is taken, ``SessionError``, ``WorkspaceError`` and ``ProviderError``.
    """
    if sum([continue_, session is not None, ephemeral]) > 1:
        raise UsageError("session, continue_ and ephemeral cannot be combined. Give one of them.")
    folder = Path(working_directory).resolve()
    checked = checked_flags(flags)
    if checked.host is None and not folder.is_dir():
        raise WorkspaceError(f"{folder} is not a directory. Name one that exists.")
    for tool in tools:
        _check_tool(tool)
    options = AgentOptions(
        flags=checked,
        cwd=folder,
        session=session,
        continue_=continue_,
        ephemeral=ephemeral,
        system_prompt=system_prompt,
    )
    settings = load_settings(options.flags, cwd=options.cwd, environ=os.environ)
    return hosted(open_agent(settings, options, ask and _checked_ask(ask), parts=AgentParts(tools=tools)))


def _check_tool(tool: object) -> None:
    """Raises ``UsageError`` for what is no tool, or lacks a part of one: Python does not check it."""
    from newel.tools.base import ParsedTool

    if isinstance(tool, type):
        raise UsageError(f"tools: {tool.__name__} is a class; give an instance of it, `{tool.__name__}()`.")
    name = type(tool).__name__
    if issubclass(type(tool), ParsedTool):
        parts = ("name", "label", "description", "read_only", "parameters")
        if missing := [part for part in parts if not hasattr(tool, part)]:
            raise UsageError(f"tools: {name} has no `{'`, `'.join(missing)}`.")
    try:
        is_tool = hasattr(tool, "spec")
    except TypeError as error:
        reason = str(error).rpartition("\n")[2]
        raise UsageError(f"tools: {name} has a parameter that no model can give: {reason}.") from error
    if not is_tool:
        raise UsageError(f"tools: {tool!r} is not a tool; derive yours from `newel.TypedTool`.")


def _checked_ask(ask: AskApproval) -> AskApproval:
    """Python does not check what the caller's function is and returns."""

    async def asked(request: ApprovalRequest) -> Approval:
        from newel.permissions.approval import Approval

        answer = cast("object", ask(request))
        if not isinstance(answer, Awaitable):
            raise UsageError("ask has to be an `async` function that returns a `newel.Approval`.")
        approval = await cast("Awaitable[object]", answer)
        if not isinstance(approval, Approval):
            raise UsageError(f"ask returned {approval!r}; return a `newel.Approval`.")
        return approval

    return asked


def checked_flags(flags: AgentFlags) -> Flags:
    """The flags with their types checked: a misspelt approval mode must not run without approval. Raises ``UsageError``."""
    checked = Flags(**flags)
    try:
        msgspec.convert(msgspec.structs.asdict(checked), Flags)
    except msgspec.ValidationError as error:
        problem, _, name = str(error).removesuffix("`").partition(" - at `$.")
        problem = describe_type_error(problem, get_type_hints(Flags).get(name))
        raise UsageError(f"{name}: {problem[:1].lower()}{problem[1:]}.") from None
    for name, limit in (("max_turns", checked.max_turns), ("max_cost", checked.max_cost)):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} is {limit}. Give a number above 0, or None for no limit.")
    return checked
