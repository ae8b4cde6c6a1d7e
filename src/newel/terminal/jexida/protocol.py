"""A reply that is an answer or a command to run, read out of whatever words a model put around it.

The protocol asks for one JSON object and nothing else::

    {"type": "answer", "text": "…"}
    {"type": "shell", "command": "…", "reason": "…"}

Small models fence it, talk around it, think before it and break its JSON. The first object that is one of
the two and *stands for itself* counts; what follows it is not read, for a model that goes on makes up what
others would say. All other words are an answer as they are.

An object stands for itself unless it is quoted: inside another object or braces, behind a quotation mark, within
inline code, in a block quote, or in a fenced block that begins with something else. Behind an object that is broken,
and behind a name of the protocol's that stands in no object, nothing counts, since it may be a part of what is broken.
A command is only taken from an object that is complete: JSON, or JSON but for single quotes, bare names or a comma behind
the last member. One that was cut off is shown as text, because what is missing may change what the command does. Of
a broken answer the text is guessed. An object with the same member twice is no command.
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
    """A command to propose, never empty, and why, in the model's words."""

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
"""The protocol as a JSON Schema, for servers that can hold a model to one."""

TYPES = ("answer", "shell")

MAX_OBJECTS = 64
"""Beginnings of objects that are looked at: no honest reply has more."""

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
    """The reply as the protocol has it; ``read`` gives it back."""
    return to_json(reply).decode()


def read(words: str) -> Reply:
    """What a model's words mean. Never raises: what is no object of the protocol is an answer."""
    if whole := _fitting(_exact(words.strip())):
        return whole
    said = _after_thinking(words)
    if said is None:
        return AnswerReply(words.strip())
    for found in _objects(said):
        if reply := found.reply:
            before = said[: found.start].strip()
            if isinstance(reply, ShellReply):
                return reply if reply.reason else ShellReply(reply.command, before)
            return AnswerReply(f"{before}\n\n{reply.text}" if before else reply.text)
    return AnswerReply(said.strip())


class _FoundObject(NamedTuple):
    """An object that stands for itself; ``start`` is where it, or the fence around it, begins."""

    start: int
    reply: Reply | None


def _after_thinking(words: str) -> str | None:
    """The words behind the reasoning that opens them; None if they are nothing but unfinished reasoning."""
    while thought := regex(_THOUGHT).match(words):
        if thought["rest"] is None:
            return None
        words = words[thought.end() :]
    if closed := regex(_UNOPENED).search(words):  # templates open the block in the prompt
        begun = regex(_OBJECT).search(words, 0, closed.start())
        return words if begun else words[closed.end() :]
    return words


def _objects(text: str) -> Iterator[_FoundObject]:
    """The objects that stand for themselves, in their order, up to one that is broken."""
    at, depth, looked = 0, 0, 0
    fence: re.Match[str] | None = None
    content = 0  # where what the open fence holds begins, or goes on behind an object
    read_to = 0  # the end of the last object
    while looked < MAX_OBJECTS and (mark := regex(_MARK).search(text, at)):
        at = mark.end()
        if mark[0] == "}":
            depth = max(0, depth - 1)
        elif mark[0] != "{":
            fence, content = (None if fence else mark), at
        elif not regex(_OBJECT).match(text, mark.start()):
            depth += 1
        else:
            looked += 1
            value, end = decode_at(text, mark.start(), unique=True)
            inside = regex(_FENCE_HEAD).fullmatch(text, content, mark.start()) if fence else None
            free = not depth and (bool(inside) if fence else not _is_quoted(text, mark.start()))
            if regex(_LOOSE).search(text, read_to, mark.start()):
                return
            if free:
                reply = _fitting(value) if end else _guessed(text[mark.start() :])
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


def _fitting(value: object) -> Reply | None:
    """The reply that a JSON value is, None if it is none."""
    fields = as_dict(value)
    match fields.get("type"), fields.get("text"), fields.get("command"), fields.get("reason"):
        case "answer", str(text), _, _:
            return AnswerReply(text)
        case "shell", _, str(command), reason if command.strip() and _can_run(command):
            return ShellReply(command, reason if isinstance(reason, str) else "")
        case _:
            return None


def _can_run(command: str) -> bool:
    """Whether a command can be handed to a shell: no NUL, no half of a surrogate pair."""
    return "\0" not in command and not any("\ud800" <= letter <= "\udfff" for letter in command)


def _guessed(text: str) -> Reply | None:
    """The reply that the object at the beginning of ``text``, which is no JSON, was meant to be."""
    if shell := _fitting(_sloppy(text)):
        return shell
    closed = regex(_LAST_BRACE).match(text)
    guess = _fitting(repair(closed[0] if closed else text))
    return guess if isinstance(guess, AnswerReply) else None


def _sloppy(text: str) -> dict[str, str]:
    """The strings of the complete object at the beginning of ``text``, whose quotation marks and commas need not be JSON's;
    nothing if it is cut off or anything else is wrong with it.
    """
    members: list[tuple[str, str]] = []
    at = 1
    try:
        while member := regex(_MEMBER).match(text, at):
            members.append((_unquoted(member["name"]), _unquoted(member["value"])))
            at = member.end()
            if member["end"] != ",":
                return unique_members(members)
    except ValueError:
        pass
    return {}


def _unquoted(written: str) -> str:
    """A string without its quotation marks; raises ``ValueError`` for an escape that JSON does not have."""
    if written.startswith('"'):
        return str(json.loads(written, strict=False))
    return written.strip("'")  # a bare name, or single quotes around what has none
