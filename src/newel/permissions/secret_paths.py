"""Which files a tool may open: policies, the workspace of the tools and mentions all ask here.

    free    in the project, or allowed by a rule
    ask     outside the project, or a file that often holds secrets: needs approval, except in ``auto``; or by a rule
    never   a secret place (``secret_values.py``), or denied by a rule: closed in every mode

Paths must be real. Only names are judged; the disk is read only to resolve the secret places themselves.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Final, Literal

import msgspec

from newel.agent.errors import WorkspaceError
from newel.permissions.rules import Act, Effect, PathRule, RuleSet, expression
from newel.permissions.secret_values import EXAMPLES, PRIVATE, SECRET, SPELLED, VARIABLES, Row
from newel.workspace.port import DelegatingWorkspace, DirectoryEntry, FileInfo, Workspace, WriteResult
from newel.workspace.sandbox.policy import SandboxPolicy, is_below
from newel.workspace.sandbox.sandbox_disk import LOCAL_DISK, SandboxDisk, literal
from newel.workspace.sandbox.user_paths import leads_through_project

Level = Literal["free", "ask", "never"]

OUTSIDE: Final = "outside the project"

PRIVATE_KEY: Final = b"PRIVATE KEY-----"
"""In the first line of private keys in text."""

BEGINNING: Final = 4096
"""Bytes of a file that are searched for it."""


class Judgement(msgspec.Struct, frozen=True):
    """``reason`` describes the file, unless the level is ``free``. ``rule`` is the user's rule that decided, if one did."""

    level: Level
    reason: str = ""
    rule: str = ""


FREE: Final = Judgement("free")


class SecretPaths:
    """Judges the files of one agent.

    ``root`` is the folder that its tools work in, ``project`` the user's folder if that is a copy; both are real paths on the
    host of ``home``. ``newel`` is Newel's folder, ``is_spill`` recognizes its files of long outputs, ``environ`` is its
    environment; all three only for this machine. ``rules`` gives the rules as they are now, ``skills`` are the user's folders of skills,
    which may be read like the project.
    """

    def __init__(
        self,
        root: str,
        *,
        home: str,
        project: str = "",
        newel: str = "",
        is_spill: Callable[[str], bool] = lambda _: False,
        environ: Mapping[str, str] | None = None,
        rules: Callable[[], RuleSet] = RuleSet,
        skills: Sequence[str] = (),
    ) -> None:
        self._root = root.rstrip("/")
        self._project = (project or root).rstrip("/")
        self._home = home
        self._newel = newel
        self._is_spill = is_spill
        self._environ = environ
        self._rules = rules
        self._skills = skills
        self._compiled_from: RuleSet | None = None
        self._compiled: dict[Effect, list[tuple[PathRule, re.Pattern[str]]]] = {}

    def judge(self, path: str, *, writes: bool = False) -> Judgement:
        """Judge access to a real path."""
        path = self.original(path)
        if rule := self._find_rule("deny", path, writes=writes):
            return Judgement("never", f"denied by your rule {rule}", rule)
        if path == self._project:
            return FREE
        judgement = self._judge_place(path, writes=writes)
        if judgement.level != "never" and (rule := self._find_rule("ask", path, writes=writes)):
            return Judgement("ask", f"your rule asks: {rule}", rule)
        return judgement

    def _judge_place(self, path: str, *, writes: bool) -> Judgement:
        """Judge access without the rules that ask or deny."""
        is_skill = not writes and any(_is_within(path, folder) for folder in self._skills)
        if reason := self._secret(path, is_skill=is_skill):
            judgement = Judgement("never", reason)
        elif not is_skill and not _is_within(path, self._project):
            judgement = Judgement("ask", OUTSIDE)
        elif reason := _by_name(path, "private"):
            judgement = Judgement("ask", f"a file that often holds secrets: {reason}")
        else:
            return FREE
        return FREE if self._may_open(path, writes=writes) else judgement

    def allows_changes(self, path: str) -> bool:
        """Whether a rule of the user allows changes of a real path, so that none has to be approved."""
        return bool(self._find_rule("allow", self.original(path), writes=True))

    def holds_secrets(self, path: str) -> bool:
        """Whether a real path is a secret place, or that of a file that often holds secrets, and the user has not allowed it; or whether
        a rule denies it.
        """
        if self.is_denied(path):
            return True
        path = self.original(path)
        is_skill = any(_is_within(path, folder) for folder in self._skills)
        is_secret = bool(self._secret(path, is_skill=is_skill) or _by_name(path, "private"))
        return is_secret and not self._may_open(path, writes=False)

    def is_denied(self, path: str) -> bool:
        """Whether a rule denies reading a real path."""
        return bool(self._find_rule("deny", self.original(path), writes=False))

    def any_holds_secrets(self, paths: Sequence[str]) -> bool:
        """Whether ``holds_secrets`` is true of a path. Looks at each name and folder once, as there may be very many paths."""
        if any(isinstance(rule, PathRule) for rule in self._rules().deny):
            return any(map(self.holds_secrets, paths))
        parts = [path.rpartition("/") for path in paths]
        names = {name for name in {name for _, _, name in parts} if _by_name(name, "any")}
        folders = {folder for folder in {folder for folder, _, _ in parts} if self.holds_secrets(folder)}
        return any(
            (name in names or folder in folders) and self.holds_secrets(f"{folder}/{name}")
            for folder, _, name in parts
        )

    def original(self, path: str) -> str:
        """The path in the project for a file of its copy."""
        if self._root != self._project and _is_within(path, self._root):
            return self._project + path[len(self._root) :]
        return path

    def lexical_path(self, named: str) -> str:
        """The absolute path that a name denotes if none of its parts is a link."""
        if named == "~" or named.startswith("~/"):
            named = self._home + named[1:]
        return posixpath.normpath(posixpath.join(self._project, named))

    def is_inside(self, path: str) -> bool:
        """Whether an absolute path is in the project."""
        return _is_within(self.original(path), self._project)

    def inside_project(self, path: str) -> str:
        """A real path relative to the project; empty if it is not in it."""
        path = self.original(path)
        return path[len(self._project) + 1 :] if _is_within(path, self._project) else ""

    def why_not_attached(self, named: str, path: str) -> str:
        """Why a file that the user named in a prompt is not attached; empty if it is. The user may name files
        outside the project. A file of the project that is a link to such a file, or to one that often holds secrets, is refused.
        """
        judged = self.judge(path)
        if judged.level == "never" and judged.rule:
            return f"your rule `deny {judged.rule}` forbids it."
        if judged.level == "never":
            return (
                f"{path} holds secrets ({judged.reason}). To allow it, put into your config.toml: "
                f'[permissions] allow = ["read({path})"]'
            )
        if judged.level == "ask" and self.is_inside(named):
            if not self.is_inside(path):
                return f"it is a link to {path}, outside the project. To attach that file, name it itself."
            if self.original(named) != self.original(path):
                return f"it is a link to {path}, {judged.reason}. To attach that file, name it itself."
        return ""

    def refusal(self, path: str, judged: Judgement, *, writes: bool) -> str:
        """Why a file is not opened, and how the user can allow it."""
        path = self.original(path)
        act = "write" if writes else "read"
        done = "written" if writes else "read"
        if judged.rule and judged.level == "never":
            return f"{path} was not {done}: the user's rule `deny {judged.rule}` forbids it. Continue without it."
        allow = f'in their config.toml: [permissions] allow = ["{act}({path})"]'
        if judged.level == "never":
            return (
                f"{path} was not {done}: it holds secrets ({judged.reason}), which no tool of Newel opens in any mode. Continue "
                f"without it. Only the user can allow it, {allow}"
            )
        return (
            f"{path} was not {done}: it is {judged.reason}, so it needs the user's approval, and this run cannot ask for it. "
            f"Continue without it, and tell the user: they can use `--approve auto`, or allow it {allow}"
        )

    # -- secrets ------------------------------------------------------------------------------------

    def _secret(self, path: str, *, is_skill: bool = False) -> str:
        """The kind of secret at a path; empty for none. The skills in Newel's own folder are none."""
        if is_skill and self._newel and _is_within(path, f"{self._newel}/skills"):
            return _by_name(path, "secret")
        folded = path.casefold()
        tables = [("", self._moved_places), *((home, _BELOW_HOME) for home in self._homes_of(folded))]
        for base, places in tables:
            for place in _upwards(folded[len(base) :]):
                if place in places and not self._is_workplace(folded, base + place):
                    return places[place]
        pattern, reasons = _system_places()
        if match := pattern.match(folded.removeprefix("/private")):
            return reasons[match.lastindex or 0]
        return _by_name(path, "secret")

    def _is_workplace(self, folded: str, place: str) -> bool:
        """Whether a path is in a worktree in Newel's folder where the agent works."""
        root = self._project.casefold()
        return root.startswith(f"{place}/worktrees/") and _is_within(folded, root)

    def _homes_of(self, folded: str) -> list[str]:
        """The home folders that contain a path: the user's, and those of other users in the usual places."""
        homes = [home for home in map(str.casefold, self._homes) if _is_within(folded, home)]
        if other := re.match(_OTHER_HOME, folded):
            homes.append(other[0])
        return homes

    @cached_property
    def _homes(self) -> tuple[str, ...]:
        """The home folder by name, and its real path."""
        homes = [self._home, *([] if self._environ is None else [os.path.realpath(self._home)])]
        return tuple(dict.fromkeys(home.rstrip("/") for home in homes if home.strip("/")))

    @cached_property
    def _moved_places(self) -> dict[str, str]:
        """Secret places that the user's environment or a link moves to another place than in the table. Only for
        this machine: on a host, each would need a request.
        """
        if self._environ is None:
            return {}
        places = [(path, row.reason) for row in VARIABLES for path in _set_by(row.pattern, self._environ)]
        if self._newel:
            places.append((self._newel, _BELOW_HOME["/.newel"]))
        config = self._environ.get("XDG_CONFIG_HOME", "")
        for below, reason in _BELOW_HOME.items():
            places += [(home + below, reason) for home in self._homes]
            if config.startswith("/") and below.startswith("/.config/"):
                places.append((config + below.removeprefix("/.config"), reason))
        moved: dict[str, str] = {}
        for path, reason in places:
            moved[path.rstrip("/").casefold()] = reason
            if os.path.lexists(path):
                moved[os.path.realpath(path).casefold()] = reason
        moved.pop("/", None)
        return moved

    # -- allowed paths ----------------------------------------------------------------------------

    def _may_open(self, path: str, *, writes: bool) -> bool:
        return (not writes and self._is_spill(path)) or bool(self._find_rule("allow", path, writes=writes))

    def _find_rule(self, effect: Effect, path: str, *, writes: bool) -> str:
        """The first rule with this effect on a path; empty for none."""
        rules = self._rules()
        if rules is not self._compiled_from:
            self._compiled = {
                name: [
                    (rule, re.compile("|".join(self._expressions(rule, name))))
                    for rule in some
                    if isinstance(rule, PathRule)
                ]
                for name, some in rules.by_effect().items()
            }
            self._compiled_from = rules
        return next(
            (
                str(rule)
                for rule, paths in self._compiled[effect]
                if rule.covers(writes=writes, effect=effect) and paths.fullmatch(path)
            ),
            "",
        )

    def _expressions(self, rule: PathRule, effect: Effect) -> Iterator[str]:
        """The paths of a rule: as written, and on this machine with links resolved, in one that allows only those of the user's own."""
        fixed, rest = rule.split_prefix()
        if fixed.startswith("~/"):
            starts = [home + fixed[1:] for home in self._homes]
        elif rule.pattern.startswith(("/", "**/")):
            starts = [fixed]
        else:
            starts = [f"{self._project}/{fixed}" if fixed else self._project + "/"]
        for start in starts:
            yield expression(start + rest)
            is_absolute = self._environ is not None and start.startswith("/")
            if is_absolute and not (effect == "allow" and self._leads_through_project(start)):
                yield expression(os.path.realpath(start) + ("/" if start.endswith("/") else "") + rest)

    def _leads_through_project(self, path: str) -> bool:
        projects = [self._project, self._root]
        return leads_through_project(path, projects, os.path.realpath(self._home), LOCAL_DISK)


def existing_secret_places(home: str, newel: str, disk: SandboxDisk = LOCAL_DISK) -> list[str]:
    """The secret places of a machine that exist, by their real paths: those of ``home``, of Newel and of the system."""
    patterns = [*SPELLED, *(row.pattern for row in SECRET if row.pattern.startswith(("/", "~/")))]
    wanted = [
        literal(home) + pattern[1:] if pattern[0] == "~" else pattern
        for pattern in patterns
        if not pattern.startswith("/proc/")
    ]
    return sorted(set(map(disk.real, disk.match([*wanted, literal(newel)]))))


def existing_moved_places(
    environ: Mapping[str, str], shown: Sequence[str], projects: Sequence[str], disk: SandboxDisk = LOCAL_DISK
) -> list[str]:
    """The real paths of the secret places of a machine to which variables lead, outside of ``projects``: files and folders, but for those
    around anything that is ``shown``.
    """
    named = [path for row in VARIABLES for path in _set_by(row.pattern, environ)]
    settings = [pattern for pattern in (*SPELLED, *_BELOW_HOME) if "/.config/" in pattern]
    for config in _set_by("XDG_CONFIG_HOME", environ):
        named += [config + pattern.partition("/.config")[2] for pattern in settings]
    found = sorted(set(map(disk.real, disk.match(map(literal, named)))))
    return [
        path
        for path in found
        if not is_below(path, projects)
        and not any(is_below(each, [path]) for each in shown)
        and (disk.is_file(path) or disk.is_folder(path))
    ]


def existing_denied_places(
    rules: RuleSet, act: Act, *, home: str, project: str, disk: SandboxDisk = LOCAL_DISK
) -> list[str]:
    """The real paths of a machine that rules deny to ``act``. Without those of a rule with ``**`` before its end: it may name anything
    anywhere.
    """
    patterns: list[str] = []
    for rule in rules.deny:
        if isinstance(rule, PathRule) and rule.act == act and "**" not in rule.pattern.removesuffix("/**"):
            pattern = rule.pattern.removesuffix("/**")
            folder = literal(home) if pattern.startswith("~/") else literal(project)
            patterns.append(posixpath.join(folder, pattern.removeprefix("~/")))
    return sorted(set(map(disk.real, disk.match(patterns))))


def denied_below(rules: RuleSet, root: str, home: str) -> Callable[[str], bool]:
    """Whether rules deny reading a path relative to a real one. ``home`` is empty where it is unknown."""
    if not any(
        isinstance(rule, PathRule) and rule.covers(writes=False, effect="deny") for rule in rules.deny
    ):
        return lambda _: False
    places = SecretPaths(root, home=home, rules=lambda: rules)
    start = root.rstrip("/")
    return lambda path: places.is_denied(f"{start}/{path}")


def looks_secret(path: str, data: bytes) -> bool:
    """Whether a file, by its name or its beginning, is one that holds keys or passwords."""
    return bool(_by_name(path, "any")) or PRIVATE_KEY in data[:BEGINNING]


def _set_by(variable: str, environ: Mapping[str, str]) -> list[str]:
    paths = environ.get(variable, "").split(":")
    return [path for path in paths if path.startswith("/") and path.strip("/")]


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(folder) and (len(path) == len(folder) or path[len(folder)] == "/")


def _upwards(path: str) -> Iterator[str]:
    """A path and its parent folders, without the root."""
    while len(path) > 1:
        yield path
        path = path[: path.rfind("/")]


def _by_name(path: str, table: _TableName) -> str:
    name = posixpath.basename(path).casefold()
    pattern, reasons = _names(table)
    match = pattern.fullmatch(name)
    return "" if match is None or name.endswith(EXAMPLES) else reasons[match.lastindex or 0]


_TableName = Literal["private", "secret", "any"]


@cache  # not at import, which would slow down every start
def _names(table: _TableName) -> tuple[re.Pattern[str], list[str]]:
    tables = {"private": PRIVATE, "secret": SECRET, "any": PRIVATE + SECRET}
    return _one_pattern([row for row in tables[table] if "/" not in row.pattern], fnmatch.translate)


@cache
def _system_places() -> tuple[re.Pattern[str], list[str]]:
    def translate(pattern: str) -> str:
        return "[^/]*".join(map(re.escape, pattern.split("*"))) + r"(?:/|\Z)"

    return _one_pattern([row for row in SECRET if row.pattern[0] == "/"], translate)


def _one_pattern(rows: Sequence[Row], translate: Callable[[str], str]) -> tuple[re.Pattern[str], list[str]]:
    """An expression for all rows, and the reason of each of its groups, which count from 1."""
    groups = "|".join(f"({translate(row.pattern)})" for row in rows)
    return re.compile(groups), ["", *(row.reason for row in rows)]


_BELOW_HOME: Final = {row.pattern[1:]: row.reason for row in SECRET if row.pattern.startswith("~/")}
_OTHER_HOME: Final = r"/root(?=/|\Z)|/(?:home|users|var/home)/[^/]+"


class GuardedWorkspace(DelegatingWorkspace[Workspace]):
    """Closes secret places of another workspace; with ``strict`` also everything that would need approval, and with a sandbox all
    that ``policy`` does not let commands change.

    It opens exactly the paths that it judged, even if a link replaces one meanwhile. Commands are not judged: what they open
    is unknown.
    """

    def __init__(
        self,
        inner: Workspace,
        places: SecretPaths,
        *,
        strict: bool = False,
        policy: SandboxPolicy | None = None,
    ) -> None:
        super().__init__(inner)
        self._places = places
        self._policy = policy
        self._closed = {"never", "ask"} if strict else {"never"}

    def _open(self, path: str, *, writes: bool = False) -> str:
        judged = self._places.judge(path, writes=writes)
        if judged.level in self._closed:
            raise WorkspaceError(self._places.refusal(path, judged, writes=writes))
        if writes and self._policy is not None and not self._policy.allows_writing(path):
            why = (
                ", because a program outside of it may obey or run this file"
                if self._policy.protects(path)
                else ""
            )
            raise WorkspaceError(
                f"{path} was not written: the sandbox does not allow it{why}. Leave it to the user."
            )
        return path

    async def stat(self, path: str, /) -> FileInfo | None:
        return await self._inner.stat(self._open(path))

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        results = await self._inner.stats(paths)  # one request; a closed place looks as if nothing were there
        return [
            None if self._places.judge(path).level in self._closed else info
            for path, info in zip(paths, results, strict=True)
        ]

    async def list(self, path: str, /, *, limit: int = 10_000, nofollow: bool = True) -> list[DirectoryEntry]:
        return await self._inner.list(self._open(path), limit=limit, nofollow=nofollow)

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = True
    ) -> bytes:
        return await self._inner.read_bytes(self._open(path), start=start, size=size, nofollow=nofollow)

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        return await self._inner.write_bytes(self._open(path, writes=True), data, expect=expect, mode=mode)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        await self._inner.remove(self._open(path, writes=True), expect=expect)

    async def remove_folder(self, path: str, /) -> None:
        await self._inner.remove_folder(self._open(path, writes=True))
