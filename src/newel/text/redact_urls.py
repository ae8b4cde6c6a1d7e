"""How an address is shown to people: without what opens a door."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "…"
"""Stands where something is not shown."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_QUERY = re.compile(r"[?#]")
_PATH = re.compile(r"[/?#]")


def shown_url(url: str) -> str:
    """The URL without credentials, query and fragment: ``https://…@host/v1?…``.

    A password may hold any character, ``/``, ``?`` and ``#`` too, where somebody has not encoded it: all before the
    last ``@`` counts as credentials. Where that ``@`` may as well belong to a query, which may hold a secret of its
    own, nothing but the scheme is shown.
    """
    scheme, rest = _split(url)
    before, at, place = rest.rpartition("@")
    if _QUERY.search(before):
        return scheme + HIDDEN
    if end := _QUERY.search(place):
        place = place[: end.end()] + HIDDEN
    return f"{scheme}{HIDDEN if at else ''}{at}{place}"


def is_clear(url: str) -> bool:
    """Whether it is certain where the URL's host begins: no ``@`` stands behind what ends the name of a host."""
    _, rest = _split(url)
    end = _PATH.search(rest)
    return end is None or "@" not in rest[end.end() :]


def _split(url: str) -> tuple[str, str]:
    scheme = _SCHEME.match(url)
    end = scheme.end() if scheme else 0
    return url[:end], url[end:]
