"""If these fail, a matrix runs other contracts than its file says, or the same one twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.agent.errors import UsageError
from newel.fleet.matrix import check_names, load_matrix, with_values
from newel.runs.models import Contract


def matrix(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_table_has_a_job_per_line(tmp_path: Path) -> None:
    file = matrix(tmp_path, "rows.csv", 'package,goal\nimporter,"typed, and tested"\nexporter,typed\n')
    assert load_matrix(file) == [
        {"package": "importer", "goal": "typed, and tested"},
        {"package": "exporter", "goal": "typed"},
    ]


def test_a_table_that_a_spreadsheet_has_saved_is_read(tmp_path: Path) -> None:
    """Its byte order mark is invisible: else a user looks in vain for what differs from the name in the contract."""
    file = tmp_path / "rows.csv"
    file.write_bytes(b"\xef\xbb\xbfpackage,goal\r\nimporter,typed\r\n")
    assert load_matrix(file) == [{"package": "importer", "goal": "typed"}]


def test_lists_are_combined(tmp_path: Path) -> None:
    grid = [
        {"package": "a", "python": "3.11"},
        {"package": "a", "python": "3.13"},
        {"package": "b", "python": "3.11"},
        {"package": "b", "python": "3.13"},
    ]
    toml = 'package = ["a", "b"]\npython = ["3.11", "3.13"]\n'
    assert load_matrix(matrix(tmp_path, "grid.toml", toml)) == grid
    json = '{"package": ["a", "b"], "python": ["3.11", 3.13]}'
    assert load_matrix(matrix(tmp_path, "grid.json", json)) == grid


def test_a_list_of_objects_has_a_job_each(tmp_path: Path) -> None:
    assert load_matrix(
        matrix(tmp_path, "rows.json", '[{"strict": true, "level": 2}, {"strict": false, "level": 3}]')
    ) == [
        {"strict": "true", "level": "2"},
        {"strict": "false", "level": "3"},
    ]


def test_values_are_inserted_into_the_goal_and_its_test() -> None:
    contract = Contract(
        text="Type {{package}}, keep {braces} and {{ package }}", accept="pyright {{package}}"
    )
    filled = with_values(contract, {"package": "a{{b}}"})
    assert filled.text == "Type a{{b}}, keep {braces} and a{{b}}"
    assert filled.accept == "pyright a{{b}}"


def test_a_name_that_no_row_has_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"\{\{packge\}\}, but the names of the matrix are: package"):
        with_values(Contract(text="Type {{packge}}"), {"package": "a"})


def test_a_name_that_no_contract_uses_is_an_error() -> None:
    """Each row would be the same job again, and cost as much."""
    with pytest.raises(UsageError, match=r"No contract uses \{\{python\}\}"):
        check_names([Contract(text="Type {{package}}")], [{"package": "a", "python": "3.11"}])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows.csv", "a,b\n1\n", "line 2 has not one value"),
        ("rows.csv", "a,b\n", "no rows"),
        ("rows.csv", "a,b,a\n1,2,3\n", "the name 'a' is there twice"),
        ("rows.json", "[1]", "Write a list of objects"),
        ("rows.json", "{", "not valid"),
        ("rows.toml", "a = 1\n", "Write `name = \\[values\\]`"),
        ("rows.toml", "a = [\n", "not valid"),
        ("rows.toml", "a = []\n", "no rows"),
        ("rows.yaml", "a: [1]\n", "not a .csv, .json or .toml file"),
    ],
)
def test_a_file_that_is_no_matrix_is_explained(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_matrix(matrix(tmp_path, name, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing.csv cannot be read: No such file"):
        load_matrix(tmp_path / "missing.csv")
