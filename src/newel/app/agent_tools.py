"""An agent's tools, and the policies that judge their calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newel.agent.ports import Policy, Tool
    from newel.app.agent_context import AgentContext, SharedParts
    from newel.extensions.loader import LoadedExtensions
    from newel.permissions.approval import ApprovalMode
    from newel.permissions.commands.project_view import ViewedFiles
    from newel.permissions.judgement import ProjectView
    from newel.tools.task import RunSubagent
    from newel.workspace.background import BackgroundCommands
    from newel.workspace.sandbox.policy import SandboxPolicy


async def own_tools(
    shared: SharedParts, *, run_subagent: RunSubagent | None = None, of_subagent: bool = False
) -> list[Tool]:
    """The tools that are offered of Newel's own. The ``task`` tool needs ``run_subagent``, and a subagent has none itself."""
    from newel.app.workspace_factory import guard_secrets
    from newel.tools import coding_tools

    settings, context = shared.settings, shared.context
    workspaces, secret_paths = shared.workspaces, shared.secret_paths
    policy = await context.host.policy(workspaces.works_in.root)
    may_leave = _may_leave_sandbox(context, policy)
    works_in = workspaces.works_in
    if policy is not None:
        from newel.app.sandbox import watch_commands

        is_on_host = context.host.connection is not None
        works_in = watch_commands(
            works_in, policy, context.notices, is_on_host=is_on_host, may_leave=may_leave
        )
    workspace = guard_secrets(works_in, secret_paths, policy=policy)
    room = settings.max_result * 9 // 10
    background = None if of_subagent else context.background  # those of a subagent would outlive its work
    extra = _extra_tools(shared, background, run_subagent, of_subagent=of_subagent)
    tools = coding_tools(
        workspace,
        timeout=settings.bash_timeout,
        may_leave=may_leave,
        room=room,
        background=background,
        offers_background=any(tool.spec.name == "bash_output" for tool in extra),
    )
    extra += _skill_tools(shared)
    if context.offered is None and settings.approve not in {"plan", "read-only"}:
        return tools + extra
    from newel.tools.search import search_tools

    tools += search_tools(
        workspace, list_files=workspaces.list_files, is_private=secret_paths.holds_secrets, room=room
    )
    if context.offered is not None:
        return [*context.offered.of(tools), *extra]
    return tools + extra


def _extra_tools(
    shared: SharedParts,
    background: BackgroundCommands | None,
    run_subagent: RunSubagent | None,
    *,
    of_subagent: bool,
) -> list[Tool]:
    """The tools that not every agent has, loaded if they are offered."""
    from newel.app.extra_tools import offered_extras

    offers = offered_extras(shared.settings, shared.context.offered, shared.in_use.model)
    extra: list[Tool] = []
    if not of_subagent and offers("todo"):
        from newel.tools.todo import TodoTool

        extra.append(TodoTool())
    if run_subagent is not None and offers("task"):
        from newel.tools.task import TaskTool

        extra.append(TaskTool(run_subagent))
    if background is not None and offers("bash_output"):
        from newel.tools.bash_output import BashOutputTool

        extra.append(BashOutputTool(background))
    if offers("web_fetch") and _may_fetch(shared):
        from newel.tools.web_fetch import WebFetchTool

        extra.append(WebFetchTool(shared.book.server_access, room=shared.settings.max_result * 9 // 10))
    return extra


def _may_fetch(shared: SharedParts) -> bool:
    """Whether a page of the web could be fetched: not if a rule forbids all, or nobody can be asked and nothing is allowed. Named for
    the run, the tool is offered, and says what would allow a call.
    """
    context, book = shared.context, shared.book
    if book.closes_web:
        return False
    is_asked = context.ask is not None or context.offered is not None
    return is_asked or _is_open(shared) or book.opens_web


def _is_open(shared: SharedParts) -> bool:
    """Whether commands may reach every server."""
    return shared.settings.sandbox.mode == "off"


def _skill_tools(shared: SharedParts) -> list[Tool]:
    """The tool that reads skills, where the model may use some; a small model only gets it if it is named."""
    skills, offered = shared.known.skills, shared.context.offered
    if skills is None or not skills.listing():
        return []
    from newel.app.extra_tools import is_small
    from newel.tools.skill import SkillTool

    tool = SkillTool(skills.for_model)
    if offered is not None:
        return [*offered.of([tool])]
    return [] if is_small(shared.in_use.model) else [tool]


def _may_leave_sandbox(context: AgentContext, policy: SandboxPolicy | None) -> bool:
    """Whether the model may ask to run a command outside of the sandbox: not where commands are to change nothing."""
    return context.ask is not None and policy is not None and bool(policy.writable)


def with_more(own: list[Tool], more: Sequence[Tool]) -> list[Tool]:
    from newel.agent.errors import UsageError

    names = {tool.spec.name for tool in own}
    for tool in more:
        if tool.spec.name in names:
            raise UsageError(f"The agent has a tool `{tool.spec.name}` already. Give yours another name.")
        names.add(tool.spec.name)
    return [*own, *more]


def extension_tools(shared: SharedParts, loaded: LoadedExtensions | None) -> list[Tool]:
    """The tools for an agent: in its folder or, with a host, in that in which Newel was started, where nothing is recorded."""
    if loaded is None:
        return []
    from contextlib import nullcontext
    from pathlib import Path

    from newel.extensions.recorded_tool import RecordedTool, ToolPlace

    workspaces, context = shared.workspaces, shared.context
    report = context.notices.of("extension")
    place = (
        ToolPlace(shared.settings.cwd, nullcontext, report)
        if context.host.connection is not None
        else ToolPlace(Path(workspaces.works_in.root), workspaces.recorded, report)
    )
    tools = [RecordedTool(tool, place, file) for tool, file in loaded.tools]
    return [*tools] if context.offered is None else [*context.offered.of(tools)]


def policy_finder(shared: SharedParts, own_tools: Sequence[Tool]) -> Callable[[ApprovalMode], Policy]:
    """Finds the policy of an approval mode; all have the same rules."""
    from newel.app.notices import NOT_SAVED
    from newel.permissions.approval import approval_policy
    from newel.permissions.rule_book import CallJudge
    from newel.permissions.rules import WEB
    from newel.tools.bash import BashTool

    context, workspaces, secret_paths = shared.context, shared.workspaces, shared.secret_paths

    @cache
    def open_view() -> ProjectView:
        from newel.permissions.commands.project_view import LocalViewedFiles, WorkspaceView

        files: ViewedFiles = LocalViewedFiles()
        if context.host.connection is not None:
            from newel.workspace.ssh.host_project import HostViewedFiles

            files = HostViewedFiles(context.host.connection)
        # The clone in the folder of a fleet's job borrows the objects of the job's snapshots beside it.
        job = shared.settings.home.parent
        lenders = [f"{job}/snapshots.git/objects"] if shared.settings.cwd.parent == job else []
        return WorkspaceView(workspaces.works_in, secret_paths, files, lenders)

    judge = CallJudge(shared.book, secret_paths, open_view)
    find_policy = partial(
        approval_policy,
        ask=context.ask,
        folder=context.folder,
        reviewed=[tool.spec.name for tool in own_tools] if workspaces.isolated else [],
        places=secret_paths,
        judge=judge,
        warns=any(isinstance(tool, BashTool) and tool.may_leave for tool in own_tools),
        fetches=any(tool.spec.name == WEB for tool in own_tools),
        is_open=_is_open(shared),
        report=context.notices.of(NOT_SAVED),
    )
    find = find_policy if shared.hooks is None else shared.hooks.policies(find_policy, judge)
    if not runs_subagents(own_tools):
        return find
    from newel.session.subagents import policies_of_parent

    return policies_of_parent(find)


def runs_subagents(own_tools: Sequence[Tool]) -> bool:
    return any(tool.spec.name == "task" for tool in own_tools)
