"""Newel's version. To read it from the metadata of the installed package takes a start 15 ms: it needs the parser of mails."""

from typing import Final

VERSION: Final = "0.1.0"
"""The same as in pyproject.toml."""


def install_with(extra: str) -> str:
    """How to install an extra. Not by Newel's name: no index has it, and a stranger may take it there."""
    return f"in its checkout, `uv tool install '.[{extra}]'` or `pip install '.[{extra}]'`"
