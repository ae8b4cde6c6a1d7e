"""Names of files and folders that a prompt can mention. What may be attached is decided when the prompt is sent."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

from newel.agent.errors import NewelError
from newel.text.fuzzy import fuzzy_matches
from newel.text.sanitize import sanitize
from newel.workspace.port import Workspace

MAX_FILES = 20_000
MAX_COMPLETIONS = 50
MAX_RANKED = 1_000
"""Names that are compared letter by letter, the shortest: more would take longer than a key may."""
CACHE_S = 10.0
"""Seconds for which a list of files is reused."""

# Files not ignored by git, behind a letter: R names a deleted file again. Without git, files not hidden.
_LIST = (
    "{ git -c core.quotePath=off ls-files -t --cached --others --deleted --exclude-standard"
    " || find . -name '.?*' -prune -o -name node_modules -prune -o -type f -print | sed 's/^/? /'; }"
    f" 2>/dev/null | head -n {MAX_FILES}"
)
_PATH = r"(?s)(?P<folder>(?:~|\.{1,2})?/(?:.*/)?|~$)(?P<name>[^/]*)"
"""What names a place by itself: ``~/``, ``/``, ``./`` or ``../`` begin it."""


class FileCompleter:
    """Lists names in a workspace: those of its project, and of folders that a path names."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._names: list[str] = []
        self._listed_at = float("-inf")
        self._folder = ("", float("-inf"), list[str]())

    async def complete(self, part: str) -> list[str]:
        """The names that ``part`` may become, the best first; those of folders end with ``/``."""
        if re.fullmatch(_PATH, part):
            return await self.complete_path(part)
        found = best_matches(await self._project_names(), part)
        return found or await self.complete_path(part)  # it may be ignored

    async def complete_path(self, part: str) -> list[str]:
        """The entries that ``part`` may become of the folder that it names, if it names one."""
        if path := re.fullmatch(_PATH, part):
            return await self._entries(path["folder"].rstrip("/") + "/", path["name"])
        folder, slash, name = part.rpartition("/")
        return await self._entries(folder + slash, name) if slash else []

    async def _project_names(self) -> list[str]:
        if time.monotonic() - self._listed_at > CACHE_S:
            try:
                listed = (await self._workspace.run(_LIST, timeout=3)).stdout
            except NewelError:
                listed = ""
            lines = [(line[:1], line[2:].removeprefix("./")) for line in listed.split("\n")]
            deleted = {name for mark, name in lines if mark == "R"}
            # A name that git quotes cannot be mentioned.
            files = {name for _, name in lines if not name.startswith('"')} - deleted
            names = {*files, *(f"{folder}/" for folder in _folders(files))}
            self._names = sorted(name for name in names if _can_be_mentioned(name))
            self._listed_at = time.monotonic()
        return self._names

    async def _entries(self, folder: str, part: str) -> list[str]:
        """The matching names in a folder, hidden ones only if ``part`` begins with a dot."""
        listed, at, names = self._folder
        if listed != folder or time.monotonic() - at > CACHE_S:
            try:
                path = await self._workspace.resolve(folder)
                entries = await self._workspace.list(path, limit=MAX_FILES)
            except NewelError:
                entries = []
            names = [f"{entry.name}/" if entry.kind == "directory" else entry.name for entry in entries]
            names = [name for name in names if _can_be_mentioned(name)]
            self._folder = (folder, time.monotonic(), names)
        shown = [name for name in names if part.startswith(".") or not name.startswith(".")]
        return [folder + name for name in best_matches(shown, part)]


def best_matches(names: Sequence[str], part: str) -> list[str]:
    """The names that contain ``part``, first those whose last part begins with it; then others that have its letters in
    order.
    """
    sought = part.lower()
    ranked = sorted(
        (not name.rstrip("/").rpartition("/")[2].lower().startswith(sought), len(name), name)
        for name in names
        if sought in name.lower()
    )
    found = [name for _, _, name in ranked[:MAX_COMPLETIONS]]
    if len(found) < MAX_COMPLETIONS and sought:
        # Each letter at its first place: with `.*`, a name in which letters repeat would take hours.
        each = map(re.escape, "".join(sought.split()))
        letters = re.compile("".join(f"[^{letter}]*{letter}" for letter in each))
        others = sorted(
            {name for name in names if letters.match(name.lower())} - set(found),
            key=lambda name: (len(name), name),
        )
        others = others[:MAX_RANKED]
        found += [others[at] for at in fuzzy_matches(others, sought)]
    return found[:MAX_COMPLETIONS]


def mention_of(name: str) -> str:
    """How a prompt mentions a name."""
    return f'@"{name}"' if re.search(r"[\s'`@]", name) else f"@{name}"


def _folders(files: Iterable[str]) -> set[str]:
    folders: set[str] = set()
    for name in files:
        folder = name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def _can_be_mentioned(name: str) -> bool:
    return bool(name) and '"' not in name and name == sanitize(name, keep_newlines=False)
