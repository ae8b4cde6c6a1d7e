"""The settings of the remote agent: ``~/.jexida/config.toml``, or ``[remote]`` in Newel's own file.

Newel's file is rejected as a whole if any value is invalid. In this one, only the invalid value is replaced by its default, with
a warning that names the line, so that one mistake does not lead to another host.
"""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast, get_type_hints

import msgspec

from newel.storage.files import read_regular

if TYPE_CHECKING:
    from newel.text.shell_template import ShellTemplate

NAME = Path(".jexida", "config.toml")
"""Below the user's home."""

Through = Literal["auto", "run", "api"]
"""The connection to the model: Ollama's API on the host, or else ``ollama run`` there; only the latter; or an API that this
machine reaches directly.
"""


class ConfigSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ConnectionSettings(ConfigSection, frozen=True):
    """``host`` may be a name of ``~/.ssh/config``. It has no default, because any address could belong to a stranger.
    ``directory`` is where commands run, by default the user's home.
    """

    host: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    user: Annotated[str, msgspec.Meta(min_length=1)] = "jexida"
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    directory: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class ModelChoice(ConfigSection, frozen=True):
    """``port`` is where Ollama's server listens on the host's loopback."""

    name: Annotated[str, msgspec.Meta(min_length=1)] = "phi3"
    through: Through = "auto"
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 11434


class RoutineEntry(ConfigSection, frozen=True):
    """``variables`` are those of ``cmd``, as ``ShellTemplate`` takes them."""

    cmd: Annotated[str, msgspec.Meta(min_length=1)]
    description: str = ""
    variables: list[str] = []

    def __post_init__(self) -> None:
        """Check that the routine can run. Raises ``ValueError``."""
        self.template()

    def template(self) -> ShellTemplate:
        from newel.text.shell_template import ShellTemplate

        return ShellTemplate(self.cmd, self.variables)


class HistorySettings(ConfigSection, frozen=True):
    """``turns`` is the maximal number of turns that the model sees."""

    turns: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 10


class RemoteSettings(ConfigSection, frozen=True):
    """The content of the file."""

    connection: ConnectionSettings = ConnectionSettings()
    model: ModelChoice = ModelChoice()
    routines: dict[str, RoutineEntry] = {}
    history: HistorySettings = HistorySettings()


class LoadedConfig(msgspec.Struct, frozen=True):
    """``warnings`` name the file and the line."""

    settings: RemoteSettings
    warnings: list[str]


def load_remote(path: Path, defaults: RemoteSettings | None = None) -> LoadedConfig:
    """Load the settings of a file, with ``defaults`` for missing and invalid values. Never raises."""
    import tomllib

    defaults = defaults or RemoteSettings()
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return LoadedConfig(defaults, [])
    except OSError as error:
        return _refused(defaults, f"{path} cannot be read: {error.strerror}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return _refused(defaults, f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text")
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.fullmatch(
            r"(?s)(?P<what>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)", str(error)
        )
        line = found["line"] if found and found["line"] else str(text.count("\n") + 1)
        return _refused(defaults, f"{path}, line {line}: {found['what'] if found else error}")
    reader = _Reader(path, text)
    return LoadedConfig(reader.section(defaults, raw, ()), reader.warnings)


def _refused(defaults: RemoteSettings, what: str) -> LoadedConfig:
    return LoadedConfig(defaults, [f"{what}. The defaults are used."])


S = TypeVar("S", bound=ConfigSection)


class _Reader:
    """Takes the valid values, and warns about all others."""

    def __init__(self, path: Path, text: str) -> None:
        self.warnings: list[str] = []
        self._path = path
        self._lines = text.split("\n")

    def section(self, defaults: S, raw: dict[str, Any], at: tuple[str, ...]) -> S:
        kinds = get_type_hints(type(defaults), include_extras=True)
        taken: dict[str, Any] = {}
        for name, value in raw.items():
            here = (*at, name)
            if name not in kinds:
                self._warn(here, f"unknown setting; valid settings are {', '.join(kinds)}", "It is ignored.")
            elif not isinstance(before := getattr(defaults, name), ConfigSection | dict):
                self._take(taken, name, value, kinds[name], here)
            elif not isinstance(value, dict):
                self._warn(here, "it must be a table", "The defaults are used.")
            elif isinstance(before, ConfigSection):
                taken[name] = self.section(before, cast("dict[str, Any]", value), here)
            else:
                taken[name] = self._entries(cast("dict[str, Any]", value), kinds[name], here)
        return msgspec.structs.replace(defaults, **taken)

    def _entries(self, raw: dict[str, Any], kind: types.GenericAlias, at: tuple[str, ...]) -> dict[str, Any]:
        taken: dict[str, Any] = {}
        for name, value in raw.items():
            self._take(taken, name, value, kind.__args__[1], (*at, name))
        return taken

    def _take(self, taken: dict[str, Any], name: str, value: object, kind: Any, at: tuple[str, ...]) -> None:
        try:
            taken[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            what = re.sub(r" - at `\$(.*)`", r" (\1)", str(error)).replace(" (.", " (")
            instead = "It is ignored." if "routines" in at else "The default is used."
            self._warn(at, what[:1].lower() + what[1:], instead)

    def _warn(self, at: tuple[str, ...], what: str, instead: str) -> None:
        name = ".".join(at)
        self.warnings.append(f"{self._path}, line {self._line(at)}: {name}: {what}. {instead}")

    def _line(self, at: tuple[str, ...]) -> int:
        """The line of a setting, or else of its table, or else 1."""
        table: tuple[str, ...] = ()
        best, found = 0, 1
        for number, line in enumerate(self._lines, 1):
            if header := re.match(r"\s*\[+([^\]]*)\]", line):
                table = _keys(header[1])
                here = table
            elif (key := re.match(r"\s*([^=#]+?)\s*=", line)) is not None:
                here = (*table, *_keys(key[1]))
            else:
                continue
            if len(here) > best and here == at[: len(here)]:
                best, found = len(here), number
        return found


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
