"""The answers of the model in browser tests."""

from __future__ import annotations

import sys
from typing import Any

from tests.support import bash

MARKDOWN = """The flag is in place: `--dry-run` prints what **would** be written.

## What changed

1. `cli.py` takes the flag
2. so does [the test](https://example.org/test)

```python
def run(source, *, dry_run=False):
    return 0 if dry_run else write(source)
```

| file | lines |
|---|---:|
| cli.py | 14 |
"""
LONG = "echo " + "a very long command " * 10
WAIT = "until [ -e go ]; do sleep 0.02; done"
"""A command that runs until the file ``go`` is in the project."""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def verdict(why: str, *, satisfied: bool, missing: str = "") -> dict[str, Any]:
    return call("verdict", satisfied=satisfied, why=why, missing=missing)


def scenarios(*given: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": list(given), "default_response": {"content": "Yes."}}


def answering(trigger: str, *steps: dict[str, Any]) -> dict[str, Any]:
    whole = [step if "response" in step else {"response": step} for step in steps]
    return {"name": trigger, "trigger": trigger, "steps": whole}


WORK = answering(
    "add a flag",
    {
        "reasoning_content": "The file first, then the edit.",
        "content": "I look at the file.",
        **call("read", file_path="cli.py"),
    },
    call("edit", file_path="cli.py", old_string="run(source)", new_string="run(source, dry_run=True)"),
    bash("echo one; echo two"),
    bash(LONG),
    {"content": MARKDOWN},
)
SLOW = answering(
    "tell me slowly", {"token_delay_ms": 40, "response": {"content": "begin " + "word " * 30 + "end"}}
)

_ASKING = """
from typing import Annotated
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import ElicitRequest, ElicitRequestURLParams, InputRequiredResult
from pydantic import BaseModel, Field
server = MCPServer("asking")
class Booking(BaseModel):
    name: str = Field(description="Who comes")
    guests: int = 2
    window: bool = False
class Trap(BaseModel):
    field: str = Field(title="PROBE", description="PROBE")
def ask() -> Elicit[Booking]:
    return Elicit("Which table?", Booking)
def lure() -> Elicit[Trap]:
    return Elicit("PROBE", Trap)
@server.tool()
def book(booking: Annotated[Booking, Resolve(ask)]) -> str:
    return f"{booking.name} {booking.guests} {booking.window}"
@server.tool(description="PROBE")
def trap(given: Annotated[Trap, Resolve(lure)]) -> str:
    return given.field
@server.tool(structured_output=False)
def pay(context: Context) -> str | InputRequiredResult:
    if context.input_responses:
        return context.input_responses["pay"].action
    asked = ElicitRequest(params=ElicitRequestURLParams(message="Pay there", url="https://pay.invalid/\u200b?bill=7"))
    return InputRequiredResult(input_requests={"pay": asked})
server.run()
"""
PROBE = "<img src=x onerror='window.pwned=1'>"
ASKING = {"command": sys.executable, "args": ["-c", _ASKING.replace("PROBE", PROBE)]}
"""An MCP server that asks: by a form, by an address, and with a text that would run in a careless page."""
