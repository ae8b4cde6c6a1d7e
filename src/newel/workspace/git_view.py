"""What git says of a project's files, whatever host they are on: for people who look through them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from newel.workspace.glob import is_text
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS, AskGit, IgnoreRules


class GitView:
    """What ``ask_git`` says in folders whose repository ``top_of`` finds. Methods block."""

    def __init__(self, root: str, ask_git: AskGit, top_of: Callable[[str], str | None]) -> None:
        self._root = root
        self._ask_git = ask_git
        self._top_of = top_of

    def ignored(self, folder: str, names: Sequence[str]) -> set[str]:
        """Those names in a folder ("": the root) that git ignores; without git, what is known to be made anew."""
        if not BUILD_DIRS.isdisjoint(folder.split("/")):
            return set(names)
        rules = IgnoreRules(self._root, self._ask_git, self._top_of)
        repository = self._repository(folder, rules)
        prefix = f"{folder}/" if folder else ""
        out = rules.excluded((prefix + name, repository) for name in names)
        return {path.removeprefix(prefix) for path in out}

    def files(self) -> list[str] | None:
        """The project's files, without those that git ignores; None where there is no git that knows the project."""
        rules = IgnoreRules(self._root, self._ask_git, self._top_of)
        if rules.repository_of_root() is None:
            return None
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        answer = self._ask_git(self._root, *words)
        if answer is None:
            return None
        names = (os.fsdecode(name) for name in answer.split(b"\0")[:-1])
        return [name for name in names if is_text(name) and not name.endswith("/")]

    def _repository(self, folder: str, rules: IgnoreRules) -> str | None:
        """The folder, relative to the root, whose repository a folder is in; None for none that rules here."""
        if folder and (top := self._top_of(f"{self._root}/{folder}")) is not None:
            inside = os.path.relpath(top, self._root)
            if inside != "." and not inside.startswith(".."):
                return inside
        return rules.repository_of_root()
