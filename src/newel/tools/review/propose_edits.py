"""``propose_edits``: changes of lines, each validated before the user sees it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from newel.agent.errors import InvalidArguments, ToolError
from newel.agent.messages import new_id
from newel.agent.ports import OnOutput, ToolResult
from newel.agent.tool_executor import EXCLUSIVE
from newel.text.json import decode_json
from newel.tools.base import Parameters, TypedTool
from newel.tools.review.base import ProjectLimits, in_project, normalize
from newel.workspace.glob import is_text
from newel.workspace.port import Workspace

Operation = Literal["replace", "insert", "delete"]
LineNumber = Annotated[int, Meta(ge=1)]


class ProposedEdit(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of a file's lines, which count from 1.

    ``replace`` replaces the lines ``start_line`` to ``end_line``, inclusive, by ``new_text``; ``insert`` inserts it before
    ``start_line`` (one more than the last line: at the end); ``delete`` removes the lines. ``expected_hash`` is the ``lines_hash`` of
    the lines that the model saw there; without it only the numbers are checked.
    """

    edit_id: Annotated[str, Meta(description="Your name for this edit. Optional.")] = ""
    file_path: Annotated[str, Meta(description="Path of the file, relative to the project")]
    operation: Operation
    start_line: Annotated[
        LineNumber, Meta(description="First line to change; for insert, the line to insert before")
    ]
    end_line: Annotated[
        LineNumber | None, Meta(description="Last line to change, inclusive. Not needed for insert.")
    ] = None
    new_text: Annotated[str, Meta(description="The complete new lines. Empty for delete.")] = ""
    expected_hash: Annotated[
        str | None,
        Meta(description="The expected_hash that read_file returned for exactly these lines, or omit it."),
    ] = None
    rationale: Annotated[str, Meta(description="Why, in one sentence")] = ""


def lines_hash(lines: Sequence[str]) -> str:
    """The hash of lines with their ends: ``sha256:`` and hexadecimal digits."""
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


Propose = Callable[[Sequence[ProposedEdit]], Awaitable[str]]
"""Takes valid edits, all or none; returns a message for the model. A ``NewelError`` that it raises becomes the result."""

MAX_PROBLEMS: Final = 10
"""Problems that an error names."""

_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_ID: Final = re.compile(r"[\w.:-]{1,64}")

_EXPECTED: Final = {
    "edit_id": "expected a string",
    "file_path": "expected the file's path, relative to the project",
    "operation": 'expected "replace", "insert" or "delete"',
    "start_line": "expected a line number, 1 or more",
    "end_line": "expected a line number, 1 or more",
    "new_text": "expected the new lines as one string",
    "expected_hash": "expected the hash that read_file returned for exactly these lines, or nothing",
    "rationale": "expected a string",
}


class ProposeParameters(Parameters, frozen=True):
    edits: Annotated[list[ProposedEdit], Meta(min_length=1, description="The edits, in any order")]


class ProposeTool(TypedTool[ProposeParameters]):
    name = "propose_edits"
    label = "Propose Edits"
    description = (
        "Propose changes of lines. Nothing is written: the user reviews each change. Line numbers count from 1 and refer to "
        "the files as you read them, for all edits of one call. `replace` replaces the lines start_line to end_line by "
        "new_text, `delete` removes them, `insert` inserts new_text before start_line; in a new file, insert at line 1. "
        "Edits of one file must not overlap. Either all edits of a call are proposed, or none."
    )
    read_only = False
    parameters = ProposeParameters

    def __init__(self, workspace: Workspace, limits: ProjectLimits, propose: Propose) -> None:
        self._workspace = workspace
        self._limits = limits
        self._propose = propose

    def parse(self, arguments: dict[str, Any], /) -> ProposeParameters:
        """Raises ``InvalidArguments``, which names up to ten problems by edit and field."""
        items = self._items(arguments)
        checked = [self._checked(number, item) for number, item in enumerate(items, 1)]
        problems = [problem for _, item_problems in checked for problem in item_problems]
        edits = [edit for edit, _ in checked if edit is not None]
        problems += _duplicate_ids(edits)
        if (
            sum(len(edit.new_text.encode(errors="replace")) for edit in edits)
            > self._limits.max_proposal_bytes
        ):
            problems.append(
                f"the new text is longer than {self._limits.max_proposal_bytes:,} bytes; split the proposal"
            )
        _raise_if_any(problems)
        return ProposeParameters(edits=[_with_id(edit) for edit in edits])

    async def serial_key(self, _: ProposeParameters, /) -> str:
        """Alone: its line numbers depend on earlier calls, and those of later calls on it."""
        return EXCLUSIVE

    async def preview(self, arguments: ProposeParameters, /) -> str:
        return "\n".join(_describe(edit) for edit in arguments.edits)

    async def execute(self, arguments: ProposeParameters, _: OnOutput, /) -> ToolResult:
        edits = await self._resolve_paths(arguments.edits)
        message = await self._propose(edits)
        return ToolResult(
            message,
            details={
                "editIds": [edit.edit_id for edit in edits],
                "files": sorted({edit.file_path for edit in edits}),
            },
        )

    def _items(self, arguments: dict[str, Any]) -> list[Any]:
        """The edits, not validated. Some models write the list as a JSON string, or omit it around a single edit."""
        edits: Any = arguments.get("edits", [arguments] if "file_path" in arguments else None)
        if isinstance(edits, str):
            try:
                edits = decode_json(edits, object)
            except msgspec.DecodeError as error:
                raise self.invalid("argument `edits`: expected a list of edits, not a string") from error
        if not isinstance(edits, list) or not edits:
            raise self.invalid("argument `edits`: expected a list with at least one edit")
        items = cast("list[Any]", edits)
        if len(items) > self._limits.max_edits_per_proposal:
            raise self.invalid(
                f"there are {len(items):,} edits; at most {self._limits.max_edits_per_proposal} are allowed in one call"
            )
        return items

    def _checked(self, number: int, item: Any) -> tuple[ProposedEdit | None, list[str]]:
        """One edit with its normalized path, and the problems with it."""
        if not isinstance(item, dict):
            return None, [f"edit {number}: expected an object with file_path, operation, start_line"]
        fields = {name: value for name, value in cast("dict[str, Any]", item).items() if value is not None}
        which = f"edit {number}"
        if isinstance(name := fields.get("edit_id"), str) and _ID.fullmatch(name):
            which += f" ({name})"
        try:
            edit = msgspec.convert(fields, ProposedEdit, strict=False)
        except msgspec.ValidationError as error:
            return None, [f"{which}: {_problem(str(error))}"]
        problems = list(_validate(edit, fields))
        try:
            edit = msgspec.structs.replace(edit, file_path=_file(self._workspace.root, edit.file_path))
        except ToolError as error:
            problems.append(f"`file_path`: {error}")
        return edit, [f"{which}: {problem}" for problem in problems]

    async def _resolve_paths(self, edits: Sequence[ProposedEdit]) -> list[ProposedEdit]:
        """With links followed. Raises ``InvalidArguments``."""
        resolved: list[ProposedEdit] = []
        problems: list[str] = []
        for number, edit in enumerate(edits, 1):
            try:
                path = await in_project(self._workspace, edit.file_path)
            except ToolError as error:
                problems.append(f"edit {number}: `file_path`: {error}")
            else:
                resolved.append(msgspec.structs.replace(edit, file_path=path))
        _raise_if_any(problems)
        return resolved


def _raise_if_any(problems: Sequence[str]) -> None:
    """Raises ``InvalidArguments``."""
    if problems:
        more = [f"and {len(problems) - MAX_PROBLEMS} more problems"] if len(problems) > MAX_PROBLEMS else []
        raise InvalidArguments(
            f"propose_edits failed; nothing was proposed. Fix this and retry: {'; '.join([*problems[:MAX_PROBLEMS], *more])}."
        )


def _file(root: str, requested: str) -> str:
    path = normalize(root, requested)
    if path == ".":
        raise ToolError("it is the project folder; name a file")
    return path


def _validate(edit: ProposedEdit, fields: dict[str, Any]) -> list[str]:
    """Problems that the types do not cover."""
    problems: list[str] = []
    if edit.edit_id and not _ID.fullmatch(edit.edit_id):
        problems.append("`edit_id`: expected at most 64 letters, digits and `_.:-`, or nothing")
    if edit.end_line is None and edit.operation != "insert":
        problems.append(
            f"`end_line` is missing: the last line to {edit.operation}, for one line the same as start_line"
        )
    if edit.end_line is not None and edit.end_line < edit.start_line:
        problems.append(f"`end_line` {edit.end_line} is before `start_line` {edit.start_line}")
    if edit.operation == "delete" and edit.new_text:
        problems.append('`new_text` must be empty for "delete"; to replace the lines, use "replace"')
    if edit.operation == "insert" and not edit.new_text:
        problems.append("`new_text`: expected the lines to insert")
    if edit.operation == "replace" and "new_text" not in fields:
        problems.append('`new_text` is missing: the replacement lines; to remove lines, use "delete"')
    if "\0" in edit.new_text or not is_text(edit.new_text):
        problems.append("`new_text` contains invalid characters (NUL, or half of a surrogate pair)")
    if edit.expected_hash is not None and not _HASH.fullmatch(edit.expected_hash):
        problems.append(f"`expected_hash`: {_EXPECTED['expected_hash']}")
    return problems


def _problem(problem: str) -> str:
    """An error of msgspec, rephrased to name the field and what it expects."""
    if match := re.fullmatch(r"Object missing required field `(\w+)`", problem):
        return f"`{match[1]}` is missing: {_EXPECTED[match[1]]}"
    if (match := re.search(r"at `\$\.(\w+)", problem)) and match[1] in _EXPECTED:
        return f"`{match[1]}`: {_EXPECTED[match[1]]}"
    return problem


def _duplicate_ids(edits: Sequence[ProposedEdit]) -> list[str]:
    names = [edit.edit_id for edit in edits if edit.edit_id]
    twice = sorted({name for name in names if names.count(name) > 1})
    return [f"the edit_id `{name}` is used twice; give each edit its own, or none" for name in twice]


def _with_id(edit: ProposedEdit) -> ProposedEdit:
    return edit if edit.edit_id else msgspec.structs.replace(edit, edit_id=f"e_{new_id()[:16]}")


def _describe(edit: ProposedEdit) -> str:
    lines = f"{edit.start_line}" if edit.end_line is None else f"{edit.start_line}-{edit.end_line}"
    return f"{edit.operation} {edit.file_path}:{lines}\n{edit.new_text}".rstrip("\n")
