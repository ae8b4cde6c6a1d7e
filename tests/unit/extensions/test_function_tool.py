"""If these fail, a model calls a function with arguments that its types do not allow, or an author is not told what to change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from newel.agent.errors import InvalidArguments
from newel.extensions import RegistrationError, ToolContext
from newel.extensions.function_tool import FunctionTool


def order(
    item: Annotated[str, msgspec.Meta(description="What to order")],
    context: ToolContext,
    size: Literal["small", "large"] = "small",
    extras: list[str] | None = None,
    counts: list[int] = [1],  # noqa: B006 — what authors write
) -> str:
    """Order something.

    Only once.
    """
    counts.append(2)
    return f"{item} {size} {extras} {counts} {context.folder}"


async def ignore(text: str) -> None:
    del text


def test_the_signature_is_the_schema_and_the_docstring_the_description() -> None:
    spec = FunctionTool(order).spec
    assert (spec.name, spec.description) == ("order", "Order something.\n\nOnly once.")
    assert spec.parameters["required"] == ["item"]
    assert spec.parameters["properties"] == {
        "item": {"type": "string", "description": "What to order"},
        "size": {"enum": ["large", "small"]},
        "extras": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "array", "items": {"type": "integer"}},
    }


@pytest.mark.anyio
async def test_defaults_are_not_shared_by_calls() -> None:
    tool = FunctionTool(order)
    arguments = tool.parse({"item": "tea"})
    for _ in range(2):
        with pytest.raises(LookupError):  # no agent, no folder
            await tool.execute(arguments, ignore)
    assert "counts" in repr(tool.parse({"item": "tea"}))
    assert tool.parse({"item": "tea"}) == arguments


def test_arguments_of_other_types_are_refused() -> None:
    tool = FunctionTool(order)
    refused: list[dict[str, Any]] = [
        {},
        {"item": 5},
        {"item": "x", "size": "huge"},
        {"item": "x", "context": {}},
    ]
    for arguments in refused:
        with pytest.raises(InvalidArguments):
            tool.parse(arguments)


def undescribed() -> str:
    return ""


def many(*words: str) -> str:
    """Join words."""
    return " ".join(words)


def opened(path: Path) -> str:
    """Open a file."""
    return path.read_text()


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (undescribed, "has no description"),
    (many, "a model can only give names"),
    (opened, "a parameter that no model can give: type <class 'pathlib.*Path'> is not supported"),
]


@pytest.mark.parametrize(("function", "says"), REFUSED)
def test_a_function_that_cannot_be_a_tool_is_refused(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(RegistrationError, match=says):
        FunctionTool(function, name="f")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "output"),
    [(None, "(no output)"), ("text", "text"), ({"a": [1]}, '{"a":[1]}'), (5, "5")],
)
async def test_what_a_function_returns_is_a_text(answer: object, output: str) -> None:
    def give() -> object:
        """Give."""
        return answer

    tool = FunctionTool(give)
    assert (await tool.execute(tool.parse({}), ignore)).output == output
