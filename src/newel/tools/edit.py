"""``edit``: put one text in the place of another, in one file, once or several times."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta

from newel.agent.errors import HostUnavailable, StaleFile, ToolError, WorkspaceError
from newel.agent.formatting import pluralize
from newel.agent.ports import ToolResult
from newel.diff.unified import DiffBlock, describe_diff, split_lines, unified_diff
from newel.tools.aliases import REPLACEMENT_ALIASES
from newel.tools.base import Parameters, renamed
from newel.tools.file_tool import ChangingTool, FileParameters, aside, sha256
from newel.tools.paths import not_found
from newel.tools.text import DIFF_SHOWN, encoded
from newel.tools.text_replace import Edited, Replacement, edit
from newel.workspace.port import ABSENT

SHORT: Final = 1 << 20
"""Bytes of a file of which nothing is looked up before it is read."""

LARGEST: Final = 32 * 1024 * 1024
"""Bytes of a file that can be edited."""


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


class _EditPlan(msgspec.Struct, frozen=True):
    """An edit that has been thought through: ``old`` is None for a file that is to be created."""

    expect: str
    old: bytes | None
    edited: Edited

    @property
    def data(self) -> bytes:
        return self.edited.content

    def described(self, name: str, /) -> str:
        return describe_diff(name, self._lines, self.edited.blocks)

    def diff(self, name: str) -> str:
        return unified_diff(name, self._lines, self.edited.blocks, limit=DIFF_SHOWN)

    @property
    def size(self) -> int:
        """Bytes to look through for a diff."""
        return len(self.old or b"") + len(self.edited.content)

    @property
    def _lines(self) -> list[bytes] | None:
        return None if self.old is None else split_lines(self.old)


class EditTool(ChangingTool[EditParameters, _EditPlan]):
    name = "edit"
    label = "Edit File"
    description = (
        "Find and replace exact string in a file. old_string must match exactly one place: quote enough of "
        "the lines around it, or set replace_all. An empty old_string creates a new file."
    )
    parameters = EditParameters

    def parse(self, arguments: dict[str, Any], /) -> EditParameters:
        parsed = super().parse(self._with_plain_edits(arguments))
        if not parsed.edits and parsed.old_string is None:
            raise self.invalid("missing required argument `old_string`")
        if (parsed.old_string is None) != (parsed.new_string is None):
            missing = "new_string" if parsed.new_string is None else "old_string"
            raise self.invalid(f"missing required argument `{missing}`")
        return parsed

    def _with_plain_edits(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with our names in the list too. Some models write the list as a string of JSON."""
        given = renamed(arguments, self.spec.argument_aliases)
        edits = given.get("edits")
        if isinstance(edits, str):
            try:
                edits = msgspec.json.decode(edits)
            except msgspec.DecodeError as error:
                raise self.invalid("argument `edits`: expected a list, not a string") from error
        if isinstance(edits, list):
            given["edits"] = [
                renamed(cast("dict[str, Any]", item), REPLACEMENT_ALIASES) if isinstance(item, dict) else item
                for item in cast("list[Any]", edits)
            ]
        return given

    async def make(self, plan: _EditPlan, arguments: EditParameters, path: str, /) -> ToolResult:
        name, edited = arguments.file_path, plan.edited
        diff = await aside(plan.size, plan.diff, name)
        try:
            written = await self._workspace.write_bytes(path, edited.content, expect=plan.expect)
        except StaleFile as error:
            raise StaleFile(
                f"{name} changed on disk during the edit. Nothing was changed. Read it again."
            ) from error
        self._tracker.saw(path, written)
        if plan.old is None:
            text = f"Created new file {name} ({pluralize(len(edited.content), 'byte')})"
        else:
            text = (
                f"Replaced {pluralize(edited.matches, 'occurrence')} in {name} "
                f"({pluralize(edited.lines_changed, 'line')} changed)"
            )
        one = _replacements(arguments)[0]
        return ToolResult(
            text,
            details={
                "filePath": name,
                "oldString": one.old,
                "newString": one.new,
                "matchCount": edited.matches,
                "linesChanged": edited.lines_changed,
                "diff": diff,
                "firstChangedLine": edited.first_line,
            },
        )

    async def think(self, arguments: EditParameters, path: str, /) -> _EditPlan:
        name, wanted = arguments.file_path, _replacements(arguments)
        creates = len(wanted) == 1 and not wanted[0].old
        content = await self._content(path, name)
        if content is None:
            if creates:
                return _EditPlan(ABSENT, None, _created(wanted[0].new))
            raise await not_found(self._workspace, path, name)
        found = sha256(content)
        if self._tracker.last_seen(path) not in {None, found}:
            raise StaleFile(
                f"{name} changed on disk since you last saw it. Nothing was changed. "
                "Read it again, then repeat the edit."
            )
        if not content and creates:
            return _EditPlan(found, content, _created(wanted[0].new))
        return _EditPlan(found, content, await aside(len(content), edit, content, wanted, name))

    async def _content(self, path: str, name: str) -> bytes | None:
        """All of a file; None if there is none. One that is short is asked for once: it may be far away."""
        try:
            content = await self._workspace.read_bytes(path, size=SHORT + 1)
        except HostUnavailable:
            raise
        except WorkspaceError:
            if await self._workspace.stat(path) is None:
                return None
            raise
        if len(content) <= SHORT:
            return content
        info = await self._workspace.stat(path)
        size = info.size if info else 0
        if size <= LARGEST:  # a file in /proc says that it is empty, and may have no end
            content = await self._workspace.read_bytes(path, size=LARGEST + 1)
        if (size := max(size, len(content))) > LARGEST:
            raise ToolError(
                f"{name} has {size:,} bytes; `edit` takes files up to {LARGEST:,}. Use sed with bash."
            )
        return content


def _replacements(arguments: EditParameters) -> list[Replacement]:
    edits = [Replacement(item.old_string, item.new_string, item.replace_all) for item in arguments.edits]
    if arguments.old_string is None or arguments.new_string is None:
        return edits
    if edits and not arguments.old_string and not arguments.new_string:
        return edits  # a model that fills in every argument
    return [Replacement(arguments.old_string, arguments.new_string, arguments.replace_all), *edits]


def _created(text: str) -> Edited:
    content = encoded(text, "new_string")
    return Edited(content, 1, [DiffBlock(0, 0, split_lines(content))])
