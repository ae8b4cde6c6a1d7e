"""The surroundings of an agent that is built, and the parts that it shares with its subagents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from newel.agent.ports import AgentMode, Emit, Tool
    from newel.app.hooks import AgentHooks
    from newel.app.known_context import KnownContext
    from newel.app.model_resolver import ResolvedModel
    from newel.app.notices import AgentNotices
    from newel.app.workspace_factory import WorkspaceFactory
    from newel.config.settings import Settings
    from newel.permissions.approval import AskApproval
    from newel.permissions.rule_book import RuleBook
    from newel.permissions.secret_paths import SecretPaths
    from newel.review.tracking.recording_workspace import RecorderRegistry
    from newel.session.manager import SessionManager
    from newel.tools.selection import ToolSelection
    from newel.workspace.background import BackgroundCommands
    from newel.workspace.execution_host import ExecutionHost


class AgentContext(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of an agent: its folder on a host, its session and how it opens another one, ``find_model`` for the model
    of another mode, ``ask`` for approvals, ``notices`` for what the agent's surroundings have to tell the user, ``journal`` for each event
    before any subscriber sees it, the recorders of its file changes, the tools that are ``offered``, all if it is None, and ``more_tools``
    than Newel's own. Commands can go to the ``background``, where there is one.
    """

    host: ExecutionHost
    folder: str
    session: SessionManager
    open_session: Callable[[str | None], SessionManager]
    find_model: Callable[[AgentMode], Awaitable[ResolvedModel]]
    ask: AskApproval | None = None
    notices: AgentNotices
    journal: Emit | None = None
    recorders: RecorderRegistry | None = None
    offered: ToolSelection | None = None
    more_tools: Sequence[Tool] = ()
    background: BackgroundCommands | None = None


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the tools, policies and prompts of an agent and its subagents are made of."""

    settings: Settings
    in_use: ResolvedModel
    context: AgentContext
    workspaces: WorkspaceFactory
    book: RuleBook
    secret_paths: SecretPaths
    known: KnownContext
    hooks: AgentHooks | None = None
