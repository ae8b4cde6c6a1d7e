"""The methods of a client, as Newel calls them: permissions, files and terminals. The rest of the protocol is in ``protocol``."""

from __future__ import annotations

from typing import Literal

from newel.acp.protocol import Acp, CallFields, NameAndValue, SessionParams


class PermissionOption(Acp, frozen=True):
    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionParams(SessionParams, frozen=True):
    tool_call: CallFields
    options: list[PermissionOption]


class PermissionOutcome(Acp, frozen=True):
    outcome: Literal["selected", "cancelled"]
    option_id: str | None = None


class PermissionResult(Acp, frozen=True):
    outcome: PermissionOutcome


class ReadFileParams(SessionParams, frozen=True):
    path: str


class ReadFileResult(Acp, frozen=True):
    content: str


class WriteFileParams(SessionParams, frozen=True):
    path: str
    content: str


class CreateTerminalParams(SessionParams, frozen=True):
    """``output_byte_limit`` keeps the end of the output."""

    command: str
    args: list[str]
    env: list[NameAndValue]
    cwd: str
    output_byte_limit: int


class CreateTerminalResult(Acp, frozen=True):
    terminal_id: str


class TerminalParams(SessionParams, frozen=True):
    terminal_id: str


class ExitStatus(Acp, frozen=True):
    """How a command ended: its exit code, or the name of a signal. Both are None if the client does not know."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(Acp, frozen=True):
    output: str
    truncated: bool | None = False
    exit_status: ExitStatus | None = None
