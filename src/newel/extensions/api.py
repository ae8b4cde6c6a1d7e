"""What an extension can add to Newel: the argument of its ``register`` function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, overload

import msgspec

from newel.agent.ports import Provider, Tool
from newel.extensions.errors import RegistrationError
from newel.extensions.function_tool import TIMEOUT_S, FunctionTool
from newel.hooks.function_hook import FunctionHook, HookFunction
from newel.hooks.hook import EVENTS, MAX_TIMEOUT_S, problem_of_matcher

HookEvent = Literal[
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "Stop",
    "SubagentStop",
    "PreCompact",
]

CommandFunction = Callable[[str], str | Awaitable[str]]
"""Gets what was typed behind the command, and returns the prompt."""

OpenProvider = Callable[[str | None], Provider]
"""Returns a provider for a key, None if none is configured."""

Function = TypeVar("Function", bound=Callable[..., Any])
AnyHook = TypeVar("AnyHook", bound=HookFunction)
AnyCommand = TypeVar("AnyCommand", bound=CommandFunction)
Opener = TypeVar("Opener", bound=OpenProvider)

_TOOL_NAME: Final = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"


class ExtensionCommand(msgspec.Struct, frozen=True):
    """A slash command; ``hint`` says what arguments it takes."""

    name: str
    description: str
    hint: str
    function: CommandFunction
    file: str


class ExtensionProvider(msgspec.Struct, frozen=True):
    """A model server of an extension, at the address ``extension:NAME``."""

    name: str
    models: Sequence[str]
    context_window: int | None
    open: OpenProvider
    file: str


class ExtensionAPI:
    """Collects what one extension adds. ``name`` is the extension's. All of it is added, or nothing if ``register`` raises an exception."""

    def __init__(self, name: str, file: str) -> None:
        self.name = name
        self.file = file
        self.tools: dict[str, Tool] = {}
        self.hooks: list[FunctionHook] = []
        self.commands: dict[str, ExtensionCommand] = {}
        self.providers: dict[str, ExtensionProvider] = {}

    @overload
    def tool(self, function: Function, /) -> Function: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        label: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        timeout: float = TIMEOUT_S,
    ) -> Callable[[Function], Function]: ...

    def tool(
        self,
        function: Function | None = None,
        /,
        *,
        name: str | None = None,
        label: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        timeout: float = TIMEOUT_S,
    ) -> Function | Callable[[Function], Function]:
        """Offer a function to the model. Its parameters have types, and its docstring is the description. ``read_only``: a call changes
        nothing, so it needs no approval. ``timeout`` is in seconds.
        """

        def add(function: Function) -> Function:
            self.add_tool(
                FunctionTool(
                    function,
                    name=name,
                    label=label,
                    description=description,
                    read_only=read_only,
                    timeout=timeout,
                )
            )
            return function

        return add if function is None else add(function)

    def add_tool(self, tool: Tool) -> None:
        """Offer a tool of your own class, such as a ``newel.TypedTool``."""
        name = tool.spec.name
        if not re.fullmatch(_TOOL_NAME, name) or "__" in name:
            raise RegistrationError(
                f"a tool cannot be named {name!r}; use letters, digits, - and single _, at most 64"
            )
        self.tools[_free(name, self.tools, "tool")] = tool

    def on(
        self, event: HookEvent, *, matcher: str = "", timeout: float | None = None
    ) -> Callable[[AnyHook], AnyHook]:
        """Call a function at a named point of a conversation; ``matcher`` and ``timeout`` (in seconds) are those of hooks."""
        if callable(event):
            raise RegistrationError('a hook needs an event: `@newel.on("EVENT")`')
        if event not in EVENTS:
            raise RegistrationError(f"there is no event {event!r}; the events are {', '.join(EVENTS)}")
        if timeout is not None and not 0 < timeout <= MAX_TIMEOUT_S:
            raise RegistrationError(f"timeout is {timeout}; give seconds, at most {MAX_TIMEOUT_S:g}")
        if problem := problem_of_matcher(matcher):
            raise RegistrationError(f"the matcher {matcher!r} is not a regular expression ({problem})")

        def add(function: AnyHook) -> AnyHook:
            file, line = _place(function, self.file)
            name: str = getattr(function, "__qualname__", type(function).__name__)
            hook = FunctionHook(
                event=event,
                command=f"{name.rpartition('.')[2]}()",
                matcher=matcher,
                timeout=timeout,
                file=Path(file),
                line=line,
                level="user",
                function=function,
            )
            self.hooks.append(hook)
            return function

        return add

    def command(
        self, name: str, *, description: str = "", hint: str = ""
    ) -> Callable[[AnyCommand], AnyCommand]:
        """Add the command ``/name``: the function gets the text behind it and returns the prompt. ``hint`` says what that text is."""
        if callable(name):
            raise RegistrationError('a command needs a name: `@newel.command("NAME")`')
        if not re.fullmatch(_NAME, name):
            raise RegistrationError(
                f"a command cannot be named {name!r}; use letters, digits, -, _ and ., at most 64"
            )

        def add(function: AnyCommand) -> AnyCommand:
            says = description or (inspect.getdoc(function) or "").partition("\n")[0]
            command = ExtensionCommand(name, says, hint, function, self.file)
            self.commands[_free(name, self.commands, "command")] = command
            return function

        return add

    def provider(
        self, name: str, *, models: Sequence[str], context_window: int | None = None
    ) -> Callable[[Opener], Opener]:
        """Add a model server at the address ``extension:name``. The function gets the configured key and returns a ``Provider``.
        ``context_window`` is in tokens.
        """
        if not re.fullmatch(_NAME, name):
            raise RegistrationError(
                f"a provider cannot be named {name!r}; use letters, digits, -, _ and ., at most 64"
            )
        if not models or isinstance(models, str):
            raise RegistrationError(f"the provider {name} names no models; give a list of names")

        def add(function: Opener) -> Opener:
            provider = ExtensionProvider(name, [*models], context_window, function, self.file)
            self.providers[_free(name, self.providers, "provider")] = provider
            return function

        return add


def _place(function: object, file: str) -> tuple[str, int]:
    """The file of a function and its first line; those of the extension for any other callable."""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else (file, 1)


def _free(name: str, taken: dict[str, Any], kind: str) -> str:
    if name in taken:
        raise RegistrationError(f"it registers two {kind}s named {name}; rename one")
    return name
