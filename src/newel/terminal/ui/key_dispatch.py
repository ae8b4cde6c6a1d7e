"""The bindings of prompt_toolkit for the actions of a keymap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Always, Filter, FilterOrBool
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from newel.config.keymap import MODES, Keymap, Mode

Action = Callable[[], None]

ALWAYS: Final = Always()


def bind(
    bindings: KeyBindings,
    keymap: Keymap,
    mode: Mode,
    actions: Mapping[str, tuple[Action, Filter]],
    *,
    is_escape_alone: FilterOrBool = False,
) -> None:
    """Bind the keys of a mode. ``actions`` has all of its actions; ``is_escape_alone`` tells whether Escape acts without waiting for
    another key. Of two bindings of a key, the one that was added last acts.
    """
    for action in MODES[mode].__struct_fields__:
        act, filter_ = actions[action]
        for key in keymap.keys(mode, action):
            eager = is_escape_alone if key == ("escape",) else False
            bindings.add(*key, filter=filter_, eager=eager)(on_key(act))


def bind_moves(bindings: KeyBindings, buffer: Buffer, filter_: Filter) -> None:
    """Let the keys that go through what was sent earlier move in the text instead."""
    for keys in (("up",), ("c-p",), ("escape", "<")):
        bindings.add(*keys, filter=filter_)(on_key(buffer.cursor_up))
    for keys in (("down",), ("c-n",), ("escape", ">")):
        bindings.add(*keys, filter=filter_)(on_key(buffer.cursor_down))


def on_key(action: Action) -> Callable[[KeyPressEvent], None]:
    return lambda _: action()
