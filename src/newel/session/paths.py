"""Finds session files: ``<directory>/--path-to-project--/<timestamp>_<id>.jsonl``."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from newel.agent.errors import SessionError
from newel.session.file_format import UNREADABLE, SessionMetadata, is_foreign, read_line
from newel.storage.files import project_folder

SUFFIX = ".jsonl"

_MAX_HEAD = 1024 * 1024
_NAME = r"(?s)(?:(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d)-(\d{3})Z_)?(.+)"
_MESSAGE = rb'(?m)^[\0\s]*\{"type":\s*"message"'


def file_name(metadata: SessionMetadata) -> str:
    return f"{metadata.timestamp.replace(':', '-').replace('.', '-')}_{metadata.id}{SUFFIX}"


def metadata_from_name(path: Path) -> SessionMetadata:
    """Derive the metadata from a file's name, ``<timestamp>_<id>.jsonl``."""
    match = re.fullmatch(_NAME, path.name.removesuffix(".jsonl"))
    if match is None:
        return SessionMetadata(id=path.name, timestamp="", cwd="")
    day, minute, second, milli, session_id = match.groups()
    timestamp = f"{day}:{minute}:{second}.{milli}Z" if day else ""
    return SessionMetadata(id=session_id, timestamp=timestamp, cwd="")


def session_files(directory: Path, cwd: str | None = None) -> list[tuple[Path, os.stat_result]]:
    """The session files of the project ``cwd``, or of all projects, latest first."""
    files: list[tuple[Path, os.stat_result]] = []
    folders = [project_folder(directory, cwd)] if cwd is not None else _folders(directory)
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.name.endswith(SUFFIX) and entry.is_file():
                        files.append((Path(entry.path), entry.stat()))
    files.sort(key=lambda item: (item[1].st_mtime_ns, item[0].name), reverse=True)
    return files


def read_metadata(path: Path) -> SessionMetadata | None:
    """Read the metadata from the first line of a session file, or from its name if that line is broken and messages follow.
    None if the file is not a session or cannot be read.
    """
    try:
        with path.open("rb") as stream:
            first = stream.readline(_MAX_HEAD)
            if metadata := _metadata(first):
                return metadata
            head = first + stream.read(_MAX_HEAD)
    except OSError:
        return None
    return metadata_from_name(path) if not is_foreign(first) and re.search(_MESSAGE, head) else None


def _metadata(head: bytes) -> SessionMetadata | None:
    with contextlib.suppress(*UNREADABLE):
        line, _ = read_line(head, number=1, timestamp="")
        if isinstance(line, SessionMetadata):
            return line
    return None


def find_latest(directory: Path, cwd: str) -> Path | None:
    """The latest session of a project that is not a subagent's."""
    for path, _ in session_files(directory, cwd):
        metadata = read_metadata(path)
        if metadata is not None and metadata.is_of(cwd) and not metadata.parent:
            return path
    return None


def subagent_files(path: Path) -> list[Path]:
    """The sessions of the subagents of a session, which are beside it."""
    of = read_metadata(path)
    return [
        file
        for file in path.parent.glob(f"*{SUFFIX}")
        if of and (found := read_metadata(file)) is not None and found.parent == of.id
    ]


def find_exact(directory: Path, cwd: str, session_id: str) -> Path | None:
    """The file of a project's session with exactly this id; None if there is none, or it is empty."""
    folder = project_folder(directory, cwd)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 — thousands of names, and no Path is needed for each
            # A process that is killed before its first write leaves an empty file.
            if name.endswith(f"_{session_id}{SUFFIX}") and (folder / name).stat().st_size:
                return folder / name
    return None


def session_ids(directory: Path) -> set[str]:
    """The ids of all sessions."""
    return {metadata_from_name(path).id for path, _ in session_files(directory)}


def short_id(session_id: str, ids: set[str]) -> str:
    """The beginning of an id that no other of ``ids`` has. Those of other agents may begin with the time."""
    others, length = ids - {session_id}, 8
    while length < len(session_id) and any(each.startswith(session_id[:length]) for each in others):
        length += 1
    return session_id[:length]


def find_session(directory: Path, session: str) -> Path:
    """Find a session by its id, a prefix of its id, or its path. Raises ``SessionError`` if none or several match."""
    if "/" in session or session.endswith(SUFFIX):
        return _at(Path(session), directory)
    if not session:
        raise SessionError("The session's id is empty. Give its id, the start of its id, or its path.")
    ids = [(metadata_from_name(path).id, path) for path, _ in session_files(directory)]
    matches = [path for session_id, path in ids if session_id == session] or [
        path for session_id, path in ids if session_id.startswith(session)
    ]
    if not matches:
        raise SessionError(
            f"No session in {directory} has an id that starts with {session!r}. `newel sessions --all` lists all sessions."
        )
    if len(matches) > 1:
        names = ", ".join(metadata_from_name(path).id for path in matches[:5])
        raise SessionError(
            f"The ids of {len(matches)} sessions start with {session!r}: {names}. Give more of the id."
        )
    return matches[0]


def _at(path: Path, directory: Path) -> Path:
    """A session file by its path. Outside the sessions' directory it must start like a session, because opening a file may
    append to it and repair it.
    """
    with contextlib.suppress(RuntimeError):  # `~name` of no user is a file's name
        path = path.expanduser()
    if not path.is_file():
        raise SessionError(f"{path} does not exist, or is not a regular file.")
    if directory.resolve() not in path.resolve().parents:
        with path.open("rb") as stream:
            if _metadata(stream.readline(_MAX_HEAD)) is None:
                raise not_a_session(path)
    return path


def _folders(directory: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        yield from [Path(entry.path) for entry in entries if entry.is_dir()]


def not_a_session(path: Path) -> SessionError:
    return SessionError(
        f"{path} is not a session of Newel: it does not start with a session header. It was not changed. "
        "`newel import FILE` imports sessions of Claude Code, codex and pi."
    )
