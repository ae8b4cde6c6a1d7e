"""Newel's version, and how to install it. To read the version from the metadata of the installed package takes a start 15 ms: it needs the
parser of mails.
"""

from typing import Final

VERSION: Final = "0.1.0"
"""The same as in pyproject.toml."""

UPDATE_HINT: Final = (
    "Install Newel again, from its newer checkout: `./run uv tool install --reinstall .`. Name the extras that you use, as in `'.[local]'`, "
    "or they are removed."
)


def install_with(extra: str) -> str:
    """How to install an extra. Not by Newel's name: no index has it, and a stranger may take it there."""
    return f"in its checkout, `./run uv tool install '.[{extra}]'` or `pip install '.[{extra}]'`"
