"""All that Newel stores about one conversation: found, described and deleted. The changes that it made are the ledger's."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import msgspec

from newel.agent.errors import NewelError, SessionError
from newel.agent.formatting import pluralize
from newel.agent.messages import UserMessage
from newel.context.built_in_prompts import REMEMBER
from newel.contracts.run_index import journals
from newel.jobs.engine import EngineError
from newel.jobs.journal_cleaner import JournalCleaner
from newel.jobs.queries import events_of_kind
from newel.jobs.sqlite import open_reader
from newel.session.appender import Appender
from newel.session.file_format import SessionMetadata
from newel.session.paths import find_session, metadata_from_name, subagent_files
from newel.session.reader import read_session
from newel.storage.files import PRIVATE_FILE
from newel.storage.prompt_history import PromptHistory
from newel.text.json import decode_json
from newel.workbench.tab_log import KIND as TABS
from newel.workbench.tab_log import TabEntry, TabSaved, decode_tab_entry, tab_of

MAX_JOBS: Final = 1 << 30

DAY_S: Final = 24 * 3600.0

MARK: Final = ".swept"
"""The file in a journal's folder whose time is that of the last deletion of old runs."""


class _RunParams(msgspec.Struct):
    """What the parameters of chats and agents say of their conversation."""

    session: str = ""
    log: str = ""


_decoder = msgspec.json.Decoder(_RunParams)


class StoredConversation(msgspec.Struct, frozen=True):
    """``files`` are those of its subagents and, at the end, its own; ``journals`` are folders that have runs or tabs of it, ``logs`` those
    of an agent. ``typed`` is what the user typed in it, of which the ``history`` may have some.
    """

    id: str
    folder: str
    files: list[Path]
    journals: list[Path]
    logs: list[Path]
    history: PromptHistory
    typed: frozenset[str]

    def describe(self) -> str:
        also = [
            f"{pluralize(len(self.files) - 1, 'session')} of its subagents" if len(self.files) > 1 else "",
            "its part of the workbench's journal" if self.journals and not self.logs else "",
            "an agent's log and journal" if self.logs else "",
        ]
        others = [words for words in also if words]
        return f"This deletes the session {self.files[-1].name}{''.join(f', {words}' for words in others)}."

    def delete(self) -> None:
        """Delete all of it, or nothing if another process uses any of it. Raises ``NewelError``."""
        with contextlib.ExitStack() as held:
            sessions = [Appender(path) for path in self.files]
            for session in sessions:
                held.callback(session.release)
            with contextlib.ExitStack() as cleaning:
                for folder in self.journals:
                    self._clean(cleaning.enter_context(JournalCleaner.open(folder)))
            try:
                for log in self.logs:
                    log.unlink(missing_ok=True)
                if self.typed:
                    self.history.forget(self.folder, self.typed)
            except OSError as error:
                raise NewelError(
                    f"{error.filename} cannot be deleted: {error.strerror}. The rest may be deleted already."
                ) from error
            for session in sessions:  # the session itself last: by it the others are found again
                session.delete()

    def _clean(self, journal: JournalCleaner) -> None:
        journal.delete_jobs(lambda params: _run_params(params).session == self.id)
        entries = [
            (job, seq, entry)
            for job, seq, data in journal.events(TABS)
            if (entry := _tab_entry(data)) is not None
        ]
        latest = {entry.tab.id: entry.tab.session for _, _, entry in entries if isinstance(entry, TabSaved)}
        closed = {tab for tab, session in latest.items() if session == self.id}
        journal.delete_events(
            [
                (job, seq)
                for job, seq, entry in entries
                # An earlier conversation of a tab, or the tab as a whole.
                if (isinstance(entry, TabSaved) and entry.tab.session == self.id) or tab_of(entry) in closed
            ]
        )


async def find_stored_conversation(home: Path, name: str) -> StoredConversation:
    """What the folder ``home`` has about a session, by its id, the beginning of its id, or its file. Raises ``SessionError``."""
    path = find_session(home / "sessions", name)
    metadata, typed = await anyio.to_thread.run_sync(_read, path)
    folders: list[Path] = []
    logs: list[Path] = []
    for folder in journals(home, None):
        found = await _logs_in(folder, metadata.id)
        if found is not None:
            folders.append(folder)
            logs += map(Path, found)
    return StoredConversation(
        id=metadata.id,
        folder=metadata.cwd,
        files=[*subagent_files(path), path],
        journals=folders,
        logs=[log for log in logs if log.is_file()],
        history=PromptHistory(home / "history"),
        typed=typed,
    )


def _read(path: Path) -> tuple[SessionMetadata, frozenset[str]]:
    """Its metadata, and what the user has said in it. A file that is no session has the metadata of its name."""
    try:
        stored = read_session(path)
    except SessionError:
        return metadata_from_name(path), frozenset()
    messages = (entry.message for entry in stored.history.entries())
    said = [message for message in messages if isinstance(message, UserMessage)]
    own_commands = {
        attachment.file_name for each in said for attachment in each.attachments if attachment.only_text
    }
    typed = {*stored.typed.values(), *(each.text for each in said)}
    notes = {f"# {words}" for each in typed if (words := each.removeprefix(f"/{REMEMBER} ")) != each}
    return stored.metadata, frozenset(typed | notes | own_commands)


def delete_old_runs(home: Path, days: int) -> None:
    """Delete the runs of chats, reviews and agents that ended so many days ago, and the logs of agents; in each journal at most once a day,
    and not while a process owns it. Does not raise.
    """
    for folder in journals(home, None):
        mark = folder / MARK
        with contextlib.suppress(OSError):
            if time.time() - mark.stat().st_mtime < DAY_S:
                continue
        with contextlib.suppress(EngineError, OSError):
            with JournalCleaner.open(folder) as journal:
                deleted = journal.delete_ended_jobs(datetime.now(UTC) - timedelta(days=days))
            mark.touch(mode=PRIVATE_FILE)
            for params in deleted:
                if log := _run_params(params).log:
                    Path(log).unlink(missing_ok=True)


async def _logs_in(folder: Path, session: str) -> list[str] | None:
    """The logs of a session's runs in a journal; None if it has neither runs nor tabs of it. Nor has one that cannot be read: it must not
    keep others from being deleted.
    """
    with contextlib.suppress(EngineError):
        async with open_reader(folder) as reader:
            runs = [_run_params(job.params) for job in await reader.find(limit=MAX_JOBS)]
            logs = [run.log for run in runs if run.session == session]
            entries = await reader.query(partial(events_of_kind, kind=TABS, beginning=b""))
            saved = [entry for _, data in entries if isinstance(entry := _tab_entry(data), TabSaved)]
            if logs or any(entry.tab.session == session for entry in saved):
                return [log for log in logs if log]
    return None


def _run_params(params: bytes) -> _RunParams:
    try:
        return decode_json(params, _decoder)
    except msgspec.DecodeError:
        return _RunParams()


def _tab_entry(data: bytes) -> TabEntry | None:
    """None if another version of Newel has written it."""
    try:
        return decode_tab_entry(data)
    except msgspec.DecodeError:
        return None
