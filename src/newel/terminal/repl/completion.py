"""Completion of ``/commands``, their arguments and ``@files``."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from newel.agent.errors import NewelError
from newel.text.format import one_line
from newel.text.sanitize import sanitize
from newel.workspace.port import Workspace

MAX_FILES = 20_000
MAX_COMPLETIONS = 50
CACHE_S = 10.0
"""Seconds for which a list of files is reused."""

# Files not ignored by git; without git, files not hidden. Names that need quoting are skipped.
_LIST = (
    "{ git -c core.quotePath=off ls-files --cached --others --exclude-standard"
    " || find . -name '.?*' -prune -o -name node_modules -prune -o -type f -print; }"
    f" 2>/dev/null | head -n {MAX_FILES}"
)
_COMMAND = re.compile(r"/[\w.-]*")
_MENTION = re.compile(r"""(?:^|.*[\s(\[{<'"`])@(?P<name>[^\s"'`@]*)""", re.DOTALL)


class FileCompleter:
    """Lists the files of a workspace that can be mentioned."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._names: list[str] = []
        self._listed_at = float("-inf")

    async def names(self) -> list[str]:
        if time.monotonic() - self._listed_at > CACHE_S:
            try:
                listed = (await self._workspace.run(_LIST, timeout=3)).stdout
            except NewelError:
                listed = ""
            names = (line.removeprefix("./") for line in listed.split("\n"))
            self._names = sorted(name for name in names if name and name[0] != '"' and name == sanitize(name))
            self._listed_at = time.monotonic()
        return self._names


def best_matches(names: Iterable[str], part: str) -> list[str]:
    """The names that contain ``part``; first those whose file name begins with it."""
    part = part.lower()
    ranked = sorted(
        (not name.rpartition("/")[2].lower().startswith(part), len(name), name)
        for name in names
        if part in name.lower()
    )
    return [name for _, _, name in ranked[:MAX_COMPLETIONS]]


def completions(typed: str, texts: Mapping[str, str]) -> Iterable[Completion]:
    """Those of ``texts`` that begin with what was ``typed``, each with its explanation."""
    for text, explanation in texts.items():
        if text.startswith(typed):
            yield Completion(
                text, -len(typed), display=one_line(text, 40), display_meta=one_line(explanation, 80)
            )


ArgumentCompleter = Callable[[str], Iterable[tuple[str, Mapping[str, str]]]]
"""From the arguments typed so far to pairs for ``completions``: the end of them, and the texts it may become."""


class ReplCompleter(Completer):
    """``commands`` returns each command's help by its name, without the slash; ``arguments`` completes those of commands.
    ``files`` are those that can be mentioned.
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
            yield from completions(typed, {f"/{name}": help_ for name, help_ in self._commands().items()})
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
            part = mention["name"]
            for name in best_matches(await self._files.names(), part):
                text = f'@"{name}"' if " " in name else f"@{name}"
                yield Completion(text, -len(part) - 1, display=name)
