"""The errors that Newel raises on purpose, and their meaning to a caller.

    NewelError
    ├── ConfigError               a setting is missing or wrong; the message names it and the remedy
    │   └── UsageError            conflicting or meaningless options
    ├── ProviderError             the model's server gave no answer
    │   ├── ConnectionFailed      no connection, or it broke before the answer was complete (retried)
    │   ├── RateLimited           429; ``retry_after`` is in seconds, if the server names it (retried)
    │   ├── ServerFailed          408, 5xx, or an overloaded server (retried)
    │   │   └── GarbledAnswer     the server could not read what the model wrote (retried, a few times)
    │   ├── RequestRejected       any other 4xx: the key, the model's name, the request itself
    │   ├── ContextOverflow       the conversation is longer than the model's window
    │   └── BadResponse           the answer violates the protocol
    ├── NoProgress                the model goes on with a call that was refused because it had been repeated
    ├── ToolError                 a tool failed; the model gets the message, and the run continues
    │   └── InvalidArguments      the arguments of a call do not match the tool's schema
    ├── WorkspaceError            the workspace refused or failed
    │   ├── StaleFile             the file changed since the caller read it
    │   └── HostUnavailable       requests to that host fail at the moment
    │       ├── HostUnreachable   there is no connection to it; nothing was started there
    │       └── ConnectionLost    it broke during a request, whose outcome is unknown
    └── SessionError              a session cannot be found, read, locked or written
        └── SessionInUse          another program writes to it

Errors that the model can fix are sent to it as tool results; all others propagate.
"""

from __future__ import annotations

import re
from typing import ClassVar


def as_sentence(text: str) -> str:
    """A message of another program, with a full stop if it lacks one, so that more text can follow."""
    text = text.rstrip().rstrip(",;:-").rstrip()
    return text if not text or text.rstrip("\"'`)]}»”")[-1:] in (*".!?…。",) else f"{text}."


class NewelError(Exception):
    """Base of all errors raised on purpose. ``str(error)`` is a message for the user."""

    retryable = False
    code: ClassVar[str] = "newel_error"
    """Part of the wire format, in ``error`` events and HTTP answers: the class's name in snake case, unless the class names
    another, so that a class can be renamed without changing its code.
    """

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        super().__init_subclass__()
        cls.code = code or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without ``__init__``, whose parameters differ: a pool of processes breaks at an error that it cannot unpickle."""
        return _unpickle, (type(self), self.args), self.__dict__


def _unpickle(kind: type[NewelError], arguments: tuple[object, ...]) -> NewelError:
    return kind.__new__(kind, *arguments)


class ConfigError(NewelError):
    """A setting is missing or wrong. The message names it and the remedy."""


class UsageError(ConfigError):
    """Options that conflict, or that mean nothing here."""


class ProviderError(NewelError):
    """The model's server gave no answer. ``status`` is that of HTTP, if there was one; ``retry_after`` is in seconds, if the server asks
    for a pause.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class ConnectionFailed(ProviderError):
    """There is no connection to the server, or it broke before the answer was complete."""

    retryable = True


class RateLimited(ProviderError):
    """The server refuses more requests for now (429)."""

    retryable = True


class ServerFailed(ProviderError):
    """The server failed (408, 5xx) or is overloaded."""

    retryable = True


class GarbledAnswer(ServerFailed):
    """The model wrote what its server cannot read. Another attempt may succeed, but not many more."""


class RequestRejected(ProviderError):
    """The server refuses the request (any other 4xx): the key, the model's name, the request itself."""


class ContextOverflow(ProviderError):
    """The conversation is longer than the model's window."""


class BadResponse(ProviderError):
    """The answer violates the protocol."""


class NoProgress(NewelError):
    """The model goes on with a call that was refused because it had been repeated."""


class ToolError(NewelError):
    """A tool failed. The model gets the message as the call's result, and the run continues."""


class InvalidArguments(ToolError):
    """The arguments of a call do not match the tool's schema."""


class WorkspaceError(NewelError):
    """The workspace refused or failed: a file, a folder, a command, a host."""


class StaleFile(WorkspaceError):
    """The file has changed since the caller read it."""


class HostUnavailable(WorkspaceError, code="host_gone"):
    """Another request to that host would only wait again."""


class HostUnreachable(HostUnavailable):
    """``kind`` is the cause, for programs: the name, the port, the key…"""

    def __init__(self, message: str, *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class ConnectionLost(HostUnavailable):
    """The connection to the host broke during a request, whose outcome is unknown."""


class SessionError(NewelError):
    """A session cannot be found, read, locked or written."""


class SessionInUse(SessionError):
    """``where`` describes the other writer: ``in another Newel (pid 7, since …)``."""

    def __init__(self, session_id: str, where: str) -> None:
        short = session_id[:8]
        super().__init__(
            f"The session {short} is open {where}. Close it there and use --session {short}, or start a new one."
        )
        self.where = where
