"""Reduce what servers answer to what Newel reads, before the SDK validates it.

The SDK refuses a whole answer for one invalid field of one item, be it a hint that nobody reads: a block of a kind that is
newer than the SDK would cost the texts beside it, a tool without a schema all tools of its server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

if TYPE_CHECKING:
    from contextvars import Context

    from mcp.shared.message import SessionMessage

Json = dict[str, Any]

NOTE: Final = "newel/note"
"""The key in ``_meta`` of a text block that stands for one that was left out."""

_MAX_KIND: Final = 100
"""Characters of an unknown type that are quoted."""


@asynccontextmanager
async def tolerant(transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of a transport, where every result of a server is reduced to what Newel reads."""
    async with transport as (incoming, outgoing):
        yield _TolerantStream(incoming), outgoing


class _TolerantStream:
    """The stream from a server; has the methods of ``mcp.shared._stream_protocols.ReadStream``."""

    def __init__(self, incoming: Any) -> None:
        self._incoming = incoming

    @property
    def last_context(self) -> Context | None:
        """The context of the last message's sender, where the transport keeps it."""
        return getattr(self._incoming, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return _reduced(await self._incoming.receive())

    def __aiter__(self) -> AsyncIterator[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return _reduced(await self._incoming.__anext__())

    async def aclose(self) -> None:
        await self._incoming.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _reduced(item: SessionMessage | Exception) -> SessionMessage | Exception:
    if not isinstance(item, Exception):
        result = getattr(item.message, "result", None)
        if isinstance(result, dict):
            reduce_result(cast("Json", result))
    return item


def reduce_result(result: Json) -> None:
    """Reduce the result of a request, in place, if it is a list of tools or the result of a call."""
    if isinstance(tools := result.get("tools"), list):
        listed = [_tool(item) for item in cast("list[Any]", tools)]
        result["tools"] = [tool for tool in listed if tool is not None]
    if result.keys() & {"content", "structuredContent"}:
        _reduce_call_result(result)


# -- tools ------------------------------------------------------------------------------------------


def _tool(item: Any) -> Json | None:
    """A tool as the protocol has it; None for what nobody could call."""
    tool = _object(item)
    if not isinstance(tool.get("name"), str):
        return None
    annotations = _object(tool.get("annotations"))
    return {
        **_texts(tool, "name", "title", "description"),
        "inputSchema": _schema(tool.get("inputSchema")),
        "annotations": {"readOnlyHint": annotations.get("readOnlyHint") is True},
    }


def _schema(item: Any) -> Json:
    """The schema of arguments, which are always an object."""
    schema = {**_object(item), "type": "object"}
    if "properties" in schema:
        properties = _object(schema["properties"])
        schema["properties"] = {
            name: value if isinstance(value, dict | bool) else {} for name, value in properties.items()
        }
    if "required" in schema:
        required: Any = schema["required"]
        names = cast("list[Any]", required) if isinstance(required, list) else []
        schema["required"] = [name for name in names if isinstance(name, str)]
    if not isinstance(schema.get("$schema", ""), str):
        del schema["$schema"]
    return schema


# -- results of calls -------------------------------------------------------------------------------


def _reduce_call_result(result: Json) -> None:
    content = result.get("content")
    items = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    result["content"] = [_block(item) for item in items]
    if (structured := result.get("structuredContent")) is None:
        result.pop("structuredContent", None)
    elif not isinstance(structured, dict):
        result["structuredContent"] = {"result": structured}  # as the SDK has servers wrap it
    if not isinstance(result.get("isError"), bool | str):
        result.pop("isError", None)


def _block(item: Any) -> Json:
    """A block of content with the fields that ``tool_call.to_result`` reads."""
    if isinstance(item, str):
        return {"type": "text", "text": item}
    block = _object(item)
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return {"type": "text", "text": block["text"]}
        case "image" | "audio" as kind if isinstance(block.get("data"), str):
            return {"type": kind, "mimeType": "unknown type", **_texts(block, "data", "mimeType")}
        case "resource_link" if isinstance(block.get("uri"), str):
            return {
                "type": "resource_link",
                "name": "(unnamed)",
                **_texts(block, "name", "uri", "description"),
            }
        case "resource":
            return _resource(_object(block.get("resource")))
        case str() as kind if kind not in {"text", "image", "audio", "resource_link"}:
            return _left_out(f"content of the unknown type {kind[:_MAX_KIND]!r} left out")
        case _:
            return _left_out("invalid content left out")


def _resource(resource: Json) -> Json:
    fields = _texts(resource, "uri", "mimeType", "text", "blob")
    if not fields.keys() & {"text", "blob"}:
        return _left_out("invalid content left out")
    return {"type": "resource", "resource": {"uri": "(unnamed)", **fields}}


def _left_out(note: str) -> Json:
    return {"type": "text", "text": note, "_meta": {NOTE: True}}


def _object(item: Any) -> Json:
    return cast("Json", item) if isinstance(item, dict) else {}


def _texts(item: Json, *names: str) -> Json:
    """The fields of these names that are text."""
    return {name: item[name] for name in names if isinstance(item.get(name), str)}
