"""If these fail, a form of a tool server that the page cannot show ends the display of its conversation, also after a reload."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from newel.app.workbench_agents import elicit_handler
from newel.mcp.types import ElicitAnswer, ElicitRequest
from newel.runs.models import TabQuestion


def answer(properties: Any) -> tuple[ElicitAnswer, list[TabQuestion]]:
    """The answer of a user who accepts, and what the user was asked."""
    asked: list[TabQuestion] = []

    async def accept(question: TabQuestion) -> dict[str, Any]:
        asked.append(question)
        return {"action": "accept", "content": {}}

    schema = {"type": "object", "properties": properties}
    request = ElicitRequest(server="s", message="Which?", schema=schema, url=None)
    return anyio.run(elicit_handler(accept), request), asked


@pytest.mark.parametrize(
    "properties",
    [
        {"it": None},
        {"it": {"type": "string", "title": 5}},
        {"it": {"type": "string", "enum": "abc"}},
        {"it": {"type": "string", "oneOf": [None]}},
        {"it": {"type": "object", "properties": {}}},
        ["it"],
    ],
)
def test_a_form_that_is_none_is_declined_unasked(properties: Any) -> None:
    said, asked = answer(properties)
    assert (said.action, asked) == ("decline", [])


def test_a_form_is_asked_with_its_fields() -> None:
    said, (question,) = answer({"it": {"type": "string"}})
    assert said.action == "accept"
    assert question.fields["properties"] == {"it": {"type": "string"}}
