"""The settings of the remote agent: ``~/.jexida/config.toml``, and the same under ``[remote]`` in Newel's own file.

Newel's file is refused as a whole where it is wrong. This one is not: what is wrong in it is told with its line, and the
default stands in for that value alone, so that one slip does not lead to another host than the one that was meant.
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
"""How the model is reached: Ollama's API on the host through the connection, and where that does not answer ``ollama run``
there; the latter alone; or an API that this machine reaches by itself.
"""


class ConfigSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ConnectionSettings(ConfigSection, frozen=True):
    """``host`` may be a name of ``~/.ssh/config``. It has no default: an address in whatever network this machine is in would
    be a stranger's. ``directory`` is where commands run, the user's home if it is not said.
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
        """A routine that cannot be run is no setting. Raises ``ValueError``."""
        self.template()

    def template(self) -> ShellTemplate:
        from newel.text.shell_template import ShellTemplate

        return ShellTemplate(self.cmd, self.variables)


class HistorySettings(ConfigSection, frozen=True):
    """``turns`` is how many of a conversation's turns the model is shown at most."""

    turns: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 10


class RemoteSettings(ConfigSection, frozen=True):
    """What stands in the file."""

    connection: ConnectionSettings = ConnectionSettings()
    model: ModelChoice = ModelChoice()
    routines: dict[str, RoutineEntry] = {}
    history: HistorySettings = HistorySettings()


class LoadedConfig(msgspec.Struct, frozen=True):
    """``warnings`` are words for the user, each with the file and the line."""

    settings: RemoteSettings
    warnings: list[str]


def load_remote(path: Path, defaults: RemoteSettings | None = None) -> LoadedConfig:
    """The settings in a file; ``defaults`` stand in for what it does not say, or says wrongly. Never raises."""
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
        return _refused(defaults, f"{path}, line {line}: byte 0x{data[error.start]:02x} is no UTF-8 text")
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
    """Takes each value that is right, and says of each other one what is wrong with it."""

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
                self._warn(here, f"there is no such setting; there are {', '.join(kinds)}", "It is ignored.")
            elif not isinstance(before := getattr(defaults, name), ConfigSection | dict):
                self._take(taken, name, value, kinds[name], here)
            elif not isinstance(value, dict):
                self._warn(here, "it has to be a table", "The defaults are used.")
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
            instead = "It is left out." if "routines" in at else "The default is used."
            self._warn(at, what[:1].lower() + what[1:], instead)

    def _warn(self, at: tuple[str, ...], what: str, instead: str) -> None:
        name = ".".join(at)
        self.warnings.append(f"{self._path}, line {self._line(at)}: {name}: {what}. {instead}")

    def _line(self, at: tuple[str, ...]) -> int:
        """The line where a setting stands, or the table that it stands in; 1 if it was not found."""
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
