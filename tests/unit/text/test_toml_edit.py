"""If these fail, `newel config set` and `newel setup` spoil what the user has written into config.toml."""

from __future__ import annotations

import tomllib

import pytest

from newel.text.toml_edit import TomlEditError, join_name, split_name, with_value, without_value

FILE = """\
# Mine.
model = "old"   # a comment # with another one
thinking="low"

[limits]  # of a prompt
maxTurns = 5

# about the sandbox
[sandbox]
domains = [
  "pypi.org",  # packages
  "a # b",
]

[models."my.model"]
context_window = 65_536
"""


@pytest.mark.parametrize(
    ("path", "value", "before", "after"),
    [
        (("model",), 'a "b"', '"old"', '"a \\"b\\""'),
        (("limits", "maxTurns"), 6, "maxTurns = 5", "maxTurns = 6"),
        (
            ("sandbox", "domains"),
            ["x"],
            '[\n  "pypi.org",  # packages\n  "a # b",\n]',
            '["x"]',
        ),
        (("models", "my.model", "context_window"), 7, "65_536", "7"),
        (("approve",), "ask", 'thinking="low"\n', 'thinking="low"\napprove = "ask"\n'),
        (("limits", "maxCost"), 0.5, "maxTurns = 5\n", "maxTurns = 5\nmaxCost = 0.5\n"),
        (("retry", "attempts"), 3, "65_536\n", "65_536\n\n[retry]\nattempts = 3\n"),
        (("models", "a b", "alias_of"), "x", "65_536\n", '65_536\n\n[models."a b"]\nalias_of = "x"\n'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_the_value_changes(
    path: tuple[str, ...], value: object, before: str, after: str, end: str
) -> None:
    lines, before, after = (text.replace("\n", end) for text in (FILE, before, after))
    assert with_value(lines, path, value) == lines.replace(before, after, 1)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", 'model = "m"\n'),
        ("# only this", '# only this\nmodel = "m"\n'),
        ("# top\n\n# about it\n[limits]\n", '# top\n\nmodel = "m"\n\n# about it\n[limits]\n'),
        ("[limits]\nmaxTurns = 1", 'model = "m"\n\n[limits]\nmaxTurns = 1\n'),
    ],
)
def test_the_first_setting_finds_its_place(text: str, after: str) -> None:
    assert with_value(text, ("model",), "m") == after


def test_a_removed_setting_leaves_all_others() -> None:
    assert without_value(FILE, ("limits", "maxTurns")) == FILE.replace("maxTurns = 5\n", "")
    assert without_value(FILE, ("models", "my.model")) == FILE[: FILE.index('[models."my.model"]')]
    assert without_value(FILE, ("approve",)) == FILE


@pytest.mark.parametrize(
    "text",
    [
        "limits = {maxTurns = 1}\n",
        'x = """\n[limits]\nmaxCost = 1\n"""\n[[limits]]\n',
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(TomlEditError):
        with_value(text, ("limits", "maxCost"), 2)


def test_a_text_that_looks_like_settings_is_none() -> None:
    text = 'notes = """\n[limits]\nmaxCost = 1\n"""\n'
    assert tomllib.loads(with_value(text, ("limits", "maxCost"), 2)) == {
        "notes": "[limits]\nmaxCost = 1\n",
        "limits": {"maxCost": 2},
    }


def test_names_are_written_as_in_toml() -> None:
    path = ("models", "a.b", "alias_of")
    assert split_name('models."a.b".alias_of') == path
    assert join_name(path) == 'models."a.b".alias_of'
    assert split_name("no name") is None
