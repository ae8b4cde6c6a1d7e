"""``/theme`` and ``/keys``: how the terminal looks, and what its keys do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from newel.agent.errors import UsageError
from newel.config.keymap import MODES, Mode, actions
from newel.terminal.commands import CommandContext, closest, did_you_mean
from newel.text.format import format_columns, one_line
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.config.themes import LoadedTheme

TITLES: Final[dict[Mode, str]] = {
    "input": "input, while you write",
    "list": "list, while you choose",
    "pager": "pager, in the transcript",
    "decide": "decide, hunk by hunk",
}
CHANGE_KEYS: Final = """\
To change one: `newel config set terminal.keys.input.search ctrl+f` in a shell, from the next start on; '[]' unbinds it."""


async def theme(context: CommandContext, name: str) -> None:
    """``/theme`` or ``/theme NAME``"""
    from newel.config.themes import describe_theme, theme_names

    names = theme_names(context.home)
    if name:
        if name not in names:
            hint = did_you_mean("", closest(name, names))
            raise UsageError(f"There is no theme {one_line(name, 40)}.{hint} `/theme` lists them.")
        _choose(context, name)
        return
    width = max(map(len, names))
    rows = [f"{each:<{width}}  {describe_theme(each, context.home)}" for each in names]
    now = _chosen(context)
    picked = await context.ui.pick_theme(
        rows, lambda position: _load(context, names[position]).theme, names.index(now) if now in names else 0
    )
    if picked is not None:
        _choose(context, names[picked])


async def keys(context: CommandContext, _: str) -> None:
    """``/keys``"""
    rows: list[tuple[str, str]] = []
    for mode in MODES:
        rows += [("", "")] if rows else []
        rows.append((f"{TITLES[mode]}:", ""))
        for action, does in actions(mode).items():
            bound = ", ".join(context.keymap.labels(mode, action)) or "no key"
            origin = "" if context.keymap.is_default(mode, action) else " (your config.toml)"
            rows.append((f"  {action}  {bound}", f"{does}{origin}"))
    context.say(f"{format_columns(rows, context.ui.columns())}\n\n{CHANGE_KEYS}")


def _chosen(context: CommandContext) -> str:
    from newel.config.settings import load_terminal_settings

    return load_terminal_settings(context.home).theme


def _load(context: CommandContext, name: str) -> LoadedTheme:
    from newel.config.themes import load_theme

    return load_theme(name, context.home, os.environ)


def _choose(context: CommandContext, name: str) -> None:
    """Use a theme, and keep it for later conversations."""
    from newel.config.editing import save

    loaded = _load(context, name)
    context.ui.use_theme(loaded.theme)
    save(context.home, {("terminal", "theme"): name})
    for problem in loaded.problems:
        context.say(f"Warning: {escape_line(problem)}")
    context.say(f"Theme: {name}. It is saved in config.toml.")
