"""Newel's version. To read it from the metadata of the installed package takes a start 15 ms: it needs the parser of mails."""

from typing import Final

VERSION: Final = "0.1.0"
"""The same as in pyproject.toml."""
