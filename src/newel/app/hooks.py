"""Connects an agent with the hooks of its user and its project."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from newel.concurrency import task_group
from newel.hooks import CLAUDE_SETTINGS, project_files, user_files
from newel.hooks.call_hooks import CallHooks
from newel.hooks.conversation_hooks import ConversationHooks, SubagentHooks
from newel.hooks.hook import Hook
from newel.hooks.hook_files import HookSet, WrittenHook, check_hook, read_hook_files
from newel.hooks.hook_listing import HookResult, HookRow, RowState
from newel.hooks.hook_runner import HookPlace, HookRunner
from newel.hooks.hook_trust import HookTrust, State, fingerprint
from newel.hooks.hooked_policy import HookedJudge, HookedPolicy
from newel.hooks.hooked_run import HookedTransport
from newel.text.format import pluralize
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.agent.agent import AgentTransport
    from newel.agent.ports import Policy
    from newel.app.workspace_factory import WorkspaceFactory
    from newel.config.settings import Settings
    from newel.hooks.hook_runner import Report
    from newel.permissions.approval import Approval, ApprovalMode, ApprovalRequest, AskApproval
    from newel.permissions.rule_book import CallJudge
    from newel.session.coding_agent import CodingAgent
    from newel.workspace.execution_host import ExecutionHost

MODES: Final[Mapping[str, str]] = {
    "auto": "bypassPermissions",
    "ask": "default",
    "review": "acceptEdits",
    "plan": "plan",
    "read-only": "plan",
}
"""The approval modes as Claude Code calls what is most like them."""

NOTICE_GRACE_S: Final = 2.0
"""Seconds for ``Notification`` hooks after the question was answered."""

END_GRACE_S: Final = 60.0
"""For all ``SessionEnd`` hooks together."""

UNTRUSTED: Final = "Hooks of this project do not run, because you have not trusted them: {files}. To see them: newel hooks list. To decide: newel hooks trust"

UNREADABLE: Final = "Hooks of this project that you have trusted do not run any more, because of a mistake in {files}. To see it: newel hooks check"


class ProjectHooks(msgspec.Struct, frozen=True):
    """The hooks of one file of a project, the user's decision about this ``fingerprint`` of them, and what is wrong with the file."""

    file: Path
    hooks: Sequence[Hook]
    fingerprint: str
    state: State
    problems: Sequence[str]


class LoadedHooks(msgspec.Struct, frozen=True):
    """All hooks that there are. ``problems`` are those of the user's files."""

    user: Sequence[Hook]
    project: Sequence[ProjectHooks]
    problems: Sequence[str]

    def all_problems(self) -> list[str]:
        return [*self.problems, *(problem for each in self.project for problem in each.problems)]

    def active(self) -> list[Hook]:
        """Those that run."""
        return [
            *self.user,
            *(hook for each in self.project if each.state == "trusted" for hook in each.hooks),
        ]


_ROW_STATES: Final[Mapping[State, RowState]] = {
    "trusted": "on",
    "declined": "declined",
    "undecided": "untrusted",
}


def hook_rows(loaded: LoadedHooks, results: Mapping[Hook, HookResult] | None = None) -> list[HookRow]:
    """All hooks that there are, the user's first. ``results`` are those of the runner that has them."""
    found = results or {}
    rows = [HookRow(hook, "on", found.get(hook)) for hook in loaded.user]
    for of_file in loaded.project:
        rows += [HookRow(hook, _ROW_STATES[of_file.state], found.get(hook)) for hook in of_file.hooks]
    return rows


def load_hooks(settings: Settings, project: Path | None) -> LoadedHooks:
    """The hooks of the user, and of the folder ``project``, if it is given. Never raises."""
    files = user_files(home=settings.home, claude_settings=settings.hooks.claude_settings)
    read = [hooks_of_settings(settings), read_hook_files(files, "user")]
    of_project: list[ProjectHooks] = []
    trust = HookTrust(settings.home)
    for file in project_files(project, of_user=files) if project else []:
        found = read_hook_files([file], "project")
        if project is not None and (found.hooks or found.problems):
            key = fingerprint(file, found.hooks, project)
            of_project.append(ProjectHooks(file, found.hooks, key, trust.state(key), found.problems))
    problems = [problem for each in read for problem in each.problems]
    return LoadedHooks([hook for each in read for hook in each.hooks], of_project, problems)


def unused_claude_hooks(settings: Settings) -> str:
    """That the user has hooks of Claude Code that do not run, and how to run them; empty if there are none. Never raises."""
    file = Path.home() / CLAUDE_SETTINGS
    if settings.hooks.claude_settings or settings.hooks.disabled:
        return ""
    count = len(read_hook_files([file], "user").hooks)
    if not count:
        return ""
    return (
        f"{escape_line(str(file))} has {pluralize(count, 'hook')} that Newel does not run. "
        "To run them, too: newel config set hooks.claude_settings true"
    )


def hooks_of_settings(settings: Settings) -> HookSet:
    """The hooks of ``config.toml``."""
    from newel.text.toml import line_of_key

    entries = settings.hooks.entries()
    if not entries:
        return HookSet()
    path = settings.home / "config.toml"
    text = path.read_text(errors="replace") if path.is_file() else ""
    checked: list[Hook | str] = []
    for event, hooks in entries.items():
        for index, entry in enumerate(hooks):
            written = WrittenHook(
                command=entry.command,
                args=None if entry.args is None else tuple(entry.args),
                timeout=entry.timeout,
                condition=entry.condition,
            )
            line = line_of_key(text, ("hooks", event, str(index), "command"))
            checked.append(
                check_hook(written, event=event, matcher=entry.matcher, file=path, line=line, level="user")
            )
    return HookSet(
        [each for each in checked if isinstance(each, Hook)],
        [each for each in checked if isinstance(each, str)],
    )


def open_agent_hooks(
    settings: Settings,
    host: ExecutionHost,
    workspaces: WorkspaceFactory,
    report: Report,
    functions: Sequence[Hook] = (),
) -> AgentHooks | None:
    """The hooks for an agent, before the ``functions`` of extensions; None if there are none, and there is nothing to tell. On a host, only
    the user's run, on this machine.
    """
    project = None if host.connection else Path(host.name)
    loaded = load_hooks(settings, project)
    undecided = [each.file for each in loaded.project if each.hooks and each.state == "undecided"]
    trusted = [each for each in loaded.project if each.state == "trusted"]
    problems = [*loaded.problems, *(problem for each in trusted for problem in each.problems)]
    trust = HookTrust(settings.home)
    unreadable = [each.file for each in loaded.project if not each.hooks and trust.has_trusted(each.file)]
    for told, files in ((UNTRUSTED, undecided), (UNREADABLE, unreadable)):
        if files and project:
            names = ", ".join(escape_line(os.path.relpath(file, project)) for file in files)
            problems.append(told.format(files=names))
    if not (loaded.user or loaded.project or functions or problems):
        return None
    folder = str(project or settings.cwd)
    runner = HookRunner(
        [*loaded.active(), *functions],
        project=folder,
        is_unchanged=partial(_is_unchanged, settings.home, loaded, project),
        report=report,
    )
    return AgentHooks(
        runner,
        _place(host, workspaces, folder),
        problems,
        lambda: [
            *hook_rows(loaded, runner.results),
            *(HookRow(hook, "on", runner.results.get(hook)) for hook in functions),
        ],
    )


def _is_unchanged(home: Path, loaded: LoadedHooks, project: Path | None, hook: Hook, folder: str) -> bool:
    if hook.level == "user" or project is None:
        return True
    of_file = next(each for each in loaded.project if each.file == hook.file)
    return HookTrust(home).state(fingerprint(of_file.file, of_file.hooks, project, folder)) == "trusted"


def _place(host: ExecutionHost, workspaces: WorkspaceFactory, folder: str) -> HookPlace:
    root = workspaces.works_in.root
    if host.connection is not None:
        return HookPlace(folder=folder, root=root, home=host.home)
    return HookPlace(
        folder=root,
        root=root,
        home=host.home,
        copy_of=workspaces.workspace.root if workspaces.isolated else "",
        recording=workspaces.recorded,
    )


class AgentHooks:
    """The hooks of an agent and its subagents. ``rows`` lists them for the user."""

    def __init__(
        self,
        runner: HookRunner,
        place: HookPlace,
        problems: Sequence[str],
        rows: Callable[[], Sequence[HookRow]],
    ) -> None:
        self._runner = runner
        self._agent: CodingAgent | None = None
        self._calls = CallHooks(runner, place, self._facts)
        self._conversation = ConversationHooks(runner, place, self._facts)
        self._conversation.problems += problems
        self.rows = rows

    def _facts(self) -> dict[str, Any]:
        agent = self._agent
        if agent is None:
            return {}
        return {
            "session_id": agent.session.get_id(),
            "transcript_path": str(agent.session.get_file_path() or ""),
            "permission_mode": MODES[agent.approve],
        }

    def policies(
        self, find_policy: Callable[..., Policy], rules: CallJudge
    ) -> Callable[[ApprovalMode], Policy]:
        """Policies that ask the hooks before each call, if there are any about calls."""
        if not self._runner.has("PreToolUse"):
            return find_policy

        def find(mode: ApprovalMode) -> Policy:
            judge = HookedJudge(rules)
            return HookedPolicy(self._calls, find_policy(mode), find_policy(mode, judge=judge), judge)

        return find

    def for_agent(self, transport: AgentTransport) -> AgentTransport:
        return HookedTransport(transport, self._calls, self._conversation)

    def for_subagents(self, transport: AgentTransport) -> AgentTransport:
        return HookedTransport(transport, self._calls, SubagentHooks(self._conversation), is_subagent=True)

    def noticing(self, ask: AskApproval | None) -> AskApproval | None:
        """Asks the user, and runs the ``Notification`` hooks meanwhile."""
        if ask is None or not self._runner.has("Notification"):
            return ask

        async def ask_and_notify(request: ApprovalRequest) -> Approval:
            async with task_group() as tasks:
                tasks.start_soon(self._conversation.asked, request.title)
                answer = await ask(request)
                tasks.cancel_scope.deadline = anyio.current_time() + NOTICE_GRACE_S
            return answer

        return ask_and_notify

    def attend(self, agent: CodingAgent) -> None:
        """Belong to an agent from now on."""
        self._agent = agent
        agent.subscribe(self._conversation.on_event)
        agent.before_closing.append(self._end)
        self._runner.end_run = agent.stop
        if agent.compactor is not None and self._runner.has("PreCompact"):
            agent.compactor.may_begin = self._conversation.before_compaction

    async def _end(self) -> None:
        with anyio.move_on_after(END_GRACE_S, shield=True):
            await self._conversation.end()
