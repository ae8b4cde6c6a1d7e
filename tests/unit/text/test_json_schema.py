"""If these fail, an answer that fits is refused, or one that does not fit reaches a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from newel.agent.errors import UsageError
from newel.text.json_schema import MAX_PROBLEMS, AnswerSchema, MisfitAnswer, compile_schema, load_schema

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def schema(document: dict[str, Any]) -> AnswerSchema:
    return compile_schema(document, "shape.json")


@pytest.mark.parametrize(
    "answer",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n',
        '```json\n{"a": 1}\n```',
        '```JSON\n{"a": 1}\n```',
        'Here it is:\n\n```\n{"a": 1}\n```\n\nThat is all.',
        '  ```json\n{"a": 1}\n  ```',
    ],
)
def test_json_alone_or_in_its_only_code_block_is_read(answer: str) -> None:
    assert schema(OBJECT).read(answer) == ({"a": 1}, '{"a": 1}')


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Three.",
        'The answer is {"a": 1}.',
        '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```',
        '```python\n{"a": 1}\n```',
        '{"a": 1',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": ' + "1" * 5000 + "}",
        "[" * 100_000,
    ],
)
def test_anything_else_is_no_answer(answer: str) -> None:
    with pytest.raises(MisfitAnswer, match=r"it is not JSON|nested too deeply"):
        schema(OBJECT).read(answer)


def test_many_unclosed_code_blocks_are_read_in_linear_time() -> None:
    with pytest.raises(MisfitAnswer):
        schema(OBJECT).read("```json\n" * 500_000)


def test_the_problem_names_the_place_and_only_the_first_few() -> None:
    problem = {"type": "array", "items": {"type": "string"}}
    with pytest.raises(MisfitAnswer) as caught:
        schema(problem).read("[1, 2, 3, 4, 5, 6, 7, 8]")
    assert str(caught.value).startswith("$[0]: 1 is not of type 'string'; $[1]: ")
    assert str(caught.value).count("$[") == MAX_PROBLEMS


def test_a_huge_wrong_value_makes_a_short_problem() -> None:
    with pytest.raises(MisfitAnswer) as caught:
        schema(OBJECT).read('{"a": "' + "x" * 1_000_000 + '"}')
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "document",
    [
        {"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a"},
        {"$id": "urn:x", "$defs": {"a": {"$id": "urn:y", "type": "integer"}}, "$ref": "urn:y"},
        {"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "$ref": "#here"},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"a": {"type": "integer"}},
            "$ref": "#/definitions/a",
        },
    ],
)
def test_references_within_the_schema_are_followed(document: dict[str, Any]) -> None:
    assert schema(document).read("7") == (7, "7")
    with pytest.raises(MisfitAnswer):
        schema(document).read('"7"')


def test_a_property_that_is_called_ref_is_no_reference() -> None:
    document = {"properties": {"$ref": {"type": "string"}}, "enum": [{"$ref": "http://a/b"}]}
    assert schema(document).read('{"$ref": "http://a/b"}')[0] == {"$ref": "http://a/b"}


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "http://127.0.0.1:9/shape.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"anyOf": [{"items": {"$ref": "https://example.com/x#/a"}}]},
        {"if": {"$dynamicRef": "http://a/b#c"}},
    ],
)
def test_references_out_of_the_schema_are_refused(document: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Newel fetches nothing"):
        schema(document)


def test_a_folder_is_no_schema(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_schema(tmp_path)


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(UsageError, match="more than"):
        load_schema(Path("/dev/zero"))
