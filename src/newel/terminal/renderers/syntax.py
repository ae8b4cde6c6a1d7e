"""The roles of tokens in code, for answers and diffs."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_ROLES: Final = (
    ("Token.Comment", "syntax.comment"),
    ("Token.Keyword.Type", "syntax.type"),
    ("Token.Keyword", "syntax.keyword"),
    ("Token.Operator.Word", "syntax.keyword"),
    ("Token.Literal.String", "syntax.string"),
    ("Token.Literal.Number", "syntax.number"),
    ("Token.Name.Function", "syntax.function"),
    ("Token.Name.Class", "syntax.type"),
    ("Token.Name.Tag", "syntax.keyword"),
)
"""By the beginnings of what Pygments calls them."""


@lru_cache(maxsize=256)
def syntax_role(token: object) -> str:
    """The role of a token of Pygments, such as ``Token.Keyword.Constant``; empty if it looks like the text around it."""
    name = str(token)
    return next((role for prefix, role in _ROLES if name.startswith(prefix)), "")
