"""The error of a wrong registration."""

from __future__ import annotations


class RegistrationError(Exception):
    """An extension registers something that cannot be used. The message says what to change."""
