"""If this fails, Newel names another version than that of its package, to users, editors and servers."""

from importlib.metadata import version

from newel.version import VERSION


def test_newel_names_the_version_of_its_package() -> None:
    assert version("newel") == VERSION
