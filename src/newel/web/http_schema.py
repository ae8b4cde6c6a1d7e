"""JSON over HTTP: the same structs parse, encode and document it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from newel.agent.errors import NewelError, ProviderError
from newel.agent.messages import Wire
from newel.text.json import decode_json, to_json

T = TypeVar("T")


class Failure(Wire, frozen=True):
    """``code`` is for programs, ``message`` for users."""

    code: str
    message: str


class ErrorResponse(Wire, frozen=True):
    """The body of every error response."""

    error: Failure


class Json(Response):
    """A struct as JSON."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return to_json(content)


def error_response(status: int, code: str, message: str) -> Json:
    return Json(ErrorResponse(Failure(code, message)), status_code=status)


class ApiError(HTTPException):
    """An error response with a status and an error code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, message)
        self.code = code


async def read_body(request: Request, kind: type[T]) -> T:
    """The body as a struct. Raises ``HTTPException`` 422."""
    try:
        return decode_json(await request.body(), kind)
    except msgspec.DecodeError as error:
        raise HTTPException(422, f"The body is invalid: {error}.") from error


# -- failures -----------------------------------------------------------------------------------------

CODES = {404: "not_found", 405: "method_not_allowed", 422: "malformed_request"}


def handle_failures(app: FastAPI) -> None:
    """Give every error response the same shape."""

    async def respond(_: Request, error: Exception) -> Response:
        match error:
            case HTTPException():
                code = error.code if isinstance(error, ApiError) else CODES.get(error.status_code, "refused")
                response = error_response(error.status_code, code, str(error.detail))
                response.headers.update(error.headers or {})
                return response
            case RequestValidationError():
                problems = (
                    f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
                )
                return error_response(422, CODES[422], f"{'; '.join(problems)}.")
            case NewelError():
                return error_response(
                    502 if isinstance(error, ProviderError) else 409, error.code, str(error)
                )
            case _:
                raise error

    for kind in (HTTPException, RequestValidationError, NewelError):
        app.add_exception_handler(kind, respond)


# -- OpenAPI ------------------------------------------------------------------------------------------


def route(
    summary: str,
    response: type | None = None,
    *failures: int,
    body: type | None = None,
    stream: Sequence[str] = (),
) -> dict[str, Any]:
    """The description of a route: its response is a struct, bytes, or a stream of events with these names. ``failures`` are
    its error responses, besides the middleware's and those of a body.
    """
    content = {"application/json": {"schema": _reference(body)}} if body is not None else None
    return {
        "summary": summary,
        "responses": _responses(response, {*failures, *(_WRITES if content else ())}, stream),
        "response_class": Response,
        "openapi_extra": {"requestBody": {"required": True, "content": content}} if content else None,
    }


def _responses(
    kind: type | None, failures: set[int], stream: Sequence[str]
) -> dict[int | str, dict[str, Any]]:
    good: dict[str, Any] = {}
    if kind is bytes:
        good["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    elif kind is not None:
        good["application/json"] = {"schema": _reference(kind)}
    if stream:
        good["text/event-stream"] = {"schema": _event(stream)}
    responses: dict[int | str, dict[str, Any]] = {200: {"description": "Done.", "content": good}}
    for status in (400, 401, 403, 421, *sorted(failures)):
        responses[status] = {
            "description": _REFUSALS[status],
            "content": {"application/json": {"schema": _reference(ErrorResponse)}},
        }
    return responses


def _event(names: Sequence[str]) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            "event": {"enum": [*names]},
            "id": text,
            "data": text | {"contentMediaType": "application/json"},
        },
        "required": ["event", "data"],
    }


_REFUSALS = {
    400: "The request is malformed.",
    401: "The token is missing or wrong.",
    403: "The request comes from another page.",
    404: "Not found.",
    408: "The body did not arrive in time.",
    409: "The request is not possible in the current state.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The Host header does not name this server.",
    422: "A value has the wrong shape.",
    500: "A file could not be written.",
    502: "The model's server failed.",
    503: "No model is available, the host is unreachable, or Newel's storage failed.",
}
_WRITES = (408, 413, 415, 422)
"""Further responses of every route with a body."""


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def schemas_of(kinds: Sequence[type], template: str) -> dict[str, dict[str, Any]]:
    """The JSON Schemas of structs and of those in them, by name. Descriptions are dedented, as Python 3.13 and later do it, so
    that they are the same on every version.
    """
    _, schemas = msgspec.json.schema_components(kinds, ref_template=template)
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
    return schemas


def describe(app: FastAPI, kinds: list[type]) -> None:
    """Add the schemas of these structs to the application's OpenAPI document."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        document.setdefault("components", {})["schemas"] = schemas_of(kinds, "#/components/schemas/{name}")
        return document

    app.openapi = openapi
