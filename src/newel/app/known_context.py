"""What an agent knows of the user and the project before it begins: instructions, prompts and skills."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from newel.app.workspace_factory import WorkspaceFactory
    from newel.config.settings import Settings
    from newel.context.attachments import AttachableFiles
    from newel.context.instructions import Instructions
    from newel.context.prompt_templates import Template
    from newel.context.skill_book import SkillBook
    from newel.permissions.secret_paths import SecretPaths
    from newel.workspace.port import Workspace


class KnownContext(msgspec.Struct, frozen=True, kw_only=True):
    """``skills`` is None where there are none; ``notices`` tell the user what is left out; ``attachable`` is what the text of a prompt
    template may attach.
    """

    instructions: Sequence[Instructions]
    templates: dict[str, Template]
    skills: SkillBook | None
    notices: Sequence[str]
    attachable: AttachableFiles


async def load_context(
    settings: Settings, workspaces: WorkspaceFactory, secret_paths: SecretPaths
) -> KnownContext:
    """The context of the user, on this machine, and of the project, which may be on a host."""
    from newel.app.skills import find_skills_in_use, open_book
    from newel.app.workspace_factory import guard_secrets
    from newel.context.attachments import AttachableFiles
    from newel.context.built_in_prompts import BUILT_IN
    from newel.context.file_reader import WorkspaceFolder
    from newel.context.instructions import find_instructions
    from newel.workspace.local import LocalWorkspace

    project, is_private = workspaces.workspace, secret_paths.holds_secrets
    machine = LocalWorkspace("/", environ={})  # Newel's own folder may not exist yet
    instructions = await find_instructions(
        project,
        home=WorkspaceFolder(machine, str(settings.home)),
        claude=WorkspaceFolder(machine, _claude_folder()),
        is_private=is_private,
    )
    templates = await _load_templates(settings, project, is_private)
    found = await find_skills_in_use(settings, project, is_private)
    skills = open_book(found.used, project, workspaces.works_in, is_private)
    return KnownContext(
        instructions=instructions,
        templates=skills.templates(templates, BUILT_IN) if skills else templates,
        skills=skills,
        notices=found.notices,
        attachable=AttachableFiles(guard_secrets(project, secret_paths), _why_not(secret_paths)),
    )


async def load_prompts(
    settings: Settings, project: Workspace, is_private: Callable[[str], bool]
) -> dict[str, Template]:
    """The prompt templates and skills that a user may call, by name: those of the user, on this machine, and of the project."""
    from newel.app.skills import find_skills_in_use, open_book
    from newel.context.built_in_prompts import BUILT_IN

    templates = await _load_templates(settings, project, is_private)
    found = await find_skills_in_use(settings, project, is_private)
    skills = open_book(found.used, project, project, is_private)
    return skills.templates(templates, BUILT_IN) if skills else templates


async def _load_templates(
    settings: Settings, project: Workspace, is_private: Callable[[str], bool]
) -> dict[str, Template]:
    from newel.context.built_in_prompts import BUILT_IN
    from newel.context.file_reader import WorkspaceFolder
    from newel.context.prompt_templates import CommandFolder, load_templates
    from newel.workspace.local import LocalWorkspace

    machine = LocalWorkspace("/", environ={})  # Newel's own folder may not exist yet
    prompts = [
        WorkspaceFolder(machine, f"{settings.home}/prompts"),
        CommandFolder(machine, f"{_claude_folder()}/commands"),
        WorkspaceFolder(project, f"{project.root}/.newel/prompts"),
        CommandFolder(project, f"{project.root}/.claude/commands"),
    ]
    return await load_templates(prompts, built_in=BUILT_IN, is_private=is_private)


def _claude_folder() -> str:
    """The real path of the user's: it may be a link."""
    return os.path.realpath(Path.home() / ".claude")


def _why_not(secret_paths: SecretPaths) -> Callable[[str, str], str]:
    """A prompt's text attaches only files of the project that tools read unasked."""

    def why_not(_: str, path: str) -> str:
        judged = secret_paths.judge(path)
        if judged.level == "free" and secret_paths.is_inside(path):
            return ""
        return f"the text of a prompt cannot attach it ({judged.reason or 'outside the project'}). Attach it yourself, behind the command."

    return why_not
