"""The chat completions client against servers that keep the protocol, or nearly."""

from __future__ import annotations
