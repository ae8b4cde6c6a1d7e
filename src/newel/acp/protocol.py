"""Version 1 of the Agent Client Protocol on the wire: the parameters that clients send, and what Newel answers and shows. What Newel asks
of a client is in ``client_methods``.

The source is the protocol's JSON schema. Only what Newel reads or writes is here: unknown fields of a client are ignored. Field
names are camelCase on the wire. Another version of the protocol would be other modules like these.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

VERSION: Final = 1


class Acp(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all types of the protocol."""


class Implementation(Acp, frozen=True):
    """A program: the client or the agent."""

    name: str = ""
    version: str = ""
    title: str | None = None


# -- the client -----------------------------------------------------------------------------------


class FileSystemCapabilities(Acp, frozen=True):
    read_text_file: bool | None = False
    write_text_file: bool | None = False


class AuthCapabilities(Acp, frozen=True):
    terminal: bool | None = False


class ClientCapabilities(Acp, frozen=True):
    """What the client does for an agent. By default it does nothing."""

    fs: FileSystemCapabilities | None = None
    terminal: bool | None = False
    auth: AuthCapabilities | None = None

    @property
    def reads(self) -> bool:
        return bool(self.fs and self.fs.read_text_file)

    @property
    def writes(self) -> bool:
        return bool(self.fs and self.fs.write_text_file)


class InitializeParams(Acp, frozen=True):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None


class NameAndValue(Acp, frozen=True):
    """A variable of an environment, or a header."""

    name: str
    value: str


class McpServer(Acp, frozen=True):
    """An MCP server of the client: a program by default, or at a URL if it has a ``type``."""

    name: str
    type: str | None = None
    command: str | None = None
    args: list[str] = []
    env: list[NameAndValue] = []
    url: str | None = None
    headers: list[NameAndValue] = []


class NewSessionParams(Acp, frozen=True):
    cwd: str
    mcp_servers: list[McpServer] | None = None


class OpenSessionParams(NewSessionParams, frozen=True, kw_only=True):
    """For ``session/load``, ``session/resume`` and ``session/fork``."""

    session_id: str


class ListSessionsParams(Acp, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class SessionParams(Acp, frozen=True):
    """For ``session/close``, ``session/delete`` and ``session/cancel``."""

    session_id: str


class SetModeParams(SessionParams, frozen=True):
    mode_id: str


class SetConfigParams(SessionParams, frozen=True):
    config_id: str
    value: str


class AuthenticateParams(Acp, frozen=True):
    method_id: str


# -- content --------------------------------------------------------------------------------------


class Block(Acp, frozen=True, tag_field="type"):
    """Base of the blocks of a prompt or a message."""


class TextBlock(Block, frozen=True, tag="text"):
    text: str


class ImageBlock(Block, frozen=True, tag="image"):
    """``data`` is base64."""

    data: str
    mime_type: str
    uri: str | None = None


class AudioBlock(Block, frozen=True, tag="audio"):
    data: str
    mime_type: str


class ResourceLink(Block, frozen=True, tag="resource_link"):
    """A file or page that the prompt names."""

    uri: str
    name: str


class Resource(Acp, frozen=True):
    """An embedded file: ``text``, or base64 in ``blob``."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class ResourceBlock(Block, frozen=True, tag="resource"):
    resource: Resource


Content = TextBlock | ImageBlock | AudioBlock | ResourceLink | ResourceBlock


class PromptParams(SessionParams, frozen=True):
    prompt: list[Content]


# -- tool calls -----------------------------------------------------------------------------------

ToolKind = Literal["read", "edit", "search", "execute", "think", "fetch", "other"]
ToolStatus = Literal["pending", "in_progress", "completed", "failed"]


class CallContent(Acp, frozen=True, tag_field="type"):
    """Base of what a tool call shows."""


class ContentOfCall(CallContent, frozen=True, tag="content"):
    content: Content


class DiffOfCall(CallContent, frozen=True, tag="diff"):
    """A change of a file; ``old_text`` is None for a new file."""

    path: str
    new_text: str
    old_text: str | None = None


class TerminalOfCall(CallContent, frozen=True, tag="terminal"):
    terminal_id: str


class Location(Acp, frozen=True):
    """A file that a call works on; ``line`` counts from 1."""

    path: str
    line: int | None = None


class CallFields(Acp, frozen=True):
    """A tool call. In an update, None means that nothing changed."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolStatus | None = None
    content: list[ContentOfCall | DiffOfCall | TerminalOfCall] | None = None
    locations: list[Location] | None = None
    raw_input: Any = None
    raw_output: Any = None


# -- updates of a session -------------------------------------------------------------------------


class UserMessageChunk(Acp, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    content: Content
    message_id: str | None = None


class AgentMessageChunk(Acp, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    content: Content
    message_id: str | None = None


class AgentThoughtChunk(Acp, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    content: Content
    message_id: str | None = None


class ToolCallStart(CallFields, frozen=True, tag_field="sessionUpdate", tag="tool_call"):
    pass


class ToolCallProgress(CallFields, frozen=True, tag_field="sessionUpdate", tag="tool_call_update"):
    pass


PlanStatus = Literal["pending", "in_progress", "completed"]


class PlanEntry(Acp, frozen=True):
    content: str
    status: PlanStatus
    priority: Literal["high", "medium", "low"]


class PlanUpdate(Acp, frozen=True, tag_field="sessionUpdate", tag="plan"):
    entries: list[PlanEntry]


class CommandHint(Acp, frozen=True):
    hint: str


class AvailableCommand(Acp, frozen=True):
    name: str
    description: str
    input: CommandHint | None = None


class AvailableCommandsUpdate(Acp, frozen=True, tag_field="sessionUpdate", tag="available_commands_update"):
    available_commands: list[AvailableCommand]


class CurrentModeUpdate(Acp, frozen=True, tag_field="sessionUpdate", tag="current_mode_update"):
    current_mode_id: str


class ConfigChoice(Acp, frozen=True):
    value: str
    name: str
    description: str | None = None


class ConfigOption(Acp, frozen=True, tag_field="type", tag="select"):
    id: str
    name: str
    category: Literal["mode", "model", "thought_level"]
    current_value: str
    options: list[ConfigChoice]
    description: str | None = None


class ConfigOptionUpdate(Acp, frozen=True, tag_field="sessionUpdate", tag="config_option_update"):
    config_options: list[ConfigOption]


class SessionInfoUpdate(Acp, frozen=True, tag_field="sessionUpdate", tag="session_info_update"):
    title: str | None = None
    updated_at: str | None = None


class Cost(Acp, frozen=True):
    amount: float
    currency: str


class UsageUpdate(Acp, frozen=True, tag_field="sessionUpdate", tag="usage_update"):
    """``used`` and ``size`` are tokens of the context."""

    used: int
    size: int
    cost: Cost | None = None


Update = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallProgress
    | PlanUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
)


class SessionUpdate(Acp, frozen=True):
    session_id: str
    update: Update


# -- Newel's answers ------------------------------------------------------------------------------


class PromptCapabilities(Acp, frozen=True):
    image: bool = False
    embedded_context: bool = False


class McpCapabilities(Acp, frozen=True):
    http: bool = False


class EmptyCapability(Acp, frozen=True):
    """An empty object: the method exists."""


class SessionCapabilities(Acp, frozen=True, omit_defaults=False):
    list: EmptyCapability = EmptyCapability()
    delete: EmptyCapability = EmptyCapability()
    fork: EmptyCapability = EmptyCapability()
    resume: EmptyCapability = EmptyCapability()
    close: EmptyCapability = EmptyCapability()


class AgentCapabilities(Acp, frozen=True):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: SessionCapabilities | None = None


class EnvVariable(Acp, frozen=True):
    name: str
    label: str | None = None
    secret: bool = True
    optional: bool = False


class AuthMethod(Acp, frozen=True):
    """``env_var`` names variables that the client sets before it starts the agent; ``terminal`` is a command of the agent."""

    id: str
    name: str
    description: str | None = None
    type: Literal["env_var", "terminal"] | None = None
    vars: list[EnvVariable] | None = None
    args: list[str] | None = None


class InitializeResult(Acp, frozen=True):
    protocol_version: int
    agent_capabilities: AgentCapabilities
    agent_info: Implementation
    auth_methods: list[AuthMethod]


class ModeChoice(Acp, frozen=True):
    id: str
    name: str
    description: str | None = None


class ModeState(Acp, frozen=True):
    current_mode_id: str
    available_modes: list[ModeChoice]


class SessionState(Acp, frozen=True):
    """The answer to ``session/load`` and ``session/resume``."""

    modes: ModeState
    config_options: list[ConfigOption]


class NewSessionResult(SessionState, frozen=True):
    session_id: str


class SetConfigResult(Acp, frozen=True):
    config_options: list[ConfigOption]


class SavedSession(Acp, frozen=True):
    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResult(Acp, frozen=True, omit_defaults=False):
    sessions: list[SavedSession]
    next_cursor: str | None = None


StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class PromptUsage(Acp, frozen=True, omit_defaults=False):
    """Tokens of a prompt. ``input_tokens`` contains the cached ones."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    cached_read_tokens: int
    cached_write_tokens: int


class PromptResponse(Acp, frozen=True):
    stop_reason: StopReason
    usage: PromptUsage | None = None
