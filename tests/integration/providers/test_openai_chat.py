"""If these fail, servers that deviate a little from the chat completions protocol cannot be used."""

from __future__ import annotations
