"""Warnings beside hunks: what a reviewer should look at twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from newel.text.json import regex

if TYPE_CHECKING:
    from newel.review.model.file_review import FileReview, Hunk

CHANGES_A_TEST: Final = "changes an existing test"

_FOLDERS: Final = frozenset({"test", "tests", "__tests__", "spec", "specs", "e2e", "testing"})
_NAME: Final = (
    r"(?i)(?:^|[._-])(?:tests?|specs?)(?:[._-]|$)"  # test_app.py, app_test.go, app.test.ts, app-spec.js, app_spec.rb
    r"|^conftest\.py$"
)
_CAMEL_CASE: Final = (
    r"(?:^Test[A-Z]\w*|\w(?:Test|Tests|Spec))\.[A-Za-z]+$"  # TestApp.java, AppTests.cs, AppSpec.scala
)
_NO_TESTS: Final = (".md", ".txt", ".rst")


def is_test_file(path: str) -> bool:
    """Whether a file holds tests, or what they need, by the conventions of the languages in common use."""
    *folders, name = path.split("/")
    if name.lower().endswith(_NO_TESTS):
        return False
    in_folder = not _FOLDERS.isdisjoint(folder.lower() for folder in folders)
    named = regex(_NAME).search(name) or regex(_CAMEL_CASE).search(name)
    return in_folder or named is not None


def hunk_warning(review: FileReview, hunk: Hunk) -> str:
    """Return a few words on a hunk; empty if nothing is unusual. An agent that is to fix a program may make its tests agree with
    the bug: it replaces or removes lines of a test. Lines that it adds are no reason to warn.
    """
    if hunk.by_user or hunk.a == hunk.b or not is_test_file(review.path):
        return ""
    return CHANGES_A_TEST
