"""Prepares the folder of a task, and checks what became of it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError, WorkspaceError
from newel.evals.links import FILES
from newel.evals.task import Attempt, Task, TaskCheck, TaskError, check_links
from newel.storage.files import open_regular, read_regular
from newel.storage.folder_removal import remove_folder
from newel.workspace.port import Workspace

SETUP_TIMEOUT_S: Final = 60.0
_SHOWN: Final = 400
"""Characters of a command's output in the reason why a check failed."""

_IGNORED: Final = frozenset({".git", "__pycache__", ".pytest_cache", "node_modules"})
"""Folders in which a change counts for no check."""

_COMPILED: Final = "__pycache__"
_MOST_READ: Final = 64 << 20
_MOST_HASHED: Final = 1 << 30
"""Bytes. An agent can make a file of a size that nothing could ever read."""

OpenFolder = Callable[[Path], AbstractAsyncContextManager[Workspace]]
"""Opens a folder in which commands run as an agent's do: in a sandbox, and without what they leave running once it is closed."""

FileHashes = dict[str, str]
"""The SHA-256 of each file of a project by its path; of a link, that of its target with ``->`` before it."""


class Reply(msgspec.Struct, frozen=True):
    """What an agent has said: its last ``answer``, and how many ``questions`` it has asked."""

    answer: str = ""
    questions: int = 0


class CheckResult(msgspec.Struct, frozen=True):
    """``what`` names the check; ``problem`` says why it failed, and is empty if it did not."""

    what: str
    problem: str = ""


async def prepare(task: Task, project: Path, open_folder: OpenFolder) -> FileHashes:
    """Create the project of a task in a folder that does not exist, and return its files. Raises ``TaskError``."""
    missing = [program for program in task.requires if shutil.which(program) is None]
    if missing:
        raise TaskError(f"{task.name} needs {' and '.join(missing)}, which this machine does not have.")
    await anyio.to_thread.run_sync(_write_initial, task, project)
    if task.setup:
        async with open_folder(project) as workspace:
            await _run(workspace, task.setup, f"The setup of {task.name}")
    return await hash_files(project)


async def attempt(task: Task, tried: Attempt, project: Path, open_folder: OpenFolder) -> None:
    """Do what an attempt says. Raises ``TaskError``."""
    meanwhile = task.review.meanwhile if task.review else ""
    for command in (meanwhile, tried.run):
        if command is tried.run:
            await anyio.to_thread.run_sync(write_files, project, tried.files)
        if command:
            async with open_folder(project) as workspace:
                await _run(workspace, command, f"A command of {task.name}")


async def run_checks(
    task: Task, project: Path, before: FileHashes, reply: Reply, open_folder: OpenFolder
) -> list[CheckResult]:
    """What each check finds. ``before`` are the files that ``prepare`` made. Files first: commands may
    leave some behind.
    """
    await anyio.to_thread.run_sync(_make_checkable, project)
    after = await hash_files(project)
    problems: dict[TaskCheck, str] = {}
    for check in task.checks:
        if not check.run:
            problems[check] = await anyio.to_thread.run_sync(
                _problem_of, check, project, reply, before, after
            )
    if commands := [check for check in task.checks if check.run]:
        try:
            async with open_folder(project) as workspace:
                for check in commands:
                    problems[check] = await _problem_of_command(check, workspace)
        except NewelError as error:  # the agent may have removed its folder
            problems |= dict.fromkeys(commands, f"it cannot be run: {error}")
    return [CheckResult(describe(check), problems[check]) for check in task.checks]


def _problem_of(check: TaskCheck, project: Path, reply: Reply, before: FileHashes, after: FileHashes) -> str:
    if check.answer or check.no_answer:
        return _problem_of_answer(check, reply.answer)
    if check.asked is not None:
        if check.asked == (reply.questions > 0):
            return ""
        return "it has not asked" if check.asked else "it has asked"
    return _problem_of_file(check, project) if check.file else _problem_of_changes(check, before, after)


def describe(check: TaskCheck) -> str:
    """What a check is about, as its author says, or else what it does."""
    if check.why:
        return check.why
    if check.run:
        return f"run {_first_line(check.run)}"
    if check.file:
        return f"file {check.file}"
    if check.unchanged:
        return f"unchanged {', '.join(check.unchanged)}"
    if check.only is not None:
        return f"only {', '.join(check.only) or 'nothing'} changed"
    if check.asked is not None:
        return "asked the user" if check.asked else "asked nothing"
    return f"answer {check.answer or 'without ' + check.no_answer}"


async def hash_files(project: Path) -> FileHashes:
    def hash_all() -> FileHashes:
        hashes: FileHashes = {}
        for path, is_folder in walk(project):
            if not is_folder:
                hashes[_printable(path.relative_to(project))] = _hash(path)
        return hashes

    return await anyio.to_thread.run_sync(hash_all)


def walk(project: Path) -> Iterator[tuple[Path, bool]]:
    """All files and links, and with True the ignored folders. A folder that cannot be listed, as it is closed or
    too deep, counts as a file. Without recursion: an agent can make a thousand folders in one another.
    """
    folders = [project]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            yield folder, False
            continue
        for entry in entries:
            path = Path(entry.path)
            if entry.name in _IGNORED and os.path.isdir(path):  # noqa: PTH112 — raises nothing
                yield path, True
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                yield path, False


def _printable(path: Path) -> str:
    """As text: names may be any bytes."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _hash(path: Path) -> str:
    try:
        if path.is_symlink():
            return f"->{_printable(path.readlink())}"
        with open_regular(path) as file:
            info = os.fstat(file.fileno())
            if info.st_size > _MOST_HASHED:
                return f"{info.st_size} bytes, changed at {info.st_ctime_ns}"
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
            return digest.hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _make_checkable(project: Path) -> None:
    """Open a folder that the agent has closed, and remove compiled modules: Python may load them in place of sources that are as they
    were.
    """
    with contextlib.suppress(OSError):
        project.chmod(0o700)
    for path, is_folder in list(walk(project)):
        if is_folder and path.name == _COMPILED:
            if path.is_symlink():
                path.unlink(missing_ok=True)
            else:
                remove_folder(path)


def _write_initial(task: Task, project: Path) -> None:
    check_links(task.folder)  # it may have changed since it was loaded
    try:
        if (task.folder / FILES).is_dir():
            shutil.copytree(task.folder / FILES, project, symlinks=True)
        project.mkdir(parents=True, exist_ok=True)
        write_files(project, task.files)
    except OSError as error:
        raise TaskError(f"The files of {task.name} cannot be written: {error}") from error


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts to paths below a folder. Raises ``TaskError`` if there is a link in the way: this process is in no sandbox that would
    keep it there.
    """
    for name, text in files.items():
        path = folder / name
        for part in (path, *path.parents[: len(path.relative_to(folder).parts) - 1]):
            if part.is_symlink():
                raise TaskError(f"`{name}` was not written: {part.relative_to(folder)} is a link.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


async def _run(workspace: Workspace, command: str, what: str) -> None:
    try:
        done = await workspace.run(command, timeout=SETUP_TIMEOUT_S)
    except WorkspaceError as error:
        raise TaskError(f"{what} cannot be run: {error}") from error
    if done.timed_out or done.exit_code:
        end = f"took longer than {SETUP_TIMEOUT_S:g} s" if done.timed_out else f"failed with {done.exit_code}"
        raise TaskError(f"{what} {end}: {_first_line(command)}\n{_tail(done.stderr or done.stdout)}")


async def _problem_of_command(check: TaskCheck, workspace: Workspace) -> str:
    try:
        done = await workspace.run(check.run, timeout=check.timeout)
    except NewelError as error:
        return f"it cannot be run: {error}"
    if done.timed_out:
        return f"it was ended after {check.timeout:g} s"
    if done.exit_code:
        said = _tail(done.stderr or done.stdout)
        return f"exit code {done.exit_code}{': ' + said if said else ''}"
    if check.output and not re.search(check.output, done.stdout):
        return f"its output does not match `{check.output}`{_hint(check.output, done.stdout)}: {_tail(done.stdout) or 'there was none'}"
    return ""


def _hint(pattern: str, text: str) -> str:
    """For the most common slip: a pattern for a line of a text with several."""
    if not re.search(pattern, text, re.MULTILINE):
        return ""
    return (
        " (with `(?m)` it would: `^` and `$` then match at each line, and not at the ends of the text alone)"
    )


def _problem_of_answer(check: TaskCheck, answer: str) -> str:
    if check.answer and not re.search(check.answer, answer):
        return f"the answer does not match: {_tail(answer) or 'there was none'}"
    if check.no_answer and (match := re.search(check.no_answer, answer)):
        return f"the answer has {match[0]!r}"
    return ""


def _problem_of_file(check: TaskCheck, project: Path) -> str:
    path = project / check.file
    # This process is in no sandbox, and what it finds goes to the author of the task: follow no link of a setup or an agent
    # out of the project.
    real = os.path.realpath(path.parent if check.absent else path)
    if not Path(real).is_relative_to(os.path.realpath(project)):
        return "it leads to a place outside of the project"
    try:
        if check.absent:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.lstat()
                return "it exists"
            return ""
        data = read_regular(path, _MOST_READ)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if check.equals is not None:
        return "" if data == check.equals.encode() else f"its content differs: {_tail(_text(data))}"
    text = _text(data)
    if check.contains and not re.search(check.contains, text):
        return f"it does not match `{check.contains}`{_hint(check.contains, text)}"
    if check.lacks and (match := re.search(check.lacks, text)):
        return f"it has {match[0]!r}"
    return ""


def _problem_of_changes(check: TaskCheck, before: FileHashes, after: FileHashes) -> str:
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if check.only is not None:
        wrong = [name for name in changed if not _is_one_of(name, check.only)]
    else:
        wrong = [name for name in changed if name in before and _is_one_of(name, check.unchanged)]
    return f"changed: {', '.join(wrong[:5])}{' …' if len(wrong) > 5 else ''}" if wrong else ""


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _tail(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}"


def _first_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first} …" if rest else first
