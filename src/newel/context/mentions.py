"""Attaches the files that a prompt names: ``@src/app.py``, ``@src/app.py:7``, ``@"a name with spaces"``, the path of an image.

Only for text that the user typed. Text from elsewhere (a pipe, a page, a tool) could name a file that its author wants to
exfiltrate.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.agent.messages import Attachment
from newel.context.attachments import AttachableFiles, load_attachment
from newel.workspace.port import Kind, check_path

MAX_ATTACHMENTS = 32
MAX_TOTAL_BYTES = 64 * 1024 * 1024
"""Bytes of all attachments of a prompt together, in base64."""

# Not after a letter or a digit: that is an address (me@example.org).
_MENTION = r"""(?<![\w@./+-])@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>(?:\\ |[^\s"'`@])+))"""
_PUNCTUATION = ".,;:!?)]}>*"
_LINES = r"(?::\d+(?:[-:]\d+)?|#L?\d+(?:-L?\d+)?)\Z"
"""The lines of a file, as compilers, editors and web sites write them."""
_MAX_NAMES = 16
"""Names tried for one mention: it may end in ten thousand dots."""

_LOOKS_LIKE_A_PATH = r"/|\.[A-Za-z0-9]{1,4}\Z"

# Bare, in quotes, or as a terminal inserts a file that is dropped on it: with a backslash before spaces.
_IMAGES = ("png", "jpg", "jpeg", "gif", "webp")
_IMAGE_NAME = rf"\.(?ai:{'|'.join(_IMAGES)})"
_IMAGE = (
    rf"""(?<![^\s"'`(\[{{<])(?:"(?P<double>[^"\n]*{_IMAGE_NAME})"|'(?P<single>[^'\n]*{_IMAGE_NAME})'"""
    rf"""|(?P<plain>(?:\\.|[^\s"'`\\@(\[{{<])(?:\\.|[^\s"'`\\])*?{_IMAGE_NAME})(?!\w|\.\w)"""
    r"""|(?:\\.|[^\s"'`\\@(\[{<])(?:\\.|[^\s"'`\\])*+)"""  # else each bracket in a line of minified code would begin a search
)


class Expansion(NamedTuple):
    """``text`` is the prompt, with the mentions of attached files as plain paths. ``notes`` tell the user what was not
    attached.
    """

    text: str
    attachments: list[Attachment]
    notes: list[str]


async def expand_mentions(text: str, attachable: AttachableFiles, *, bare_images: bool = True) -> Expansion:
    """Attach what a prompt mentions. Relative paths start at the workspace's root, ``~`` is the home there. Never raises.

    ``@path`` attaches a file or the listing of a folder; trailing punctuation and line numbers are not part of it. The bare path of
    an existing image attaches the image, with ``bare_images``. What ``attachable`` refuses, and what looks like a path and does not
    exist, is noted (``@property`` is not). Each file is attached once.
    """
    collector = _Collector(attachable)
    try:
        if "@" in text:
            text = await collector.mentions(text)
        if bare_images and any(f".{suffix}" in text.lower() for suffix in _IMAGES):
            await collector.images(text)
    except WorkspaceError as error:  # the host cannot be asked at all
        collector.notes.append(f"Not all files that the prompt names were attached. {error}")
    return Expansion(text, collector.attachments, collector.notes)


class _Mention(msgspec.Struct, frozen=True):
    """The target of a mention; ``path`` is absolute. ``kind`` is None if there is nothing, or nothing that may be attached."""

    path: str
    kind: Kind | None


class _Collector:
    def __init__(self, attachable: AttachableFiles) -> None:
        self.attachments: list[Attachment] = []
        self.notes: list[str] = []
        self._workspace = attachable.workspace
        self._why_not = attachable.why_not
        self._seen: set[str] = set()
        self._bytes = 0
        self._is_full = False

    async def mentions(self, text: str) -> str:
        """Attach what is mentioned. Returns the prompt with the mentions replaced."""
        mentions = list(re.finditer(_MENTION, text))
        names = [_possible_names(mention) for mention in mentions]
        files = await self._find([name for group in names for name in group])
        written = [
            await self._mention(mention, group, files) for mention, group in zip(mentions, names, strict=True)
        ]
        in_turn = iter(written)
        return re.sub(_MENTION, lambda _: next(in_turn), text)

    async def images(self, text: str) -> None:
        """Attach the images that bare paths name."""
        found = (_image_name(match) for match in re.finditer(_IMAGE, text))
        names = [name for name in dict.fromkeys(found) if name]
        for name, mention in (await self._find(names)).items():
            if mention.kind == "file":
                await self._attach(mention.path, name, only_image=True)

    async def _mention(self, mention: re.Match[str], names: list[str], files: dict[str, _Mention]) -> str:
        """Attach the first of ``names`` that was found. Returns the replacement of the mention."""
        whole = mention[0]
        name = next((name for name in names if name in files and files[name].kind), None)
        if name is not None:
            return whole[1:] if await self._attach(files[name].path, name) else whole
        if mention["quoted"] or re.search(_LOOKS_LIKE_A_PATH, names[-1]):
            missing = files.get(names[-1])
            why = missing and self._why_not(missing.path, missing.path)
            self.notes.append(f"@{names[-1]} was not attached: {why or 'there is no such file.'}")
        return whole

    async def _find(self, names: Sequence[str]) -> dict[str, _Mention]:
        """What the names mean that a file may have, in one request: a prompt may be a long log, and the host far away."""
        paths: dict[str, str] = {}
        for name in names:
            try:
                check_path(name)
            except WorkspaceError:  # no file can have this name
                continue
            if name.startswith("~"):  # only the host knows its users' homes
                paths[name] = await self._workspace.resolve(name)
            else:
                paths[name] = str(PurePosixPath(self._workspace.root, name))
        infos = await self._workspace.stats(list(paths.values())) if paths else []
        return {
            name: _Mention(path, info and info.kind)
            for (name, path), info in zip(paths.items(), infos, strict=True)
        }

    async def _attach(self, path: str, name: str, *, only_image: bool = False) -> bool:
        if self._is_full:
            return False
        named, path = posixpath.normpath(path), await self._workspace.resolve(path)
        if path in self._seen:
            return True
        if why := self._why_not(named, path):
            self.notes.append(f"{name} was not attached: {why}")
            return False
        try:
            attachment = await load_attachment(self._workspace, path, name=name)
        except HostUnavailable:
            raise
        except WorkspaceError as error:
            self.notes.append(str(error))
            return False
        if only_image and attachment.type != "image":
            return False
        size = len(attachment.content)
        if len(self.attachments) == MAX_ATTACHMENTS or self._bytes + size > MAX_TOTAL_BYTES:
            self._is_full = True
            self.notes.append(
                f"{name} and the files named after it were not attached: a prompt may have at most {MAX_ATTACHMENTS} "
                f"attachments and {MAX_TOTAL_BYTES // 1024**2} MiB in total."
            )
            return False
        self._seen.add(path)
        self._bytes += size
        self.attachments.append(attachment)
        return True


def _possible_names(mention: re.Match[str]) -> list[str]:
    """The names that a mention may mean: all of it, or without some of its trailing punctuation, or without lines, too."""
    if quoted := mention["quoted"]:
        return [quoted]
    plain = mention["plain"].replace("\\ ", " ")
    shortest = len(plain.rstrip(_PUNCTUATION)) or len(plain)
    ends = range(len(plain), shortest, -1)[: _MAX_NAMES - 1]
    names = [plain[:end] for end in (*ends, shortest)]
    file = re.sub(_LINES, "", names[-1])
    return [*names, file] if file and file != names[-1] else names


def _image_name(match: re.Match[str]) -> str | None:
    """None for text that names no image."""
    plain = match["plain"]
    return re.sub(r"\\(.)", r"\1", plain) if plain else match["double"] or match["single"]
