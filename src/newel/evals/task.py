"""A task of the suite: a folder with a ``task.toml``, and the initial files in ``files/`` if they are more than a few lines.

``docs/evals.md`` shows how to write one. Every field is checked when a task is loaded; ``newel eval check`` proves that it measures
something.
"""

from __future__ import annotations

import codecs
import difflib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec

from newel.agent.errors import NewelError, UsageError
from newel.config.toml_file import TomlError, parse_toml
from newel.evals.links import problems_of_links
from newel.storage.files import read_regular
from newel.text.toml import line_of_key

FILE: Final = "task.toml"
GOLDEN: Final = "trace.json"
"""The file with a task's golden trace, beside ``FILE``."""

Size = Literal["S", "M", "L"]
"""How much a task asks for: S can be done by some small models, L needs one of the best."""

TIMEOUT_S: Final[dict[Size, float]] = {"S": 300.0, "M": 900.0, "L": 1800.0}
"""How long an agent may work on a task, by its size."""

CHECK_TIMEOUT_S: Final = 30.0

_MOST_BYTES: Final = 1 << 30
"""Of a task's folder."""

_PLACED: Final = re.compile(r"(?s)(?P<what>.*) - at `\$(?P<where>.*)`")
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class TaskError(NewelError):
    """A task that cannot be used; the message names the file, the line and the field."""


class TaskCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A condition for success, of one kind:

    - ``run``: a shell command in the project that must exit with 0 within ``timeout`` seconds; with ``output``, a regular expression that
      its standard output must contain.
    - ``file``: a file that must exist and ``equals`` a text or ``contains`` a regular expression, must not contain it (``lacks``), or
      must not exist (``absent``).
    - ``unchanged``: files that must have the content that they had at the beginning. ``only``: no others may have been made, changed
      or deleted. Both are patterns as in ``fnmatch``.
    - ``answer``: a regular expression that the last answer must contain; ``no_answer``: one that it must not.
    - ``asked``: whether the agent must have asked the user a question, or must not; for tasks with ``[review]``.

    ``why`` says what it is about.
    """

    run: str = ""
    output: str = ""
    timeout: float = CHECK_TIMEOUT_S
    file: str = ""
    equals: str | None = None
    contains: str = ""
    lacks: str = ""
    absent: bool = False
    unchanged: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    answer: str = ""
    no_answer: str = ""
    asked: bool | None = None
    why: str = ""

    def __post_init__(self) -> None:
        kinds = [
            self.run,
            self.file,
            self.unchanged,
            self.only is not None,
            self.answer,
            self.no_answer,
            self.asked is not None,
        ]
        if sum(map(bool, kinds)) != 1:
            raise ValueError(
                "a check has exactly one of `run`, `file`, `unchanged`, `only`, `answer`, `no_answer`, `asked`"
            )
        about_file = [self.equals is not None, self.contains, self.lacks, self.absent]
        if bool(self.file) != (sum(map(bool, about_file)) == 1):
            raise ValueError(
                "`file` needs exactly one of `equals`, `contains`, `lacks`, `absent`, and these need `file`"
            )
        if self.output and not self.run:
            raise ValueError("`output` needs `run`")
        for pattern in (self.output, self.contains, self.lacks, self.answer, self.no_answer):
            _check_pattern(pattern)


class Attempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What somebody might do about a task: write ``files``, run a command, answer. ``asked``: a question to the user comes first. ``why``
    says what is wrong with it, if it is, and ``fails`` is a part of the ``why`` or the text of the check that must reject it.
    """

    files: dict[str, str] = {}
    run: str = ""
    answer: str = ""
    asked: bool = False
    why: str = ""
    fails: str = ""


class Review(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a user does in a review job: gives ``answers`` to questions, in their order; changes files ``meanwhile``, by a shell command
    that runs once something was proposed; and rejects the hunks whose patch any of the regular expressions ``reject`` matches.
    """

    answers: tuple[str, ...] = ()
    meanwhile: str = ""
    reject: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in self.reject:
            _check_pattern(pattern)


class TaskHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The project lies on a host. ``local`` are files of the folder on this machine that the agent is started in."""

    local: dict[str, str] = {}


class _TaskFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    title: str
    size: Size
    tags: tuple[str, ...]
    prompt: str
    then: tuple[str, ...] = ()
    timeout: float | None = None
    context_window: int | None = None
    requires: tuple[str, ...] = ()
    files: dict[str, str] = {}
    setup: str = ""
    accept: str = ""
    review: Review | None = None
    host: TaskHost | None = None
    checks: tuple[TaskCheck, ...]
    reference: Attempt
    right: tuple[Attempt, ...] = ()
    wrong: tuple[Attempt, ...]

    def __post_init__(self) -> None:
        if not self.checks:
            raise ValueError("a task needs `[[checks]]`")
        if self.accept and (self.review or self.then):
            raise ValueError(
                "`accept` makes the prompt a contract, which goes with neither `[review]` nor `then`"
            )
        if self.host and self.review:
            raise ValueError(
                "`[host]` and `[review]` do not go together: the user of a review works on this machine"
            )
        if not self.wrong:
            raise ValueError(
                "a task needs a tempting wrong answer in `[[wrong]]`, which its checks must reject"
            )
        if not all(attempt.why for attempt in self.wrong):
            raise ValueError("each of `[[wrong]]` needs `why`")


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """``prompt`` is what the agent is asked first, ``then`` after each answer. ``files`` are written into an empty folder, with those of
    ``folder / FILES``, and ``setup`` is a shell command that runs there before the agent does. ``timeout`` is in seconds. With ``review``,
    the agent proposes its changes in a review job; with ``accept``, the prompt is a contract, and that its acceptance command.
    """

    name: str
    folder: Path
    title: str
    size: Size
    tags: tuple[str, ...]
    prompt: str
    then: tuple[str, ...]
    timeout: float
    context_window: int | None
    """In tokens, for tasks whose conversation must be summarized; None is that of the model."""
    requires: tuple[str, ...]
    """Programs without which the task cannot be done."""
    files: dict[str, str]
    setup: str
    accept: str
    review: Review | None
    host: TaskHost | None
    checks: tuple[TaskCheck, ...]
    reference: Attempt
    right: tuple[Attempt, ...]
    """Other solutions, which must pass, too."""
    wrong: tuple[Attempt, ...]
    digest: str
    """Of all files in ``folder`` but the golden trace, which no model sees."""

    def matches(self, selector: str) -> bool:
        """Whether a name, a tag or a size selects it."""
        return selector in {self.name, self.size, *self.tags}


def is_name(text: str) -> bool:
    """Whether it may be the name of a task, and so of its folder."""
    return _NAME.fullmatch(text) is not None


def load_task(folder: Path) -> Task:
    """Raises ``TaskError``."""
    path = folder / FILE
    if not is_name(folder.name):
        raise TaskError(
            f"{folder} is not a valid name for a task: use lower-case letters, digits and hyphens, as in `fix-typo`."
        )
    check_links(folder)
    try:
        values, text = parse_toml(read_regular(path).removeprefix(codecs.BOM_UTF8))
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}.") from error
    except TomlError as error:
        raise TaskError(f"{path}, line {error.line}: {error}.") from error
    try:
        file = msgspec.convert(values, _TaskFile)
    except msgspec.ValidationError as error:
        match = _PLACED.fullmatch(str(error))
        what, where = (match["what"], match["where"]) if match else (str(error), "")
        at = tuple(re.findall(r"[^.\[\]]+", where))
        if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
            at, what = (*at, unknown[1]), f"unknown field{_suggestion(at, unknown[1])}"
        if at == ("size",) and what.startswith("Invalid enum value"):
            what = f"it must be one of {', '.join(TIMEOUT_S)}"
        name = ".".join(at)
        line = line_of_key(text, at)
        raise TaskError(
            f"{path}, line {line}: {name + ': ' if name else ''}{what[:1].lower() + what[1:]}."
        ) from error
    _check_paths(path, text, file)
    fields = {field: getattr(file, field) for field in _TaskFile.__struct_fields__ if field != "timeout"}
    return Task(
        name=folder.name,
        folder=folder,
        timeout=file.timeout or TIMEOUT_S[file.size],
        digest=_digest(folder),
        **fields,
    )


def check_links(folder: Path) -> None:
    """Raises ``TaskError`` for a link by which a stranger's task would be read from elsewhere, such as a folder of the user."""
    if folder.is_symlink():
        raise TaskError(f"{folder} is a link to another folder. Copy the task here, or name its own folder.")
    for path, problem in problems_of_links(folder):
        raise TaskError(f"{path} {problem}. Copy what it leads to, or make the link in `setup`.")


def _digest(folder: Path) -> str:
    """Raises ``TaskError`` for files that cannot be those of a task. Its links have been checked."""
    digest = hashlib.sha256()
    left = _MOST_BYTES
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder))
        if path.is_symlink():
            digest.update(name + b"\0->" + os.fsencode(path.readlink()))
        elif path.is_file() and path != folder / GOLDEN:
            size = path.stat().st_size
            left -= size
            if left < 0:
                raise TaskError(f"{folder} has more than {_MOST_BYTES:,} bytes. Make {path.name} in `setup`.")
            digest.update(name + f"\0{size}\0".encode())
            digest.update(read_regular(path, _MOST_BYTES))
        elif not (path.is_file() or path.is_dir()):
            raise TaskError(f"{path} is neither a file nor a folder. Make it in `setup`.")
    return digest.hexdigest()


def _suggestion(at: Sequence[str], name: str) -> str:
    """The field that was probably meant, or all of a task."""
    kinds: dict[str, type[msgspec.Struct]] = {"checks": TaskCheck, "review": Review}
    kinds |= dict.fromkeys(("reference", "right", "wrong"), Attempt)
    fields = (kinds.get(at[0], _TaskFile) if at else _TaskFile).__struct_fields__
    near = difflib.get_close_matches(name, fields, n=1)
    return f" (did you mean `{near[0]}`?)" if near else f"; the fields are {', '.join(fields)}"


def load_tasks(folders: Iterable[Path], selectors: Sequence[str]) -> tuple[list[Task], list[TaskError]]:
    """The tasks that the selectors (names, tags, sizes) may select, and what is wrong with the others."""
    folders = list(folders)
    if selectors and {folder.name for folder in folders}.issuperset(selectors):
        folders = [folder for folder in folders if folder.name in selectors]
    tasks: list[Task] = []
    errors: list[TaskError] = []
    for folder in folders:
        try:
            tasks.append(load_task(folder))
        except TaskError as error:
            errors.append(error)
    return tasks, errors


def find_tasks(root: Path) -> list[Path]:
    """The folders of tasks in a folder, or that folder itself if it is one, by name. Who names a link means what it leads to."""
    if (root / FILE).is_file():
        return [root.resolve() if root.is_symlink() else root]
    return sorted(path.parent for path in root.glob(f"*/{FILE}"))


def select(tasks: Iterable[Task], selectors: Sequence[str]) -> list[Task]:
    """The tasks that any of the selectors (names, tags, sizes) selects; all without selectors. Raises ``UsageError`` for one that selects
    none.
    """
    known = list(tasks)
    for selector in selectors:
        if not any(task.matches(selector) for task in known):
            words = {word for task in known for word in (task.name, *task.tags)}
            near = difflib.get_close_matches(selector, sorted(words), n=1)
            hint = f"Did you mean `{near[0]}`?" if near else "`newel eval list` shows them."
            raise UsageError(f"No task has the name, tag or size `{selector}`. {hint}")
    return [task for task in known if not selectors or any(map(task.matches, selectors))]


def _check_paths(path: Path, text: str, file: _TaskFile) -> None:
    for at, name in _paths(file):
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in name:
            line = line_of_key(text, at)
            raise TaskError(f"{path}, line {line}: the path `{name}` is not one below the project's folder.")


def _paths(file: _TaskFile) -> Iterator[tuple[tuple[str, ...], str]]:
    """Paths with the keys under which they are."""
    tables = {("files",): file.files, ("reference", "files"): file.reference.files}
    if file.host:
        tables["host", "local"] = file.host.local
    for kind, attempts in (("right", file.right), ("wrong", file.wrong)):
        tables |= {(kind, str(number), "files"): attempt.files for number, attempt in enumerate(attempts)}
    for at, files in tables.items():
        yield from (((*at, name), name) for name in files)
    for number, check in enumerate(file.checks):
        if check.file:
            yield ("checks", str(number), "file"), check.file


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"`{pattern}` is not a regular expression: {error}") from error
