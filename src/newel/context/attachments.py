"""Files that go to the model with a prompt: images as images, text as text."""

from __future__ import annotations

import os
from base64 import b64encode
from itertools import islice
from pathlib import Path

from newel.agent.errors import ToolError, WorkspaceError
from newel.agent.messages import Attachment
from newel.context.files import Head, read_head

MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_TEXT_BYTES = 256 * 1024
MAX_ENTRIES = 500
"""Names in the listing of a folder."""
MAX_SCANNED = 20_000
"""Names that are looked at, so that a folder of millions costs no more than a large one."""


def attachment_from_path(path: str | Path, *, name: str | None = None) -> Attachment:
    """The file (or the listing of a folder) as an attachment; ``name`` is what the model is told it is
    called, its path if None.

    An image (PNG, JPEG, GIF, WebP, told by its first bytes, up to 20 MiB) is made smaller if it is too
    large for a model; ``size`` is that of the file. The text of any other file goes as ``extracted_text``,
    named in its first line; beyond 256 KiB it is cut and says so. Raises ``WorkspaceError`` for other
    binary files, larger or broken images, and what cannot be read. Unpacking a large image takes a while.
    """
    path = Path(path)
    name = name or str(path)
    if os.path.isdir(path):  # noqa: PTH112 — unlike Path.is_dir it never raises
        return _listing(path, name)
    from newel.tools.images import mime_type

    head = read_head(path, MAX_TEXT_BYTES)
    kind = mime_type(head.data)
    if kind is not None:
        return _image(path, name, kind, head.size)
    if not head.is_text:
        raise WorkspaceError(
            f"{name} is neither text nor an image that models take (PNG, JPEG, GIF, WebP), so it was not "
            "attached. Name it in the prompt and the agent can look at it with its tools."
        )
    return _document(path, name, head)


def _image(path: Path, name: str, kind: str, size: int) -> Attachment:
    from newel.tools.images import picture

    if size > MAX_IMAGE_BYTES:
        raise WorkspaceError(
            f"{name} has {size / 1024**2:.1f} MiB; an image may have {MAX_IMAGE_BYTES // 1024**2} MiB. "
            "Make it smaller and attach it again."
        )
    try:
        content = picture(read_head(path, MAX_IMAGE_BYTES).data, kind, name).content
    except ToolError as error:
        # Refused here: an image that a server cannot decode would make it refuse every request from now on.
        raise WorkspaceError(str(error)) from error
    return Attachment("image", path.name, content.mime_type, size, content.data)


def _document(path: Path, name: str, head: Head) -> Attachment:
    text, cut = head.text(MAX_TEXT_BYTES)
    if cut:
        text += f"\n[Cut here: the last {cut:,} of {head.size:,} bytes are left out. Read the rest from the file.]\n"
    return Attachment(
        "document",
        path.name,
        "text/plain",
        head.size,
        b64encode(head.data[: head.size - cut]).decode(),
        extracted_text=f"Content of the file {name}:\n{text}",
    )


def _listing(folder: Path, name: str) -> Attachment:
    try:
        with os.scandir(folder) as entries:
            names = sorted(_entry_name(entry) for entry in islice(entries, MAX_SCANNED))
    except OSError as error:
        raise WorkspaceError(f"{name} cannot be listed: {(error.strerror or str(error)).lower()}.") from None
    lines = names[:MAX_ENTRIES] or ["(empty)"]
    if len(names) > MAX_ENTRIES:
        count = f"{len(names) - MAX_ENTRIES:,}{' or more' if len(names) == MAX_SCANNED else ''}"
        lines.append(f"[{count} further entries are left out.]")
    text = "\n".join(lines)
    data = text.encode(errors="replace")
    return Attachment(
        "document",
        folder.name or str(folder),
        "text/plain",
        len(data),
        b64encode(data).decode(),
        extracted_text=f"Entries of the folder {name}:\n{data.decode()}",
    )


def _entry_name(entry: os.DirEntry[str]) -> str:
    try:
        return entry.name + "/" if entry.is_dir() else entry.name
    except OSError:
        return entry.name
