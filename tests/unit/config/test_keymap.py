"""If these fail, a wrong key setting traps the user, or the documentation names keys that do something else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from newel.agent.errors import ConfigError
from newel.config.editing import read_name, set_value
from newel.config.key_names import label, parse_key
from newel.config.key_problems import key_problems
from newel.config.keymap import MODES, Keymap, KeySettings, actions
from newel.config.settings import parse_config

PAGE = (Path(__file__).parents[3] / "docs/themes-and-keys.md").read_text()


def problem_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(Path("config.toml"), f"[terminal.keys]\n{text}\n".encode())
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ('input.serch = "f2"', "line 2: terminal.keys.input.serch: unknown setting (did you mean `search`?)"),
        ('input.transcript = "ctrl+r"', "transcript: Ctrl+R is also `search`; choose another key, or take it from that one: `search = []`"),
        ('pager.up = ["up", "q"]', 'or take it from that one: `close = ["escape", "ctrl+c", "ctrl+d", "ctrl+o"]`'),
        ("input.stop = []", 'stop: `escape` cannot be removed: without it, you could not stop a run or leave Newel. Add keys beside it: `stop = ["escape", …]`'),
        ('input.interrupt = "f2"', "interrupt: `ctrl+c` cannot be removed"),
        ('input.leave = "f2"', "leave: `ctrl+d` cannot be removed"),
        ('list.cancel = "f2"', "cancel: `escape` cannot be removed"),
        ('pager.close = "q"', "close: `escape` cannot be removed"),
        ('input.paste = "escape"', "paste: Esc is for `stop`, and cannot do anything else"),
        ('input.paste = "ctrl+c"', "paste: Ctrl+C is for `interrupt`, and cannot do anything else"),
        ("input.send = []", "send: without a key, no message could be sent"),
        ('input.paste = "ctrl+i"', "paste: Ctrl+I is Tab for a terminal: write `tab`"),
        ('input.paste = "ctrl+m"', "paste: Ctrl+M is Enter for a terminal"),
        ('input.paste = "ctrl+shift+v"', "is Ctrl+V for a terminal: write `ctrl+v`"),
        ('input.paste = "cmd+v"', "terminals keep keys with cmd for themselves"),
        ('input.paste = "pgup"', "`pgup` is not a key (did you mean `pageup`?)"),
        ('input.paste = "C-v"', "`C-v` is not a key; write `ctrl+v`"),
        ('input.paste = "x"', "x is a character to be typed; use it with ctrl or alt"),
        ('input.paste = "ctrl+x"', "Ctrl+X also begins Ctrl+X Ctrl+E of `editor`"),
        ('input.paste = "\\u001b"', "a control character is not a key"),
        ('decide.reject = ["n", "y"]', "reject: y is for `keep`, and cannot do anything else"),
        ('decide.split = "S"', "S is not a lower-case letter or digit"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_is_refused_with_its_line_and_a_remedy(setting: str, problem: str) -> None:
    assert problem in problem_of(setting)


def test_a_refused_key_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("# mine\n")
    with pytest.raises(ConfigError, match="is also `search`"):
        set_value(tmp_path, read_name("terminal.keys.input.paste"), "ctrl+r")
    assert (tmp_path / "config.toml").read_text() == "# mine\n"
    set_value(tmp_path, read_name("terminal.keys.input.search"), '["ctrl+f", "f3"]')
    settings, _ = parse_config(Path("config.toml"), (tmp_path / "config.toml").read_bytes())
    assert Keymap(settings.terminal.keys).labels("input", "search") == ["Ctrl+F", "F3"]


def test_the_default_keys_have_no_problem() -> None:
    assert key_problems(KeySettings()) == []


@pytest.mark.parametrize(
    ("text", "key", "shown"),
    [
        ("ctrl+r", ("c-r",), "Ctrl+R"),
        ("Control+R", ("c-r",), "Ctrl+R"),
        ("alt+p", ("escape", "p"), "Alt+P"),
        ("alt+shift+p", ("escape", "P"), "Alt+Shift+P"),
        ("shift+enter", ("escape", "enter"), "Alt+Enter"),
        ("ctrl+x ctrl+e", ("c-x", "c-e"), "Ctrl+X Ctrl+E"),
        ("ctrl+space", ("c-@",), "Ctrl+Space"),
        ("ctrl+shift+left", ("c-s-left",), "Ctrl+Shift+Left"),
        ("pageup", ("pageup",), "Page Up"),
        ("G", ("G",), "G"),
        ("+", ("+",), "+"),
        ("alt++", ("escape", "+"), "Alt++"),
    ],
)
def test_keys_are_read_and_shown(text: str, key: tuple[str, ...], shown: str) -> None:
    assert parse_key(text) == key
    assert label(key) == shown


def test_the_documented_keys_are_the_defaults() -> None:
    keymap = Keymap()
    for mode in MODES:
        table = PAGE.partition(f"### `[terminal.keys.{mode}]`")[2].partition("\n### ")[0]
        rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", table, re.MULTILINE)
        assert rows == [
            (action, ", ".join(f"`{name}`" for name in keymap.names(mode, action)), does)
            for action, does in actions(mode).items()
        ]
