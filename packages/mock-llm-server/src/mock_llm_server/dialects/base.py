"""The port of the APIs that the server speaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from mock_llm_server.answer import Answer
from mock_llm_server.conversation import ChatRequest, Problem
from mock_llm_server.http1 import Request
from mock_llm_server.reply import Reply
from mock_llm_server.scenarios import Script


class Dialect(Protocol):
    """One API.

    ``path`` is an example of a request's path, ``content_type`` that of a stream. ``end`` is the last piece of a stream if the API
    has one that carries nothing else, else empty; ``closing`` is the number of pieces at the end without which a stream is
    incomplete.
    """

    path: str
    content_type: str
    end: bytes
    closing: int

    def handles(self, request: Request) -> bool:
        """Whether a request asks a model by this API, whatever its method."""
        ...

    def query(self, request: Request, script: Script) -> Reply | None:  # noqa: ARG002
        """The reply to any other request of the API, such as one for the list of models; None if it is not of this API.

        ``Reply.methods`` are those that the path allows: the server refuses others.
        """
        return None

    def read(self, request: Request) -> ChatRequest:
        """Read the conversation. Raises ``msgspec.DecodeError`` for a body that is not a request of the API."""
        ...

    def refusal(self, request: Request, conversation: ChatRequest, script: Script) -> Reply | None:  # noqa: ARG002
        """The error for a request that no model of the script answers, strict or not; None for an API that takes any name."""
        return None

    def problem(self, request: Request, conversation: ChatRequest) -> Problem | None:
        """Why a strict endpoint would refuse the request."""
        ...

    def document(self, answer: Answer) -> Any:
        """An answer as one JSON document."""
        ...

    def events(self, answer: Answer, request: ChatRequest) -> Iterator[bytes]:
        """An answer as the pieces of a stream, in order, without ``end``."""
        ...

    def error(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """An error in the API's form."""
        ...

    def stream_error(self, message: str, kind: str, code: str | None) -> dict[str, Any]:
        """The object of an error within a stream."""
        ...

    def error_event(self, error: dict[str, Any]) -> bytes:
        """Such an object as a piece of a stream."""
        ...
