"""Finds keys and passwords in the text of a file: tokens of known vendors, and long random values with the name of a secret or in an
address.

Meant for files that git does not track, so a miss costs little, and a false alarm, too: the content is kept in memory instead of the
ledger. The shapes come from the documentation of the vendors and the rules of secret scanners.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import cache
from math import log2
from operator import ne
from typing import Final

LARGEST: Final = 64 << 10
"""In bytes: keys are in small files."""

_TEXT: Final = 512
"""Bytes of the beginning that show whether a file is text."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DATA: Final = _names(
    "cfg conf config csv env hcl http ini ipynb json json5 jsonc local log md netrc plist properties rest "
    "secret secrets sql tf tfvars toml token tsv txt xml yaml yml"
)
"""Suffixes of settings, data and notes. A name without a suffix may be one, too."""

_SHELLS: Final = _names("bash envrc fish sh zsh")
"""Suffixes of scripts."""

_LOCKS: Final = _names(
    "go.sum go.work.sum npm-shrinkwrap.json package-lock.json packages.lock.json pnpm-lock.yaml"
)
"""Files full of hashes, like all with the suffix ``.lock``."""


class TextKind(Enum):
    """How values are written in a text."""

    NONE = "not searched: too large, not text, or full of hashes"
    DATA = "settings, data and notes"
    SHELL = "a script whose values may be bare"
    SOURCE = "any other text: values are in quotes"


def is_data_with_keys(path: str, data: bytes) -> bool:
    """Whether a file of settings, data or notes has a key or a password in it."""
    kind = kind_of(path, data)
    return kind is TextKind.DATA and holds_keys(data, kind)


def is_text_with_keys(path: str, data: bytes) -> bool:
    """Whether a text of any kind has a key or a password in it."""
    return holds_keys(data, kind_of(path, data))


def kind_of(path: str, data: bytes) -> TextKind:
    """By size and name, and the beginning of the content."""
    stem, _, suffix = path[path.rfind("/") + 1 :].lower().rpartition(".")
    is_data = not stem or suffix in _DATA
    if not _SHORTEST <= len(data) <= LARGEST or suffix == "lock" or f"{stem}.{suffix}" in _LOCKS:
        return TextKind.NONE
    if b"\0" in data[:_TEXT]:
        return TextKind.NONE
    return TextKind.DATA if is_data else TextKind.SHELL if suffix in _SHELLS else TextKind.SOURCE


def holds_keys(data: bytes, kind: TextKind) -> bool:
    """Whether a text has a key or a password in it."""
    return kind is not TextKind.NONE and any(
        _is_key(data, start, end, quoted=kind is TextKind.SOURCE) for start, end in _long_values(data)
    )


def _long_values(data: bytes) -> Iterator[tuple[int, int]]:
    """Where long values with a digit begin and end. Takes a microsecond a kilobyte, as most texts have few."""
    shape = data.translate(_SHAPE)
    digit = shape.find(b"0")
    while digit >= 0:
        start, end = shape.rfind(b" ", 0, digit) + 1, shape.find(b" ", digit)
        end = len(shape) if end < 0 else end
        if end - start >= _SHORTEST:
            yield start, end
        digit = shape.find(b"0", end)


def _is_key(data: bytes, start: int, end: int, *, quoted: bool) -> bool:
    value = data[start : min(end, start + _LONGEST)]
    if any(map(_is_token, _vendor_tokens().findall(value))):
        return True
    before = data[max(0, start - _BEFORE) : start]
    if before.rstrip(b" \t\"'`")[-1:] not in {b"=", b":", b">"}:
        return False
    if re.search(rb"://[^\s/:@]*:\Z", before):
        password, at, _ = value.partition(b"@")
        return at != b"" and _is_random(password)
    named = _assigned_name().search(before)
    return (
        named is not None and (not quoted or named["quote"] != b"") and _is_secret_value(named["name"], value)
    )


_SHORTEST: Final = 16
"""Characters of a value that can be told from a word, and bytes of a file with one."""

_SHAPE: Final = bytes(
    32 if byte in b" \t\r\n\f\v\"'`<>,;(){}[]\\$%:=" else 48 if 48 <= byte <= 57 else 97
    for byte in range(256)
)
"""Digits become 0, other characters of values ``a``, and what ends a value a space."""

_LONGEST: Final = 4096
"""Characters of a value to look at."""

_BEFORE: Final = 64
"""Characters before a value that tell its name."""

_HEX: Final = 32
"""Hexadecimal digits of a key."""


@cache  # not at import, which would slow down every start
def _vendor_tokens() -> re.Pattern[bytes]:
    return re.compile(
        rb"(?<![A-Za-z0-9])(?:"
        rb"(?:AKIA|ASIA)[A-Z2-7]{16}"
        rb"|gh[oprsu]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,}|glpat-[\w-]{20,}"
        rb"|sk-[A-Za-z0-9_-]{32,}|[rs]k_live_[A-Za-z0-9]{20,}|whsec_[A-Za-z0-9+/]{32,}"
        rb"|xox[abeoprs]-[A-Za-z0-9-]{20,}|xapp-[A-Za-z0-9-]{20,}"
        rb"|AIza[\w-]{35}|ya29\.[\w-]{30,}|GOCSPX-[\w-]{20,}"
        rb"|hf_[A-Za-z0-9]{34,}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{60,}|dop_v1_[a-f0-9]{64}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"
        rb"|SG\.[\w-]{20,}\.[\w-]{40,}|dapi[a-f0-9]{32}|lin_api_[A-Za-z0-9]{40}"
        rb"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"
        rb"|AGE-SECRET-KEY-1[A-Z0-9]{50,}"
        rb")(?![A-Za-z0-9])"
    )


@cache
def _assigned_name() -> re.Pattern[bytes]:
    """At the end of the text before a value: ``api_key = "``, ``"password": "``, ``TOKEN=``, ``<secret>``."""
    return re.compile(
        rb"(?i)(?P<name>[\w.-]{0,40}(?:key|token|secret|passw(?:or)?d|passphrase|pwd|credentials?))"
        rb"""["']?(?:[ \t]*(?::=|=>|[=:])[ \t]*|>)(?P<quote>["'`]?)\Z"""
    )


_NO_SECRET_NAME: Final = re.compile(
    rb"(?i)public|pub_?key|cache|sort|partition|primary|foreign|hash|sum|digest|integrity|finger|host_?key|key_?words?|"
    rb"\b(?:keys|tokens)$|count|site_?key|(?:max|min|num|next|page|prev|continuation).?tokens?$"
)

_PLACEHOLDER: Final = re.compile(
    rb"(?i)example|change.?me|place.?holder|dummy|your|xxxx|\.\.\.|redacted|1234567|abcdef|sample|fake|test|insert|replace|secret|password|\*\*\*"
)

_UUID: Final = re.compile(rb"(?i)\{?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?")
_FINGERPRINT: Final = re.compile(rb"[0-9A-F]{40}")
"""Of a public key of GnuPG."""

_NOT_RANDOM: Final = re.compile(rb"(?i)(?:sha\d+|md5)[-:=]|ssh-|AAAA[BC]3|https?:|[./~]|\d+(?:[.:-]\d+)+\Z|#")
"""At the beginning of a value: a hash, a public key, an address, a path, a version, a colour."""


def _is_secret_value(name: bytes, value: bytes) -> bool:
    if _NO_SECRET_NAME.search(name) or _NOT_RANDOM.match(value) or _UUID.fullmatch(value):
        return False
    return _is_random(value) and not _FINGERPRINT.fullmatch(value)


def _is_token(found: bytes) -> bool:
    """Whether what begins like a vendor's token is one. ``sk-`` begins other names, too."""
    if found.startswith(b"sk-"):
        return _is_random(found)
    return _PLACEHOLDER.search(found) is None and _entropy(found) >= 3


def _is_random(value: bytes) -> bool:
    """Whether a value is of high entropy, and neither a placeholder nor made of words."""
    if _PLACEHOLDER.search(value):
        return False
    if re.fullmatch(rb"[0-9a-fA-F]+", value):
        return len(value) >= _HEX and _entropy(value) >= 3
    if re.fullmatch(rb"[A-Z0-9]+", value):
        return _entropy(value) >= 3
    classes = [_class_of(byte) for byte in value if chr(byte).isalnum()]
    changes = sum(map(ne, classes, classes[1:]))
    return _entropy(value) >= 3.4 and 4 * changes >= len(classes) and classes.count(0) >= 2


def _entropy(value: bytes) -> float:
    """Shannon's, in bits a character."""
    return -sum(n / len(value) * log2(n / len(value)) for n in Counter(value).values())


def _class_of(byte: int) -> int:
    char = chr(byte)
    return 0 if char.isdigit() else 1 if char.islower() else 2
