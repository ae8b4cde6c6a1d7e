"""How a typed text names a command or a prompt template: ``/name arguments``."""

from __future__ import annotations

import re

_COMMAND = r"(?s)/(?P<name>[A-Za-z0-9][\w.:-]*)(?:\s+(?P<arguments>.*))?"


def parse_command(text: str) -> tuple[str, str] | None:
    """Split ``/name arguments``; None for other text, such as a path."""
    text = text.strip()
    match = re.fullmatch(_COMMAND, text) if text.startswith("/") else None
    return (match["name"], (match["arguments"] or "").strip()) if match else None
