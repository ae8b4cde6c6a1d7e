"""Carries out the page's requests.

A *command* changes something: commands on the same tab or server are carried out in their order, and to their end even if
the page goes away meanwhile. A *query* only reads, and is dropped with its reader.
"""

from __future__ import annotations

from newel.agent.messages import UserMessage
from newel.runs.models import Tab
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
from newel.workbench.tab_session import TabSession
from newel.workbench.workbench import Workbench

Query = GetHistory | GetSessions | GetModels | Ping
TabCommand = (
    RenameTab | SetModel | Send | Withdraw | SendNow | RetryMessage | StopTab | Start | AnswerQuestion
)
Command = TabCommand | OpenChat | OpenAgent | CloseTab | UseServer | SetServer | SetTool | RestartServer


async def run_query(workbench: Workbench, request: Query) -> ReplyMessage:
    match request:
        case GetHistory(tab=tab):
            messages, more = await workbench.tab(tab).history(request.before, request.limit)
            return ReplyMessage(re=request.id, tab=tab, messages=messages, more=more)
        case GetSessions():
            sessions = [
                SessionInfo(
                    id=each.id,
                    title=each.name or each.first_text or each.id,
                    messages=each.messages,
                    modified=each.modified,
                )
                for each in await workbench.list_sessions()
            ]
            return ReplyMessage(re=request.id, sessions=sessions)
        case GetModels():
            return ReplyMessage(re=request.id, models=await workbench.factory.list_models())
        case Ping():
            return ReplyMessage(re=request.id)


async def run_command(workbench: Workbench, request: Command) -> ReplyMessage:
    tab: Tab | None = None
    match request:
        case OpenChat():
            tab = (await workbench.open_chat(session=request.session, model=request.model)).state
        case OpenAgent():
            tab = (await workbench.open_agent()).state
        case CloseTab():
            tab = workbench.tab(request.tab).state
            await workbench.close(request.tab)
        case UseServer():
            names = await workbench.use_server(request.base_url, request.api_key, request.model)
            return ReplyMessage(re=request.id, models=names)
        case SetServer(server=server):
            if request.trusted is not None:
                await workbench.servers.set_trusted(server, request.trusted)
            if request.enabled is not None:
                await workbench.servers.set_enabled(server, request.enabled)
        case SetTool():
            await workbench.servers.set_tool(request.server, request.tool, request.enabled)
        case RestartServer():
            await workbench.servers.restart(request.server)
        case _:
            run = await _run_tab_command(workbench.tab(request.tab), request)
            return ReplyMessage(re=request.id, tab=request.tab, run=run)
    return ReplyMessage(re=request.id, tab=tab.id if tab else "")


async def _run_tab_command(tab: TabSession, request: TabCommand) -> str | None:
    """Returns the run that was started, or that will answer."""
    match request:
        case Send():
            message = UserMessage(
                content=request.text, attachments=request.attachments, id=request.message_id
            )
            return await tab.send(message, before=request.before)
        case RetryMessage():
            return await tab.retry()
        case Start():
            return await tab.start(request.contract)
        case RenameTab():
            await tab.rename(request.title)
        case SetModel():
            await tab.set_model(request.model)
        case Withdraw():
            await tab.withdraw(request.message_id)
        case SendNow():
            await tab.send_now(request.message_id)
        case StopTab():
            await tab.stop(now=request.now)
        case AnswerQuestion():
            tab.answer(request.question, request.answer)
    return None


def subject(request: SocketRequest) -> str:
    """The thing that a command changes: commands with the same subject keep their order."""
    match request:
        case SetServer() | SetTool() | RestartServer():
            return f"server {request.server}"
        case UseServer():
            return "model"
        case OpenChat() | OpenAgent():
            return "tabs"
        case _:
            return f"tab {getattr(request, 'tab', '')}"
