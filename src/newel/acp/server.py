"""The agent's side of the Agent Client Protocol: its methods, and the sessions of one client.

Only what ``initialize`` needs is imported here: clients wait for it. The rest comes with the first session.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import anyio.to_thread
import msgspec

from newel.acp import protocol as p
from newel.acp.json_rpc import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    JsonRpcConnection,
    JsonRpcError,
    Lines,
    read_params,
)
from newel.agent.errors import ConfigError, SessionInUse
from newel.concurrency import task_group
from newel.version import VERSION

if TYPE_CHECKING:
    from newel.acp.client import SessionClient
    from newel.acp.session import AcpSession

NO_MODEL: Final = ("nothing_found", "nothing_there")
"""Codes of the errors for which the editor offers the ways to sign in."""

RELEASE_S: Final = 2.0
"""Seconds for another process to release a session."""

RETRY_S: Final = 0.1

PAGE: Final = 100
"""Sessions in one answer to ``session/list``."""

Serve = Callable[[Any], Awaitable[Any]]


class Application(Protocol):
    """Composes the sessions of a client. ``home`` is Newel's own folder."""

    @property
    def home(self) -> Path: ...

    def auth_methods(self, *, terminal: bool) -> list[p.AuthMethod]:
        """How the user can configure a model; ``terminal``: the client runs commands of the agent in a terminal."""
        ...

    def session(self, folder: Path, servers: list[p.McpServer], client: SessionClient, /) -> AcpSession:
        """A session that is not open yet, with the id of its client. Raises ``NewelError``."""
        ...

    def grant(self, sessions: list[AcpSession], /) -> None:
        """Give the commands of this process no more rights than any of its sessions has."""
        ...


class AcpServer:
    """Serves one client. Implements ``newel.acp.json_rpc.Handler``."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._capabilities = p.ClientCapabilities()
        self._sessions: dict[str, AcpSession] = {}
        self._methods: dict[str, tuple[type[msgspec.Struct], Serve]] = {
            "initialize": (p.InitializeParams, self._initialize),
            "authenticate": (p.AuthenticateParams, self._authenticate),
            "session/new": (p.NewSessionParams, self._new),
            "session/load": (p.OpenSessionParams, self._load),
            "session/resume": (p.OpenSessionParams, self._resume),
            "session/fork": (p.OpenSessionParams, self._fork),
            "session/list": (p.ListSessionsParams, self._list),
            "session/close": (p.SessionParams, self._close),
            "session/delete": (p.SessionParams, self._delete),
            "session/prompt": (p.PromptParams, self._prompt),
            "session/set_mode": (p.SetModeParams, self._set_mode),
            "session/set_config_option": (p.SetConfigParams, self._set_config),
        }

    async def serve(self, lines: Lines, write: Callable[[bytes], object]) -> None:
        """Serve until the client closes the connection; its prompts end then, and its sessions are saved. Raises ``OSError`` if it
        cannot be written to.
        """
        self._connection = JsonRpcConnection(lines, write, self)
        async with task_group() as self._tasks:
            await self._connection.run()
            for session in self._sessions.values():
                session.close()

    async def request(self, method: str, params: msgspec.Raw, /) -> Any:
        found = self._methods.get(method)
        if found is None:
            raise JsonRpcError(
                METHOD_NOT_FOUND, f"There is no method {method!r} in version 1 of the protocol."
            )
        kind, serve = found
        return await serve(read_params(params, kind))

    async def notification(self, method: str, params: msgspec.Raw, /) -> None:
        if method == "session/cancel":
            try:
                cancelled = read_params(params, p.SessionParams)
            except JsonRpcError:  # a notification has no answer
                return
            if session := self._sessions.get(cancelled.session_id):
                session.cancel()

    # -- connection -------------------------------------------------------------------------------

    async def _initialize(self, params: p.InitializeParams) -> p.InitializeResult:
        self._capabilities = params.client_capabilities or p.ClientCapabilities()
        auth = self._capabilities.auth
        return p.InitializeResult(
            protocol_version=p.VERSION,
            agent_capabilities=p.AgentCapabilities(
                load_session=True,
                prompt_capabilities=p.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=p.McpCapabilities(http=True),
                session_capabilities=p.SessionCapabilities(),
            ),
            agent_info=p.Implementation(name="newel", title="Newel", version=VERSION),
            auth_methods=self._application.auth_methods(terminal=bool(auth and auth.terminal)),
        )

    async def _authenticate(self, params: p.AuthenticateParams) -> None:
        methods = self._application.auth_methods(terminal=True)
        if params.method_id not in {method.id for method in methods}:
            raise JsonRpcError(INVALID_PARAMS, f"There is no way to sign in named {params.method_id!r}.")

    # -- sessions ---------------------------------------------------------------------------------

    async def _new(self, params: p.NewSessionParams) -> p.NewSessionResult:
        from newel.agent.messages import new_id

        session = await self._open(new_id(), params)
        return self._state(session)

    async def _load(self, params: p.OpenSessionParams) -> p.SessionState:
        session = await self._open_saved(params)
        session.replay()
        return self._state(session)

    async def _resume(self, params: p.OpenSessionParams) -> p.SessionState:
        return self._state(await self._open_saved(params))

    async def _fork(self, params: p.OpenSessionParams) -> p.NewSessionResult:
        from newel.acp.saved_sessions import fork_session

        return self._state(await self._open(fork_session(self._application.home, params), params))

    async def _list(self, params: p.ListSessionsParams) -> p.ListSessionsResult:
        from newel.acp.saved_sessions import list_page

        return await anyio.to_thread.run_sync(list_page, self._application.home, params, PAGE)

    async def _close(self, params: p.SessionParams) -> None:
        self._session(params.session_id).close()
        del self._sessions[params.session_id]
        self._grant()

    async def _delete(self, params: p.SessionParams) -> None:
        from newel.acp.saved_sessions import delete_session

        if session := self._sessions.pop(params.session_id, None):
            await session.end()
        delete_session(self._application.home, params.session_id)

    async def _open_saved(self, params: p.OpenSessionParams) -> AcpSession:
        from newel.acp.saved_sessions import check_saved

        open_session = self._sessions.get(params.session_id)
        if open_session is not None and not open_session.is_closed:
            return open_session
        check_saved(self._application.home, params)
        return await self._open(params.session_id, params)

    async def _open(self, session_id: str, params: p.NewSessionParams) -> AcpSession:
        from newel.acp.client import SessionClient

        folder = _existing_folder(params.cwd)
        client = SessionClient(self._connection, session_id, self._capabilities)
        session = await self._start(folder, params, client)
        self._sessions[session_id] = session
        self._grant()
        self._tasks.start_soon(session.announce)  # after the answer, from which the client knows the session
        return session

    async def _start(self, folder: Path, params: p.NewSessionParams, client: SessionClient) -> AcpSession:
        """Open a session. A client that replaces its agent may be quicker than the end of the one before, so wait for that."""
        deadline = anyio.current_time() + RELEASE_S
        while True:
            session = self._application.session(folder, params.mcp_servers or [], client)
            try:
                await self._tasks.start(session.run)
            except SessionInUse:
                if anyio.current_time() > deadline:
                    raise
                await anyio.sleep(RETRY_S)
            except ConfigError as error:
                if error.code not in NO_MODEL:
                    raise
                raise JsonRpcError(AUTH_REQUIRED, str(error)) from error
            else:
                return session

    def _state(self, session: AcpSession) -> p.NewSessionResult:
        return p.NewSessionResult(
            session_id=session.client.session_id, modes=session.modes(), config_options=session.options()
        )

    def _session(self, session_id: str) -> AcpSession:
        session = self._sessions.get(session_id)
        if session is None or session.is_closed:
            raise JsonRpcError(NOT_FOUND, f"No session {session_id!r} is open. Load or resume it first.")
        return session

    def _grant(self) -> None:
        self._application.grant(list(self._sessions.values()))

    # -- in a session -----------------------------------------------------------------------------

    async def _prompt(self, params: p.PromptParams) -> p.PromptResponse:
        return await self._session(params.session_id).prompt(params.prompt)

    async def _set_mode(self, params: p.SetModeParams) -> None:
        await self._session(params.session_id).set_mode(params.mode_id)
        self._grant()

    async def _set_config(self, params: p.SetConfigParams) -> p.SetConfigResult:
        session = self._session(params.session_id)
        await session.set_option(params.config_id, params.value)
        self._grant()
        return p.SetConfigResult(config_options=session.options())


def _existing_folder(path: str) -> Path:
    folder = Path(path)
    if not folder.is_absolute() or not os.path.isdir(folder):  # noqa: PTH112 — Path.is_dir raises for some paths
        raise JsonRpcError(
            INVALID_PARAMS, f"cwd must be the absolute path of a folder that exists, not {path!r}."
        )
    return folder.resolve()
