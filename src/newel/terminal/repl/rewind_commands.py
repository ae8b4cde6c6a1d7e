"""``/rewind``: back to before one of the user's prompts, with the conversation, the files, or both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from newel.agent.formatting import pluralize
from newel.agent.messages import AssistantMessage, UserMessage
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.terminal.commands import CommandContext
from newel.terminal.review.run_notice import NOT_RECORDING
from newel.text.format import join_names, one_line

if TYPE_CHECKING:
    from newel.review.project import ProjectReview
    from newel.review.store.ledger import Checkpoint
    from newel.session.message_tree import TreeEntry

BOTH: Final = "the conversation and the files"
TALK: Final = "the conversation only: the files stay as they are"
FILES: Final = "the files only: the conversation goes on"

_RECORDED: Final = frozenset({"bash", "write", "edit"})
"""Tools whose changes are recorded."""


class _Prompt(NamedTuple):
    """A prompt of the active branch, how it was typed, and the runs that have changed files since."""

    entry: TreeEntry
    message: UserMessage
    typed: str
    runs: Sequence[Checkpoint]

    @property
    def files(self) -> set[str]:
        return {file.path for run in self.runs for file in run.files}


async def rewind(context: CommandContext, _: str) -> None:
    """Choose a prompt, latest first, and what goes back."""
    project = await _project(context)
    prompts = await _prompts(context, project)
    if not prompts:
        context.say("Nothing has been said yet.")
        return
    picked = await context.pick("Back to before which prompt?", _rows(prompts))
    if picked is None:
        return
    prompt = prompts[picked]
    what = TALK
    if prompt.runs:
        ways = [BOTH, TALK, FILES]
        way = await context.pick(f"Go back to before “{one_line(prompt.typed, 50)}” with", ways)
        if way is None:
            return
        what = ways[way]
    for line in _unrecorded(context, prompt, project):
        context.say(line)
    if what != TALK and project is not None and not await _rewind_files(context, project, prompt):
        return
    if what != FILES:
        context.agent.branch(prompt.entry.parent_id)
        context.put_back(prompt.message)
        context.say("The conversation is back before this prompt. What was said later is kept: /branch.")


async def _project(context: CommandContext) -> ProjectReview | None:
    workspace = context.agent.workspace
    return await workspace.project() if isinstance(workspace, RecordingWorkspace) else None


async def _prompts(context: CommandContext, project: ProjectReview | None) -> list[_Prompt]:
    """The user's prompts, the latest first."""
    from newel.review.rewind import runs_since

    session = context.agent.session
    order = await project.order() if project else None
    return [
        _Prompt(
            entry,
            message,
            session.typed_as(message),
            runs_since(order, session.get_id(), message.timestamp) if order else (),
        )
        for entry in reversed(session.get_tree())
        if entry.active and isinstance(message := entry.said(), UserMessage) and not message.is_notice
    ]


def _rows(prompts: Sequence[_Prompt]) -> list[str]:
    """Each prompt with its number and time, as the text of several may be the same; with the date unless all are of today."""
    times = [_time_of(prompt.message) for prompt in prompts]
    today = datetime.now().astimezone().date()
    form = "%H:%M" if all(time is None or time.date() == today for time in times) else "%Y-%m-%d %H:%M"
    return [
        f"{number:>2}  {time.strftime(form) if time else ''}  {_describe(prompt)}"
        for number, prompt, time in zip(range(len(prompts), 0, -1), prompts, times, strict=True)
    ]


def _time_of(message: UserMessage) -> datetime | None:
    """Local time; None for that of a file from elsewhere that has none."""
    try:
        return datetime.fromisoformat(message.timestamp).astimezone()
    except ValueError:
        return None


def _describe(prompt: _Prompt) -> str:
    changed = f"  ({pluralize(len(prompt.files), 'file')} changed since)" if prompt.files else ""
    return f"{one_line(prompt.typed, 70)}{changed}"


def _unrecorded(context: CommandContext, prompt: _Prompt, project: ProjectReview | None) -> list[str]:
    """What the runs since have changed, or may have, and no record restores."""
    history = context.agent.history()
    later = history[[entry.id for entry in history.entries].index(prompt.entry.id) :]
    used = {call.name for message in later.of(AssistantMessage) for call in message.tool_calls}
    changing = used & {tool.spec.name for tool in context.agent.state.tools if not tool.read_only}
    if not changing:
        return []
    if project is None:
        return [NOT_RECORDING]
    lines: list[str] = []
    if others := sorted(changing - _RECORDED):
        lines.append(f"Not recorded, so it stays: what {join_names(others)} changed.")
    last = project.last_run
    if last is not None and not last.is_recorded and last.began >= prompt.message.timestamp:
        lines.append("The last run was not recorded: what it changed stays.")
    if changing & {"write", "edit"} and not prompt.runs:
        lines.append("These runs have no recorded changes left to undo: the files stay as they are.")
    return lines


async def _rewind_files(context: CommandContext, project: ProjectReview, prompt: _Prompt) -> bool:
    """List the files, ask, and undo the runs; False if the user does not agree, or stops it."""
    from newel.review.rewind import apply_rewind, plan_rewind
    from newel.review.save_outcome import SaveProgress, SaveStopped
    from newel.terminal.review.commands import conversation_ui
    from newel.terminal.review.run_format import describe_files, describe_stopped, files_diff
    from newel.terminal.review.undo_progress import stoppable

    ui = conversation_ui(context.ui, context.agent.session)
    plan = await plan_rewind(project, prompt.runs)
    about = describe_files(plan.files, plan.conflicts)
    if not plan.files:
        ui.say(about or "The files are already as they were.")
        return True
    head = f"{pluralize(len(plan.runs), 'run')} would be undone. Your own later edits stay."
    if not await ui.confirm(
        f"{head}\n{about}", "Undo these changes?", files_diff(plan.files, ui.format_command)
    ):
        ui.say("Nothing was changed.")
        return False
    progress, is_done = SaveProgress(plan.writes), False
    async with stoppable(progress, "Undo", ui):
        try:
            done = await apply_rewind(project, plan, progress)
        except SaveStopped:
            ui.say(describe_stopped(progress, is_redo=False, command="/rewind"))
        else:
            is_done = True
            paths = list(dict.fromkeys(file.path for file in done.saved))
            stays = [
                f"Stays: {conflict.reason}" for conflict in done.conflicts if conflict not in plan.conflicts
            ]
            again = "`/redo` redoes it" + (", run by run." if len(plan.runs) > 1 else ".")
            ui.say(f"Undone in {pluralize(len(paths), 'file')}: {join_names(paths)}.", *stays, again)
    return is_done
