"""JSON Schemas in the older form that the Gemini API takes as ``parameters``: keywords that it does not know fail the request."""

from __future__ import annotations

from typing import Any

from newel.text.json import as_dict, as_list, as_str

KEYWORDS = (
    *("format", "title", "description", "nullable", "required", "minimum", "maximum", "pattern"),
    *("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"),
)
MAX_DEPTH = 16
"""Levels of nesting; deeper schemas, such as those that refer to themselves, accept anything below."""


def plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with known keywords only. It accepts whatever the original accepts."""
    definitions = as_dict(schema.get("$defs")) | as_dict(schema.get("definitions"))
    return _plain(schema, definitions, MAX_DEPTH)


def _plain(schema: object, definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    fields = as_dict(schema)
    if not depth:
        return {}
    if reference := as_str(fields.get("$ref")):
        return _plain(definitions.get(reference.rpartition("/")[2]), definitions, depth - 1)
    plain = {name: fields[name] for name in KEYWORDS if name in fields}
    _add_type(plain, fields.get("type"))
    values = as_list(fields.get("enum")) or ([fields["const"]] if "const" in fields else [])
    if values and all(isinstance(value, str) for value in values):
        plain["enum"] = values
    alternatives = as_list(fields.get("anyOf")) or as_list(fields.get("oneOf"))
    if alternatives:
        plain["anyOf"] = [_plain(each, definitions, depth - 1) for each in alternatives]
    if properties := as_dict(fields.get("properties")):
        plain["properties"] = {
            name: _plain(each, definitions, depth - 1) for name, each in properties.items()
        }
    if plain.get("type") == "array":
        plain["items"] = _plain(fields.get("items"), definitions, depth - 1) or {"type": "string"}
    return plain


def _add_type(plain: dict[str, Any], kind: object) -> None:
    """Add a type; a list of types becomes one, or alternatives."""
    kinds = [kind] if isinstance(kind, str) else [as_str(each) for each in as_list(kind)]
    if "null" in kinds:
        plain["nullable"] = True
    kinds = [each for each in kinds if each and each != "null"]
    if len(kinds) == 1:
        plain["type"] = kinds[0]
    elif kinds:
        plain["anyOf"] = [{"type": each} for each in kinds]
