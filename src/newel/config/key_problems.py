"""Problems of the keys that a user has set: what would do nothing, two things, or keep the user from stopping a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from newel.config.key_names import Key, label, parse_key
from newel.config.keymap import FIXED, MODES, Keymap, KeySettings, Mode, actions
from newel.text.format import one_line


class KeyProblem(NamedTuple):
    """``name`` is that of a setting, below ``terminal.keys``; ``what`` has no full stop."""

    name: tuple[str, str]
    what: str


def key_problems(settings: KeySettings) -> list[KeyProblem]:
    """The problems of all modes, in their order."""
    return [problem for mode in MODES for problem in _problems(mode, Keymap(settings))]


def _problems(mode: Mode, keymap: Keymap) -> Iterator[KeyProblem]:
    users: dict[Key, str] = {}
    for action in actions(mode):
        parsed: list[Key] = []
        for name in keymap.names(mode, action):
            try:
                key = parse_key(name)
            except ValueError as error:
                yield KeyProblem((mode, action), str(error))
                continue
            parsed.append(key)
            if problem := _unusable(mode, action, key):
                yield KeyProblem((mode, action), problem)
            elif (other := users.setdefault(key, action)) != action:
                yield _conflict(mode, action, other, key, keymap)
        if (mode, action) == ("input", "send") and not parsed:
            yield KeyProblem((mode, action), "without a key, no message could be sent")
        for fixed in FIXED[mode].get(action, ()):
            if parse_key(fixed) not in parsed:
                yield KeyProblem((mode, action), _fixed(mode, action, fixed))
    yield from _begun(mode, users)


def _conflict(mode: Mode, action: str, other: str, key: Key, keymap: Keymap) -> KeyProblem:
    """Both actions have the key: the one that the user has set is to blame, and the other one has to give it up."""
    if keymap.is_default(mode, action) and not keymap.is_default(mode, other):
        action, other = other, action
    rest = [name for name in keymap.names(mode, other) if parse_key(name) != key]
    without = ", ".join(f'"{one_line(name, 40)}"' for name in rest)
    remedy = f"choose another key, or take it from that one: `{other} = [{without}]`"
    return KeyProblem((mode, action), f"{label(key)} is also `{other}`; {remedy}")


def _fixed(mode: Mode, action: str, key: str) -> str:
    why = {
        "input": "without it, you could not stop a run or leave Newel",
        "list": "without it, you could not leave a list",
        "pager": "without it, you could not leave the pager",
        "decide": "people press it from habit",
    }[mode]
    return f'`{key}` cannot be removed: {why}. Add keys beside it: `{action} = ["{key}", …]`'


def _unusable(mode: Mode, action: str, key: Key) -> str:
    """Why a key cannot be used in a mode; empty if it can."""
    is_character = len(key) == 1 and len(key[0]) == 1
    if mode in {"input", "list"} and is_character:
        return f"{label(key)} is a character to be typed; use it with ctrl or alt"
    if mode == "decide" and not (
        is_character and key[0].isascii() and key[0].isalnum() and key[0] == key[0].lower()
    ):
        return f"{label(key)} is not a lower-case letter or digit"
    owner = _owner(mode, key)
    return f"{label(key)} is for `{owner}`, and cannot do anything else" if owner not in {"", action} else ""


def _owner(mode: Mode, key: Key) -> str:
    """The action whose fixed key this is; empty for a free key."""
    return next((action for action, keys in FIXED[mode].items() if key in map(parse_key, keys)), "")


def _begun(mode: Mode, users: dict[Key, str]) -> Iterator[KeyProblem]:
    """Keys that begin others would have to wait for the next key. Escape does so in any case, as it begins what Alt sends."""
    for key, action in users.items():
        for longer, other in users.items():
            if key != ("escape",) and len(longer) > len(key) and longer[: len(key)] == key:
                yield KeyProblem(
                    (mode, action),
                    f"{label(key)} also begins {label(longer)} of `{other}`; choose another key",
                )
