"""Names of keys, as users write and read them, and as prompt_toolkit has them."""

from __future__ import annotations

import re
from typing import Final

Key = tuple[str, ...]
"""Keys of prompt_toolkit in a row. Alt is Escape before a key, as terminals report it."""

_MODIFIERS: Final = {
    "ctrl": "ctrl",
    "control": "ctrl",
    "alt": "alt",
    "option": "alt",
    "meta": "alt",
    "shift": "shift",
}
_NAMED: Final = {
    "enter": "enter",
    "return": "enter",
    "tab": "tab",
    "escape": "escape",
    "esc": "escape",
    "space": " ",
    "backspace": "backspace",
    "delete": "delete",
    "insert": "insert",
    "home": "home",
    "end": "end",
    "pageup": "pageup",
    "pagedown": "pagedown",
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
    **{f"f{number}": f"f{number}" for number in range(1, 25)},
}
_MOVING: Final = frozenset(
    ("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete")
)
"""Keys that terminals report with Shift and Ctrl."""

_NOT_SENT: Final = {
    "ctrl+i": "Ctrl+I is Tab for a terminal: write `tab`",
    "ctrl+m": "Ctrl+M is Enter for a terminal: write `enter`",
    "ctrl+[": "Ctrl+[ is Esc for a terminal: write `escape`",
    "ctrl+h": "Ctrl+H is Backspace for many terminals",
    "ctrl+enter": "Ctrl+Enter is Enter or Alt+Enter for a terminal: write `alt+enter`",
    "ctrl+tab": "terminals keep Ctrl+Tab for themselves",
    "ctrl+backspace": "Ctrl+Backspace is Backspace or Alt+Backspace for a terminal: write `alt+backspace`",
    "shift+space": "Shift+Space is Space for a terminal",
    "shift+backspace": "Shift+Backspace is Backspace for a terminal",
    "shift+escape": "Shift+Esc is Esc for a terminal",
    "ctrl+escape": "Ctrl+Esc is Esc for a terminal",
}
_HIDDEN: Final = ("super", "cmd", "command", "win", "hyper", "fn")

_LABELS: Final = {
    "escape": "Esc",
    "pageup": "Page Up",
    "pagedown": "Page Down",
    "c-@": "Ctrl+Space",
    "s-tab": "Shift+Tab",
    " ": "Space",
}


def parse_key(text: str) -> Key:
    """The key, or the keys in a row: ``ctrl+r``, ``alt+p``, ``ctrl+x ctrl+e``, ``?``. Raises ``ValueError``."""
    pressed = text.split() or ([text] if text == " " else [])
    if not pressed:
        raise ValueError("a key is missing; write [] for no key")
    if len(pressed) > 2:
        raise ValueError(f"`{text[:40]}` has more than two keys in a row")
    return tuple(key for each in pressed for key in _parse_one(each))


def label(key: Key) -> str:
    """The key as it is shown: ``Ctrl+R``, ``Alt+P``, ``Ctrl+X Ctrl+E``."""
    parts: list[str] = []
    rest = list(key)
    while rest:
        first = rest.pop(0)
        parts.append(_with_modifier("alt+", rest.pop(0)) if first == "escape" and rest else _label_of(first))
    return " ".join(parts)


def _label_of(key: str) -> str:
    if key in _LABELS:
        return _LABELS[key]
    for begin, modifier in (("c-", "ctrl+"), ("s-", "shift+")):
        if key.startswith(begin) and key != begin:
            return _with_modifier(modifier, key.removeprefix(begin))
    return key if len(key) == 1 else key.capitalize()


def _with_modifier(modifier: str, key: str) -> str:
    is_upper = len(key) == 1 and key != key.lower()
    shown = key.upper() if len(key) == 1 else _label_of(key)
    return f"{modifier.capitalize()}{'Shift+' if is_upper else ''}{shown}"


def _parse_one(text: str) -> Key:
    if len(text) == 1:
        return _character(text)
    *words, name = re.split(r"\+(?=.)", text)
    modifiers: set[str] = set()
    for word in words:
        if word.lower() in _HIDDEN:
            raise ValueError(f"`{text[:40]}`: terminals keep keys with {word[:20]} for themselves")
        if word.lower() not in _MODIFIERS:
            raise ValueError(f"`{text[:40]}`: `{word[:20]}` is not a modifier; use ctrl, alt or shift")
        modifiers.add(_MODIFIERS[word.lower()])
    named = _NAMED.get(name.lower())
    if named is None and len(name) != 1:
        raise ValueError(f"`{text[:40]}` is not a key{_near(text, name)}")
    return _combined(text, modifiers, named or name)


def _combined(text: str, modifiers: set[str], key: str) -> Key:
    plain = "+".join([*sorted(modifiers - {"alt"}), "space" if key == " " else key.lower()])
    if plain in _NOT_SENT:
        raise ValueError(f"{_NOT_SENT[plain]}")
    if "alt" in modifiers:
        if key == "escape":
            raise ValueError(f"`{text[:40]}`: Alt+Esc is Esc twice for a terminal")
        return ("escape", *_combined(text, modifiers - {"alt"}, key))
    if modifiers == {"shift"} and key in ("tab", "enter"):
        return ("s-tab",) if key == "tab" else ("escape", "enter")
    if not modifiers:
        return _character(key) if len(key) == 1 else (key,)
    if len(key) == 1:
        return _modified_character(text, modifiers, key)
    if key in _MOVING:
        return ("".join(mark for name, mark in (("ctrl", "c-"), ("shift", "s-")) if name in modifiers) + key,)
    raise ValueError(
        f"`{text[:40]}`: terminals do not report this key with {' and '.join(sorted(modifiers))}"
    )


def _modified_character(text: str, modifiers: set[str], key: str) -> Key:
    if modifiers == {"shift"}:
        if key.lower() == key.upper():
            raise ValueError(f"`{text[:40]}`: write the character that Shift makes of it, such as `?`")
        return (key.upper(),)
    if "shift" in modifiers:
        raise ValueError(f"`{text[:40]}` is Ctrl+{key.upper()} for a terminal: write `ctrl+{key.lower()}`")
    if key == " ":
        return ("c-@",)
    if re.fullmatch(r"[a-z\\\]^_]", key.lower(), re.ASCII):
        return (f"c-{key.lower()}",)
    raise ValueError(f"`{text[:40]}`: a terminal has no such key; Ctrl goes with letters")


def _character(text: str) -> Key:
    if not text.isprintable():
        raise ValueError("a control character is not a key; write its name, such as `ctrl+a`")
    return (text,)


def _near(text: str, name: str) -> str:
    from difflib import get_close_matches

    if dashed := re.fullmatch(r"(?i)(c|ctrl|control|a|m|alt|meta|s|shift)-(.+)", text):
        modifier = {"c": "ctrl", "a": "alt", "m": "alt", "s": "shift"}[dashed[1][0].lower()]
        return f"; write `{modifier}+{dashed[2][:20].lower()}`"
    near = get_close_matches(name[:40].lower(), list(_NAMED), n=1, cutoff=0.6)
    if near:
        return f" (did you mean `{text[: -len(name)][:20]}{near[0]}`?)"
    return "; write a character, a name such as pageup or f5, or ctrl+r, alt+p, shift+tab"
