"""The skills of an agent: the list for its model, their instructions, and the files beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Final

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.agent.formatting import pluralize
from newel.context.file_reader import IsPrivate, none_private, read_head
from newel.context.front_matter import split_front_matter
from newel.context.prompt_expansion import with_commands
from newel.context.prompt_templates import SKILL, Template
from newel.context.skills import FILE_NAME, MAX_BYTES, Skill, read_instructions
from newel.text.format import join_names, one_line

MAX_LISTED: Final = 100
"""Skills in the list for a model."""
MAX_CHARACTERS: Final = 12_000
"""Of all descriptions together: about 3,000 tokens."""
LEAST: Final = 60
"""Characters of a description, however many skills there are."""
MAX_FILES: Final = 50
"""Files beside a skill that are named."""
MAX_DEPTH: Final = 3

HEADING: Final = """\
# Skills
Instructions for certain kinds of tasks. If a task fits the description of a skill, call `skill` with its name before you begin, and follow what it \
says. Do not guess what it says, and do not call it for other tasks."""

FindFolder = Callable[[Skill], str]
"""Returns the folder of a skill as commands of the agent see it; empty if they do not."""


class SkillBook:
    """``skills`` are those in use. ``find_folder`` tells where commands find the files of one."""

    def __init__(
        self, skills: Sequence[Skill], find_folder: FindFolder, *, is_private: IsPrivate = none_private
    ) -> None:
        self._skills = {skill.name: skill for skill in skills}
        self._find_folder = find_folder
        self._is_private = is_private

    def listing(self) -> str:
        """The part of the system prompt that names the skills; empty if there are none for the model."""
        offered = [skill for skill in self._skills.values() if skill.for_model]
        if not offered:
            return ""
        listed = offered[:MAX_LISTED]
        room = max(MAX_CHARACTERS // len(listed), LEAST)
        lines = [f"- {skill.name}: {one_line(skill.description, room)}" for skill in listed]
        if more := offered[MAX_LISTED:]:
            lines.append(
                f"- Others, without a description here: {join_names([skill.name for skill in more], shown=100)}"
            )
        return "\n".join([HEADING, *lines])

    def templates(self, taken: dict[str, Template], fixed: Sequence[Template]) -> dict[str, Template]:
        """The commands of the skills that a user may call, besides those that are ``taken``. One of the user's own replaces a template of
        its name unless that is ``fixed``; one of a project replaces none.
        """
        kept = {template.name for template in fixed if taken.get(template.name) is template}
        commands: dict[str, Template] = {}
        for skill in self._skills.values():
            if not skill.for_user:
                continue
            is_free = skill.name not in taken or not (skill.is_of_project or skill.name in kept)
            hint = skill.hint or ("arguments" if skill.takes_arguments else "")
            commands[skill.name if is_free else f"{SKILL}{skill.name}"] = Template(
                skill.name, skill.description, "", skill.path, hint=hint, style="claude", is_skill=True
            )
        return dict(sorted((taken | commands).items()))

    async def instructions(self, name: str, arguments: str = "") -> str:
        """What a skill says. Raises ``WorkspaceError``."""
        skill = self._find(name)
        front = split_front_matter(await read_instructions(skill, is_private=self._is_private))
        if front.problem:
            raise WorkspaceError(f"{skill.path}:{front.problem_line}: {front.problem}.")
        folder = self._find_folder(skill)
        body = front.body.strip().replace(
            "${CLAUDE_SKILL_DIR}", folder or f"(the folder of the skill {skill.name})"
        )
        template = Template(skill.name, "", body, skill.path, style="claude")
        text = with_commands(template.expand(arguments))
        where = f' folder="{folder}"' if folder else ""
        return f'<skill name="{skill.name}"{where}>\n{text}\n</skill>'

    async def for_model(self, name: str, file: str, arguments: str) -> str:
        """The answer to a model that asks for a skill, or for a file beside it. Raises ``WorkspaceError``."""
        skill = self._find(name)
        if not skill.for_model:
            raise WorkspaceError(f"The skill {name} is for the user to call: they enter /{name}.")
        if file and file != FILE_NAME:
            return await self._file(skill, file)
        text = await self.instructions(name, arguments)
        files = await self._files(skill)
        return f"{text}\n\n{self._about(skill, files)}" if files else text

    def _find(self, name: str) -> Skill:
        if skill := self._skills.get(name.removeprefix(SKILL)):
            return skill
        names = [skill.name for skill in self._skills.values() if skill.for_model]
        raise WorkspaceError(
            f"There is no skill {one_line(name, 80)!r}. The skills are: {join_names(names, shown=50)}."
        )

    def _about(self, skill: Skill, files: Sequence[str]) -> str:
        named = join_names(files, shown=MAX_FILES)
        read = f'Read one with `skill` (name="{skill.name}", file="…") when the text refers to it.'
        if folder := self._find_folder(skill):
            return f"{pluralize(len(files), 'file')} in {folder}: {named}. {read} Commands find them there."
        return (
            f"{pluralize(len(files), 'file')} beside it: {named}. {read} They are on the user's machine: commands on this host do not find "
            "them. To run a script, write it to the host first."
        )

    async def _files(self, skill: Skill) -> list[str]:
        found: list[str] = []
        try:
            await self._collect(skill, PurePosixPath(), found)
        except HostUnavailable:
            raise
        except WorkspaceError:  # the instructions are worth more than the list
            pass
        return found

    async def _collect(self, skill: Skill, below: PurePosixPath, found: list[str]) -> None:
        for entry in await skill.folder.workspace.list(str(PurePosixPath(skill.root) / below), limit=1_000):
            path = below / entry.name
            if entry.name.startswith(".") or str(path) == FILE_NAME or len(found) > MAX_FILES:
                continue
            if entry.kind == "file":
                found.append(str(path))
            elif entry.kind == "directory" and not entry.is_link and len(path.parts) < MAX_DEPTH:
                await self._collect(skill, path, found)

    async def _file(self, skill: Skill, file: str) -> str:
        workspace, named = skill.folder.workspace, PurePosixPath(skill.root, file)
        real = await workspace.resolve(str(named))
        if not PurePosixPath(real).is_relative_to(skill.root) or self._is_private(real):
            raise WorkspaceError(f"{one_line(file)} is not a file of the skill {skill.name}.")
        head = await read_head(workspace, real, MAX_BYTES)
        if not head.is_text:
            raise WorkspaceError(f"{one_line(file)} is not a text file.")
        text, cut = head.text(MAX_BYTES)
        return f"{text}\n[Truncated: {cut:,} bytes are omitted.]" if cut else text or "The file is empty."
