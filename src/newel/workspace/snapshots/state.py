"""State shared by all scans of a project, and the updates that one scan makes to it.

Data goes one way: ``Scan`` compares names and signatures, ``ContentReader`` reads what differs, ``TreeUpdate`` applies the
findings of both to ``ScanState``, and records the differences there.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from typing import Final

from newel.text.format import join_names
from newel.text.sanitize import escape_line
from newel.workspace.snapshots.index import SavedTree
from newel.workspace.snapshots.port import DATA_FILE, BlobStore, SnapshotLimits, SnapshotSource
from newel.workspace.snapshots.rule_history import RULE_FILE, RuleHistory
from newel.workspace.snapshots.secret_files import HeldContents, SecretFinder, SecretTests
from newel.workspace.snapshots.tree import (
    ExclusionReason,
    FileSnapshot,
    FileTree,
    FolderState,
    folder_record,
    is_folder_record,
    join,
    split,
    state_of,
)

_EXAMPLES: Final = 5
"""Names in a message about many files."""

_MAX_PENDING: Final = 20
"""Notices between two deliveries; more are only counted."""


class Notices:
    """Messages to the user. Each is delivered once."""

    def __init__(self) -> None:
        self._pending: dict[str, None] = {}
        self._delivered: set[str] = set()
        self._omitted = 0
        self._excluded: dict[tuple[ExclusionReason, bool], list[str]] = {}

    def add(self, text: str) -> None:
        text = escape_line(text)  # a name need not be text
        if len(self._pending) < _MAX_PENDING:
            self._pending.setdefault(text)
        elif text not in self._pending:
            self._omitted += 1

    def add_excluded(self, path: str, reason: ExclusionReason, *, was_covered: bool) -> None:
        """A file is not covered; with others of the same reason it is one message."""
        self._excluded.setdefault((reason, was_covered), []).append(path)

    def drain(self) -> list[str]:
        for (reason, was_covered), paths in self._excluded.items():
            what, them = (
                (f"{paths[0]} is", "it") if len(paths) == 1 else (f"{len(paths):,} files are", "them")
            )
            which = "" if len(paths) == 1 else f": {join_names(paths, shown=_EXAMPLES)}"
            since = " from now on" if was_covered else ""
            self.add(f"{what} {reason.value}{which}. Changes to {them} cannot be undone{since}.")
        self._excluded.clear()
        notices = [text for text in self._pending if text not in self._delivered]
        self._delivered.update(notices)
        if self._omitted:
            notices.append(
                f"Changes to {self._omitted:,} more files, links or folders cannot be undone either."
            )
        self._pending.clear()
        self._omitted = 0
        return notices


class ScanState:
    """What scans share and leave behind.

    ``unsettled``: files written so shortly before they were read that their times cannot reveal another write.
    ``linked``: files with several names, any of which may be written. ``indexed``: records of an earlier process.
    ``changed``: the earlier states of files that changed and are not reported yet; ``new_folders`` likewise.
    ``ignored``: excluded names, with a slash for directories, that were not delivered as a notice yet. ``uncovered``: version control
    stores and names like those of temporary files of Newel that were seen.
    ``ignored_deleted``: ignored names that commands of the run have deleted; some may be there again.
    ``unstored``: files made or changed by the run whose new content is not in the store, only its hash.
    ``held``: the contents of files with secrets, which are not in the store: they are put there once such a file changes, so that the
    change can be undone.
    ``rule_pipes``: named pipes in place of files with ignore rules.
    ``copied``: bytes put into the store, ``copied_data`` those of files larger than ``DATA_FILE``. ``is_full``: new files can no longer be
    told from excluded ones. ``needs_recheck``: excluded files must be classified again, such as after a change of ``.gitignore``.
    """

    def __init__(
        self, source: SnapshotSource, blobs: BlobStore, limits: SnapshotLimits, secrets: SecretTests
    ) -> None:
        self.source = source
        self.blobs = blobs
        self.limits = limits
        self.tree = FileTree()
        self.rule_history = RuleHistory(source.root, self.tree, source.changed_at, blobs.blob)
        self.notices = Notices()
        self.unsettled: set[str] = set()
        self.linked: set[str] = set()
        self.indexed: dict[str, dict[str, bytes]] = {}
        self.changed: dict[str, FileSnapshot | None] = {}
        self.new_folders: set[str] = set()
        self.ignored: set[str] = set()
        self.uncovered: set[str] = set()
        self.ignored_deleted: set[str] = set()
        self.unstored: set[str] = set()
        self.secrets = secrets
        self.held = HeldContents()
        self.rule_pipes: set[str] = set()
        self.copied = 0
        self.copied_data = 0
        self.umask = 0o022
        self.is_full = False
        self.needs_recheck = False

    def resume(self, saved: SavedTree) -> None:
        """Start from the tree that another process saved, instead of an empty one. The root's folder is there already."""
        self.is_full = saved.is_full
        root = self.tree.folders[""]
        waiting = [("", root)]
        while waiting:
            path, folder = waiting.pop()
            excluded = saved.excluded.get(path, {})
            folder.excluded.update(excluded)
            # They may be covered again, but their changes until then are not known.
            self.uncovered.update(join(path, name) for name in excluded)
            for name, record in saved.records.get(path, {}).items():
                self.tree.restore(folder, name, record)
                if is_folder_record(record):
                    below = join(path, name)
                    self.tree.folders[below] = FolderState(root.repository)
                    waiting.append((below, self.tree.folders[below]))

    def note_rule_file(self, path: str, mode: int) -> None:
        if stat.S_ISFIFO(mode):
            self.rule_pipes.add(path)
        else:
            self.rule_pipes.discard(path)

    def blocked_repositories(self) -> set[str | None]:
        """The repositories in which git would wait for somebody to write its rules into a pipe."""
        folders = (self.tree.folders.get(split(path)[0]) for path in self.rule_pipes)
        return {folder.repository for folder in folders if folder is not None}

    @property
    def unreliable(self) -> set[str]:
        """The files that the next process has to read again."""
        return self.unsettled | self.unstored

    def secret_finder(self, count: int) -> SecretFinder:
        """For a number of files."""
        return SecretFinder(self.secrets, self.tree, self.source.rules, count)

    def count_copy(self, path: str, size: int) -> None:
        """A content of this size is put into the store."""
        self.unstored.discard(path)
        self.copied += size
        if size > DATA_FILE:
            self.copied_data += size


class TreeUpdate:
    """Applies what one scan finds to the tree. With ``report`` it records how each file was before it changed; without, or
    where ``absorb`` says that a finding is not new, the change is taken over silently.

    ``acknowledged`` are the states in which Newel itself left files, accounted for by the caller.
    """

    def __init__(
        self, state: ScanState, acknowledged: Mapping[str, FileSnapshot | None], *, report: bool
    ) -> None:
        self.state = state
        self.acknowledged = acknowledged
        self.report = report
        self._tree = state.tree

    def put(self, path: str, record: bytes, *, absorb: bool = False) -> None:
        if absorb:
            self._tree.put(path, record)
            return
        known, after = self._tree.state(path), state_of(record)
        self._tree.put(path, record)
        self._record(path, self._before(path, known), after)
        self._note_rules(path, known, after)

    def put_folder(self, path: str, mode: int, repository: str | None, *, absorb: bool) -> None:
        """Cover a new folder."""
        self._tree.folders[path] = FolderState(repository)
        self.put(path, folder_record(mode), absorb=absorb)
        if self.report and not absorb:
            self.state.new_folders.add(path)

    def drop(self, path: str) -> None:
        """Drop a file or an empty folder."""
        known = self._tree.state(path)
        self._tree.drop(path)
        self._record(path, self._before(path, known), None)
        self._note_rules(path, known, None)
        self.state.unstored.discard(path)
        self.state.rule_pipes.discard(path)
        self.state.held.pop(path)
        self.mark(path, unsettled=False, linked=False)

    def _note_rules(self, path: str, known: FileSnapshot | None, after: FileSnapshot | None) -> None:
        if split(path)[1] != RULE_FILE or known == after:
            return
        self.state.needs_recheck = True
        if self.report or path in self.acknowledged:
            self.state.rule_history.note(path, known)
        else:
            self.state.rule_history.accept(path)

    def exclude(self, path: str, reason: ExclusionReason) -> None:
        """Stop covering a file whose content cannot be kept. Earlier contents stay in the store, but a change to it is not
        reported, as its new content is unknown.
        """
        was_covered = self._tree.state(path) is not None
        self.state.unstored.discard(path)
        self.state.held.pop(path)
        self._tree.drop(path)
        self.state.changed.pop(path, None)
        self.mark(path, unsettled=False, linked=False)
        if self._tree.exclusion(path) is not reason:
            self.state.notices.add_excluded(path, reason, was_covered=was_covered)
        self._tree.exclude(path, reason)

    def mark(self, path: str, *, linked: bool, unsettled: bool | None = None) -> None:
        """Note whether a file's times are to be trusted; None leaves ``unsettled`` as it is."""
        if linked:
            self.state.linked.add(path)
        else:
            self.state.linked.discard(path)
        if unsettled:
            self.state.unsettled.add(path)
        elif unsettled is False:
            self.state.unsettled.discard(path)

    def _before(self, path: str, known: FileSnapshot | None) -> FileSnapshot | None:
        return self.acknowledged.get(path, known)

    def _record(self, path: str, before: FileSnapshot | None, after: FileSnapshot | None) -> None:
        if self.report and before != after:
            held = self.state.held.pop(path)
            if held is not None and before is not None:
                self.state.blobs.put_blobs([held])
            self.state.changed.setdefault(path, before)
