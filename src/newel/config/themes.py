"""Themes: the styles of the terminal's text, by role. They are the user's, in ``themes`` of Newel's home, or built in.

A file with a mistake never stops Newel: each mistake is reported with its line, and the style of the parent is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from newel.text.format import one_line


class Role(NamedTuple):
    """``style`` is the one of the theme ``default``; ``use`` says what has it."""

    style: str
    use: str


ROLES: Final[Mapping[str, Role]] = {
    "text": Role("", "answers, and what you type"),
    "dim": Role("faint", "secondary text: results, context, reasoning, notes"),
    "accent": Role("cyan", "marks of what runs"),
    "success": Role("green", "marks of calls and steps that succeeded"),
    "warning": Role("yellow", "outcomes that need a look"),
    "error": Role("red", "errors, and marks of calls that failed"),
    "prompt": Role("bold accent", "the mark before your messages and before the input"),
    "user": Role("bold", "your messages"),
    "tool": Role("bold", "names of tools"),
    "question": Role("bold", "questions, and titles of lists"),
    "selected": Role("bold accent", "the selected row of a list"),
    "status": Role("faint", "hints and the status line"),
    "heading": Role("bold accent", "headings of answers"),
    "code": Role("accent", "code in a sentence, and blocks in no known language"),
    "link": Role("accent", "texts of links"),
    "quote": Role("dim", "quotations"),
    "rule": Role("dim", "lines of tables and between paragraphs, bullets, addresses of links"),
    "frame": Role("faint accent", "frames of `jexida`"),
    "diff.added": Role("33", "added lines"),
    "diff.removed": Role("172", "removed lines"),
    "diff.file": Role("bold", "names of files above a diff"),
    "diff.word": Role("bold underline", "the words of a line that changed"),
    "syntax.comment": Role("italic", "comments"),
    "syntax.keyword": Role("magenta", "keywords, and names of tags"),
    "syntax.string": Role("green", "strings"),
    "syntax.number": Role("cyan", "numbers"),
    "syntax.function": Role("bold", "names of functions where they are defined"),
    "syntax.type": Role("bold", "names of classes and types"),
}
"""All roles. The default has the terminal's own colours, and for diffs a blue and an orange that most people can tell apart."""

NAMEABLE: Final = ("text", "dim", "accent", "success", "warning", "error")
"""Roles that the styles of the others can name."""

ATTRIBUTES: Final = ("bold", "faint", "italic", "underline", "reverse")
_BASIC: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
COLOURS: Final = ("default", *_BASIC, *(f"bright_{name}" for name in _BASIC))
"""Names of colours: the terminal's own text colour, and its sixteen."""

AUTO: Final = "auto"
DEFAULT: Final = "default"
FOLDER: Final = "themes"
MOST: Final = 64 * 1024
"""Bytes of a file."""
DEEPEST: Final = 8
"""Themes that extend each other in a row."""

_BUILT_IN: Final = Path(__file__).with_name("builtin_themes")
_HEX: Final = "#[0-9a-fA-F]{6}"
_NAME: Final = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}"


class RoleStyle(NamedTuple):
    """A colour is ``#rrggbb``, a name of ``COLOURS``, a number of 16 to 255, or empty for that of the text around it."""

    foreground: str = ""
    background: str = ""
    attributes: tuple[str, ...] = ()

    @property
    def is_basic(self) -> bool:
        """Whether a terminal with sixteen colours has these."""
        return all(colour in COLOURS or not colour for colour in (self.foreground, self.background))

    def over(self, below: RoleStyle) -> RoleStyle:
        return RoleStyle(
            self.foreground or below.foreground,
            self.background or below.background,
            tuple(dict.fromkeys((*below.attributes, *self.attributes))),
        )


class Theme(NamedTuple):
    """``styles`` has every role."""

    name: str
    styles: Mapping[str, RoleStyle]


class LoadedTheme(NamedTuple):
    """``problems`` are whole sentences, each with its file and line."""

    theme: Theme
    problems: list[str]


def is_light(environ: Mapping[str, str]) -> bool:
    """Whether the terminal has set ``COLORFGBG`` to a light background."""
    return environ.get("COLORFGBG", "").rpartition(";")[2] in {"7", "15"}


def default_theme() -> Theme:
    """The theme that needs no file."""
    return _theme(DEFAULT, {role: default.style for role, default in ROLES.items()})


def load_theme(name: str, home: Path, environ: Mapping[str, str]) -> LoadedTheme:
    """The theme with this name. ``auto`` is ``light`` on a background that is known to be light, else ``default``."""
    chosen = ("light" if is_light(environ) else DEFAULT) if name == AUTO else name
    if chosen == DEFAULT and not os.path.lexists(_own_file(home, DEFAULT)):
        return LoadedTheme(default_theme(), [])
    problems: list[str] = []
    values = _values(chosen, home, problems, ())
    return LoadedTheme(_theme(chosen if values else DEFAULT, _default_values() | (values or {})), problems)


def theme_names(home: Path) -> list[str]:
    """The names of all themes: ``auto``, those that are built in, the user's."""
    return [AUTO, *dict.fromkeys((DEFAULT, *_names_in(_BUILT_IN), *_names_in(home / FOLDER)))]


def no_theme(name: str, home: Path) -> str:
    """The words for a theme that is missing, with the one that was probably meant."""
    known = _near(name, theme_names(home)) or f"; themes are {', '.join(theme_names(home))}"
    return f"there is no theme {_quoted(name)}{known}"


def describe_theme(name: str, home: Path) -> str:
    """What a built-in theme is for, or where the user's is, for a list."""
    if name == AUTO:
        return "Light on a background that is known to be light, else default."
    if os.path.lexists(own := _own_file(home, name)):
        return str(own)
    if name == DEFAULT:
        return "The terminal's own colours, on any background."
    return (_BUILT_IN / f"{name}.toml").read_text("utf-8").partition("\n")[0].removeprefix("# ")


def parse_style(text: str) -> RoleStyle:
    """The style that a value says, such as ``bold #ff8800 on 236``. The names of ``NAMEABLE`` stand for themselves. Raises
    ``ValueError``.
    """
    foreground = background = ""
    attributes: list[str] = []
    words = text.split()
    at_background = False
    for word in words:
        if word == "on" and not at_background:
            at_background = True
            continue
        is_colour = bool(re.fullmatch(_HEX, word)) or word in COLOURS
        is_colour = is_colour or (word.isascii() and word.isdigit() and int(word[:4]) <= 255)
        if at_background:
            if not is_colour or background:
                raise ValueError(f"{_quoted(word)} is not a background{_near(word, COLOURS)}")
            background = _named(word)
        elif word in ATTRIBUTES:
            attributes.append(word)
        elif not (is_colour or word in NAMEABLE):
            near = _near(word, [*ATTRIBUTES, *COLOURS, *NAMEABLE])
            raise ValueError(f"{_quoted(word)} is not a colour{near or _FORMS}")
        elif foreground:
            raise ValueError(f"{_quoted(word)} is a second colour; a background follows the word `on`")
        else:
            foreground = _named(word)
    if at_background and not background:
        raise ValueError("a colour is missing after `on`")
    return RoleStyle(foreground, background, tuple(attributes))


def _named(colour: str) -> str:
    """The first sixteen numbers are colours that have names."""
    return COLOURS[int(colour) + 1] if colour.isdigit() and int(colour) < 16 else colour


_FORMS: Final = "; write #rrggbb, 0 to 255, or a name such as bright_blue"


def _quoted(word: str) -> str:
    return f"`{one_line(word, 40)}`"


def _near(name: str, names: Any) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:64], list(names), n=1, cutoff=0.6)
    return f" (did you mean `{near[0]}`?)" if near else ""


def _theme(name: str, values: Mapping[str, str]) -> Theme:
    """The theme with these valid values."""
    styles = {role: parse_style(value) for role, value in values.items()}
    for role, style in styles.items():
        if style.foreground in NAMEABLE:
            styles[role] = style._replace(foreground="").over(styles[style.foreground])
    return Theme(name, styles)


def _default_values() -> dict[str, str]:
    return {role: default.style for role, default in ROLES.items()}


def _own_file(home: Path, name: str) -> Path:
    return home / FOLDER / f"{name}.toml"


def _names_in(folder: Path) -> Iterator[str]:
    try:
        files = sorted(folder.iterdir(), key=lambda file: file.stem)
    except OSError:
        return
    for file in files:
        if file.suffix == ".toml" and re.fullmatch(_NAME, file.stem) and file.stem != AUTO:
            yield file.stem


def _values(name: str, home: Path, problems: list[str], children: tuple[Path, ...]) -> dict[str, str] | None:
    """The values of a theme with those of its parents; None if there is no such theme, or it cannot be read. ``children`` extend it."""
    from newel.config.toml_file import TomlError, parse_toml
    from newel.storage.files import read_regular

    file = _file_of(name, home, children)
    if file is None:
        if name == DEFAULT:
            return _default_values()
        missing = no_theme(name, home)
        what = f"{children[-1]}, extends: {missing}" if children else f"T{missing[1:]}"
        problems.append(f"{what}. The default is used.")
        return None
    if file in children or len(children) > DEEPEST:
        chain = " → ".join(child.stem for child in (*children, file))
        problems.append(f"{children[-1]}, extends: themes extend each other: {chain}. The default is used.")
        return None
    try:
        written, text = parse_toml(read_regular(file, MOST))
    except TomlError as error:
        problems.append(f"{file}, line {error.line}: {error}. The default is used.")
        return None
    except OSError as error:
        problems.append(f"{file} cannot be read: {error.strerror}. The default is used.")
        return None
    reader = _ThemeReader(file, text, problems)
    parent = reader.parent(written.pop("extends", DEFAULT))
    inherited = _values(parent, home, problems, (*children, file)) or _default_values()
    return inherited | reader.values(written)


def _file_of(name: str, home: Path, children: tuple[Path, ...]) -> Path | None:
    """The user's file, else the built-in one, which a file of the user's with this name can extend."""
    if not re.fullmatch(_NAME, name):
        return None
    own, built_in = _own_file(home, name), _BUILT_IN / f"{name}.toml"
    if os.path.lexists(own) and not (own in children and (built_in.exists() or name == DEFAULT)):
        return own
    return built_in if built_in.exists() else None


class _ThemeReader:
    """Takes the valid values of a file, and reports all others."""

    def __init__(self, file: Path, text: str, problems: list[str]) -> None:
        self._file = file
        self._text = text
        self._problems = problems

    def parent(self, name: object) -> str:
        if isinstance(name, str):
            return name
        self._report(("extends",), "it must be the name of a theme", "The default is used.")
        return DEFAULT

    def values(self, table: Mapping[str, object], at: tuple[str, ...] = ()) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in table.items():
            path = (*at, key)
            role = ".".join(path)
            if role in ROLES:
                if problem := _problem_of(role, value):
                    self._report(path, problem, "The style of the parent is used.")
                else:
                    found[role] = str(value)
            elif isinstance(value, dict) and not at:
                found |= self.values(cast("dict[str, object]", value), path)
            else:
                near = _near(role, ROLES) or "; `newel docs themes-and-keys` lists the roles"
                self._report(path, f"unknown role{near}", "It is ignored.")
        return found

    def _report(self, at: tuple[str, ...], what: str, consequence: str) -> None:
        from newel.text.toml import line_of_key

        line = line_of_key(self._text, at)
        name = one_line(".".join(at), 80)
        self._problems.append(f"{self._file}, line {line}: {name}: {what}. {consequence}")


def _problem_of(role: str, value: object) -> str:
    """What is wrong with a value; empty for a valid one."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return "it must be a style such as `bold #ff8800`"
    try:
        style = parse_style(str(value))
    except ValueError as error:
        return str(error)
    if role in NAMEABLE and style.foreground in NAMEABLE:
        return f"`{style.foreground}` is a role; this one needs a colour"
    return ""
