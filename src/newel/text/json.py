"""JSON that others wrote: encoded leniently, alone or inside prose, broken, or of another shape than expected.

The standard library's ``json`` is loaded when it is needed: msgspec decodes all that is valid.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")


@cache
def regex(pattern: str) -> re.Pattern[str]:
    """The compiled expression: made on first use, for at import it would slow down every start."""
    return re.compile(pattern)


def parse(data: bytes | str, *, strict: bool = True) -> Any:
    """Decode JSON; also what msgspec refuses but servers write: NaN, lone surrogates, broken UTF-8, a BOM.
    Unless ``strict``, strings may hold raw line breaks and other control characters.

    Raises ``ValueError`` (which ``msgspec.DecodeError`` is) if it is not JSON or nested too deeply.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    import json

    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return without_surrogates(json.loads(text.removeprefix("\ufeff"), strict=strict))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode_json(data: bytes | str, kind: type[T] | msgspec.json.Decoder[T]) -> T:
    """Decode JSON that others wrote. Raises ``msgspec.DecodeError``, also for what is nested too deeply or not UTF-8."""
    try:
        if isinstance(kind, msgspec.json.Decoder):
            return kind.decode(data)
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None
    except UnicodeError as error:
        raise msgspec.DecodeError(str(error)) from error


def describe_syntax_error(file: Path, data: bytes, error: Exception) -> str:
    """Why the content of a file is not JSON, which ``error`` says in part; with the line, if that is known. Without a full stop."""
    import json

    try:
        json.loads(data)
    except json.JSONDecodeError as syntax:
        return f"{file}, line {syntax.lineno}: this is not valid JSON: {syntax.msg}"
    except (ValueError, RecursionError):
        pass
    return f"{file}: this is not valid JSON: {error}"


MAX_REPAIR = 8 * 1024
MAX_BRACKETS = 200
"""Characters, and opening brackets among them, that are worth a repair: its time grows with the square of both."""


def repair(text: str) -> Any:
    """Guess what broken JSON was meant to be; None if that cannot be told."""
    if len(text) > MAX_REPAIR or text.count("{") + text.count("[") > MAX_BRACKETS:
        return None
    from json_repair import repair_json

    try:
        return repair_json(text, return_objects=True, skip_json_loads=True)
    except Exception:  # noqa: BLE001 — a guess about hostile text must not end the run, however it fails
        return None


def decode_at(text: str, start: int, *, unique: bool = False) -> tuple[Any, int]:
    """Decode the JSON value that begins at ``start``, whatever follows it. Returns it and where it ends, 0 if there is none.

    Strings may hold raw line breaks. With ``unique``, an object that has a member twice is no value.
    """
    import json

    decoder = json.JSONDecoder(strict=False, object_pairs_hook=unique_members if unique else None)
    try:
        return decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, 0


def unique_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these members. Raises ``ValueError`` for one that stands twice."""
    fields = dict(members)
    if len(fields) < len(members):
        raise ValueError("a key occurs twice")
    return fields


def find_object(text: str) -> dict[str, Any]:
    """The JSON object inside prose, repaired if need be; an empty one if there is none."""
    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end:
        return {}
    try:
        return as_dict(parse(text[start:end], strict=False))
    except ValueError:
        return as_dict(repair(text[start:end]))


def without_surrogates(value: Any) -> Any:
    """The same JSON value with a question mark for each lone surrogate, which no UTF-8 can hold."""
    import json

    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def is_cut(error: ValueError) -> bool:
    """Whether ``parse`` failed because the text ended too early."""
    import json

    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")


def as_dict(value: object) -> dict[str, Any]:
    """``value`` if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """``value`` if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_str(value: object) -> str:
    """``value`` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """``value`` as a count of something, 0 if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return 0
    return int(value)


def to_json(value: object) -> bytes:
    """Encode, with a question mark for what UTF-8 cannot hold."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(without_surrogates(msgspec.to_builtins(value)))


def exact_json(value: object) -> bytes:
    """Encode for a digest: unlike by ``to_json``, two paths that are no text never become the same."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        return json.dumps(msgspec.to_builtins(value)).encode()


def to_printable_json(value: object) -> str:
    r"""Encode for standard output: what a terminal would not print, such as a character that turns the text around, and what does not pass
    unchanged, is written as ``\uXXXX``.
    """
    text = to_json(value).decode()
    if text.isprintable() and passes_stdout(text):
        return text
    import json

    return "".join(
        char if char.isprintable() and passes_stdout(char) else json.dumps(char)[1:-1] for char in text
    )


def passes_stdout(text: str) -> bool:
    """Whether a program that reads standard output as UTF-8, as JSON has to be, gets this text. In another encoding, it gets ASCII."""
    return text.isascii() or (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"
