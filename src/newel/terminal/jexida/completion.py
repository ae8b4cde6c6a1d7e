"""Completion of meta commands and of what follows them, while they are typed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from newel.terminal.jexida.routines import Routines, split
from newel.terminal.repl.completion import offered

RUN, MODEL = "/run ", "/model "


class MetaCompleter(Completer):
    """``commands`` has each command's help by its name, without the slash. ``models`` may be known later."""

    def __init__(self, commands: Mapping[str, str], routines: Routines, models: Sequence[str]) -> None:
        self._commands = {f"/{name}": words for name, words in commands.items()}
        self._routines = routines
        self._models = models

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 — the interface's shape
    ) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if typed.startswith(RUN):
            yield from self._after_run(typed.removeprefix(RUN))
        elif typed.startswith(MODEL):
            yield from offered(typed.removeprefix(MODEL), dict.fromkeys(self._models, ""))
        elif typed.startswith("/"):
            yield from offered(typed, self._commands)

    def _after_run(self, typed: str) -> Iterable[Completion]:
        """Names of routines, and behind a whole one the variables that have no value yet."""
        names = {name: each.description or each.template.text for name, each in self._routines.items()}
        yield from offered(typed, names)
        found = split(typed, self._routines)
        if found is None or not (rest := found[1]):
            return
        *before, begun = rest.split(" ")
        free = {
            f"{name}=": "" if default is None else f"{default} if it is not said"
            for name, default in found[0].template.variables
            if not any(word.startswith(f"{name}=") for word in before)
        }
        yield from offered(begun, free)
