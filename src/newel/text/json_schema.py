"""A user's JSON Schema, and answers that have to fit it. Loaded only for those: the validator takes a tenth of a second to import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, cast

import jsonschema
import referencing
import referencing.exceptions
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import validator_for
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

from newel.agent.errors import NewelError, UsageError
from newel.text.format import one_line
from newel.text.json import passes_stdout
from newel.text.sanitize import sanitize

MAX_SCHEMA: Final = 1024 * 1024
"""Bytes of a schema file."""
MAX_PROBLEMS: Final = 5
"""Errors of one answer that its problem names."""


class MisfitAnswer(NewelError):
    """An answer that is no JSON, or does not fit the schema. The message says why: ``it is not JSON: …``, ``$.a: 1 is not of type
    'string'``.
    """


class AnswerSchema:
    """``document`` is the schema itself."""

    def __init__(self, document: dict[str, Any], validator: Any) -> None:
        self.document = document
        self._validator = validator

    def read(self, text: str) -> tuple[Any, str]:
        """The value of an answer and its JSON, which may stand alone or in one code block. Raises ``MisfitAnswer``."""
        written = _without_fence(text).strip()
        try:
            value = json.loads(written, parse_constant=_refuse, parse_float=_finite)
        except RecursionError:
            raise MisfitAnswer("it is nested too deeply.") from None
        except ValueError as error:
            raise MisfitAnswer(f"it is not JSON: {error}.") from None
        try:
            errors: list[ValidationError] = []
            for error in self._validator.iter_errors(value):
                errors.append(error)
                if len(errors) == MAX_PROBLEMS:
                    break
        except RecursionError:
            raise MisfitAnswer(
                "it cannot be checked, because the schema refers to itself without end."
            ) from None
        if errors:
            raise MisfitAnswer("; ".join(_describe(error) for error in errors))
        return value, _inert(value, written)


def load_schema(path: Path) -> AnswerSchema:
    """Read a schema file. Raises ``UsageError`` if it cannot be read, is no schema, or refers to another document: nothing is
    fetched.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCHEMA + 1)
    except OSError as error:
        raise UsageError(f"--schema: {path} cannot be read: {error.strerror}.") from error
    if len(data) > MAX_SCHEMA:
        raise UsageError(f"--schema: {path} has more than {MAX_SCHEMA:,} bytes.")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--schema: {path} is not JSON: {error}.") from error
    if not isinstance(document, dict):
        raise UsageError(f"--schema: {path} is not a JSON Schema: it must be an object.")
    return compile_schema(cast("dict[str, Any]", document), f"--schema: {path}")


def compile_schema(document: dict[str, Any], name: str) -> AnswerSchema:
    """Check a schema. Raises ``UsageError``, which names it by ``name``."""
    kind = validator_for(document, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(document)
    except SchemaError as error:
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path)
        raise UsageError(
            f"{name} is not a valid JSON Schema: ${place}: {one_line(error.message)}."
        ) from error
    except RecursionError:
        raise UsageError(f"{name} is nested too deeply.") from None
    _check_references(document, name)
    # Without a registry of its own, the validator would fetch the documents that a schema names.
    return AnswerSchema(document, kind(document, registry=EMPTY_REGISTRY))


def _check_references(document: dict[str, Any], name: str) -> None:
    """Raises ``UsageError`` for a reference that leads out of the document, or nowhere."""
    resource = referencing.Resource.from_contents(document, default_specification=DRAFT202012)
    waiting = [(resource, EMPTY_REGISTRY.resolver_with_root(resource))]
    while waiting:
        each, resolver = waiting.pop()
        contents = each.contents
        if not isinstance(contents, dict):
            continue
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = cast("dict[str, Any]", contents).get(keyword)
            if not isinstance(reference, str):
                continue
            try:
                resolver.lookup(reference)
            except (referencing.exceptions.Unresolvable, ValueError) as error:
                raise UsageError(
                    f"{name} refers to {one_line(reference)}, which is not in it. Newel fetches nothing: copy it into "
                    "`$defs`."
                ) from error
        waiting += [(sub, resolver.in_subresource(sub)) for sub in each.subresources()]


def _describe(error: ValidationError) -> str:
    return f"{error.json_path}: {one_line(error.message, 300)}"


def _inert(value: Any, written: str) -> str:
    """The JSON, with escapes for what a terminal could not show as it is, and for what would not pass standard output."""
    if sanitize(written) == written and passes_stdout(written):
        return written
    return json.dumps(value).replace("\x7f", "\\u007f")


def _without_fence(text: str) -> str:
    """The content of the only code block; the whole text if there is none, or several."""
    lines = text.split("\n")
    fences = [index for index, line in enumerate(lines) if line.lstrip().startswith("```")]
    if len(fences) != 2 or lines[fences[0]].strip().lower() not in {"```", "```json"}:
        return text
    return "\n".join(lines[fences[0] + 1 : fences[1]])


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(f"{text} is too large")
    return number
