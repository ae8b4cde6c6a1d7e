"""What the page can ask for on the socket, one small function each.

A *command* changes something: commands on the same tab or server are carried out in their order, and to their end even if
the page goes away meanwhile. A *question* only reads, and is dropped with its reader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from newel.agent.messages import UserMessage
from newel.session.listing import SessionSummary
from newel.web.ports import WorkbenchPort
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
    ReplyMessage,
    RestartServer,
    RetryMessage,
    Send,
    SendNow,
    SessionInfo,
    SetModel,
    SetServer,
    SetTool,
    SocketRequest,
    Start,
    StopTab,
    UseServer,
    Withdraw,
)

Handler = Callable[[WorkbenchPort, Any], Awaitable[ReplyMessage]]


async def _open_chat(board: WorkbenchPort, request: OpenChat) -> ReplyMessage:
    tab = await board.open_chat(session=request.session, model=request.model)
    return ReplyMessage(re=request.id, tab=tab.id)


async def _open_agent(board: WorkbenchPort, request: OpenAgent) -> ReplyMessage:
    return ReplyMessage(re=request.id, tab=(await board.open_agent()).id)


async def _close_tab(board: WorkbenchPort, request: CloseTab) -> ReplyMessage:
    await board.close(request.tab)
    return ReplyMessage(re=request.id, tab=request.tab)


async def _rename_tab(board: WorkbenchPort, request: RenameTab) -> ReplyMessage:
    await board.rename(request.tab, request.title)
    return ReplyMessage(re=request.id, tab=request.tab)


async def _set_model(board: WorkbenchPort, request: SetModel) -> ReplyMessage:
    await board.set_model(request.tab, request.model)
    return ReplyMessage(re=request.id, tab=request.tab)


async def _send(board: WorkbenchPort, request: Send) -> ReplyMessage:
    message = UserMessage(content=request.text, attachments=request.attachments, id=request.message_id)
    run = await board.send(request.tab, message, before=request.before)
    return ReplyMessage(re=request.id, tab=request.tab, run=run)


async def _withdraw(board: WorkbenchPort, request: Withdraw) -> ReplyMessage:
    await board.withdraw(request.tab, request.message_id)
    return ReplyMessage(re=request.id, tab=request.tab)


async def _send_now(board: WorkbenchPort, request: SendNow) -> ReplyMessage:
    await board.send_now(request.tab, request.message_id)
    return ReplyMessage(re=request.id, tab=request.tab)


async def _retry(board: WorkbenchPort, request: RetryMessage) -> ReplyMessage:
    return ReplyMessage(re=request.id, tab=request.tab, run=await board.retry(request.tab))


async def _start(board: WorkbenchPort, request: Start) -> ReplyMessage:
    return ReplyMessage(re=request.id, tab=request.tab, run=await board.start(request.tab, request.contract))


async def _stop(board: WorkbenchPort, request: StopTab) -> ReplyMessage:
    await board.stop(request.tab, now=request.now)
    return ReplyMessage(re=request.id, tab=request.tab)


async def _answer(board: WorkbenchPort, request: AnswerQuestion) -> ReplyMessage:
    board.answer(request.tab, request.question, request.answer)
    return ReplyMessage(re=request.id, tab=request.tab)


async def _use_server(board: WorkbenchPort, request: UseServer) -> ReplyMessage:
    names = await board.use_server(request.base_url, request.api_key, request.model)
    return ReplyMessage(re=request.id, models=names)


async def _set_server(board: WorkbenchPort, request: SetServer) -> ReplyMessage:
    await board.set_server(request.server, enabled=request.enabled, trusted=request.trusted)
    return ReplyMessage(re=request.id)


async def _set_tool(board: WorkbenchPort, request: SetTool) -> ReplyMessage:
    await board.set_tool(request.server, request.tool, enabled=request.enabled)
    return ReplyMessage(re=request.id)


async def _restart_server(board: WorkbenchPort, request: RestartServer) -> ReplyMessage:
    await board.restart_server(request.server)
    return ReplyMessage(re=request.id)


async def _get_history(board: WorkbenchPort, request: GetHistory) -> ReplyMessage:
    messages, more = await board.history(request.tab, request.before, request.limit)
    return ReplyMessage(re=request.id, tab=request.tab, messages=messages, more=more)


async def _get_sessions(board: WorkbenchPort, request: GetSessions) -> ReplyMessage:
    return ReplyMessage(re=request.id, sessions=[_info(summary) for summary in await board.sessions()])


def _info(summary: SessionSummary) -> SessionInfo:
    return SessionInfo(
        id=summary.id,
        title=summary.name or summary.first_text or summary.id,
        messages=summary.messages,
        modified=summary.modified,
    )


async def _get_models(board: WorkbenchPort, request: GetModels) -> ReplyMessage:
    return ReplyMessage(re=request.id, models=await board.models())


async def _ping(board: WorkbenchPort, request: Ping) -> ReplyMessage:  # noqa: ARG001 — the shape of a handler
    return ReplyMessage(re=request.id)


COMMANDS: dict[type[SocketRequest], Handler] = {
    OpenChat: _open_chat,
    OpenAgent: _open_agent,
    CloseTab: _close_tab,
    RenameTab: _rename_tab,
    SetModel: _set_model,
    Send: _send,
    Withdraw: _withdraw,
    SendNow: _send_now,
    RetryMessage: _retry,
    Start: _start,
    StopTab: _stop,
    AnswerQuestion: _answer,
    UseServer: _use_server,
    SetServer: _set_server,
    SetTool: _set_tool,
    RestartServer: _restart_server,
}
QUESTIONS: dict[type[SocketRequest], Handler] = {
    GetHistory: _get_history,
    GetSessions: _get_sessions,
    GetModels: _get_models,
    Ping: _ping,
}


def subject(request: SocketRequest) -> str:
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
