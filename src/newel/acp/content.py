"""Prompts of a client as messages, and messages of a session as updates for a client."""

from __future__ import annotations

from base64 import b64encode
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from newel.acp import protocol as p
from newel.acp.json_rpc import INVALID_PARAMS, JsonRpcError
from newel.agent.errors import WorkspaceError
from newel.agent.messages import Attachment, TextContent, UserMessage
from newel.context.attachments import AttachableFiles, load_attachment

IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Image types that models accept."""

MAX_EMBEDDED: Final = 256 * 1024
"""Characters of an embedded file that the model gets."""


class PromptContent:
    """The text and the attachments of a prompt. ``notes`` tell the user what was not attached."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.attachments: list[Attachment] = []
        self.notes: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)

    async def add(self, block: p.Content, attachable: AttachableFiles) -> None:
        """Add a block. Raises ``JsonRpcError`` for one that Newel does not take."""
        match block:
            case p.TextBlock():
                self.texts.append(block.text)
            case p.ImageBlock():
                self.attachments.append(_image(block))
            case p.ResourceBlock():
                self._embed(block.resource)
            case p.ResourceLink():
                await self._link(block, attachable)
            case p.AudioBlock():
                raise JsonRpcError(INVALID_PARAMS, "Newel does not accept audio. Send text, images or files.")

    def _embed(self, resource: p.Resource) -> None:
        name = local_path(resource.uri) or resource.uri
        self.texts.append(name)
        if resource.text is None:
            self.notes.append(
                f"{name} was not attached: it is not text. The agent can read it with its tools."
            )
            return
        text = resource.text[:MAX_EMBEDDED]
        more = len(resource.text) - len(text)
        shown = f"{text}\n[Truncated: the last {more:,} characters are omitted.]" if more else text
        data = text.encode(errors="replace")
        self.attachments.append(
            Attachment(
                "document",
                PurePosixPath(name).name or name,
                "text/plain",
                len(data),
                b64encode(data).decode(),
                extracted_text=f"Content of the file {name}:\n{shown}",
            )
        )

    async def _link(self, link: p.ResourceLink, attachable: AttachableFiles) -> None:
        path = local_path(link.uri)
        if path is None:
            self.texts.append(f"{link.name} ({link.uri})")
            return
        self.texts.append(path)
        try:
            resolved = await attachable.workspace.resolve(path)
            if reason := attachable.why_not(path, resolved):
                self.notes.append(f"{path} {reason}")
            else:
                self.attachments.append(await load_attachment(attachable.workspace, resolved, name=path))
        except WorkspaceError as error:
            self.notes.append(str(error))


def _image(block: p.ImageBlock) -> Attachment:
    if block.mime_type not in IMAGES:
        raise JsonRpcError(
            INVALID_PARAMS, f"Models accept images of the types {', '.join(IMAGES)}, not {block.mime_type}."
        )
    try:
        size = len(a2b_base64(block.data, strict_mode=True))
    except (NotBase64, ValueError) as error:
        raise JsonRpcError(INVALID_PARAMS, f"The data of the image is not base64: {error}.") from error
    if not size:
        raise JsonRpcError(INVALID_PARAMS, "The image is empty.")
    name = PurePosixPath(urlsplit(block.uri or "").path).name or f"image.{block.mime_type.split('/')[1]}"
    return Attachment("image", name, block.mime_type, size, block.data)


def local_path(uri: str) -> str | None:
    """The path of a ``file:`` URI of this machine; None for another."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return unquote(parts.path)
    return None


# -- messages for a client ------------------------------------------------------------------------


def user_blocks(message: UserMessage) -> Iterator[p.Content]:
    """The blocks of a user's message, for the replay of a session."""
    parts: Sequence[object] = (
        [TextContent(message.content)] if isinstance(message.content, str) else message.content
    )
    for part in parts:
        if isinstance(part, TextContent) and part.text:
            yield p.TextBlock(text=part.text)
    for attachment in message.attachments:
        if attachment.type == "image":
            yield p.ImageBlock(data=attachment.content, mime_type=attachment.mime_type)
