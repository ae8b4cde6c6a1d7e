"""The system prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from newel.agent.ports import ToolSpec
from newel.context.instructions import Instructions, as_block
from newel.tools import skill

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


DOCS = """\
# Newel itself
Answer questions about Newel (its settings, permissions, hooks, undo …) from its documentation, not from memory: `newel docs` lists \
the pages, `newel docs PAGE` prints one, `newel docs WORD` finds words in them."""

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
    project's folder if ``cwd`` is a copy of it, ``plans`` tells that the agent begins with a plan, ``subagent`` that it is one, and whether
    it only reads. ``skills`` names the skills, for a model that has the tool. ``has_docs`` tells that commands can run ``newel docs``.
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
    skills: str = ""
    has_docs: bool = False


def system_prompt(context: PromptContext, tools: Sequence[ToolSpec]) -> str:
    """The system prompt: role and manner, tools, skills, AGENTS.md files in order, place and date."""
    parts = [context.manner.strip()] if context.manner else [ROLE, MANNER]
    names = {tool.name for tool in tools}
    if tools:
        parts.append(_tools(tools))
    if context.has_docs and "bash" in names and not context.manner and context.subagent is None:
        parts.append(DOCS)
    if context.skills and skill.NAME in names:
        parts.append(context.skills)
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
        parts += [as_block(file.path, file.text) for file in used]
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
