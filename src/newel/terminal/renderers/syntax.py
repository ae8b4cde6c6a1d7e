"""The roles of tokens in code, for answers and diffs."""

from __future__ import annotations

from functools import cache
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


@cache
def syntax_role(token: object) -> str:
    """The role of Pygments' token, such as ``Token.Keyword.Constant``; empty if it looks like the text around it. There are about a
    hundred.
    """
    return next((role for prefix, role in _ROLES if str(token).startswith(prefix)), "")
