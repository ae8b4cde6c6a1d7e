"""``bash``: run a shell command in the working directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from newel.agent.ports import OnOutput, Planned, ToolResult, Touch
from newel.agent.tool_executor import EXCLUSIVE
from newel.tools.base import Parameters, TypedTool
from newel.tools.file_tool import FileTracker
from newel.workspace.port import CommandResult, TimeLimit, Workspace

if TYPE_CHECKING:
    from newel.workspace.background import BackgroundCommand, BackgroundCommands

BACKGROUND: Final = "background"
"""The entry of a result's details with the id of a command that went to the background."""

MAX_CHANGES: Final = 20
"""Files in the details of a result."""

MAX_LISTED: Final = 10
"""Running processes that are named."""


class BashParameters(Parameters, frozen=True):
    command: Annotated[str, Meta(description="Shell command to execute", min_length=1)]
    timeout: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="Seconds until the command is stopped. Omit for the default."),
    ] = None


InBackground = Annotated[
    bool,
    Meta(
        description="True returns at once and lets the command run on, such as a server or a long build, until it ends or the session does. `bash_output` reads its output."
    ),
]
Unsandboxed = Annotated[
    bool,
    Meta(
        description="True runs the command outside of the sandbox, if the user agrees: only for what cannot work inside, such as `git push`."
    ),
]


class UnsandboxedParameters(BashParameters, frozen=True):
    unsandboxed: Unsandboxed = False


class BackgroundParameters(BashParameters, frozen=True):
    run_in_background: InBackground = False


class AllParameters(BackgroundParameters, frozen=True):
    unsandboxed: Unsandboxed = False


OUTSIDE_SANDBOX: Final = "outside of the sandbox: it can do whatever you can"


class BashTool(TypedTool[BashParameters]):
    """A command that runs to its end is a success, whatever its exit code: for many, failing is a result. ``is_error`` means
    that it did not run, or was stopped. With ``may_leave`` the model may ask to run one outside of the sandbox. Commands can go to the
    ``background``, if the user wants it, and with ``offers_background`` also if the model does, which then has ``bash_output``, too.
    """

    name = "bash"
    label = "Execute Shell Command"
    read_only = False
    parameters = BashParameters

    def __init__(
        self,
        workspace: Workspace,
        tracker: FileTracker | None = None,
        *,
        timeout: float = 30,
        max_timeout: float = 600,
        may_leave: bool = False,
        background: BackgroundCommands | None = None,
        offers_background: bool = False,
    ) -> None:
        self.may_leave = may_leave
        self.parameters = _PARAMETERS[may_leave, offers_background]
        self._background = background
        self._offers_background = offers_background
        self._workspace = workspace
        self._tracker = tracker or FileTracker()
        self._timeout = timeout
        self._max_timeout = max(timeout, max_timeout)
        self.description = (
            "Execute a bash command in the working directory. Standard input is closed; `2>&1` keeps both outputs in order. "
            f"A command is stopped after {timeout:g} seconds; to change that, set `timeout` "
            f"(at most {self._max_timeout:g})."
        )

    async def serial_key(self, _: BashParameters, /) -> str:
        """A command may touch anything, so it runs alone."""
        return EXCLUSIVE

    async def preview(self, arguments: BashParameters, /) -> str:
        return arguments.command

    async def plan(self, arguments: BashParameters, /) -> Planned:
        """Binds the call to the folder that the command runs in."""
        root = self._workspace.root
        folder = Touch(await self._workspace.resolve(root), root, writes=True)
        return Planned(
            partial(self.preview, arguments),
            partial(self.execute, arguments),
            [folder],
            warning=OUTSIDE_SANDBOX if _is_unsandboxed(arguments) else "",
        )

    async def execute(self, arguments: BashParameters, on_output: OnOutput, /) -> ToolResult:
        in_background = _is_in_background(arguments)
        timeout = min(self._max_timeout, arguments.timeout or self._timeout)
        limit = TimeLimit(arguments.timeout or None if in_background else timeout)
        command: BackgroundCommand | None = None
        if self._background is not None:
            from newel.workspace.background import BackgroundCommand

            command = BackgroundCommand(self._background, arguments.command, limit, on_output)
            if in_background:
                command.detach(keep_limit=True)
        done = await self._workspace.run(
            arguments.command,
            timeout=limit,
            on_output=on_output,
            unsandboxed=_is_unsandboxed(arguments),
            detachable=command,
        )
        self._tracker.printed(done.stdout)
        if done.background:
            return self._in_background(arguments, done)
        return ToolResult(
            output=self._output(done, timeout),
            details={
                "command": arguments.command,
                "exitCode": done.exit_code,
                "duration": done.duration,
                "truncated": done.truncated,
                "outputFile": done.output_file,
                "timedOut": done.timed_out,
            }
            | ({"leftRunning": list(done.left_running)} if done.left_running else {})
            | _changes(done),
            is_error=done.timed_out,
            whole=done.whole,
        )

    def _in_background(self, arguments: BashParameters, done: CommandResult) -> ToolResult:
        whose = (
            "It runs"
            if _is_in_background(arguments)
            else "The user has moved it to the background: it runs on"
        )
        reads = (
            " `bash_output` reads its output, waits for its end or ends it."
            if self._offers_background
            else ""
        )
        output = done.stdout.removesuffix("\n")
        so_far = f"output so far:\n{output}\n" if output else ""
        return ToolResult(
            output=f"{so_far}{whose} in the background as {done.background}.{reads} You will be told when it has ended.",
            details={"command": arguments.command, "duration": done.duration, BACKGROUND: done.background}
            | _changes(done),
        )

    def _output(self, done: CommandResult, timeout: float) -> str:
        text = (
            f"stdout:\n{done.stdout.removesuffix(chr(10))}\n"
            f"stderr:\n{done.stderr.removesuffix(chr(10))}\n"
            f"exit code: {done.exit_code}"
        )
        return "\n".join([text, *self._endings(done, timeout)])

    def _longest(self) -> str:
        how = (
            "with `run_in_background`"
            if self._offers_background
            else "in the background, with its output in a file"
        )
        return f"This is the longest timeout: run the command {how}."

    def _endings(self, done: CommandResult, timeout: float) -> Iterator[str]:
        """Notes for the model on how the command ended."""
        running = _still_running(done.left_running)
        if done.timed_out:
            ending = f", but {running}." if running else ", with every process it had started."
            longer = (
                f"If it needs longer, set a larger `timeout` (at most {self._max_timeout:g})."
                if timeout < self._max_timeout
                else self._longest()
            )
            yield f"Stopped after {timeout:g} seconds{ending} {longer}"
            return
        if running:
            yield f"{running}."
        if done.left_open:
            running = "" if running else "A process that the command started is still running. "
            how = (
                "with `run_in_background`"
                if self._offers_background
                else "with their output in a file: `command > out.log 2>&1 &`"
            )
            yield f"{running}Further output of background processes is lost. To keep it, start them {how}."


_PARAMETERS: Final = {
    (False, False): BashParameters,
    (True, False): UnsandboxedParameters,
    (False, True): BackgroundParameters,
    (True, True): AllParameters,
}
"""By whether a command may leave the sandbox, and run in the background."""


def _is_unsandboxed(arguments: BashParameters) -> bool:
    return isinstance(arguments, UnsandboxedParameters | AllParameters) and arguments.unsandboxed


def _is_in_background(arguments: BashParameters) -> bool:
    return isinstance(arguments, BackgroundParameters) and arguments.run_in_background


def _changes(done: CommandResult) -> dict[str, Any]:
    """The files that the command has changed, for the screen: the first ones, and how many there are."""
    if not done.changed:
        return {}
    listed = [
        {"path": file.path, "kind": file.kind, "added": file.added, "removed": file.removed}
        for file in done.changed[:MAX_CHANGES]
    ]
    return {"changes": listed, "changedFiles": len(done.changed)}


def _still_running(processes: Sequence[str]) -> str:
    """``1 process of this command is still running: sleep 600 (pid 123)``; empty if there is none."""
    if not processes:
        return ""
    listed = ", ".join(processes[:MAX_LISTED]) + (", …" if len(processes) > MAX_LISTED else "")
    many = "process of this command is" if len(processes) == 1 else "processes of this command are"
    return f"{len(processes)} {many} still running: {listed}"
