"""A hunk in the user's editor.

The editor shows the text that the hunk would write, between two marks, with what it replaces and the lines around it. The user's
text is in a file beside the ledger until it is in the ledger, so it survives whatever ends the editor or Newel.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread

from newel.agent.errors import NewelError, UsageError, WorkspaceError
from newel.review.decide import edit_hunk
from newel.review.model.file_review import FileReview, Hunk, Lines, ReviewError, buffer, is_head, placed
from newel.review.model.hunk_text import NothingLeft, text_of
from newel.review.project import ProjectReview
from newel.review.store.schema import LedgerError
from newel.storage.file_lock import lock
from newel.storage.files import PRIVATE_FILE, make_private
from newel.terminal.review.review_ui import ReviewUI
from newel.text.sanitize import escape_line

FOLDER: Final = "edits"
"""In the folder of the ledger."""

CONTEXT: Final = 3
REPLACED: Final = 200
"""Lines that a draft shows around the text, and of what it replaces."""

HELP: Final = """\
newel: {path}. Edit the text between the two marked lines, save, and quit.
newel: That text is what will be in the file. The lines outside are not read.
newel: To change nothing, quit without saving.

"""

UNCHANGED: Final = "You changed nothing; the hunk is as it was."


class UnusableEdit(NewelError):
    """The editor left a file that does not say what the user wants."""


class HunkDraft(NamedTuple):
    """The content of the file that the editor opens. ``begin`` and ``end`` are the lines around the text of the hunk."""

    content: str
    begin: str
    end: str


def draft_of(review: FileReview, hunk: Hunk) -> HunkDraft:
    """Raises ``NotEditable``."""
    text = text_of(review, hunk)
    shown, base = buffer(review), review.base
    start, end = next((start, end) for each, start, end in placed(review) if each.id == hunk.id)
    replaced = [*_outside("-", base[hunk.a : hunk.b])]
    if len(replaced) > REPLACED:
        replaced[REPLACED:] = [f"… {len(replaced) - REPLACED} more lines\n"]
    before = [*_outside(" ", shown[max(start - CONTEXT, 0) : start]), *replaced]
    behind = [*_outside(" ", shown[end : end + CONTEXT])]
    arrows = 8
    while any(arrow * arrows in line for line in (text, *before, *behind) for arrow in "<>"):
        arrows += 1
    begin, close = f"{'>' * arrows} edit below", f"{'<' * arrows} edit above"
    help_text = HELP.format(path=escape_line(review.path))
    content = "".join([help_text, *before, f"{begin}\n", text, f"{close}\n", *behind])
    return HunkDraft(content, begin, close)


def _outside(sign: str, lines: Lines) -> Iterator[str]:
    for line in lines:
        if not is_head(line):
            text = line.rstrip("\r\n")
            yield f"{sign}{text}\n"


def text_in(draft: HunkDraft, data: bytes) -> str:
    """The text between the marks of an edited draft; each line ends with a line feed. Raises ``UnusableEdit``."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise UnusableEdit("The edited text is not UTF-8.") from error
    marks = [n for n, line in enumerate(lines) if line.rstrip() in {draft.begin, draft.end}]
    if [lines[n].rstrip() for n in marks] != [draft.begin, draft.end]:
        raise UnusableEdit("The two marked lines around the text are no longer there.")
    body = lines[marks[0] + 1 : marks[1]]
    if lines[marks[0]].endswith("\r"):  # the editor has converted the whole file
        body = [line.removesuffix("\r") for line in body]
    return "".join(f"{line}\n" for line in body)


async def edit_in_editor(
    project: ProjectReview, review: FileReview, hunk: Hunk, ui: ReviewUI
) -> FileReview | None:
    """The review with the hunk as the user has edited it; None if nothing changed, and the user was told why. Raises
    ``NotEditable``, ``UsageError`` if there is no editor, and ``LedgerError``.
    """
    draft = draft_of(review, hunk)
    if ui.edit_file is None:
        raise UsageError("There is no editor here. Use `newel decide` in a terminal.")
    with _draft_file(project.ledger.folder, review.path, draft) as file:
        try:
            await ui.edit_file(file.path)
        except UsageError as error:
            data = await anyio.to_thread.run_sync(_read, file.path)
            file.is_kept = data not in {b"", draft.content.encode()}
            ui.say(str(error), f"The hunk is as it was. Your text is in {file.path}." if file.is_kept else "")
            return None
        data = await anyio.to_thread.run_sync(_read, file.path)
        if data in {b"", draft.content.encode()}:
            ui.say(UNCHANGED)
            return None
        file.is_kept = True
        try:
            after = await edit_hunk(project, review.path, hunk.id, text_in(draft, data))
        except (UnusableEdit, ReviewError, WorkspaceError) as error:
            file.is_kept = not isinstance(error, NothingLeft)
            kept = f"The hunk is as it was. Your text is in {file.path}." if file.is_kept else ""
            ui.say(escape_line(str(error), 400), kept)
            if isinstance(error, LedgerError):
                raise
            return None
        file.is_kept = False
    if after.hunks == review.hunks:
        ui.say(UNCHANGED)
        return None
    return after


def unapplied_edits(project: ProjectReview) -> list[Path]:
    """The files with texts of users that were edited and did not reach the ledger. Blocks."""
    where = project.ledger.folder
    if where is None or not (where / FOLDER).is_dir():
        return []
    found: list[Path] = []
    for folder in sorted((where / FOLDER).iterdir()):
        with contextlib.suppress(OSError), _locked(folder, wait=False):  # else its editor is open
            found += [
                file for file in folder.glob("hunk*") if _hash(_read(file)) != folder.name.split("-")[0]
            ]
    return found


# -- the file ----------------------------------------------------------------------------------------------


class _DraftFile:
    """A draft on disk. ``is_kept``: it has a text of the user's that is nowhere else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_kept = False


@contextmanager
def _draft_file(where: Path | None, name: str, draft: HunkDraft) -> Generator[_DraftFile]:
    """A private file with the draft, in a folder of its own for what the editor leaves beside it. It is removed at the end, unless it
    ``is_kept`` or the user left in the middle.
    """
    data = draft.content.encode()
    parent = Path(tempfile.gettempdir()) if where is None else where / FOLDER
    make_private(parent)
    folder = Path(tempfile.mkdtemp(prefix=f"{_hash(data)}-", dir=parent))
    ending = "".join(re.findall(r"\.[A-Za-z0-9]{1,16}$", name))  # by which editors choose their colours
    file = _DraftFile(folder / f"hunk{ending}")
    with _locked(folder):
        file.path.touch(PRIVATE_FILE)
        file.path.write_bytes(data)
        yield file
        if not file.is_kept:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Generator[None]:
    """Inside, ``unapplied_edits`` passes over a folder. Raises ``BlockingIOError``, without ``wait``, if another holds the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lock(descriptor, wait=wait)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    """The bytes of a draft; none if the editor removed it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]
