"""A matrix: the rows of values for which contracts run, each row a job.

    rows.csv     package,python         a line of names, then a row per line
                 importer,3.11
    rows.json    [{"package": "importer", "python": "3.11"}, …]
    grid.toml    package = ["importer", "exporter"]      every combination of the values
                 python = ["3.11", "3.13"]

A contract uses the values as ``{{package}}``.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import UsageError
from newel.runs.models import Contract
from newel.storage.files import read_regular

MAX_ROWS: Final = 100_000

Row = Mapping[str, str]

_Value = str | int | float | bool
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_SYNTAX: Final = "Write a list of objects, or one object whose fields are lists."


def load_matrix(file: Path) -> list[Row]:
    """Raises ``UsageError``."""
    try:
        text = read_regular(file).decode("utf-8-sig")  # spreadsheets save a byte order mark
    except OSError as error:
        raise UsageError(f"The matrix {file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"The matrix {file} is not UTF-8 text.") from error
    readers: dict[str, Callable[[str], list[Row]]] = {
        ".csv": _read_csv,
        ".json": _read_json,
        ".toml": _read_toml,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise UsageError(
            f"The matrix {file} is not a .csv, .json or .toml file. Give it the extension of its format."
        )
    try:
        rows = reader(text)
    except (ValueError, csv.Error, msgspec.MsgspecError) as error:
        raise UsageError(f"The matrix {file} is not valid: {error}") from error
    if not rows:
        raise UsageError(f"The matrix {file} has no rows, so there is nothing to run.")
    if len(rows) > MAX_ROWS:
        raise UsageError(f"The matrix {file} has {len(rows):,} rows. The limit is {MAX_ROWS:,}.")
    return rows


def with_values(contract: Contract, row: Row) -> Contract:
    """The contract with the values of a row. Raises ``UsageError`` for a name that the row lacks."""

    def insert(match: re.Match[str]) -> str:
        if match[1] not in row:
            known = ", ".join(row) or "none; name a file with --matrix"
            raise UsageError(f"The contract uses {match[0]}, but the names of the matrix are: {known}.")
        return row[match[1]]

    accept = contract.accept
    return msgspec.structs.replace(
        contract,
        text=_PLACEHOLDER.sub(insert, contract.text),
        accept=None if accept is None else _PLACEHOLDER.sub(insert, accept),
    )


def check_names(contracts: Sequence[Contract], rows: Sequence[Row]) -> None:
    """Raises ``UsageError`` for a name of the matrix that no contract uses: its rows would be the same job again."""
    used = {
        name
        for contract in contracts
        for text in (contract.text, contract.accept or "")
        for name in _PLACEHOLDER.findall(text)
    }
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in used:
            raise UsageError(
                f"No contract uses {{{{{name}}}}} of the matrix. Use it, or remove it from the file."
            )


def _read_csv(text: str) -> list[Row]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    names = list(reader.fieldnames or ())
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(f"the name {twice[0]!r} is there twice.")
    rows: list[Row] = []
    for row in reader:
        if None in row or None in row.values():
            raise ValueError(f"line {reader.line_num} has not one value for each of the names.")
        rows.append(row)
    return rows


def _read_json(text: str) -> list[Row]:
    whole = msgspec.json.decode(text)
    try:
        if isinstance(whole, list):
            return [_texts(row) for row in msgspec.convert(whole, list[dict[str, _Value]])]
        return _combinations(msgspec.convert(whole, dict[str, list[_Value]]))
    except msgspec.ValidationError as error:
        raise ValueError(f"{error}. {_SYNTAX}") from error


def _read_toml(text: str) -> list[Row]:
    try:
        return _combinations(msgspec.convert(tomllib.loads(text), dict[str, list[_Value]]))
    except msgspec.ValidationError as error:
        raise ValueError(f"{error}. Write `name = [values]`.") from error


def _combinations(lists: Mapping[str, Sequence[_Value]]) -> list[Row]:
    return (
        [_texts(dict(zip(lists, values, strict=True))) for values in itertools.product(*lists.values())]
        if lists
        else []
    )


def _texts(row: Mapping[str, _Value]) -> Row:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in row.items()
    }
