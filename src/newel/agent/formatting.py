"""Numbers and system errors in messages to the user and to the model, for every layer."""

from __future__ import annotations


def format_number(value: float) -> str:
    """``1,000,000``, ``0.25``."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def pluralize(value: float, noun: str) -> str:
    """``1 line``, ``2 lines``, ``0.5 US dollars``."""
    return f"{format_number(value)} {noun}{'' if value == 1 else 's'}"


def describe_error(error: Exception) -> str:
    """The message of an error; of an ``OSError`` the path and the reason: ``/a/b: No space left on device.``"""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."


def escape_newlines(name: str) -> str:
    """A name on one line: with a line break it could forge lines of a preview."""
    return name.replace("\n", "␊")
