"""Commands of ``newel rpc`` that list, export, and decide on changes. Loaded with the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError, SessionError
from newel.agent.messages import AssistantMessage, ToolResultMessage, UserMessage
from newel.session.coding_agent import CodingAgent
from newel.terminal.rpc import data as d
from newel.terminal.rpc import protocol as p
from newel.terminal.rpc.requests import InvalidRpcRequest

if TYPE_CHECKING:
    from newel.review.project import ProjectReview

REQUESTS: Final = {
    "clear": "new_session",
    "model": "model",
    "thinking": "thinking",
    "agent-mode": "agent_mode",
    "compact": "compact",
    "session": "name_session",
    "resume": "switch_session",
    "branch": "fork",
    "export": "export",
    "cost": "stats",
    "review": "changes",
    "keep": "decide",
    "reject": "decide",
    "undo": "undo",
    "stop": "stop",
}
"""The built-in commands of a conversation that have a request, and its name."""


class NotRecorded(NewelError):
    """There are no recorded changes."""


# -- at once ------------------------------------------------------------------------------------------


def describe(
    agent: CodingAgent, command: p.MessagesCommand | p.StatsCommand | p.CommandsCommand
) -> d.RpcData:
    """Data that is in memory."""
    match command:
        case p.MessagesCommand():
            messages = agent.history()
            first = 0 if command.limit is None else max(len(messages) - command.limit, 0)
            return d.MessagesData(messages=list(messages[first:]), total=len(messages))
        case p.StatsCommand():
            return stats(agent)
        case p.CommandsCommand():
            return d.CommandsData(commands=[*_templates(agent), *_builtin()])
        case _:
            assert_never(command)


def stats(agent: CodingAgent) -> d.StatsData:
    entries, totals = agent.history().entries, agent.totals()
    results = [entry for entry in entries if entry.kind is ToolResultMessage]
    return d.StatsData(
        session_id=agent.session.get_id(),
        user_messages=sum(entry.kind is UserMessage for entry in entries),
        assistant_messages=sum(entry.kind is AssistantMessage for entry in entries),
        tool_calls=len(results),
        failed_tool_calls=sum(result.is_error for result in results),
        compactions=sum(entry.is_compaction for entry in entries),
        usage=totals.usage,
        cost=totals.cost,
        context=totals.context,
        window=agent.window(),
    )


def _templates(agent: CodingAgent) -> list[d.CommandInfo]:
    return [
        d.CommandInfo(
            name=name,
            kind="template",
            description=template.description,
            arguments=template.hint,
            request="prompt",
        )
        for name, template in agent.templates.items()
    ]


def _builtin() -> list[d.CommandInfo]:
    from newel.terminal.repl.slash_commands import COMMANDS

    return [
        d.CommandInfo(
            name=command.name,
            kind="builtin",
            description=command.help,
            arguments=command.arguments,
            request=REQUESTS[command.name],
        )
        for command in COMMANDS
        if command.name in REQUESTS
    ]


# -- with files or the network ------------------------------------------------------------------------


async def perform(agent: CodingAgent, command: p.ConcurrentCommand) -> d.RpcData:
    """Data that takes reading. Raises ``NewelError`` and ``OSError``."""
    match command:
        case p.ModelsCommand():
            return d.ModelsData(models=await agent.models.list_details(), current=agent.state.model.id)
        case p.SessionsCommand():
            return await anyio.to_thread.run_sync(_sessions, agent, command)
        case p.ExportCommand():
            return await anyio.to_thread.run_sync(_export, agent, command)
        case p.ChangesCommand():
            return await _changes(await _project(agent), command.limit)
        case p.DecideCommand():
            return await _decide(agent, command)
        case _:
            assert_never(command)


def _sessions(agent: CodingAgent, command: p.SessionsCommand) -> d.SessionsData:
    from newel.session.listing import list_sessions

    folder = None if command.all else agent.workspace.name
    sessions = list_sessions(agent.session.directory, folder, limit=command.limit)
    return d.SessionsData(
        sessions=[
            d.ListedSession(
                id=entry.id,
                name=entry.name,
                first_text=entry.first_text,
                messages=entry.messages,
                modified=entry.modified,
                cwd=entry.cwd,
                path=str(entry.path),
            )
            for entry in sessions
        ]
    )


def _export(agent: CodingAgent, command: p.ExportCommand) -> d.ExportData:
    from newel.session.export import export_session, local_target
    from newel.session.masking import Masker

    data = agent.session.get_data()
    if data is None:
        raise SessionError("Nothing has been said yet, so there is nothing to export.")
    masker = Masker(agent.secrets())
    data = data if command.unmasked else masker.session(data)
    if command.path is not None:
        target = local_target(agent.workspace, command.path)
        export_session(data, target)
        return d.ExportData(path=str(target), text=None, masked=len(masker.found))
    if command.html:
        from newel.session.export.html import to_html as render
    else:
        from newel.session.export.markdown import to_markdown as render
    return d.ExportData(path=None, text=render(data), masked=len(masker.found))


# -- changes ------------------------------------------------------------------------------------------


async def _project(agent: CodingAgent) -> ProjectReview:
    from newel.review.tracking.recording_workspace import RecordingWorkspace

    workspace = agent.workspace
    if not isinstance(workspace, RecordingWorkspace):
        raise NotRecorded(
            "The changes of this agent are not recorded. See `record` in [review] of config.toml, and --ephemeral."
        )
    return await workspace.project()


async def _changes(project: ProjectReview, limit: int) -> d.ChangesData:
    from newel.review.decide import load_pending, pending_files
    from newel.review.project import recent_runs

    found = await load_pending(project)
    files = await anyio.to_thread.run_sync(pending_files, found.reviews)
    runs = await recent_runs(project, limit=limit)
    return d.ChangesData(
        pending=[msgspec.convert(file, d.FileToDecide, from_attributes=True) for file in files],
        runs=[msgspec.convert(run, d.RecordedRun, from_attributes=True) for run in runs],
        problems=[d.FileProblem(path=problem.path, reason=problem.reason) for problem in found.problems],
    )


async def _decide(agent: CodingAgent, command: p.DecideCommand) -> d.DecideData:
    from newel.permissions.nested import refuse_decision
    from newel.review.decide import decide, load_pending, overwritten_paths, select_hunks, write

    refuse_decision(command.verdict, ())
    if not command.names and not command.all:
        raise InvalidRpcRequest("Name hunks or files, or set `all`.")
    project = await _project(agent)
    choice = select_hunks(
        await load_pending(project), command.names, command.verdict, every=command.all, mine=command.mine
    )
    left = list(choice.left)
    written: list[str] = []
    if choice.picks:
        reviews = await decide(project, choice)
        if command.verdict == "keep":
            overwrite = overwritten_paths(reviews, choice.hunks)  # the client has named each of these hunks
            report = await write(project, reviews, choice.hunks, overwrite=overwrite)
            written = [saved.path for saved in report.saved]
            left += report.problems
    return d.DecideData(
        decided=[hunk for hunks in choice.hunks.values() for hunk in hunks],
        written=written,
        left=[d.FileProblem(path=problem.path, reason=problem.reason) for problem in left],
    )


async def undo(agent: CodingAgent, command: p.UndoCommand) -> d.UndoData:
    """Undo a run's changes, or plan it. Raises ``ReviewError``, ``WorkspaceError``, and ``NotRecorded``."""
    from newel.permissions.nested import refuse_decision

    refuse_decision("undo", ())
    project = await _project(agent)
    checkpoint = await project.find(command.checkpoint) if command.checkpoint else None
    plan = await (project.redo(checkpoint) if command.redo else project.undo(checkpoint))
    is_redo = await anyio.to_thread.run_sync(project.is_redo_plan, plan)
    saved = await project.apply(plan) if plan.files and not command.preview else []
    return d.UndoData(
        checkpoint_id=plan.checkpoint,
        redo=is_redo,
        done=bool(saved),
        files=[d.UndoneFile(path=file.path, patch=file.patch) for file in plan.files],
        skipped=[d.FileProblem(path=conflict.path, reason=conflict.reason) for conflict in plan.conflicts],
    )
