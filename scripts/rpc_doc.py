"""Write what describes ``newel rpc``, from the types that encode and decode its lines: docs/rpc.md, its JSON Schema, and the
types of the TypeScript client.

python scripts/rpc_doc.py            write them
python scripts/rpc_doc.py --check    exit 1 if a file is out of date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from protocol_doc import field_notes, prose, referenced_structs, schema_of, table

from newel.agent.events import AgentEvent
from newel.terminal.rpc import data as d
from newel.terminal.rpc import protocol as p
from newel.web.http_schema import schemas_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "rpc.md"
MARK = "<!-- Written by scripts/rpc_doc.py from src/newel/terminal/rpc/protocol.py: change the types, then run it. -->\n"
SCHEMA = ROOT / "docs" / "rpc.schema.json"
TYPES = ROOT / "packages" / "newel-client" / "src" / "protocol.ts"

EVENTS: Sequence[type] = (*get_args(AgentEvent), p.ApprovalAsked)
DATA = [p.data_of(command) for command in p.COMMANDS]


def main() -> int:
    """Write or check the files; returns the exit code."""
    files = {PAGE: page(PAGE.read_text()), SCHEMA: schema(), TYPES: types()}
    if "--check" not in sys.argv[1:]:
        for path, text in files.items():
            path.write_text(text)
        return 0
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text() != text]
    for path in stale:
        print(f"{path} is not what the types say. Run: python scripts/rpc_doc.py", file=sys.stderr)
    return 1 if stale else 0


# -- the page -----------------------------------------------------------------------------------------


def page(found: str) -> str:
    """The content of the page, with its last part regenerated."""
    parts = [found.partition(MARK)[0] + MARK, "## Commands\n"]
    parts += ["| command | | |", "|---|---|---|"]
    parts += [
        f"| [`{p.name_of(command)}`](#{p.name_of(command)}) | {summary(command)} | {when(command)} |"
        for command in p.COMMANDS
    ]
    parts.append("")
    parts += map(section, p.COMMANDS)
    parts.append("## What the data is made of\n")
    parts.append("The messages are those of [JSON mode](json-mode.md#out).\n")
    own = [kind for kind in referenced_structs(DATA) if kind not in DATA and issubclass(kind, d.RpcData)]
    for kind in own:
        parts.append(f"### {kind.__name__}\n")
        parts += data_table(kind)
    return "\n".join(parts).rstrip() + "\n"


def summary(command: type) -> str:
    return prose(command).split(". ")[0].split(": ")[0].replace("\n", " ").rstrip(".")


def when(command: type[p.RpcCommand[Any]]) -> str:
    if command in get_args(p.QueuedCommand):
        return "takes turns"
    return "" if command in get_args(p.InlineCommand) else "when ready"


def section(command: type[p.RpcCommand[Any]]) -> str:
    schema = schema_of(command)
    schema["properties"] = {
        name: field for name, field in schema["properties"].items() if name not in {"id", "type"}
    }
    lines = [f"### {p.name_of(command)}\n", prose(command) + "\n"]
    if schema["properties"]:
        lines += table(command, schema)
    data = p.data_of(command)
    first = next(each for each in p.COMMANDS if p.data_of(each) is data)
    if first is not command:
        lines.append(f"The data is that of [`{p.name_of(first)}`](#{p.name_of(first)}).\n")
    else:
        lines += data_table(data)
    return "\n".join(lines)


def data_table(data: type) -> list[str]:
    text = prose(data) + "\n" if data.__doc__ and "Data(" not in data.__doc__ else ""
    rows = [
        row.replace("|  |", "| |")
        for row in table(data, schema_of(data))[2:]  # a field of data has no default
    ]
    return ["Data: " + text if text else "Data:\n", "| field | type | | |", "|---|---|---|---|", *rows]


# -- the JSON Schema ----------------------------------------------------------------------------------


def schema() -> str:
    """A schema of each line: ``Command`` for those of the program, ``Line`` for those of Newel."""
    components = schemas_of([*p.COMMANDS, *DATA, *EVENTS, p.RpcFailure], "#/$defs/{name}")
    responses = {reply_name(command): reply_schema(command) for command in p.COMMANDS}
    failed = {
        "title": "FailedResponse",
        "type": "object",
        "properties": {
            "type": {"enum": ["response"]},
            "id": request_id(),
            "command": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "success": {"enum": [False]},
            "error": {"$ref": "#/$defs/RpcFailure"},
        },
        "required": ["type", "id", "command", "success", "error"],
    }
    definitions = {
        **components,
        **responses,
        "FailedResponse": failed,
        "Command": one_of(command.__name__ for command in p.COMMANDS),
        "Event": one_of(event.__name__ for event in EVENTS),
        "Response": one_of([*responses, "FailedResponse"]),
        "Line": one_of(["Response", "Event"]),
    }
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "newel rpc",
        "$ref": "#/$defs/Line",
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(document, indent=1) + "\n"


def one_of(names: Any) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}


def request_id() -> Any:
    return schema_of(p.RpcResponse)["properties"]["id"]


def reply_name(command: type) -> str:
    return command.__name__.removesuffix("Command") + "Response"


def reply_schema(command: type[p.RpcCommand[Any]]) -> dict[str, Any]:
    return {
        "title": reply_name(command),
        "type": "object",
        "properties": {
            "type": {"enum": ["response"]},
            "id": request_id(),
            "command": {"enum": [p.name_of(command)]},
            "success": {"enum": [True]},
            "data": {"$ref": f"#/$defs/{p.data_of(command).__name__}"},
        },
        "required": ["type", "id", "command", "success", "data"],
    }


# -- TypeScript ---------------------------------------------------------------------------------------

HEAD = """\
// The lines of `newel rpc`. Written by scripts/rpc_doc.py from src/newel/terminal/rpc/protocol.py: change the types there, then
// run it. Newel omits optional fields of events and messages that have their default.
"""


def types() -> str:
    """The types as TypeScript."""
    given = set(referenced_structs(p.COMMANDS))
    kinds = referenced_structs([*p.COMMANDS, *DATA, *EVENTS, p.RpcFailure])
    schemas = schemas_of([*kinds], "{name}")
    parts = [HEAD, *(interface(kind, schemas[kind.__name__], is_given=kind in given) for kind in kinds)]
    parts.append("/** A request; `id` is the client's. */")
    parts.append(union("Command", [command.__name__ for command in p.COMMANDS]))
    parts.append("/** Everything on standard output that is no response. */")
    parts.append(union("RpcEvent", [event.__name__ for event in EVENTS]))
    parts.append(
        union("AppMessage", ["UserMessage", "AssistantMessage", "ToolResultMessage", "CustomMessage"])
    )
    parts.append("/** The data of the response to each command. */")
    rows = [f"  {p.name_of(command)}: {p.data_of(command).__name__};" for command in p.COMMANDS]
    parts.append("export interface Replies {\n" + "\n".join(rows) + "\n}\n")
    parts.append("export type RequestId = string | number;\n")
    parts.append(
        "/** The response to a command. */\nexport type RpcResponse =\n"
        '  | { type: "response"; id: RequestId | null; command: string; success: true; data: unknown }\n'
        '  | { type: "response"; id: RequestId | null; command: string | null; success: false; error: RpcFailure };\n'
    )
    return "\n".join(parts)


def interface(kind: type[msgspec.Struct], schema: dict[str, Any], *, is_given: bool) -> str:
    notes = field_notes(kind)
    names = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    lines = comment(schema.get("description", ""), "")
    lines.append(f"export interface {kind.__name__} {{")
    for name, field in schema["properties"].items():
        lines += comment(notes.get(names.get(name, ""), ""), "  ")
        # An identifier or a time that is made when it is missing is always there in what Newel writes.
        is_optional = name not in schema["required"] and (is_given or "default" in field)
        lines.append(f"  {name}{'?' if is_optional else ''}: {type_of(field)};")
    return "\n".join([*lines, "}\n"])


def comment(text: str, indent: str) -> list[str]:
    lines = prose(text).replace("*/", "* /").splitlines() if text else []
    if len(lines) < 2:
        return [f"{indent}/** {line} */" for line in lines]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */"]


def union(name: str, members: Sequence[str]) -> str:
    return f"export type {name} =\n" + "\n".join(f"  | {member}" for member in members) + ";\n"


def type_of(schema: dict[str, Any]) -> str:
    """A type of TypeScript."""
    match schema:
        case {"$ref": reference}:
            return str(reference)
        case {"enum": values}:
            return " | ".join(json.dumps(value) for value in values)
        case {"anyOf": kinds}:
            return " | ".join(dict.fromkeys(type_of(kind) for kind in kinds))
        case {"type": "array", "items": items}:
            inner = type_of(items)
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": "integer" | "number"}:
            return "number"
        case {"type": str(kind)}:
            return kind
        case _:
            return "unknown"


if __name__ == "__main__":
    sys.exit(main())
