"""The errors that leave Newel's code on purpose, and what each one means to a caller.

    NewelError
    ├── ConfigError               a setting is missing or wrong; the message names it and the remedy
    │   └── UsageError            what the command line asks for cannot be meant
    ├── ProviderError             the model's server did not give an answer
    │   ├── ConnectionFailed      no connection, or it broke before the answer was whole    (retried)
    │   ├── RateLimited           429, with ``retry_after`` seconds if the server named them (retried)
    │   ├── ServerFailed          408, 5xx, or an overloaded server                          (retried)
    │   ├── RequestRejected       any other 4xx: the key, the model's name, the request itself
    │   ├── ContextOverflow       the conversation is longer than the model's window
    │   └── BadResponse           an answer that is not of the protocol
    ├── ToolError                 a tool could not do its work; told to the model, never the run's end
    │   └── InvalidArguments      the call's arguments do not fit the tool's schema
    ├── WorkspaceError            the workspace refused or failed
    │   ├── StaleFile             the file is not what the caller last saw
    │   └── HostUnavailable              no request of that host fares better at the moment
    │       ├── HostUnreachable   there is no connection to it; nothing was begun there
    │       └── ConnectionLost    it broke meanwhile; whether the host did what it was asked is unknown
    └── SessionError              a session cannot be found, read, locked or written
        └── SessionInUse          another program writes to it

Errors that the model can mend travel to it as tool results; every other one propagates.
"""

from __future__ import annotations

import re
from typing import ClassVar


def as_sentence(words: str) -> str:
    """Words of others as a whole sentence, so that ours can follow: with a full stop, if they have no end of their own."""
    words = words.rstrip().rstrip(",;:-").rstrip()
    return words if not words or words.rstrip("\"'`)]}»”")[-1:] in (*".!?…。",) else f"{words}."


class NewelError(Exception):
    """Base of all errors raised on purpose. ``str(error)`` is fit for a user's eyes."""

    retryable = False
    code: ClassVar[str] = "newel_error"
    """Part of the wire format, in ``error`` events and HTTP answers. The class's name in snake case, unless the class gives another
    one: so a class can be renamed and keep its code.
    """

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        super().__init_subclass__()
        cls.code = code or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class ConfigError(NewelError):
    pass


class UsageError(ConfigError):
    pass


class ProviderError(NewelError):
    """``retry_after`` is in seconds, where the server asked for a pause."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class ConnectionFailed(ProviderError):
    retryable = True


class RateLimited(ProviderError):
    retryable = True


class ServerFailed(ProviderError):
    retryable = True


class RequestRejected(ProviderError):
    pass


class ContextOverflow(ProviderError):
    pass


class BadResponse(ProviderError):
    pass


class ToolError(NewelError):
    pass


class InvalidArguments(ToolError):
    pass


class WorkspaceError(NewelError):
    pass


class StaleFile(WorkspaceError):
    pass


class HostUnavailable(WorkspaceError, code="host_gone"):
    """To go on with another file of that host would only wait once more."""


class HostUnreachable(HostUnavailable):
    """``kind`` says what is in the way, for programs: the name, the port, the key…"""

    def __init__(self, message: str, *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class ConnectionLost(HostUnavailable):
    pass


class SessionError(NewelError):
    pass


class SessionInUse(SessionError):
    """``where`` says by whom: ``in another Newel (pid 7, since …)``."""

    def __init__(self, name: str, where: str) -> None:
        super().__init__(
            f"The session {name} is open {where}. Use --session with its id after closing it, or start a new one."
        )
        self.where = where
