"""``edit``: replaces text in one file, once or several times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec
from msgspec import Meta

from newel.agent.errors import HostUnavailable, StaleFile, ToolError, WorkspaceError
from newel.agent.formatting import pluralize
from newel.agent.ports import ToolResult
from newel.text.json import decode_json
from newel.tools.aliases import REPLACEMENT_ALIASES
from newel.tools.base import Parameters, rename
from newel.tools.file_tool import (
    ChangingTool,
    FileEdit,
    FileParameters,
    encode_text,
    is_other_encoding,
    not_found,
    run_in_thread_if_large,
    sha256,
)
from newel.workspace.port import ABSENT

if TYPE_CHECKING:
    from newel.tools.text_replace import Replacement

MAX_UNCHECKED_BYTES: Final = 1 << 20
"""Larger files are read only after a look at their size."""

MAX_SHOWN_BYTES: Final = 4_000
"""A file that was not read is shown if an edit of it fails, unless it is larger."""

MAX_BYTES: Final = 32 * 1024 * 1024
"""Larger files cannot be edited."""


class EditItem(Parameters, frozen=True):
    old_string: Annotated[str, Meta(description="Exact string to find and replace")]
    new_string: Annotated[str, Meta(description="String to replace with")]
    replace_all: Annotated[bool, Meta(description="Replace every match")] = False


class EditParameters(FileParameters, frozen=True):
    file_path: Annotated[str, Meta(description="Path to file to edit (relative or absolute)")]
    old_string: Annotated[
        str | None, Meta(description="Exact string to find and replace. Must match once. Omit with `edits`.")
    ] = None
    new_string: Annotated[str | None, Meta(description="String to replace with. Omit with `edits`.")] = None
    replace_all: Annotated[bool, Meta(description="Replace every match of old_string (default false)")] = (
        False
    )
    edits: Annotated[
        list[EditItem],
        Meta(
            description="Several replacements at once, instead of old_string and new_string. "
            "Each is matched against the original file; they must not overlap; all are made or none."
        ),
    ] = msgspec.field(default_factory=list[EditItem])


class EditTool(ChangingTool[EditParameters]):
    name = "edit"
    label = "Edit File"
    description = (
        "Replace an exact string in a file. old_string must match exactly once: include enough of the "
        "surrounding lines, or set replace_all. An empty old_string creates a new file."
    )
    parameters = EditParameters
    essential = ("file_path", "old_string", "new_string")

    def parse(self, arguments: dict[str, Any], /) -> EditParameters:
        parsed = super().parse(self._with_plain_edits(arguments))
        if not parsed.edits and parsed.old_string is None:
            raise self.invalid("missing required argument `old_string`", missing="old_string")
        if (parsed.old_string is None) != (parsed.new_string is None):
            missing = "new_string" if parsed.new_string is None else "old_string"
            raise self.invalid(f"missing required argument `{missing}`", missing=missing)
        return parsed

    def _with_plain_edits(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with our names, in the list too. Some models write the list as a JSON string."""
        values = rename(arguments, self.spec.argument_aliases)
        edits = values.get("edits")
        if isinstance(edits, str):
            try:
                edits = decode_json(edits, object)
            except msgspec.DecodeError as error:
                raise self.invalid("argument `edits`: expected a list, not a string") from error
        if isinstance(edits, list):
            values["edits"] = [
                rename(cast("dict[str, Any]", item), REPLACEMENT_ALIASES) if isinstance(item, dict) else item
                for item in cast("list[Any]", edits)
            ]
        return values

    async def apply(self, change: FileEdit, arguments: EditParameters, path: str, /) -> ToolResult:
        name = arguments.file_path
        diff = await run_in_thread_if_large(change.size, change.diff, name)
        try:
            written = await self._workspace.write_bytes(path, change.data, expect=change.expect)
        except StaleFile as error:
            raise StaleFile(
                f"{name} changed on disk during the edit. Nothing was changed. Read it again."
            ) from error
        self._tracker.saw(path, written.sha256)
        if change.old is None:
            text = f"Created new file {name} ({pluralize(len(change.data), 'byte')})"
        else:
            text = (
                f"Replaced {pluralize(change.matches, 'occurrence')} in {name} "
                f"({pluralize(change.lines_changed, 'line')} changed)"
            )
        replacement = _replacements(arguments)[0]
        return ToolResult(
            text,
            details={
                "filePath": name,
                "oldString": replacement.old,
                "newString": replacement.new,
                "matchCount": change.matches,
                "linesChanged": change.lines_changed,
                "diff": diff,
                "firstChangedLine": change.first_line,
            },
        )

    async def prepare(self, arguments: EditParameters, path: str, /) -> FileEdit:
        from newel.tools.text_replace import edit

        name, replacements = arguments.file_path, _replacements(arguments)
        creates = len(replacements) == 1 and not replacements[0].old
        content = await self._content(path, name)
        if content is None:
            if creates:
                return _new_file(ABSENT, None, replacements[0].new)
            raise await not_found(self._workspace, path, name)
        digest = sha256(content)
        if self._tracker.last_seen(path) not in {None, digest}:
            raise StaleFile(
                f"{name} changed on disk since you last saw it. Nothing was changed. "
                "Read it again, then repeat the edit."
            )
        if not content and creates:
            return _new_file(digest, [], replacements[0].new)
        _check_encoding(content, replacements, name)
        try:
            return await run_in_thread_if_large(len(content), edit, content, digest, replacements, name)
        except ToolError as error:
            if self._tracker.last_seen(path) is not None or len(content) > MAX_SHOWN_BYTES:
                raise
            self._tracker.saw(path, digest)  # the model guessed what is in the file: that saves it a step
            lines = content.decode(errors="replace").splitlines()
            text = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))
            raise ToolError(f"{error}\nYou have not read {name}. It contains:\n{text}") from error

    async def _content(self, path: str, name: str) -> bytes | None:
        """A file's content; None if it does not exist. A short file takes one request, as its host may be far away."""
        try:
            content = await self._workspace.read_bytes(path, size=MAX_UNCHECKED_BYTES + 1)
        except HostUnavailable:
            raise
        except WorkspaceError:
            if await self._workspace.stat(path) is None:
                return None
            raise
        if len(content) <= MAX_UNCHECKED_BYTES:
            return content
        info = await self._workspace.stat(path)
        size = info.size if info else 0
        if size <= MAX_BYTES:  # files in /proc report no size, and may be endless
            content = await self._workspace.read_bytes(path, size=MAX_BYTES + 1)
        if (size := max(size, len(content))) > MAX_BYTES:
            raise ToolError(
                f"{name} has {size:,} bytes; `edit` can change files of up to {MAX_BYTES:,} bytes. Use sed with bash."
            )
        return content


def _replacements(arguments: EditParameters) -> list[Replacement]:
    from newel.tools.text_replace import Replacement

    edits = [Replacement(item.old_string, item.new_string, item.replace_all) for item in arguments.edits]
    if arguments.old_string is None or arguments.new_string is None:
        return edits
    if edits and not arguments.old_string and not arguments.new_string:
        return edits  # some models fill in every argument
    return [Replacement(arguments.old_string, arguments.new_string, arguments.replace_all), *edits]


def _check_encoding(content: bytes, replacements: list[Replacement], name: str) -> None:
    """Refuse characters beyond ASCII in a file that is not in UTF-8: they would not be found there, or be mixed in as garbage."""
    texts = (text for replacement in replacements for text in (replacement.old, replacement.new))
    if all(text.isascii() for text in texts) or not is_other_encoding(content):
        return
    raise ToolError(
        f"{name} is not in UTF-8, the only encoding in which `edit` can find or write other characters than ASCII. Nothing was "
        "changed. Find out the encoding, and change the file with bash: python3 with "
        f'open({name!r}, encoding=..., newline="").'
    )


def _new_file(expect: str, old: list[bytes] | None, text: str) -> FileEdit:
    from newel.diff.unified import DiffBlock, split_lines

    data = encode_text(text, "new_string")
    return FileEdit(expect, data, old, [DiffBlock(0, 0, split_lines(data))])
