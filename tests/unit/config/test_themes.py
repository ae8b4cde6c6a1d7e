"""If these fail, a theme makes text unreadable, a mistake in one keeps Newel from starting, or the documentation's roles are wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.color import Color

from newel.config.themes import ROLES, RoleStyle, load_theme, parse_style, theme_names

PAGE = (Path(__file__).parents[3] / "docs/themes-and-keys.md").read_text()
DARK = ("#000000", "#16181b", "#1e1e1e", "#22242a")
LIGHT = ("#ffffff", "#fbfbf9", "#f6f6f2")
TEXT = {"dark": "#e6e6e3", "light": "#1d1f21"}

Rgb = tuple[float, float, float]


def linear(colour: str) -> Rgb:
    red, green, blue = (value / 255 for value in Color.parse(colour).get_truecolor())

    def of(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return of(red), of(green), of(blue)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""
    light, dark = sorted(
        (0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in map(linear, (one, other))),
        reverse=True,
    )
    return (light + 0.05) / (dark + 0.05)


def seen_without_red_cones(colour: str) -> Rgb:
    """By Machado, Oliveira and Fernandes (2009), severity 1.0."""
    red, green, blue = linear(colour)
    return (
        0.152286 * red + 1.052583 * green - 0.204868 * blue,
        0.114503 * red + 0.786281 * green + 0.099216 * blue,
        -0.003882 * red - 0.048116 * green + 1.051998 * blue,
    )


def seen_without_green_cones(colour: str) -> Rgb:
    red, green, blue = linear(colour)
    return (
        0.367322 * red + 0.860646 * green - 0.227968 * blue,
        0.280085 * red + 0.672501 * green + 0.047413 * blue,
        -0.011820 * red + 0.042940 * green + 0.968881 * blue,
    )


@pytest.mark.parametrize(
    ("name", "grounds", "least"),
    [
        ("dark", DARK, 4.5),
        ("light", LIGHT, 4.5),
        ("colorblind", DARK, 4.5),
        ("colorblind-light", LIGHT, 4.5),
        ("high-contrast", DARK[:3], 7),
        ("high-contrast-light", LIGHT, 7),
    ],
)
def test_texts_of_built_in_themes_can_be_read(
    name: str, grounds: tuple[str, ...], least: float, tmp_path: Path
) -> None:
    styles = load_theme(name, tmp_path, {}).theme.styles
    own = TEXT["light" if grounds == LIGHT else "dark"]
    on_diffs = [styles["diff.added"].background, styles["diff.removed"].background]
    for role, style in styles.items():
        assert "faint" not in style.attributes, role
        behind = [style.background] if style.background else [*grounds]
        behind += on_diffs if role.startswith("syntax.") else []
        for ground in behind:
            assert contrast(style.foreground or own, ground) >= least, (role, ground)


@pytest.mark.parametrize("name", ["colorblind", "colorblind-light", "dark", "light"])
@pytest.mark.parametrize("seen", [seen_without_red_cones, seen_without_green_cones])
def test_colour_blind_users_tell_added_from_removed(
    name: str, seen: Callable[[str], Rgb], tmp_path: Path
) -> None:
    styles = load_theme(name, tmp_path, {}).theme.styles
    pairs = [("diff.added", "diff.removed")] + ([("success", "error")] if "blind" in name else [])
    for one, other in pairs:
        first, second = (seen(styles[role].foreground) for role in (one, other))
        assert sum(abs(a - b) for a, b in zip(first, second, strict=True)) > 0.25, (one, other)


def test_the_themes_that_leave_colours_to_the_terminal_use_only_its_own(tmp_path: Path) -> None:
    assert all(style.is_basic for style in load_theme("ansi", tmp_path, {}).theme.styles.values())
    assert not any(
        style.background or style.foreground.startswith("#")
        for style in load_theme("default", tmp_path, {}).theme.styles.values()
    )


@pytest.mark.parametrize("name", ["default", "ansi"])
def test_no_text_has_a_colour_that_is_the_background_of_a_common_palette(name: str, tmp_path: Path) -> None:
    """Bright black is the background of Solarized Dark, and white that of many light palettes."""
    used = {style.foreground for style in load_theme(name, tmp_path, {}).theme.styles.values()}
    assert not used & {"black", "bright_black", "white", "bright_white"}


def test_a_light_background_gets_the_light_theme(tmp_path: Path) -> None:
    chosen = [
        load_theme("auto", tmp_path, {"COLORFGBG": ground}).theme.name for ground in ("0;15", "15;0", "")
    ]
    assert chosen == ["light", "default", "default"]


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("", RoleStyle()),
        ("bold #ff8800 on 236", RoleStyle("#ff8800", "236", ("bold",))),
        ("5", RoleStyle("magenta")),
        ("bold underline", RoleStyle("", "", ("bold", "underline"))),
        ("accent on default", RoleStyle("accent", "default")),
    ],
)
def test_a_style_is_read(text: str, style: RoleStyle) -> None:
    assert parse_style(text) == style


def write(home: Path, **themes: str) -> None:
    (home / "themes").mkdir()
    for name, content in themes.items():
        (home / "themes" / f"{name}.toml").write_text(content)


def problems(home: Path, name: str) -> str:
    return "\n".join(load_theme(name, home, {}).problems).replace(f"{home}/themes/", "")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('\nacent = "red"', "own.toml, line 2: acent: unknown role (did you mean `accent`?). It is ignored."),
        ('[diff]\nadedd = "red"', "own.toml, line 2: diff.adedd: unknown role (did you mean `diff.added`?)"),
        ('accent = "grene"', "own.toml, line 1: accent: `grene` is not a colour (did you mean `green`?)"),
        ('accent = "#ff88"', "accent: `#ff88` is not a colour; write #rrggbb, 0 to 255, or a name"),
        ("accent = 256", "`256` is not a colour"),
        ('accent = "red blue"', "`blue` is a second colour; a background follows the word `on`"),
        ('accent = "red on"', "a colour is missing after `on`"),
        ("accent = true", "accent: it must be a style such as `bold #ff8800`"),
        ('accent = "error"', "accent: `error` is a role; this one needs a colour"),
        ('extends = "drak"', "own.toml, extends: there is no theme `drak` (did you mean `dark`?)"),
        ('extends = "own"', "own.toml, extends: themes extend each other: own → own. The default"),
        ('extends = "../own"', "there is no theme `../own`"),
        ("extends = 3", "own.toml, line 1: extends: it must be the name of a theme"),
        ("accent = ", "own.toml, line 1: "),
        ("accent = '" + "x" * 70_000 + "'", "own.toml cannot be read: it has more than 65,536 bytes"),
    ],
)
def test_a_mistake_is_named_and_the_rest_is_used(content: str, problem: str, tmp_path: Path) -> None:
    write(tmp_path, own=content)
    assert problem in problems(tmp_path, "own")
    assert load_theme("own", tmp_path, {}).theme.styles["accent"] == RoleStyle("cyan")


def test_a_theme_that_is_missing_or_no_file_is_the_default(tmp_path: Path) -> None:
    write(tmp_path, one='extends = "two"', two='extends = "one"\nerror = "blue"')
    os.mkfifo(tmp_path / "themes/pipe.toml")
    assert "There is no theme `darc` (did you mean `dark`?)" in problems(tmp_path, "darc")
    assert "pipe.toml cannot be read: it is not a regular file" in problems(tmp_path, "pipe")
    assert "themes extend each other: one → two → one" in problems(tmp_path, "one")
    assert load_theme("one", tmp_path, {}).theme.styles["error"] == RoleStyle("blue")


def test_a_new_accent_changes_what_has_it_and_a_file_can_extend_the_built_in_of_its_name(
    tmp_path: Path,
) -> None:
    write(tmp_path, dark='extends = "dark"\naccent = "#ff0000"\n')
    styles = load_theme("dark", tmp_path, {}).theme.styles
    assert styles["prompt"] == RoleStyle("#ff0000", "", ("bold",))
    assert styles["error"] == RoleStyle("#ff8a80")


def test_the_documented_roles_and_themes_are_those_that_exist() -> None:
    themes, roles = PAGE.partition("| role |")[::2]
    assert re.findall(r"^\| `([a-z-]+)` \|", themes, re.MULTILINE) == theme_names(Path("/nowhere"))
    rows = re.findall(
        r"^\| `([a-z._]+)` \| (?:`([^`]*)`)? ?\| (.*) \|$", roles.partition("\n\n")[0], re.MULTILINE
    )
    assert rows == [(role, default.style, default.use) for role, default in ROLES.items()]
