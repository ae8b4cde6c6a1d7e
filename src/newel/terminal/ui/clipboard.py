"""The clipboard of the desktop, which Newel reads with a program of the user's own."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from newel.agent.errors import UsageError, WorkspaceError
from newel.agent.messages import Attachment
from newel.context.attachments import MAX_IMAGE_BYTES, attach_image
from newel.workspace.process.own_programs import own_environ, own_path

TIMEOUT_S: Final = 5.0

_PROGRAMS: Final = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--type", "image/png"), ("wl-paste", "--no-newline")),
    (
        "DISPLAY",
        ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
        ("xclip", "-selection", "clipboard", "-o"),
    ),
    ("", ("pngpaste", "-"), ("pbpaste",)),
)
"""The variable of a desktop, the command that writes the clipboard's image, and the one that writes its text."""


class PastedImages:
    """Images from the clipboard. A marker in a message stands for each, however the message comes back into the input."""

    def __init__(self) -> None:
        self._images: dict[str, Attachment] = {}

    def add(self, image: Attachment) -> str:
        """Keep an image; returns its marker."""
        marker = f"[{image.file_name.removesuffix('.png')}]"
        self._images[marker] = image
        return marker

    def of(self, text: str) -> list[Attachment]:
        """The images whose markers are in a text."""
        return [image for marker, image in self._images.items() if marker in text]


async def read_clipboard() -> Attachment | str:
    """The image in the clipboard, else its text. Raises ``UsageError`` if there is neither, or no program to read it."""
    path = own_path()
    for variable, *commands in _PROGRAMS:
        found = [command for command in commands if shutil.which(command[0], path=path)]
        if not found or (variable and not os.environ.get(variable)):
            continue
        image, text = [await _output(command, path) for command in commands]
        if image:
            name = f"image {secrets.token_hex(2)}.png"
            try:
                return await attach_image(image, name)
            except WorkspaceError as error:
                raise UsageError(str(error)) from error
        if text:
            return text.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
        raise UsageError("The clipboard holds no image and no text.")
    raise UsageError(
        "No program here reads the clipboard: install wl-paste (wl-clipboard), xclip or pngpaste. The path of an image "
        "attaches it, too, and your terminal's own key pastes text."
    )


async def _output(command: tuple[str, ...], path: str) -> bytes:
    """What a program writes; nothing if it fails."""
    run = partial(
        subprocess.run,
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=own_environ() | {"PATH": path},
        timeout=TIMEOUT_S,
        check=False,
    )
    try:
        done = await anyio.to_thread.run_sync(run)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"" if done.returncode or len(done.stdout) > MAX_IMAGE_BYTES else done.stdout
