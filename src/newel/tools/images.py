"""Images for a model: detected by their first bytes, scaled down if they are too large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from newel.agent.errors import ToolError
from newel.agent.messages import ImageContent

if TYPE_CHECKING:
    from PIL import Image

LONGEST_SIDE: Final = 2_000
"""Pixels; larger images are scaled down to this."""

LARGEST_SENT: Final = 3_500_000
"""Bytes; larger files are re-encoded. Providers refuse more than 5 MB of base64."""

LARGEST_FILE: Final = 32 * 1024 * 1024
MAX_PIXELS: Final = 50_000_000
"""A small file can claim to be a huge image; one with more pixels is not decoded."""


class Picture(msgspec.Struct, frozen=True):
    """An image for the model; ``width`` and ``height`` are those of the file, ``scaled`` of what is sent."""

    content: ImageContent
    width: int
    height: int
    scaled: tuple[int, int] | None = None


def mime_type(head: bytes) -> str | None:
    """The image type of a file that begins with ``head`` (at least 12 bytes); None for other files."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def picture(data: bytes, kind: str, name: str) -> Picture:
    """The image in ``data``, of type ``kind``. Raises ``ToolError`` if it is broken or too large. Slow for large images: call it in
    a thread.
    """
    import io

    from PIL import Image

    # Pillow's own check prints a warning. Ours is stricter, and comes before anything is decoded.
    Image.MAX_IMAGE_PIXELS = None
    try:
        image = Image.open(io.BytesIO(data), formats=[kind.removeprefix("image/")])
        width, height = image.size
        if width * height <= MAX_PIXELS:
            content, size = _scale(image, data, kind)
            scaled = None if max(size) == max(width, height) else size
            return Picture(content, width, height, scaled)
    except Exception as error:  # a broken image can make a decoder raise anything
        raise ToolError(f"{name} begins like an image but cannot be decoded: {error}") from error
    raise ToolError(f"{name} is an image of {width} x {height} pixels, too large to decode. Scale it down.")


def _scale(image: Image.Image, data: bytes, kind: str) -> tuple[ImageContent, tuple[int, int]]:
    """The image to send and its size in pixels; unchanged if it is small enough."""
    import base64
    import io

    from PIL import ImageOps

    if max(image.size) <= LONGEST_SIDE and len(data) <= LARGEST_SENT:
        return ImageContent(base64.b64encode(data).decode(), kind), image.size
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    upright = ImageOps.exif_transpose(image)
    packed = io.BytesIO()
    if kind == "image/jpeg" or len(data) > LARGEST_SENT:
        kind = "image/jpeg"
        upright.convert("RGB").save(packed, "JPEG", quality=85)
    else:
        kind = "image/png"
        upright.save(packed, "PNG")
    return ImageContent(base64.b64encode(packed.getvalue()).decode(), kind), upright.size
