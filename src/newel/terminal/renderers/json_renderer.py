"""``JsonRenderer``: the events themselves, as JSON Lines."""

from __future__ import annotations

from typing import BinaryIO

from newel.agent import events as e
from newel.agent.messages import Wire
from newel.terminal.renderers.base import Renderer
from newel.terminal.stdout import write_line
from newel.text.json import to_json


class JsonRenderer(Renderer):
    """Writes each event as one line of JSON."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self.out = out

    def handle(self, event: e.Event, /) -> None:
        self.write(event)

    def write(self, message: Wire, /) -> None:
        """Write one line. Raises ``OSError`` if the reader has gone."""
        write_line(self.out, to_json(message))

    def note(self, text: str, code: str = "note", /) -> None:
        self.handle(e.ErrorEvent(code=code, message=text, level="info"))

    def on_session(self, session: e.Event, /) -> None:
        self.handle(session)

    def on_result(self, result: e.Event, /) -> None:
        self.handle(result)

    def close(self) -> None:
        self.out.flush()
