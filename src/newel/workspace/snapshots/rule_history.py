"""How ignore rules changed since a moment: a rule that a run adds must not hide what the run creates."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence
from typing import Final

from newel.workspace.snapshots.ignore_rules import BUILD_DIRS, IgnoreRule
from newel.workspace.snapshots.tree import FileSnapshot, FileTree, split

CLOCK_LAG_NS: Final = 20_000_000
"""The times of files may be behind the clock by this much."""

RULE_FILE: Final = ".gitignore"


class RuleHistory:
    """The rule files in ``tree`` that commands changed since ``begin``, and those elsewhere by their times.

    ``root`` is that of the tree. ``changed_at`` gives the time of the last change of a file by its absolute path, in nanoseconds,
    0 if there is none; ``content`` the bytes of a hash.
    """

    def __init__(
        self, root: str, tree: FileTree, changed_at: Callable[[str], int], content: Callable[[str], bytes]
    ) -> None:
        self._root = root.rstrip("/") + "/"
        self._tree = tree
        self._changed_at = changed_at
        self._content = content
        self._since = 0
        self._before: dict[str, FileSnapshot | None] = {}

    def begin(self, now_ns: int) -> None:
        """All rules until now are old."""
        self._since = now_ns - CLOCK_LAG_NS
        self._before.clear()

    def note(self, path: str, before: FileSnapshot | None) -> None:
        """A command, or Newel itself, changed a rule file."""
        self._before.setdefault(path, before)

    def accept(self, path: str) -> None:
        """The user changed a rule file: as it is now, it is old."""
        self._before.pop(path, None)

    def is_hidden_by_new_rule(self, path: str, rule: IgnoreRule | None) -> bool:
        """Whether a file that is excluded now would not have been at ``begin``. Build directories always would."""
        if rule is None or split(path)[1] in BUILD_DIRS:
            return False
        if any(self._is_below(path, changed) and not self._has_grown(changed) for changed in self._before):
            return True  # an exception may be gone
        source = rule.source.removeprefix(self._root)
        if source in self._before:
            return rule.pattern not in self._lines_before(source)
        is_in_tree = source != rule.source and ".git" not in source.split("/")
        return not is_in_tree and self._is_newer(rule.source)

    def _is_newer(self, source: str) -> bool:
        """Whether a rule file that is not in the tree, or a setting that names it, changed."""
        folder, _, inside = source.rpartition("/.git/")
        settings = [f"{folder}/.git/config"] if inside else [self._root + ".git/config"]
        home = os.path.expanduser("~")  # noqa: PTH111 — an unknown home stays as it is
        settings += [
            f"{home}/.gitconfig",
            f"{os.environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config",
        ]
        return any(self._changed_at(path) >= self._since for path in (source, *settings))

    @staticmethod
    def _is_below(path: str, rule_file: str) -> bool:
        folder = posixpath.dirname(rule_file)
        return not folder or path.startswith(folder + "/")

    def _has_grown(self, rule_file: str) -> bool:
        """Whether all old lines are there, in their order: then whatever an old rule ignored, or excepted, still is."""
        lines = iter(self._lines(self._tree.state(rule_file)))
        return all(line in lines for line in self._lines_before(rule_file))

    def _lines_before(self, rule_file: str) -> Sequence[str]:
        return self._lines(self._before[rule_file])

    def _lines(self, state: FileSnapshot | None) -> Sequence[str]:
        """The rules, in order; a link to rules has none, as git does not follow it."""
        if state is None or state.mode > 0o7777:
            return ()
        lines = os.fsdecode(self._content(state.blob)).split("\n")
        return [rule for line in lines if (rule := line.removesuffix("\r").rstrip(" ")) and rule[0] != "#"]
