"""Write docs/protocol.md: the messages of the workbench's socket, from the types that encode and decode them.

python scripts/protocol_doc.py            write it
python scripts/protocol_doc.py --check    exit 1 if the file is out of date
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec

from newel.agent.events import MessageEnd, MessageUpdate, TextDelta
from newel.agent.messages import AssistantMessage, TextContent, Usage, UserMessage
from newel.mcp.types import ServerStatus, ToolStatus
from newel.runs.models import (
    Contract,
    LiveSnapshot,
    ModelStatus,
    QueuedMessage,
    Snapshot,
    Tab,
    TabQuestion,
    TabTotals,
)
from newel.web import protocol as p
from newel.web.http_schema import schemas_of
from newel.workspace.ssh.host_monitor import HostState

TARGET = Path(__file__).resolve().parent.parent / "docs" / "protocol.md"

TAB = Tab(id="7f3a", kind="chat", title="Chat", session="b21c", status="running", run="9e04", activity=4)
AGENT = Contract(text="Review all Python files for security issues.", accept="pytest -q")
SERVER = ServerStatus(
    name="git",
    state="active",
    origin="~/.newel/mcp_config.json",
    target="mcp-server-git",
    tools=[ToolStatus(name="git_status", description="Shows the working tree status")],
)
HOST = HostState(
    user="me", host="example.org", folder="/srv/shop", state="lost", reason="the connection ended"
)
ASKED = UserMessage("Fix the bug in auth.py", id="u1", timestamp="2026-01-31T09:30:00.125Z")
NEXT = UserMessage("And test it", id="u2", timestamp="2026-01-31T09:30:04.000Z")
SAID = AssistantMessage(
    [TextContent("Found it on line 42.")],
    model="qwen2.5-coder",
    provider="localhost",
    usage=Usage(input=900, output=12),
    id="a1",
    timestamp="2026-01-31T09:30:02.500Z",
)
QUESTION = TabQuestion(id="q1", kind="approval", title="bash", preview="pytest -q", folder="/home/me/shop")

EXAMPLES: list[p.SocketRequest | p.ServerMessage] = [
    p.WatchTab(id="1", tab="7f3a", run="9e04", after=12),
    p.Unwatch(id="2", tab="7f3a"),
    p.OpenChat(id="3", agent_mode="local", approve="ask", thinking="low"),
    p.OpenAgent(id="4"),
    p.CloseTab(id="5", tab="7f3a"),
    p.RenameTab(id="6", tab="7f3a", title="The auth bug"),
    p.SetModel(id="7", tab="7f3a", model="qwen2.5-coder"),
    p.SetAgentMode(id="23", tab="7f3a", mode="local"),
    p.SetTabApprove(id="25", tab="7f3a", mode="ask"),
    p.SetTabThinking(id="26", tab="7f3a", level="high"),
    p.SwitchBranch(id="27", tab="7f3a", message="u1", before=True),
    p.GetPrompts(id="28"),
    p.GetPaths(id="29", part="~/notes/t"),
    p.Send(id="8", tab="7f3a", message_id="u1", text="Fix the bug in auth.py"),
    p.Withdraw(id="20", tab="7f3a", message_id="u2"),
    p.SendNow(id="21", tab="7f3a", message_id="u2"),
    p.RetryMessage(id="9", tab="7f3a"),
    p.StopTab(id="10", tab="7f3a", now=True),
    p.Start(id="11", tab="c0de", contract=AGENT),
    p.GetHistory(id="12", tab="7f3a", before="u1", limit=50),
    p.GetSubagent(id="24", tab="7f3a", session="8d21"),
    p.AnswerQuestion(id="13", tab="7f3a", question="q1", answer={"decision": "once"}),
    p.GetSessions(id="14"),
    p.GetModels(id="15", tab="7f3a"),
    p.UseServer(id="22", base_url="http://127.0.0.1:11434/v1", model="qwen2.5-coder"),
    p.SetServer(id="16", server="git", trusted=True),
    p.SetTool(id="17", server="git", tool="git_status", enabled=False),
    p.RestartServer(id="18", server="git"),
    p.Ping(id="19"),
    p.Welcome(
        version=p.VERSION,
        newel="0.1.0",
        server="5ad1",
        project="/home/me/shop",
        model="qwen2.5-coder",
        approve="auto",
        sandbox="workspace",
        sandbox_problem="",
        ephemeral=False,
        review=True,
        tabs=[TAB],
        servers=[SERVER],
        host=None,
        where="",
        problem="",
        agent_mode="remote",
        thinking="off",
    ),
    p.Tabs(tabs=[TAB]),
    p.SnapshotMessage(
        tab="7f3a", seq=2, snapshot=Snapshot(messages=[ASKED], run="9e04", seq=2, totals=TabTotals(input=900))
    ),
    p.EventMessage(
        tab="7f3a",
        seq=3,
        run="9e04",
        event=MessageEnd(message=SAID, timestamp="2026-01-31T09:30:02.501Z"),
    ),
    p.SoFarMessage(tab="7f3a", seq=2, run="9e04", so_far=LiveSnapshot(message=SAID)),
    p.TotalsMessage(tab="7f3a", totals=TabTotals(input=900, output=12, context=912, window=32768)),
    p.QuestionsMessage(tab="7f3a", questions=[QUESTION]),
    p.QueueMessage(tab="7f3a", messages=[QueuedMessage(message=NEXT)]),
    p.ModelMessage(model=ModelStatus(name="qwen2.5-coder")),
    p.Servers(servers=[SERVER]),
    p.PermissionsChanged(),
    p.HostMessage(host=HOST),
    p.ReviewChanged(revs={"src/auth.py": 7}),
    p.ReplyMessage(re="8", tab="7f3a", run="9e04"),
    p.ErrorMessage(re="8", tab="7f3a", code="board_error", message="This tab was closed."),
]
FLEETING = p.EventMessage(
    tab="7f3a",
    seq=2,
    run="9e04",
    event=MessageUpdate(
        message_id="a1", assistant_message_event=TextDelta("Found "), timestamp="2026-01-31T09:30:01.000Z"
    ),
)

HEAD = """\
# The workbench's socket

<!-- Written by scripts/protocol_doc.py from src/newel/web/protocol.py: change the types, then run it. -->

The page talks to its server over one WebSocket, `/ws`, and so can any other program. Programs send the server's token in the
handshake: `Authorization: Bearer <token>`. The page, which sends its `Origin`, offers two subprotocols: `newel`, which the server
accepts, and `newel-page-proof.<proof>`, from its [login](#the-login-of-the-page). Messages are text frames with one JSON
object each, at most 8 MiB; a longer one closes the socket with 1009. A message that cannot be read is answered
with an `error`, and the socket stays. A reader that takes nothing for 30 seconds, or answers no ping for 20, is closed; it may
come back and go on from the number it knows.

{intro}

This is version {version} of the protocol. Of the fields below, those without a default must be there.

## The login of the page

The page and its server prove to each other that they know the token, without sending it ([why](adr/0098-the-page-proves-that-it-knows-the-token.md)).
`H(k, t)` is the HMAC-SHA-256 of a text under a key, both in UTF-8, in hexadecimal digits. `HOST` is the `Host` header in lower case, such as
`127.0.0.1:8101`.

1. The page makes `key = H(token, "key HOST")` from the token in its address, and keeps only that.
2. `GET /api/login` answers `{{"nonce": …}}`, which stays the same until the server is started again.
3. `proof = H(key, "page NONCE")`. The page sends it with each request as `Newel-Page-Proof`, and in the subprotocol of its socket.
4. `POST /api/login` with `{{"challenge": …}}`, 16 to 64 random characters, answers `{{"proof": H(key, "server NONCE CHALLENGE")}}`. The page sends
   nothing else before it has checked that. It asks again whenever its socket was closed.
"""


def main() -> int:
    """Write or check the file; returns the exit code."""
    text = document()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
        return 0
    if TARGET.is_file() and TARGET.read_text() == text:
        return 0
    print(f"{TARGET} is not what the types say. Run: python scripts/protocol_doc.py", file=sys.stderr)
    return 1


def document() -> str:
    """The content of the file."""
    asked, answered = p.SocketRequest.__subclasses__(), p.ServerMessage.__subclasses__()
    parts = [HEAD.format(intro=prose(p), version=p.VERSION), "## From the page\n"]
    parts += map(section, asked)
    parts.append("## From the server\n")
    parts += map(section, answered)
    parts.append(
        "An event that is not lasting, such as a piece of text, has the `seq` of the lasting one before:\n"
    )
    parts.append(code(FLEETING))
    parts.append("## What they are made of\n")
    parts += [section(kind) for kind in referenced_structs(asked + answered) if kind not in asked + answered]
    return "\n".join(parts).rstrip() + "\n"


def referenced_structs(kinds: Sequence[type]) -> list[type]:
    """The structs that some structs refer to, in the order of their first reference."""
    found: dict[type, None] = {}

    def walk(value: Any) -> None:
        match value:
            case msgspec.inspect.StructType(cls=kind) if kind in found:
                return
            case msgspec.inspect.StructType(cls=kind):
                found[kind] = None
            case _:
                pass
        for part in inner(value):
            walk(part)

    def inner(value: Any) -> Sequence[Any]:
        if isinstance(value, (msgspec.inspect.Type, msgspec.inspect.Field)):
            return [getattr(value, name) for name in value.__struct_fields__]
        return cast("Sequence[Any]", value) if isinstance(value, tuple) else ()

    for kind in kinds:
        walk(msgspec.inspect.type_info(kind))
    return list(found)


def section(kind: type[msgspec.Struct]) -> str:
    """The section of one struct: description, fields, JSON Schema, and an example if it is a message."""
    config = kind.__struct_config__
    schema = schema_of(kind)
    lines = [f"### `{config.tag or kind.__name__}`\n"]
    if text := schema.get("description"):
        lines.append(prose(text) + "\n")
    lines += table(kind, schema)
    lines += [code(example) for example in EXAMPLES if type(example) is kind]
    lines.append("<details><summary>JSON Schema</summary>\n")
    lines.append(f"```json\n{json.dumps(schema)}\n```\n")
    lines.append("</details>\n")
    return "\n".join(lines)


def schema_of(kind: type) -> dict[str, Any]:
    """The schema of the type itself, with references to others."""
    return schemas_of([kind], "#/{name}")[kind.__name__]


def table(kind: type[msgspec.Struct], schema: dict[str, Any]) -> list[str]:
    notes = field_notes(kind)
    names = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    required = schema.get("required", [])
    lines = ["| field | type | default | |", "|---|---|---|---|"]
    for name, field in schema["properties"].items():
        default = (
            "" if name in required else f"`{json.dumps(field['default'])}`" if "default" in field else "made"
        )
        lines.append(f"| `{name}` | {type_text(field)} | {default} | {notes.get(names.get(name, ''), '')} |")
    return [*lines, ""]


def type_text(schema: dict[str, Any]) -> str:
    """A type, for readers."""
    match schema:
        case {"$ref": reference}:
            return f"`{reference.removeprefix('#/')}`"
        case {"enum": values}:
            return ", ".join(f"`{json.dumps(value)}`" for value in values)
        case {"anyOf": kinds}:
            return " or ".join(type_text(kind) for kind in kinds)
        case {"type": "array", "items": items}:
            return f"list of {type_text(items)}{bounds(schema, 'minItems', 'maxItems', 'entries')}"
        case {"type": "object", "additionalProperties": values} if values:
            return f"object of {type_text(values)}"
        case {"type": "string"}:
            return f"string{bounds(schema, 'minLength', 'maxLength', 'characters')}"
        case {"type": str(kind)}:
            above = f" above {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else ""
            return f"{kind}{above}{bounds(schema, 'minimum', 'maximum', '')}"
        case _:
            return "any"


def bounds(schema: dict[str, Any], low: str, high: str, unit: str) -> str:
    match schema.get(low), schema.get(high):
        case None, None:
            return ""
        case None, most:
            told = f"at most {most:,}"
        case least, None:
            told = f"at least {least:,}"
        case least, most:
            told = f"{least:,} to {most:,}"
    return f" ({told} {unit}".rstrip() + ")"


def field_notes(kind: type) -> dict[str, str]:
    """The docstrings below fields in the source, by the field's name in Python."""
    notes: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("newel."):
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
            statements = body.body if isinstance(body, ast.ClassDef) else []
            for field, below in pairwise(statements):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                        value=ast.Constant(value=str(text))
                    ):
                        notes[name] = " ".join(prose(text).split())
                    case _:
                        pass
    return notes


def prose(of: Any) -> str:
    """A docstring as Markdown."""
    text = of if isinstance(of, str) else of.__doc__
    return inspect.cleandoc(text).replace("``", "`")


def code(message: p.SocketRequest | p.ServerMessage) -> str:
    value = json.loads(msgspec.json.encode(message))
    short = json.dumps(value)
    return f"```json\n{short if len(short) < 116 else json.dumps(value, indent=2)}\n```\n"


if __name__ == "__main__":
    sys.exit(main())
