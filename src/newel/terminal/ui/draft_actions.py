"""Keys that change the draft with another program: the editor, and the one that reads the clipboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from newel.agent.errors import NewelError
from newel.terminal.ui.clipboard import PastedImages, read_clipboard
from newel.terminal.ui.editor import edit, edit_file, editor_command
from newel.terminal.ui.input_modes import typed_text


class DraftActions:
    """``turn`` is held while something else has the input, ``suspend`` frees the terminal for another program, and
    ``note`` tells the user about an error.
    """

    def __init__(
        self,
        buffer: Buffer,
        images: PastedImages,
        *,
        turn: anyio.Lock,
        suspend: Callable[[], AbstractAsyncContextManager[None]],
        note: Callable[[str], None],
    ) -> None:
        self._buffer = buffer
        self._images = images
        self._turn = turn
        self._suspend = suspend
        self._note = note

    async def edit(self) -> None:
        await self._safely(self._edit)

    async def paste(self) -> None:
        """Insert what is in the clipboard."""
        await self._safely(self._paste)

    async def edit_file(self, path: Path) -> None:
        """Open another file than the draft in the editor. Raises ``UsageError``."""
        command = editor_command()
        async with self._turn, self._suspend():
            await edit_file(path, command)

    async def _edit(self) -> None:
        command = editor_command()
        async with self._turn:
            async with self._suspend():
                edited = await edit(typed_text(self._buffer), command)
            self._buffer.save_to_undo_stack()
            self._buffer.document = Document(edited)

    async def _paste(self) -> None:
        async with self._turn:
            pasted = await read_clipboard()
            self._buffer.insert_text(pasted if isinstance(pasted, str) else self._images.add(pasted))

    async def _safely(self, action: Callable[[], Awaitable[None]]) -> None:
        try:
            await action()
        except NewelError as error:
            self._note(str(error))
