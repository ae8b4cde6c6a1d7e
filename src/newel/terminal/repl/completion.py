"""Completion of ``/commands``, their arguments and ``@files``."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from newel.context.file_completion import FileCompleter, mention_of
from newel.terminal.ui.input_modes import MARKED
from newel.text.format import one_line
from newel.text.fuzzy import fuzzy_matches
from newel.text.sanitize import escape_line
from newel.workspace.port import Workspace

_COMMAND = re.compile(r"/[\w.:-]*")
_MENTION = re.compile(
    r"""(?:^|.*[\s(\[{<'"`])(?P<mention>@(?:"(?P<quoted>[^"\n]*)|(?P<plain>[^\s"'`@]*)))""", re.DOTALL
)


def completions(typed: str, texts: Mapping[str, str], *, first: str = "") -> Iterable[Completion]:
    """Those of ``texts`` that begin with what was ``typed``, each with its explanation. If none does, those that have its
    letters in order; a command has the first letter, too: `/ls` is no `/tools`. ``first`` is the style of the first one.
    """
    names = list(texts)
    head = typed[:2] if typed.startswith("/") else ""
    found = [name for name in names if name.startswith(typed)] or [
        names[position] for position in fuzzy_matches(names, typed) if names[position].startswith(head)
    ]
    for place, name in enumerate(found):
        yield Completion(
            name,
            -len(typed),
            display=one_line(name, 40),
            display_meta=one_line(texts[name], 80),
            style="" if place else first,
        )


ArgumentCompleter = Callable[[str], Iterable[tuple[str, Mapping[str, str]]]]
"""From the arguments typed so far to pairs for ``completions``: the end of them, and the texts it may become."""


class ReplCompleter(Completer):
    """``commands`` returns each command's help by its name, without the slash; a name ends with a space if arguments have
    to follow. ``arguments`` completes those of commands. ``files`` are those that can be mentioned.
    """

    def __init__(
        self,
        commands: Callable[[], Mapping[str, str]],
        *,
        files: Workspace | None = None,
        arguments: Mapping[str, ArgumentCompleter] = {},
    ) -> None:
        self._commands = commands
        self._files = FileCompleter(files) if files else None
        self._arguments = arguments

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 — the interface's signature
    ) -> Iterable[Completion]:
        """Commands and their arguments: files are listed asynchronously."""
        typed = document.text_before_cursor
        if _COMMAND.fullmatch(typed):
            commands = {f"/{name}": help_ for name, help_ in self._commands().items()}
            first = MARKED if len(typed) > 1 else ""
            yield from completions(typed, commands, first=first)
        name, space, rest = typed.removeprefix("/").partition(" ")
        if space and typed.startswith("/") and name in self._arguments:
            for end, texts in self._arguments[name](rest):
                yield from completions(end, texts)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for completion in self.get_completions(document, complete_event):
            yield completion
        if self._files and (mention := _MENTION.fullmatch(document.text_before_cursor)):
            is_apart = document.text_after_cursor[:1].isspace()
            part = mention["quoted"] or mention["plain"] or ""
            for place, name in enumerate(await self._files.complete(part)):
                # A folder leads on; behind a whole name the next word begins.
                end = "" if is_apart or name.endswith("/") else " "
                yield Completion(
                    mention_of(name) + end,
                    -len(mention["mention"]),
                    display=escape_line(name),
                    style="" if place or not _begins(name, part) else MARKED,
                )


def _begins(name: str, part: str) -> bool:
    """Whether a path, or its last part, has been begun: with fewer letters of it, `@someone` would become a file."""
    if not part or part.endswith("/"):
        return False
    names = (name, name.rstrip("/").rpartition("/")[2])
    return any(each.lower().startswith(part.lower()) for each in names)
