"""What the page can ask for on the socket, one small function each.

A *command* changes something: commands on the same tab or server are carried out in their order, and to their end even if
the page goes away meanwhile. A *question* only reads, and is dropped with its reader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from newel.agent.messages import UserMessage
from newel.session.listing import SessionSummary
from newel.web.ports import Workbench
from newel.web.protocol import (
    AnswerQuestion,
    CloseTab,
    GetHistory,
    GetModels,
    GetSessions,
    OpenAgent,
    OpenChat,
    Ping,
    RenameTab,
    Reply,
    Request,
    RestartServer,
    Retry,
    Send,
    SendNow,
    SessionInfo,
    SetModel,
    SetServer,
    SetTool,
    Start,
    Stop,
    UseServer,
    Withdraw,
)

Handler = Callable[[Workbench, Any], Awaitable[Reply]]


async def _open_chat(board: Workbench, request: OpenChat) -> Reply:
    tab = await board.open_chat(session=request.session, model=request.model)
    return Reply(re=request.id, tab=tab.id)


async def _open_agent(board: Workbench, request: OpenAgent) -> Reply:
    return Reply(re=request.id, tab=(await board.open_agent()).id)


async def _close_tab(board: Workbench, request: CloseTab) -> Reply:
    await board.close(request.tab)
    return Reply(re=request.id, tab=request.tab)


async def _rename_tab(board: Workbench, request: RenameTab) -> Reply:
    await board.rename(request.tab, request.title)
    return Reply(re=request.id, tab=request.tab)


async def _set_model(board: Workbench, request: SetModel) -> Reply:
    await board.set_model(request.tab, request.model)
    return Reply(re=request.id, tab=request.tab)


async def _send(board: Workbench, request: Send) -> Reply:
    message = UserMessage(content=request.text, attachments=request.attachments, id=request.message_id)
    run = await board.send(request.tab, message, before=request.before)
    return Reply(re=request.id, tab=request.tab, run=run)


async def _withdraw(board: Workbench, request: Withdraw) -> Reply:
    await board.withdraw(request.tab, request.message_id)
    return Reply(re=request.id, tab=request.tab)


async def _send_now(board: Workbench, request: SendNow) -> Reply:
    await board.send_now(request.tab, request.message_id)
    return Reply(re=request.id, tab=request.tab)


async def _retry(board: Workbench, request: Retry) -> Reply:
    return Reply(re=request.id, tab=request.tab, run=await board.retry(request.tab))


async def _start(board: Workbench, request: Start) -> Reply:
    return Reply(re=request.id, tab=request.tab, run=await board.start(request.tab, request.contract))


async def _stop(board: Workbench, request: Stop) -> Reply:
    await board.stop(request.tab, now=request.now)
    return Reply(re=request.id, tab=request.tab)


async def _answer(board: Workbench, request: AnswerQuestion) -> Reply:
    board.answer(request.tab, request.question, request.answer)
    return Reply(re=request.id, tab=request.tab)


async def _use_server(board: Workbench, request: UseServer) -> Reply:
    names = await board.use_server(request.base_url, request.api_key, request.model)
    return Reply(re=request.id, models=names)


async def _set_server(board: Workbench, request: SetServer) -> Reply:
    await board.set_server(request.server, enabled=request.enabled, trusted=request.trusted)
    return Reply(re=request.id)


async def _set_tool(board: Workbench, request: SetTool) -> Reply:
    await board.set_tool(request.server, request.tool, enabled=request.enabled)
    return Reply(re=request.id)


async def _restart_server(board: Workbench, request: RestartServer) -> Reply:
    await board.restart_server(request.server)
    return Reply(re=request.id)


async def _get_history(board: Workbench, request: GetHistory) -> Reply:
    messages, more = await board.history(request.tab, request.before, request.limit)
    return Reply(re=request.id, tab=request.tab, messages=messages, more=more)


async def _get_sessions(board: Workbench, request: GetSessions) -> Reply:
    return Reply(re=request.id, sessions=[_info(summary) for summary in await board.sessions()])


def _info(summary: SessionSummary) -> SessionInfo:
    return SessionInfo(
        id=summary.id,
        title=summary.name or summary.first_text or summary.id,
        messages=summary.messages,
        modified=summary.modified,
    )


async def _get_models(board: Workbench, request: GetModels) -> Reply:
    return Reply(re=request.id, models=await board.models())


async def _ping(board: Workbench, request: Ping) -> Reply:  # noqa: ARG001 — the shape of a handler
    return Reply(re=request.id)


COMMANDS: dict[type[Request], Handler] = {
    OpenChat: _open_chat,
    OpenAgent: _open_agent,
    CloseTab: _close_tab,
    RenameTab: _rename_tab,
    SetModel: _set_model,
    Send: _send,
    Withdraw: _withdraw,
    SendNow: _send_now,
    Retry: _retry,
    Start: _start,
    Stop: _stop,
    AnswerQuestion: _answer,
    UseServer: _use_server,
    SetServer: _set_server,
    SetTool: _set_tool,
    RestartServer: _restart_server,
}
QUESTIONS: dict[type[Request], Handler] = {
    GetHistory: _get_history,
    GetSessions: _get_sessions,
    GetModels: _get_models,
    Ping: _ping,
}


def subject(request: Request) -> str:
    """What a command changes: commands with the same subject keep their order."""
    match request:
        case SetServer() | SetTool() | RestartServer():
            return f"server {request.server}"
        case UseServer():
            return "model"
        case OpenChat() | OpenAgent():
            return "tabs"
        case _:
            return f"tab {getattr(request, 'tab', '')}"
