"""If these fail, the agent is asked something else than the user typed, or gets files they did not name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio

from newel.agent.messages import UserMessage
from newel.context.attachments import AttachableFiles
from newel.context.file_reader import WorkspaceFolder
from newel.context.prompt_templates import load_templates
from newel.session.coding_agent import CodingAgent
from newel.session.typed_prompt import Prompt, prepare
from newel.workspace.local import LocalWorkspace


def keep_typed(_message: UserMessage, _typed: str) -> None:
    """What is stored is not looked at here."""


def prepared_in(folder: Path, prompt: Prompt) -> UserMessage:
    """The prepared prompt of an agent with only a folder and its templates."""
    notes: list[str] = []

    async def prepared() -> UserMessage:
        workspace = LocalWorkspace(str(folder))
        templates = await load_templates([WorkspaceFolder(workspace, str(folder / "prompts"))])
        attachable = AttachableFiles(workspace)
        parts: Any = SimpleNamespace(
            templates=templates,
            attachable=attachable,
            attachable_by_prompts=attachable,
            skills=None,
            keep_typed=keep_typed,
        )
        return await prepare(cast("CodingAgent", parts), prompt, notes.append)

    return anyio.run(prepared)


def test_a_strangers_template_cannot_attach_the_users_files(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s3cret")
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "review.md").write_text("Look at @secret.txt and at $1")
    prepared = prepared_in(tmp_path, Prompt("/review @mine.txt"))
    assert [attachment.file_name for attachment in prepared.attachments] == ["mine.txt"]
    assert prepared.text == "Look at @secret.txt and at mine.txt"


def test_piped_text_is_passed_on_unchanged(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    prepared = prepared_in(tmp_path, Prompt("what is this", piped="see @a.txt"))
    assert (prepared.text, prepared.attachments) == ("what is this\n\nsee @a.txt", [])


def test_a_path_is_not_a_command(tmp_path: Path) -> None:
    assert prepared_in(tmp_path, Prompt("/usr/bin is where?")).text == "/usr/bin is where?"
