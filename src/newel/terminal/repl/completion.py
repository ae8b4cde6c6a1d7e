"""Completion of ``/commands`` and ``@files`` while they are typed."""

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
MAX_OFFERED = 50
FRESH = 10.0
"""Seconds for which a list of files is used again."""

# What git does not ignore; without git, what is not hidden. Names that need quoting are left out.
_LIST = (
    "{ git -c core.quotePath=off ls-files --cached --others --exclude-standard"
    " || find . -name '.?*' -prune -o -name node_modules -prune -o -type f -print; }"
    f" 2>/dev/null | head -n {MAX_FILES}"
)
_COMMAND = re.compile(r"/[\w.-]*")
_FILE = re.compile(r"""(?:^|.*[\s(\[{<'"`])@(?P<name>[^\s"'`@]*)""", re.DOTALL)


class FileCompleter:
    """The files of a workspace that may be mentioned, listed anew when the list is old."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._names: list[str] = []
        self._listed = float("-inf")

    async def names(self) -> list[str]:
        if time.monotonic() - self._listed > FRESH:
            try:
                found = (await self._workspace.run(_LIST, timeout=3)).stdout
            except NewelError:
                found = ""
            names = (line.removeprefix("./") for line in found.split("\n"))
            self._names = sorted(name for name in names if name and name[0] != '"' and name == sanitize(name))
            self._listed = time.monotonic()
        return self._names


def best(names: Iterable[str], part: str) -> list[str]:
    """The names that hold ``part``, those first in which the file's own name begins with it."""
    wanted = part.lower()
    ranked = sorted(
        (not name.rpartition("/")[2].lower().startswith(wanted), len(name), name)
        for name in names
        if wanted in name.lower()
    )
    return [name for _, _, name in ranked[:MAX_OFFERED]]


def offered(begun: str, found: Mapping[str, str]) -> Iterable[Completion]:
    """Those of the texts ``found`` that go on as was ``begun``, each with the words that explain it."""
    for text, words in found.items():
        if text.startswith(begun):
            yield Completion(text, -len(begun), display=one_line(text, 40), display_meta=one_line(words, 80))


class ReplCompleter(Completer):
    """``commands`` gives each command's help by its name, without the slash."""

    def __init__(self, commands: Callable[[], Mapping[str, str]], files: FileCompleter) -> None:
        self._commands = commands
        self._files = files

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 — the interface's shape
    ) -> Iterable[Completion]:
        """Commands only: files are listed asynchronously."""
        typed = document.text_before_cursor
        if _COMMAND.fullmatch(typed):
            yield from offered(typed, {f"/{name}": words for name, words in self._commands().items()})

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for completion in self.get_completions(document, complete_event):
            yield completion
        if found := _FILE.fullmatch(document.text_before_cursor):
            part = found["name"]
            for name in best(await self._files.names(), part):
                text = f'@"{name}"' if " " in name else f"@{name}"
                yield Completion(text, -len(part) - 1, display=name)
