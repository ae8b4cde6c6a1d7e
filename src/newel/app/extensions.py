"""The extensions of a process, and how they come into its agents. They are loaded once, when the first agent is built."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from newel.config.extension_files import extension_files, installed_extensions

if TYPE_CHECKING:
    from newel.config.endpoint import EndpointSettings
    from newel.config.settings import Settings
    from newel.context.prompt_templates import Template
    from newel.extensions.loader import LoadedExtensions
    from newel.providers.model_server import ModelServer

LEFT_OUT: Final = "The extension {name} is left out. {problem}"
UNKNOWN: Final = "No extension adds a provider named {name}. {offer}`newel extensions list` shows them."


def extensions_of(settings: Settings) -> LoadedExtensions | None:
    """The extensions in use; None if there are none. Those that are left out are named on standard error, once."""
    return None if settings.extensions.disabled else _loaded(settings.home)


@cache
def _loaded(home: Path) -> LoadedExtensions | None:
    loaded = find_extensions(home)
    for extension in loaded.extensions if loaded else ():
        if extension.problem is not None:
            _tell(LEFT_OUT.format(name=extension.name, problem=extension.problem))
    return loaded


def find_extensions(home: Path) -> LoadedExtensions | None:
    """Load them anew, and name none that is left out."""
    files, points = extension_files(home), installed_extensions()
    if not (files or points):
        return None
    from newel.extensions.loader import load_extensions
    from newel.tools.selection import OWN_NAMES

    return load_extensions(files, points, own_tools=OWN_NAMES)


def _tell(message: str) -> None:
    from newel.text.sanitize import escape_line

    print(f"newel: {escape_line(message, 2_000)}", file=sys.stderr, flush=True)  # noqa: T201 — for the user


def with_commands(templates: Mapping[str, Template], loaded: LoadedExtensions | None) -> dict[str, Template]:
    """The prompt templates, and the commands whose names none of them has."""
    commands = loaded.commands if loaded else {}
    if not commands:
        return dict(templates)
    from newel.context.prompt_templates import WrittenPrompt
    from newel.extensions.command import prompt_writer

    written = {
        command.name: WrittenPrompt(
            name=command.name,
            description=command.description,
            body="",
            path=command.file,
            hint=command.hint,
            write=prompt_writer(command),
        )
        for command in commands.values()
    }
    return dict(sorted({**written, **templates}.items()))


def tool_names(settings: Settings) -> Sequence[str]:
    """The names of the tools that extensions add."""
    loaded = extensions_of(settings)
    return [tool.spec.name for tool, _ in loaded.tools] if loaded else []


def open_server(settings: Settings, endpoint: EndpointSettings) -> ModelServer:
    """The client of a server: of the API that its address tells, or of an extension. Raises ``ConfigError``."""
    from newel.providers.http.urls import extension_provider
    from newel.providers.model_server import connect

    name = extension_provider(endpoint.base_url)
    if name is None:
        return connect(endpoint.base_url, endpoint.api_key, endpoint.api)
    from newel.agent.errors import ConfigError
    from newel.extensions.extension_server import ExtensionServer
    from newel.text.format import join_names

    loaded = extensions_of(settings)
    providers = loaded.providers if loaded else {}
    if name not in providers:
        offer = f"Extensions add: {join_names([*providers])}. " if providers else ""
        raise ConfigError(UNKNOWN.format(name=name, offer=offer))
    return ExtensionServer(providers[name], endpoint.api_key)
