"""The reply protocol: an answer or a shell command, parsed leniently out of a model's text.

The protocol asks for one JSON object and nothing else::

    {"type": "answer", "text": "…"}
    {"type": "shell", "command": "…", "reason": "…"}

Small models fence it, add text around it, think before it and break its JSON. The first *unquoted* object of either kind
counts. Text after it is ignored, because a model that continues makes up the other side. Any other text is an answer.

An object is quoted inside another object or braces, after a quotation mark, within inline code, in a block quote, or in a
fenced block that begins with something else. After a broken object, and after a name of the protocol outside of an object,
nothing counts: it may be part of what is broken. A command is taken only from a complete object: JSON, or JSON except for
single quotes, bare names or a trailing comma. A truncated command is shown as text, because the missing part may change its
effect. The text of a broken answer is guessed. An object with a duplicate member is no command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from newel.agent.messages import Wire
from newel.text.json import as_dict, decode_at, regex, repair, to_json, unique_members


class AnswerReply(Wire, frozen=True, tag_field="type", tag="answer"):
    text: str


class ShellReply(Wire, frozen=True, tag_field="type", tag="shell"):
    """A proposed command, never empty, and the model's reason."""

    command: str
    reason: str = ""


Reply = AnswerReply | ShellReply


def _variant(kind: str, *members: str) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **dict.fromkeys(members, text)},
        "required": ["type", *members],
        "additionalProperties": False,
    }


SCHEMA: dict[str, Any] = {"anyOf": [_variant("answer", "text"), _variant("shell", "command", "reason")]}
"""The protocol as a JSON Schema, for servers that support constrained output."""

TYPES = ("answer", "shell")

MAX_OBJECTS = 64
"""Objects that are examined: no real reply has more."""

_THOUGHT = r"(?s)\s*<(think(?:ing)?)>(?P<rest>.*?</\1>\s*)?"
_UNOPENED = r"</think(?:ing)?>\s*(?=[`{])"
_MARK = r"`{3,}|~{3,}|[{}]"
_OPENING = r"[\"'\u201c\u2018]"
_CLOSING = r"[\"'\u201d\u2019]"
_OBJECT = rf"\{{\s*(?:{_OPENING}|\}}|\w+\s*:)"
_FENCE_HEAD = r"[ \t]*[\w+-]{0,20}\s*"
_LAST_BRACE = r"(?s).*\}"
_LOOSE = rf"{_OPENING}(?:type|text|command){_CLOSING}\s*:"
_STRING = r"(?:\"(?:[^\"\\]|\\.)*+\"|'[^'\\]*+')"
_MEMBER = rf"(?s)\s*+(?P<name>{_STRING}|\w++)\s*+:\s*+(?P<value>{_STRING})\s*+(?P<end>,?\s*+\}}|,)"
_QUOTED = r"[\"'`\u201c\u201d\u2018\u2019\xab\xbb\u201e]\s*\Z|^\s*>"


def render(reply: Reply) -> str:
    """Render a reply; ``read`` parses it back."""
    return to_json(reply).decode()


def read(response: str) -> Reply:
    """Parse a model's text. Never raises: text without an object of the protocol is an answer."""
    if whole := _to_reply(_exact(response.strip())):
        return whole
    text = _after_thinking(response)
    if text is None:
        return AnswerReply(response.strip())
    for candidate in _objects(text):
        if reply := candidate.reply:
            before = text[: candidate.start].strip()
            if isinstance(reply, ShellReply):
                return reply if reply.reason else ShellReply(reply.command, before)
            return AnswerReply(f"{before}\n\n{reply.text}" if before else reply.text)
    return AnswerReply(text.strip())


class _FoundObject(NamedTuple):
    """An unquoted object; ``start`` is where it, or the fence around it, begins."""

    start: int
    reply: Reply | None


def _after_thinking(response: str) -> str | None:
    """The text after its leading reasoning; None if it is all unfinished reasoning."""
    while thought := regex(_THOUGHT).match(response):
        if thought["rest"] is None:
            return None
        response = response[thought.end() :]
    if closed := regex(_UNOPENED).search(response):  # templates open the block in the prompt
        match = regex(_OBJECT).search(response, 0, closed.start())
        return response if match else response[closed.end() :]
    return response


def _objects(text: str) -> Iterator[_FoundObject]:
    """The unquoted objects in order, up to a broken one."""
    at, depth, object_count = 0, 0, 0
    fence: re.Match[str] | None = None
    content = 0  # start of the open fence's content, or of the rest after an object
    read_to = 0  # the end of the last object
    while object_count < MAX_OBJECTS and (mark := regex(_MARK).search(text, at)):
        at = mark.end()
        if mark[0] == "}":
            depth = max(0, depth - 1)
        elif mark[0] != "{":
            fence, content = (None if fence else mark), at
        elif not regex(_OBJECT).match(text, mark.start()):
            depth += 1
        else:
            object_count += 1
            value, end = decode_at(text, mark.start(), unique=True)
            fence_head = regex(_FENCE_HEAD).fullmatch(text, content, mark.start()) if fence else None
            is_unquoted = not depth and (bool(fence_head) if fence else not _is_quoted(text, mark.start()))
            if regex(_LOOSE).search(text, read_to, mark.start()):
                return
            if is_unquoted:
                reply = _to_reply(value) if end else _guess(text[mark.start() :])
                yield _FoundObject(fence.start() if fence else mark.start(), reply)
                if not end or as_dict(value).get("type") in TYPES:
                    return
            if end:
                at = content = read_to = end
            else:
                depth += 1


def _is_quoted(text: str, at: int) -> bool:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return bool(line.count("`") % 2 or line.count('"') % 2 or regex(_QUOTED).search(line))


def _exact(text: str) -> object:
    value, end = decode_at(text, 0, unique=True)
    return value if end == len(text) else None


def _to_reply(value: object) -> Reply | None:
    """The reply that a JSON value represents; None if it is none."""
    fields = as_dict(value)
    match fields.get("type"), fields.get("text"), fields.get("command"), fields.get("reason"):
        case "answer", str(text), _, _:
            return AnswerReply(text)
        case "shell", _, str(command), reason if command.strip() and _can_run(command):
            return ShellReply(command, reason if isinstance(reason, str) else "")
        case _:
            return None


def _can_run(command: str) -> bool:
    """Whether a shell can take a command: no NUL, no lone surrogate."""
    return "\0" not in command and not any("\ud800" <= letter <= "\udfff" for letter in command)


def _guess(text: str) -> Reply | None:
    """Guess the reply in the invalid JSON object at the beginning of ``text``."""
    if shell := _to_reply(_parse_loose(text)):
        return shell
    closed = regex(_LAST_BRACE).match(text)
    guess = _to_reply(repair(closed[0] if closed else text))
    return guess if isinstance(guess, AnswerReply) else None


def _parse_loose(text: str) -> dict[str, str]:
    """The strings of the complete object at the beginning of ``text``, whose quotation marks and commas need not be JSON's;
    nothing if it is cut off or anything else is wrong with it.
    """
    members: list[tuple[str, str]] = []
    at = 1
    try:
        while member := regex(_MEMBER).match(text, at):
            members.append((_unquote(member["name"]), _unquote(member["value"])))
            at = member.end()
            if member["end"] != ",":
                return unique_members(members)
    except ValueError:
        pass
    return {}


def _unquote(written: str) -> str:
    """A string without its quotation marks; raises ``ValueError`` for an escape that JSON does not have."""
    if written.startswith('"'):
        return str(json.loads(written, strict=False))
    return written.strip("'")  # a bare name, or single quotes around what has none
