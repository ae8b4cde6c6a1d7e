"""Newel, a coding agent. The names below are its public interface; each is loaded when it is first used.

    ask(prompt), aask(prompt) -> Answer                    one prompt for a coding agent, from a script or a notebook
    chat(messages, tools=None, model=None) -> dict         one request to the configured model, without an agent

    Agent, ProviderTransport, AppTransport                 a conversation, and its transports
    RunConfig, Model, Transformer, Limits                  the configuration of a run
    CodingAgent, open_coding_agent                         an agent with tools, a folder and a session
    ApprovalRequest, Approval                              a call that waits for the user, and the answer
    SessionManager                                         sessions as JSONL files
    OpenAIChat, Retrying                                   any OpenAI-compatible server
    LocalWorkspace, coding_tools, TypedTool, Parameters    the folder and the tools of an agent
    NewelError                                             the root of all errors (newel.agent.errors)
    to_json                                                a message, an event or an answer as JSON

The guide is docs/library.md. Messages, events and ports: ``newel.agent.messages``, ``newel.agent.events``, ``newel.agent.ports``.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers understand it, without importing ``typing`` at start
if TYPE_CHECKING:
    from newel.agent.agent import Agent, ProviderTransport
    from newel.agent.errors import NewelError
    from newel.agent.ports import Limits, Model, RunConfig
    from newel.agent.transform import Transformer
    from newel.app.answer import Answer, aask, ask
    from newel.app.api import chat, open_coding_agent
    from newel.permissions.approval import Approval, ApprovalRequest
    from newel.providers.openai.chat import OpenAIChat
    from newel.providers.proxy import AppTransport
    from newel.providers.retry import Retrying
    from newel.session.coding_agent import CodingAgent
    from newel.session.manager import SessionManager
    from newel.text.json import to_json
    from newel.tools import coding_tools
    from newel.tools.base import Parameters, TypedTool
    from newel.workspace.local import LocalWorkspace

_HOMES = {
    "ask": "app.answer",
    "aask": "app.answer",
    "Answer": "app.answer",
    "Agent": "agent.agent",
    "ProviderTransport": "agent.agent",
    "AppTransport": "providers.proxy",
    "RunConfig": "agent.ports",
    "Model": "agent.ports",
    "Limits": "agent.ports",
    "Transformer": "agent.transform",
    "CodingAgent": "session.coding_agent",
    "ApprovalRequest": "permissions.approval",
    "Approval": "permissions.approval",
    "SessionManager": "session.manager",
    "OpenAIChat": "providers.openai.chat",
    "Retrying": "providers.retry",
    "LocalWorkspace": "workspace.local",
    "coding_tools": "tools",
    "TypedTool": "tools.base",
    "Parameters": "tools.base",
    "NewelError": "agent.errors",
    "chat": "app.api",
    "open_coding_agent": "app.api",
    "to_json": "text.json",
}

__all__ = [  # noqa: RUF022 — in the order of the docstring
    "ask",
    "aask",
    "Answer",
    "chat",
    "Agent",
    "ProviderTransport",
    "AppTransport",
    "RunConfig",
    "Model",
    "Transformer",
    "Limits",
    "CodingAgent",
    "open_coding_agent",
    "ApprovalRequest",
    "Approval",
    "SessionManager",
    "OpenAIChat",
    "Retrying",
    "LocalWorkspace",
    "coding_tools",
    "TypedTool",
    "Parameters",
    "NewelError",
    "to_json",
]


if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'newel' has no attribute '{name}'")
        from importlib import import_module

        return getattr(import_module(f"newel.{_HOMES[name]}"), name)
