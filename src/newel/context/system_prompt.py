"""The system prompt, and the AGENTS.md files in it: instructions of the user and the project for every agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.agent.messages import Wire
from newel.agent.ports import ToolSpec
from newel.context.file_reader import (
    Head,
    IsPrivate,
    WorkspaceFolder,
    ancestors,
    none_private,
    project_depth,
    read_head,
    resolve_in_project,
)
from newel.workspace.port import FileInfo, Workspace

FILE_NAME = "AGENTS.md"
MAX_BYTES = 32 * 1024
"""Bytes of all files in the prompt together."""


class Instructions(Wire, frozen=True):
    """One AGENTS.md. ``size`` is the file's, ``cut`` the part of it that is not in ``text``, both in bytes. ``problem`` is the
    reason why an existing file is not used.
    """

    path: str
    text: str
    size: int = 0
    cut: int = 0
    problem: str | None = None


async def find_instructions(
    workspace: Workspace,
    *,
    home: WorkspaceFolder | None,
    max_bytes: int = MAX_BYTES,
    is_private: IsPrivate = none_private,
) -> list[Instructions]:
    """Find the AGENTS.md in ``home`` (the user's own), then those from the project's root down to the workspace's.

    The project's root is the nearest ancestor that holds ``.git``, or else the workspace's root. A duplicate counts once. A
    project's file may not be a link out of the project, or to what ``is_private``. Raises ``HostUnavailable``: an agent must not start without the
    project's instructions.
    """
    files: list[tuple[Workspace, str, str | None]] = []
    if home is not None:
        own_paths = [str(PurePosixPath(home.path, FILE_NAME))]
        infos = await home.workspace.stats(own_paths)
        files += [(home.workspace, path, None) for path in await _to_read(home.workspace, own_paths, infos)]
    root, paths = await _of_project(workspace)
    files += [(workspace, path, root) for path in paths]
    instructions: list[Instructions] = []
    seen: set[Head] = set()
    remaining = max_bytes
    for host, path, bounds in files:
        try:
            head = await _read(host, path, max_bytes, bounds, is_private)
        except HostUnavailable:
            raise
        except WorkspaceError as error:
            instructions.append(Instructions(path, "", problem=str(error)))
            continue
        if head in seen:
            continue
        seen.add(head)
        text, cut = head.text(remaining)
        remaining = 0 if cut else remaining - head.size  # fragments of later files would only confuse
        if cut:
            text += _cut_note(path, cut, max_bytes)
        if text.strip():
            instructions.append(Instructions(path, text, size=head.size, cut=cut))
    return instructions


def describe(instructions: Sequence[Instructions]) -> str:
    """A summary for a status line: ``AGENTS.md 1.2k`` (bytes in use), empty if there is no file."""
    used = sum(file.size - file.cut for file in instructions)
    text = f"{FILE_NAME} {max(used, 100) / 1000:.1f}k" if used else ""
    if any(file.cut for file in instructions):
        text += " (cut)"
    if any(file.problem for file in instructions):
        text = f"{text or FILE_NAME} (not all could be read)"
    return text


async def _of_project(workspace: Workspace) -> tuple[str, list[str]]:
    """The project's root, and the paths of AGENTS.md from there down to the workspace's root."""
    folders, marks = ancestors(workspace.root)
    paths = [str(PurePosixPath(folder, FILE_NAME)) for folder in folders]
    infos = await workspace.stats(marks + paths)  # in one request: a host may be far away
    depth = project_depth(infos[: len(marks)])
    return folders[depth], await _to_read(workspace, paths[depth::-1], infos[len(marks) :][depth::-1])


async def _to_read(workspace: Workspace, paths: Sequence[str], infos: Sequence[FileInfo | None]) -> list[str]:
    """The existing files, and broken links: reading those gives the error message."""
    return [
        path
        for path, info in zip(paths, infos, strict=True)
        if info is not None or await _is_broken_link(workspace, path)
    ]


async def _is_broken_link(workspace: Workspace, path: str) -> bool:
    try:
        return await workspace.stat(path) is None and await workspace.resolve(path) != path
    except HostUnavailable:
        raise
    except WorkspaceError:
        return True


async def _read(
    workspace: Workspace, path: str, limit: int, bounds: str | None, is_private: IsPrivate
) -> Head:
    resolved = await (
        workspace.resolve(path)
        if bounds is None
        else resolve_in_project(workspace, path, bounds, is_private=is_private)
    )
    head = await read_head(workspace, resolved, limit)
    if not head.is_text:
        raise WorkspaceError(f"{path} is not a text file.")
    return head


def _cut_note(path: str, cut: int, max_bytes: int) -> str:
    return (
        f"\n[Truncated: {cut:,} bytes of {path} are omitted, because all {FILE_NAME} files together may have {max_bytes:,} "
        "bytes. Read the rest from the file if it matters.]\n"
    )


ROLE = """\
You are Newel, a coding agent. You work in the user's folder through tools: read and change files, run commands, and \
report what you found or did."""

MANNER = """\
# How to work
- Do the task; do not ask for permission or only describe what could be done. Ask a question only if the request is \
ambiguous and a wrong guess would cost the user work.
- Read the code before you change it, and follow its style.
- Do all that was asked and nothing more. Do not invent files, functions or results.
- Verify each change: run the tests or the program, read the output, and fix what fails.
- If a tool reports an error, read it and try another way. Do not repeat a failed call unchanged.
- Leave no secrets in files or output. Never undo changes that you did not make.
- Be concise. When you are done, say in a few sentences what changed and how you verified it. If something does not work \
or was not tested, say so."""

SHORT = """\
You are Newel, a coding agent. You do tasks in the user's folder. Read the code before you change it. Change the code, not the \
tests, unless you are asked to. Change only what the task needs. If an action fails, read the error and try another way."""

# Sent only to a model that has the tool.
ADVICE = {
    "read": """\
`read` shows a file with line numbers, at most 5000 lines at a time. For a longer file it shows the first page and the \
number of lines: continue with offset=5001, limit=5000, then offset=10001, and so on. The line numbers are not part of the \
file.""",
    "edit": """\
`edit` replaces old_string. Copy it exactly from the file, with its white space and without line numbers. It must occur \
only once: if it does not, add surrounding lines. Prefer `edit` to `write` for an existing file.""",
    "write": "`write` creates a file or replaces a whole one.",
    "bash": """\
`bash` runs a command in the working folder. Its input is closed, so use non-interactive options. Use it to search, too \
(grep -rn, find, ls). Set a longer timeout for slow commands.""",
}


COPY = """\
# A copy
You work in {cwd}, a copy of the project. Do not change the project itself in {project}, and do not name it in commands. \
After each run the user reviews your changes in the copy and keeps or rejects each of them; rejected changes are gone from \
the copy in the next run. `write` and `edit` cannot change files elsewhere."""


PLAN = """\
# Plan first
This session begins as a plan: read and search as much as you need, and change nothing. `bash` runs only commands that read, such as `git log`. \
Ask if the task can be understood in more than one way. End with a plan: what you will change in which files, in which order, what could go \
wrong, and how you will check it. Changes are possible as soon as the user asks you to carry the plan out."""


SUBAGENT = """\
# A subagent
You are a subagent: another agent gave you the task. It gets only your last answer, and sees nothing that you read or did. Put all that \
it needs into that answer, with paths and line numbers, and be brief. Nobody answers questions: if something is unclear, say what \
you have assumed."""

READS = "You may only read: commands that may change something do not run. Describe changes instead."


class PromptContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a system prompt tells of its surroundings. ``manner`` replaces Newel's own instructions on style, ``copy_of`` is the
    project's folder if ``cwd`` is a copy of it, ``plans`` tells that the agent begins with a plan, ``subagent`` that it is one, and whether it only reads.
    """

    cwd: str
    instructions: Sequence[Instructions]
    os_name: str
    shell: str
    date: str
    manner: str | None = None
    copy_of: str | None = None
    plans: bool = False
    subagent: Literal["reads", "writes"] | None = None


def system_prompt(context: PromptContext, tools: Sequence[ToolSpec]) -> str:
    """The system prompt: role and manner, tools, AGENTS.md files in order, place and date."""
    parts = [context.manner.strip()] if context.manner else [ROLE, MANNER]
    if tools:
        parts.append(_tools(tools))
    return "\n\n".join([*parts, *_surroundings(context)]) + "\n"


def short_prompt(context: PromptContext) -> str:
    """The system prompt for a small model. The provider adds the tools, in the form that the model has to use."""
    first = context.manner.strip() if context.manner else SHORT
    return "\n\n".join([first, *_surroundings(context)]) + "\n"


def _surroundings(context: PromptContext) -> list[str]:
    parts: list[str] = []
    used = [file for file in context.instructions if file.text.strip()]
    if used:
        parts.append(
            "# Instructions of the user and the project\n"
            "Follow these instructions. Where they conflict, later ones override earlier ones, and the user's messages "
            "override all of them."
        )
        parts += [f'<instructions file="{file.path}">\n{file.text.strip()}\n</instructions>' for file in used]
    if context.copy_of is not None:
        parts.append(COPY.format(cwd=context.cwd, project=context.copy_of))
    if context.plans:
        parts.append(PLAN)
    if context.subagent is not None:
        parts.append(f"{SUBAGENT}\n{READS}" if context.subagent == "reads" else SUBAGENT)
    parts.append(
        f"# Here and now\nFolder: {context.cwd}\nSystem: {context.os_name}\nShell: {context.shell}\nDate: {context.date}"
    )
    return parts


def _tools(tools: Sequence[ToolSpec]) -> str:
    names = ", ".join(f"`{tool.name}`" for tool in tools)
    advice = "".join(f"\n- {ADVICE[tool.name]}" for tool in tools if tool.name in ADVICE)
    return (
        f"# Tools\nYou have: {names}. Call them by these names, with arguments that match their schema. Make independent "
        f"calls together. File paths are absolute, or relative to the folder below.{advice}"
    )
