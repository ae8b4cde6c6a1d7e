"""Completion of meta commands and of the names of routines while they are typed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from newel.terminal.jexida.ports import Routines
from newel.terminal.words import one_line

RUN = "/run "


class MetaCompleter(Completer):
    """``commands`` has each command's help by its name, without the slash."""

    def __init__(self, commands: Mapping[str, str], routines: Routines) -> None:
        self._commands = commands
        self._routines = routines

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 — the interface's shape
    ) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if typed.startswith(RUN):
            begun = typed.removeprefix(RUN)
            found = {name: routine.description or routine.command for name, routine in self._routines.items()}
        elif typed.startswith("/"):
            begun, found = typed, {f"/{name}": words for name, words in self._commands.items()}
        else:
            return
        for name, words in found.items():
            if name.startswith(begun):
                yield Completion(
                    name, -len(begun), display=one_line(name, 40), display_meta=one_line(words, 80)
                )
