"""Reads hooks from files in the format of Claude Code's settings. A mistake concerns one hook: the others run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from newel.hooks.hook import EVENTS, MAX_TIMEOUT_S, TOOL_EVENTS, Hook, Level, problem_of_matcher
from newel.hooks.wrong_type import WrongType, find_wrong_type
from newel.storage.files import read_regular
from newel.text.json import describe_syntax_error
from newel.text.sanitize import escape_line

MAX_HOOKS: Final = 200
"""Of one file."""

MAX_EVENTS: Final = 100
"""Of one file; there are fewer."""

MAX_COMMAND: Final = 100_000
"""Characters of a command, and of an argument: no system starts much longer ones."""

MAX_PROBLEMS: Final = 20
"""Reported for one file."""

MAX_NAME: Final = 80
"""Characters of the name of an event in a message."""

HOOK: Final = {"type": "command", "command": "ruff format"}
GROUP: Final[Mapping[str, Any]] = {"matcher": "Edit", "hooks": []}
WHOLE_GROUP: Final[Mapping[str, Any]] = {"matcher": "Edit", "hooks": [HOOK]}
"""Examples in messages."""

_NAMES: Final = [f'"{name}"'.encode() for name in ("hooks", *EVENTS)]
_COMMAND: Final = re.compile(r'"command"\s*:\s*("(?:[^"\\]|\\.)*")')

Problem = str
"""Names the file and the line, and says what follows."""


class HookSet(msgspec.Struct, frozen=True):
    """The hooks of some files in their order, and what is wrong with the files."""

    hooks: Sequence[Hook] = ()
    problems: Sequence[Problem] = ()


class WrittenHook(msgspec.Struct, frozen=True):
    """One hook as it is written."""

    command: Annotated[str, Meta(description="a string", examples=["ruff format"])] = ""
    args: Annotated[
        tuple[str, ...] | None, Meta(description="a list of strings", examples=[["check", "--fix"]])
    ] = None
    type: Annotated[str, Meta(description="a string", examples=["command"])] = "command"
    timeout: Annotated[float | None, Meta(description="a number of seconds", examples=[60])] = None
    condition: Annotated[
        str, Meta(description="one permission rule as a string", examples=["Bash(git *)"])
    ] = msgspec.field(default="", name="if")
    is_async: Annotated[bool, Meta(description="true or false")] = msgspec.field(default=False, name="async")


class _WrittenGroup(msgspec.Struct, frozen=True):
    matcher: Annotated[str, Meta(description="a string", examples=["Edit|Write"])] = ""
    hooks: Annotated[tuple[msgspec.Raw, ...], Meta(description="a list of hooks", examples=[[HOOK]])] = ()


class _WrittenFile(msgspec.Struct, frozen=True):
    hooks: Annotated[
        dict[str, msgspec.Raw],
        Meta(description="an object with a list for each event", examples=[{"Stop": []}]),
    ] = {}
    is_off: Annotated[bool, Meta(description="true or false")] = msgspec.field(
        default=False, name="disableAllHooks"
    )


def read_hook_files(files: Sequence[Path], level: Level) -> HookSet:
    """The hooks of all these files. Never raises."""
    read = [_read_file(file, level) for file in files]
    return HookSet(
        [hook for each in read for hook in each.hooks], [each for one in read for each in one.problems]
    )


def check_hook(
    written: WrittenHook, *, event: str, matcher: str, file: Path, line: int, level: Level
) -> Hook | Problem:
    """The hook, or why it does not run."""
    where = f"{file}, line {line}: {escape_line(event, MAX_NAME)}"
    if event not in EVENTS:
        return f"{where}: there is no such event here, so its hooks do not run. The events are {', '.join(EVENTS)}."
    if written.type != "command":
        return f"{where}: hooks of the type {written.type!r:.40} do not run here, only commands."
    if not written.command.strip() or "\0" in written.command + "".join(written.args or ()):
        return f"{where}: a hook needs a `command`."
    if max(map(len, (written.command, *(written.args or ())))) > MAX_COMMAND:
        return f"{where}: a `command` has at most {MAX_COMMAND:,} characters. The hook does not run."
    if written.timeout is not None and not 0 < written.timeout <= MAX_TIMEOUT_S:
        return (
            f"{where}: `timeout` is a number of seconds, at most {MAX_TIMEOUT_S:,g}. The hook does not run."
        )
    if written.condition and event not in TOOL_EVENTS:
        return f"{where}: `if` is about calls of tools, so this hook never runs."
    if problem := problem_of_matcher(matcher):
        return f"{where}: the matcher is not a regular expression ({problem}), so the hook does not run."
    return Hook(
        event=event,
        command=written.command,
        matcher=matcher,
        args=written.args,
        timeout=written.timeout,
        condition=written.condition,
        file=file,
        line=line,
        level=level,
    )


def _read_file(file: Path, level: Level) -> HookSet:
    data = b""
    try:
        data = read_regular(file).removeprefix(b"\xef\xbb\xbf")
        if not any(name in data for name in _NAMES):  # settings of Claude Code without any
            return HookSet()
        text = data.decode()
        written = msgspec.json.decode(text, type=_WrittenFile)
    except (FileNotFoundError, NotADirectoryError):
        return HookSet()
    except OSError as error:
        return HookSet(
            problems=[f"{file} cannot be read, so none of its hooks runs: {error.strerror or error}."]
        )
    except msgspec.ValidationError:
        wrong = find_wrong_type(data, _WrittenFile, "the file", {"hooks": {"Stop": []}})
        line = _line_of_text(data.decode(), wrong.key and json.dumps(wrong.key))
        return HookSet(problems=[f"{file}, line {line}: {wrong.message}. None of its hooks runs."])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return HookSet(problems=[f"{describe_syntax_error(file, data, error)}. None of its hooks runs."])
    if not written.hooks and (event := _misplaced_event(data)):
        line = _line_of_text(text, json.dumps(event))
        told = f'`{event}` has to be in `hooks`: {{"hooks": {{"{event}": […]}}}}'
        return HookSet(problems=[f"{file}, line {line}: {told}. None of its hooks runs."])
    return HookSet() if written.is_off else _HookFileReader(file, text, level).read(written.hooks)


def _misplaced_event(data: bytes) -> str:
    """The first event at the top of a file; empty if there is none."""
    return next((key for key in msgspec.json.decode(data, type=dict[str, msgspec.Raw]) if key in EVENTS), "")


def _line_of_text(text: str, part: str, start: int = 0) -> int:
    """The line of the first such part behind a position; that of the position if there is none."""
    return text.count("\n", 0, max(text.find(part, start), start)) + 1


class _HookFileReader:
    def __init__(self, file: Path, text: str, level: Level) -> None:
        self._file = file
        self._text = text
        self._level: Level = level
        self._commands = _lines_of_commands(text)
        self._at = 0
        self._problems: list[Problem] = []

    def read(self, events: Mapping[str, msgspec.Raw]) -> HookSet:
        found: list[Hook] = []
        for event, raw in islice(events.items(), MAX_EVENTS):
            for hook in self._hooks_of(event, raw):
                if len(found) == MAX_HOOKS:
                    self._problems.append(
                        f"{self._file} has more than {MAX_HOOKS} hooks; the others do not run."
                    )
                    return HookSet(found, self._problems[-MAX_PROBLEMS:])
                found.append(hook)
        return HookSet(found, self._problems[:MAX_PROBLEMS])

    def _hooks_of(self, event: str, raw: msgspec.Raw) -> Iterator[Hook]:
        line = self._line_of_key(event)
        try:
            groups = msgspec.json.decode(raw, type=list[msgspec.Raw])
        except msgspec.ValidationError:
            find = partial(WrongType.of, raw, "its value", "a list of objects", [GROUP])
            return self._report(event, raw, find, "Its hooks do not run")
        for each in groups:
            try:
                group = msgspec.json.decode(each, type=_WrittenGroup)
            except msgspec.ValidationError:
                find = partial(find_wrong_type, each, _WrittenGroup, "an entry", GROUP)
                self._report(event, each, find, "The hooks of this entry do not run")
                continue
            if not group.hooks and "hooks" not in msgspec.json.decode(each, type=dict[str, msgspec.Raw]):
                find = partial(WrongType.of, each, "an entry", "an object with a list `hooks`", WHOLE_GROUP)
                self._report(event, each, find, "The hooks of this entry do not run")
            for hook in group.hooks:
                yield from self._hook(event, group.matcher, hook, line)

    def _report(self, event: str, raw: msgspec.Raw, find: Callable[[], WrongType], consequence: str) -> None:
        if len(self._problems) >= MAX_PROBLEMS:
            return  # to find what is wrong, and its line, takes time
        wrong = find()
        start = max(self._text.find(bytes(raw).decode(), self._at_event(event)), 0)
        line = _line_of_text(self._text, wrong.key and json.dumps(wrong.key), start)
        where = f"{self._file}, line {line}: {escape_line(event, MAX_NAME)}"
        self._problems.append(f"{where}: {wrong.message}. {consequence}.")

    def _hook(self, event: str, matcher: str, raw: msgspec.Raw, line: int) -> Iterator[Hook]:
        try:
            written = msgspec.json.decode(raw, type=WrittenHook)
        except msgspec.ValidationError:
            find = partial(find_wrong_type, raw, WrittenHook, "a hook", HOOK)
            return self._report(event, raw, find, "This hook does not run")
        line = self._line_of_command(written.command, line)
        checked = check_hook(
            written, event=event, matcher=matcher, file=self._file, line=line, level=self._level
        )
        if isinstance(checked, Hook):
            if written.is_async:
                self._problems.append(
                    f"{checked.where}: `async` is not supported: the hook runs, and is waited for."
                )
            yield checked
        else:
            self._problems.append(checked)

    def _line_of_key(self, event: str) -> int:
        return self._text.count("\n", 0, self._at_event(event)) + 1

    def _at_event(self, event: str) -> int:
        return max(self._text.find(json.dumps(event)), 0)

    def _line_of_command(self, command: str, otherwise: int) -> int:
        """The line of the next command that says this: hooks are read in their order."""
        for index in range(self._at, len(self._commands)):
            if self._commands[index][0] == command:
                self._at = index + 1
                return self._commands[index][1]
        return otherwise


def _lines_of_commands(text: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    line, at = 1, 0
    for match in _COMMAND.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        try:
            value = json.loads(match[1], strict=False)
        except ValueError:
            continue
        found.append((str(value), line))
    return found
