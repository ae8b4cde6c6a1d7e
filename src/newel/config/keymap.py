"""The keys of the terminal: what can be done, and which keys do it, by default and as the user has set it.

``KeySettings`` is the one table: the dispatchers, the hints on the screen, ``/keys`` and the documentation are made from it or checked
against it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, get_type_hints

import msgspec

from newel.config.key_names import Key, label, parse_key

Keys = tuple[str, ...] | str
"""No key, one, or several."""


class InputKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """While a message is written. The keys of emacs or vi edit it."""

    send: Annotated[Keys, "send the message; during a run, now"] = "enter"
    new_line: Annotated[Keys, "begin a new line"] = ("alt+enter", "ctrl+j")
    complete: Annotated[Keys, "complete a command or a file; during a run, send after it"] = "tab"
    approval_mode: Annotated[Keys, "switch the approval mode: ask, auto, plan"] = "shift+tab"
    stop: Annotated[Keys, "stop what runs; twice, with an empty input: /rewind"] = "escape"
    interrupt: Annotated[Keys, "stop what runs, or clear the draft; twice: leave"] = "ctrl+c"
    leave: Annotated[Keys, "leave, with an empty input"] = "ctrl+d"
    previous: Annotated[Keys, "edit the last queued message, or go through what you sent"] = "up"
    search: Annotated[Keys, "search what you sent earlier"] = "ctrl+r"
    editor: Annotated[Keys, "edit the draft in $VISUAL or $EDITOR"] = (
        "ctrl+g",
        "ctrl+x ctrl+e",
    )
    paste: Annotated[Keys, "paste the clipboard; an image is attached"] = "ctrl+v"
    background: Annotated[Keys, "let the command that runs go on in the background"] = "ctrl+b"
    transcript: Annotated[Keys, "show the whole transcript, unfolded"] = "ctrl+o"
    model: Annotated[Keys, "choose the model"] = "alt+p"
    thinking: Annotated[Keys, "switch how much the model reasons"] = "alt+t"
    suspend: Annotated[Keys, "suspend Newel; `fg` resumes it"] = "ctrl+z"


class ListKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """While a row is chosen from a list. Characters filter it."""

    choose: Annotated[Keys, "choose the selected row"] = "enter"
    cancel: Annotated[Keys, "choose none"] = ("escape", "ctrl+c", "ctrl+g")
    up: Annotated[Keys, "select the row above"] = ("up", "ctrl+p", "shift+tab")
    down: Annotated[Keys, "select the row below"] = ("down", "ctrl+n", "tab")
    page_up: Annotated[Keys, "go ten rows up"] = "pageup"
    page_down: Annotated[Keys, "go ten rows down"] = "pagedown"
    further: Annotated[Keys, "in the history: go further back"] = "ctrl+r"
    end: Annotated[Keys, "in `/bashes`: end the selected command"] = "ctrl+x"


class PagerKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In the transcript, and in other long texts."""

    close: Annotated[Keys, "close the text"] = (
        "q",
        "escape",
        "ctrl+c",
        "ctrl+d",
        "ctrl+o",
    )
    up: Annotated[Keys, "go a line up"] = ("up", "k", "ctrl+p")
    down: Annotated[Keys, "go a line down"] = ("down", "j", "ctrl+n", "enter")
    page_up: Annotated[Keys, "go a page up"] = ("b", "pageup", "ctrl+b")
    page_down: Annotated[Keys, "go a page down"] = (
        "space",
        "pagedown",
        "f",
        "ctrl+f",
    )
    half_page_up: Annotated[Keys, "go half a page up"] = ("u", "ctrl+u")
    half_page_down: Annotated[Keys, "go half a page down"] = "d"
    start: Annotated[Keys, "go to the start"] = ("g", "home", "<")
    end: Annotated[Keys, "go to the end"] = ("G", "end", ">")
    find: Annotated[Keys, "find text"] = "/"
    next: Annotated[Keys, "go to the next occurrence"] = "n"
    previous: Annotated[Keys, "go to the occurrence before"] = "N"


class DecideKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In `/decide` and `newel decide`: one letter or digit each. `?` lists them."""

    keep: Annotated[Keys, "keep this hunk"] = "y"
    reject: Annotated[Keys, "reject this hunk"] = "n"
    reject_because: Annotated[Keys, "reject it; words after it tell the agent why"] = "r"
    keep_rest: Annotated[Keys, "keep this and the rest of the file"] = "a"
    reject_rest: Annotated[Keys, "reject this and the rest of the file"] = "d"
    split: Annotated[Keys, "split it into smaller hunks"] = "s"
    edit: Annotated[Keys, "edit it in your editor, and keep it"] = "e"
    next: Annotated[Keys, "go to the next hunk"] = "j"
    previous: Annotated[Keys, "go back to the previous hunk"] = "k"
    undo: Annotated[Keys, "undo the decision: it is pending again"] = "u"
    stop: Annotated[Keys, "stop, and write the kept hunks"] = "q"


class KeySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[terminal.keys]``: the keys of each mode."""

    input: InputKeys = InputKeys()
    list: ListKeys = ListKeys()
    pager: PagerKeys = PagerKeys()
    decide: DecideKeys = DecideKeys()


Mode = Literal["input", "list", "pager", "decide"]

MODES: Final[Mapping[Mode, type[msgspec.Struct]]] = {
    "input": InputKeys,
    "list": ListKeys,
    "pager": PagerKeys,
    "decide": DecideKeys,
}

FIXED: Final[Mapping[Mode, Mapping[str, tuple[str, ...]]]] = {
    "input": {"stop": ("escape",), "interrupt": ("ctrl+c",), "leave": ("ctrl+d",)},
    "list": {"choose": ("enter",), "cancel": ("escape", "ctrl+c")},
    "pager": {"close": ("escape", "ctrl+c")},
    "decide": {"keep": ("y",), "reject": ("n",)},
}
"""Keys that cannot be removed from their actions: without them the user could not stop a run or leave, or might decide what they did not
mean.
"""


class Keymap:
    """The keys of valid settings."""

    def __init__(self, settings: KeySettings | None = None) -> None:
        self._settings = settings or KeySettings()

    def names(self, mode: Mode, action: str) -> tuple[str, ...]:
        """The keys of an action as they are written in the settings."""
        keys: Keys = getattr(getattr(self._settings, mode), action)
        return (keys,) if isinstance(keys, str) else tuple(keys)

    def keys(self, mode: Mode, action: str) -> list[Key]:
        """The keys of an action for prompt_toolkit."""
        return [parse_key(name) for name in self.names(mode, action)]

    def label(self, mode: Mode, action: str, how: str = "{}") -> str:
        """``how`` with the first key of an action as it is shown; empty if no key does this."""
        names = self.names(mode, action)
        return how.format(label(parse_key(names[0]))) if names else ""

    def fill(self, text: str) -> str:
        """The text with keys in place of actions of the input in braces, such as ``{editor}``."""
        return re.sub(
            r"\{([a-z_]+)\}", lambda found: self.label("input", found[1]) or f"no key (`{found[1]}`)", text
        )

    def labels(self, mode: Mode, action: str) -> list[str]:
        return [label(key) for key in self.keys(mode, action)]

    def is_default(self, mode: Mode, action: str) -> bool:
        return self.keys(mode, action) == Keymap().keys(mode, action)


def actions(mode: Mode) -> dict[str, str]:
    """What can be done in a mode: names of actions and what they do."""
    hints = get_type_hints(MODES[mode], include_extras=True)
    return {name: hints[name].__metadata__[0] for name in MODES[mode].__struct_fields__}
