"""The settings of the remote agent: ``~/.jexida/config.toml``, or ``[remote]`` in Newel's own file.

Newel's file is rejected as a whole if any value is invalid. In this one, only the invalid value is replaced by its default, with
a warning that names the line, so that one mistake does not lead to another host.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
    from newel.config.toml_file import read_toml

    defaults = defaults or RemoteSettings()
    try:
        loaded = read_toml(path, read_regular(path), defaults)
    except FileNotFoundError:
        return LoadedConfig(defaults, [])
    except OSError as error:
        return LoadedConfig(defaults, [f"{path} cannot be read: {error.strerror}. The defaults are used."])
    warnings = [f"{problem.message}. {problem.consequence}" for problem in loaded.problems]
    return LoadedConfig(loaded.settings, warnings)
