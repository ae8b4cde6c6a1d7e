"""The draft in the editor of the user's choice."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Final

import anyio

from newel.agent.errors import UsageError
from newel.text.format import one_line
from newel.workspace.process.own_programs import own_environ, own_path

_USUAL: Final = ("vi", "nano")


def editor_command() -> list[str]:
    """The command of ``VISUAL``, else of ``EDITOR``, else of an editor that most systems have. Raises ``UsageError``."""
    for name in ("VISUAL", "EDITOR"):
        if not (value := os.environ.get(name, "").strip()):
            continue
        try:
            command = shlex.split(value)
        except ValueError as error:
            raise UsageError(f"${name} is not a valid command ({error}): {one_line(value, 80)}") from error
        if shutil.which(command[0], path=own_path()) is None:
            raise UsageError(
                f"The editor {one_line(command[0], 80)} of ${name} was not found. Set ${name} to one that is installed."
            )
        return command
    for name in _USUAL:
        if shutil.which(name, path=own_path()):
            return [name]
    raise UsageError("There is no editor. Set VISUAL or EDITOR to one, such as `export EDITOR=nano`.")


async def edit(text: str, command: list[str]) -> str:
    """The text as the editor leaves it. The terminal must be free for it. Raises ``UsageError`` if the editor fails."""
    # In a private folder, which goes with all that the editor leaves in it.
    with tempfile.TemporaryDirectory(prefix="newel-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "message.md")
        _write(path, text and f"{text}\n")
        try:
            await edit_file(path, command)
        except UsageError as error:
            raise UsageError(f"{error} The draft is as it was.") from error
        try:
            return _read(path).removesuffix("\n")
        except OSError as error:
            raise UsageError(
                f"The editor left no file ({error.strerror}). The draft is as it was."
            ) from error


async def edit_file(path: Path, command: list[str]) -> None:
    """Open a file in the editor, and wait for its end. The terminal must be free for it. Raises ``UsageError`` if it fails."""
    process = await anyio.open_process(
        [*command, str(path)], stdin=None, stdout=None, stderr=None, env=own_environ()
    )
    try:
        code = await process.wait()
    except BaseException:
        process.kill()
        raise
    if code:
        raise UsageError(f"The editor {one_line(command[0], 80)} ended with exit code {code}.")


def _write(path: Path, text: str) -> None:
    path.write_text(text, errors="replace")


def _read(path: Path) -> str:
    return path.read_text(errors="replace")
