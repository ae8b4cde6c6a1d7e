"""If these fail, a reviewer does not notice that an agent made the tests agree with the bug, or learns to ignore the warning."""

from __future__ import annotations

import pytest

from newel.review.hunk_warnings import CHANGES_A_TEST, hunk_warning, is_test_file
from newel.review.model.file_review import FileReview, Hunk, Layer


@pytest.mark.parametrize(
    "path",
    [
        *(
            "tests/app.py",
            "test_app.py",
            "src/app_test.go",
            "web/app.test.ts",
            "web/app.spec.jsx",
            "conftest.py",
        ),
        *(
            "src/test/java/AppTest.java",
            "AppTests.cs",
            "TestApp.php",
            "spec/app_spec.rb",
            "pkg/__tests__/a.js",
        ),
        *("Tests/AppTests.swift", "e2e/login.ts", "tests/fixtures/page.html", "test-app.mjs"),
    ],
)
def test_tests_are_known_by_the_conventions_of_languages(path: str) -> None:
    assert is_test_file(path)


@pytest.mark.parametrize(
    "path",
    [
        "app.py",
        "src/latest.py",
        "contest.py",
        "testimonials.html",
        "protest/a.py",
        "Testament.java",
        "tests/README.md",
    ],
)
def test_other_files_are_not_taken_for_tests(path: str) -> None:
    assert not is_test_file(path)


def warning(path: str, a: int, b: int, origin: str = "agent") -> str:
    layer = Layer(origin=origin, lines=("assert add(2, 3) == -1",))  # type: ignore[arg-type]
    hunk = Hunk(id="h", a=a, b=b, layers=(layer,))
    return hunk_warning(
        FileReview(path=path, base=("import add", "assert add(2, 3) == 5"), hunks=(hunk,)), hunk
    )


def test_only_a_change_of_a_test_by_an_agent_is_marked() -> None:
    assert warning("test_add.py", 1, 2) == CHANGES_A_TEST
    assert warning("test_add.py", 2, 2) == "", "a test was added"
    assert warning("add.py", 1, 2) == ""
    assert warning("test_add.py", 1, 2, "user") == ""
