"""Attachments of a prompt: images as images, other files as text."""

from __future__ import annotations

from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import anyio.to_thread
import msgspec

from newel.agent.errors import ToolError, UsageError, WorkspaceError
from newel.agent.messages import AppMessage, Attachment
from newel.context.file_reader import Head, read_head
from newel.text.format import one_line
from newel.workspace.port import Workspace

MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_TEXT_BYTES = 256 * 1024
MAX_ENTRIES = 500
"""Entries in the listing of a folder."""
MAX_SCANNED = 20_000
"""Entries that are read: a folder may have millions."""

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

WhyNot = Callable[[str, str], str]
"""Returns why the file at the first path (the second, with links resolved) is not attached: a clause that follows its name, or
an empty one if it may be. Both paths are absolute.
"""


def _nothing_against(named: str, path: str) -> str:
    del named, path
    return ""


class AttachableFiles(msgspec.Struct, frozen=True):
    """The files that a prompt may attach."""

    workspace: Workspace
    why_not: WhyNot = _nothing_against


def check_prompt(text: object, attachments: Sequence[object]) -> None:
    """Reject what a session cannot hold or no server accepts: once in the conversation, it would fail every later request. Raises
    ``UsageError``.
    """
    if not isinstance(text, str):
        raise UsageError(f"The prompt is of the type {type(text).__name__}. Give a str.")
    for attachment in attachments:
        if not isinstance(attachment, Attachment):
            raise UsageError(
                f"attachments: {attachment!r} is no `Attachment`. `newel.ask` also takes paths of files."
            )
        if problem := attachment_problem(attachment):
            raise UsageError(problem)


def check_message(message: object) -> None:
    """Reject what is no message, as ``check_prompt`` does."""
    if not isinstance(message, AppMessage):
        raise UsageError(f"{message!r} is no message. Give a `UserMessage`.")


def attachment_problem(attachment: Attachment) -> str:
    """Why no server accepts an attachment; empty if it may."""
    image = attachment.type == "image"
    if attachment.size < 0:
        problem = "its size is negative"
    elif not _is_base64(attachment.content):
        problem = "its content is not base64"
    elif not _is_base64(attachment.preview or ""):
        problem = "its preview is not base64"
    elif image and not attachment.content:
        problem = "its content is empty"
    elif image and attachment.mime_type not in IMAGES:
        problem = f"its mimeType is not one of {', '.join(IMAGES)}"
    else:
        return ""
    return f"The attachment '{one_line(attachment.file_name)}' cannot be used: {problem}."


def _is_base64(text: str) -> bool:
    try:
        a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return True


async def load_attachment(workspace: Workspace, path: str, *, name: str | None = None) -> Attachment:
    """Load a file, or the listing of a folder. ``path`` is real; ``name`` is its name for the model, by default the path.

    An image (PNG, JPEG, GIF, WebP, recognized by its first bytes, up to 20 MiB) is scaled down if it is too large for a model;
    ``size`` is that of the file. Of other files ``extracted_text`` holds at most 256 KiB. Raises ``WorkspaceError`` for other
    binary files, larger or broken images, and files that cannot be read.
    """
    name = name or path
    info = await workspace.stat(path)
    if info is not None and info.kind == "directory":
        return await _listing(workspace, path, name)
    from newel.tools.images import mime_type

    head = await read_head(workspace, path, MAX_TEXT_BYTES)
    kind = mime_type(head.data)
    if kind is not None:
        return await _image(workspace, path, name, kind, head)
    if not head.is_text:
        raise WorkspaceError(
            f"{name} was not attached: it is neither text nor an image that models accept (PNG, JPEG, GIF, WebP). Name it in "
            "the prompt, and the agent can read it with its tools."
        )
    text, cut = head.text(MAX_TEXT_BYTES)
    if cut:
        text += f"\n[Truncated: the last {cut:,} of {head.size:,} bytes are omitted. Read the rest from the file.]\n"
    data = head.data[: head.size - cut]
    return _document(path, head.size, data, f"Content of the file {name}:\n{text}")


async def _image(workspace: Workspace, path: str, name: str, kind: str, head: Head) -> Attachment:
    if head.size > MAX_IMAGE_BYTES:
        raise WorkspaceError(
            f"{name} was not attached: it has {head.size / 1024**2:.1f} MiB, and an image may have at most "
            f"{MAX_IMAGE_BYTES // 1024**2} MiB. Make it smaller and attach it again."
        )
    data = head.data
    if len(data) < head.size:
        rest = MAX_IMAGE_BYTES - len(data)
        data += await workspace.read_bytes(path, start=len(data), size=rest, nofollow=True)
    return await _decoded(data, name, kind, PurePosixPath(path).name, head.size)


async def attach_image(data: bytes, name: str) -> Attachment:
    """An image that is in no file, as ``load_attachment`` loads one. Raises ``WorkspaceError``."""
    from newel.tools.images import mime_type

    if (kind := mime_type(data)) is None:
        raise WorkspaceError(
            f"{name} was not attached: it is not an image that models accept (PNG, JPEG, GIF, WebP)."
        )
    return await _decoded(data, name, kind, name, len(data))


async def _decoded(data: bytes, name: str, kind: str, file_name: str, size: int) -> Attachment:
    from newel.tools.images import picture

    try:
        # Decoding is slow and has no side effects, so a cancelled prompt does not wait for it.
        image = await anyio.to_thread.run_sync(picture, data, kind, name, abandon_on_cancel=True)
    except ToolError as error:
        # A server that cannot decode the image would refuse every later request, too.
        raise WorkspaceError(str(error)) from error
    return Attachment("image", file_name, image.content.mime_type, size, image.content.data)


async def _listing(workspace: Workspace, folder: str, name: str) -> Attachment:
    entries = await workspace.list(folder, limit=MAX_SCANNED, nofollow=True)
    listed = entries[:MAX_ENTRIES]
    lines = [entry.name + ("/" if entry.kind == "directory" else "") for entry in listed] or ["(empty)"]
    if len(entries) > MAX_ENTRIES:
        count = f"{len(entries) - MAX_ENTRIES:,}{' or more' if len(entries) == MAX_SCANNED else ''}"
        lines.append(f"[{count} more entries are omitted.]")
    text = "\n".join(lines)
    data = text.encode(errors="replace")
    return _document(folder, len(data), data, f"Entries of the folder {name}:\n{data.decode()}")


def _document(path: str, size: int, data: bytes, text: str) -> Attachment:
    """``data`` is the content, ``text`` its form for the model, ``size`` the bytes of the whole file."""
    name = PurePosixPath(path).name or path
    return Attachment("document", name, "text/plain", size, b64encode(data).decode(), extracted_text=text)
