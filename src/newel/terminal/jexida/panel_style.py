"""How a panel is drawn: piece by piece, so that one can grow while what it shows still comes."""

from __future__ import annotations

from typing import Literal, Protocol

Tone = Literal["plain", "strong", "dim", "good", "bad", "warn"]
"""``good``, ``bad`` and ``warn`` are for how something ended; no more than words carry is said by colour alone."""


class PanelStyle(Protocol):
    """Gives lines to print. All text is inert already; ``width`` is that of the screen, in columns."""

    def top(self, title: str, width: int) -> list[str]: ...

    def lines(self, text: str, width: int, tone: Tone = "plain") -> list[str]:
        """The text as it stands, inside the panel."""
        ...

    def prose(self, markdown: str, width: int) -> list[str]:
        """Markdown, inside the panel."""
        ...

    def bottom(self, note: str, width: int, tone: Tone = "dim") -> list[str]:
        """The panel's end, with a few words about what it shows."""
        ...

    def bare(self, text: str, width: int, tone: Tone = "plain") -> list[str]:
        """Words outside of panels."""
        ...


class PlainPanels:
    """For pipes and terminals that know nothing: titles in brackets, text as it is."""

    def top(self, title: str, width: int) -> list[str]:  # noqa: ARG002 — the protocol's shape
        return [f"[{title}]"]

    def lines(self, text: str, width: int, tone: Tone = "plain") -> list[str]:  # noqa: ARG002 — the protocol's shape
        return text.split("\n")

    def prose(self, markdown: str, width: int) -> list[str]:  # noqa: ARG002 — the protocol's shape
        return markdown.strip("\n").split("\n")

    def bottom(self, note: str, width: int, tone: Tone = "dim") -> list[str]:  # noqa: ARG002 — the protocol's shape
        return [f"[{note}]"] if note else []

    def bare(self, text: str, width: int, tone: Tone = "plain") -> list[str]:  # noqa: ARG002 — the protocol's shape
        return text.split("\n")
