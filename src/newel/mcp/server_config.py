"""Configuration of MCP servers: the user's own, and those of the project.

    <home>/mcp_config.json                                      the user's: they start
    <cwd>/mcp_config.json, .mcp.json, .vscode/mcp.json          the project's: each requires trust

An unreadable file, and an invalid server in a file, is reported to the user and does not affect the others.
``${VAR}`` is replaced when a server starts, not earlier: until the user trusts a project's server, its command
contains nothing of the environment.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import field

from newel.agent.errors import ConfigError
from newel.mcp import FILE, config_files
from newel.storage.files import read_regular
from newel.text.json import decode_json, describe_syntax_error
from newel.text.sanitize import HIDDEN, redact_url
from newel.text.type_errors import describe_type_error
from newel.workspace.process.environment import is_secret

MAX_SERVERS: Final = 100
MAX_NAME: Final = 64
MAX_STARTUP_S: Final = 600

Level = Literal["user", "project"]

_VARIABLE = r"\$\{(?:env:)?([^}:]+|input:[^}]*)(?::-([^}]*))?\}"
_URL = r"(?s)(--?[A-Za-z][\w-]*=)?([A-Za-z][A-Za-z0-9+.-]*://.*)"
_OPTION = r"(?s)--?([A-Za-z][\w-]*)(?:=(.*))?"
WORKSPACE: Final = "workspaceFolder"
"""The variable that stands for the working folder."""

RELATIVE_ARGUMENT: Final = (
    "Its argument `{path}` is relative to its working folder, which is your home folder. Write `${{workspaceFolder}}` for the project, or set "
    '`"cwd": "${{workspaceFolder}}"`.'
)


class _ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A server's entry in a file; keys of other programs are ignored."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str | int | float | bool] = {}
    cwd: str | None = None
    type: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False
    timeout: float = 120.0
    startup_timeout: float = 30.0
    trust_read_only: bool = False
    sandbox: bool | None = None


class ServerConfig(_ServerEntry, frozen=True, kw_only=True):
    """A valid entry, with a ``command`` or a ``url``. ``timeout`` is in seconds, for a call that reports no progress;
    ``startup_timeout``, in seconds too, for its start.
    ``trust_read_only``: tools that the server declares read-only run without approval; only the user's own file can set it.
    ``sandbox``: whether its process runs in the sandbox of commands, if they have one; by default a project's does.
    ``target`` is for display.
    """

    name: str
    origin: Path
    level: Level
    env: dict[str, str] = {}

    @property
    def target(self) -> str:
        """The command line or the URL, not expanded. In the user's own servers, secrets are masked; nothing is
        hidden in a project's, because the user decides about it.
        """
        if self.command is not None:
            args = self.args if self.level == "project" else _mask_args(self.args)
            return shlex.join([self.command, *args])
        url = self.url or ""
        return url if self.level == "project" else redact_url(url)

    @property
    def is_confined(self) -> bool:
        """Whether it belongs into the sandbox. A project's does: its scripts are files that an agent may change."""
        return self.level == "project" if self.sandbox is None else self.sandbox

    @property
    def key(self) -> str:
        """Identifies the server in the files of the user's decisions."""
        return server_key(self.origin, self.name)

    @property
    def variables(self) -> list[str]:
        """The names of the variables that it gets in addition to those of every server: those that ``env`` sets, and
        those of Newel's environment that any part of its configuration refers to.
        """
        texts = [self.command, *self.args, self.cwd, self.url, *self.env.values(), *self.headers.values()]
        names = {names[1] for text in texts if text for names in re.finditer(_VARIABLE, text)}
        return sorted({*self.env, *names} - {WORKSPACE})

    @property
    def settings(self) -> list[str]:
        """The values of ``env`` and the headers, as in the file, with secrets masked."""
        return [
            *(f"{name} = {_masked_value(name, value)}" for name, value in self.env.items()),
            *(f"header {name}" for name in self.headers),
        ]

    def folder(self, root: Path) -> str:
        """Its working folder; empty for a server at a URL. A server of the user that is not confined starts in the project only if it is
        told to: Python, npx and others take modules and settings from there, which would choose what runs.
        """
        if self.command is None:
            return ""
        if self._starts_at_home:
            return os.path.expanduser("~")  # noqa: PTH111 — an unknown home stays as it is
        return str(root / (self.cwd or "").replace(f"${{{WORKSPACE}}}", str(root)))

    def check_arguments(self) -> None:
        """Raises ``ConfigError`` for a relative path in the arguments of a server that starts in the home folder: it was meant for the
        project, and would open everything of the user's instead.
        """
        relative = next((word for word in self.args if re.match(r"\.\.?(/|$)", word)), None)
        if relative is not None and self._starts_at_home:
            raise ConfigError(RELATIVE_ARGUMENT.format(path=relative))

    @property
    def _starts_at_home(self) -> bool:
        return self.cwd is None and self.level == "user" and not self.is_confined


def server_key(origin: Path, name: str) -> str:
    return f"{origin}#{name}"


class _ConfigFile(msgspec.Struct):
    mcp_servers: dict[str, msgspec.Raw] | None = field(default=None, name="mcpServers")
    servers: dict[str, msgspec.Raw] | None = None
    inputs: list[Any] = []


def load_servers(*, home: Path, cwd: Path) -> tuple[list[ServerConfig], list[str]]:
    """The servers in the order of the files, and error messages. Never raises.

    The first server of a name counts: the user's own before a project's, an earlier file of the project before a
    later one. So no file of a project can replace a server that the user knows.
    """
    servers: dict[str, ServerConfig] = {}
    problems: list[str] = []
    for path in config_files(home=home, cwd=cwd):
        for server in _read(path, "user" if path == home / FILE else "project", problems):
            other = servers.setdefault(server.name, server)
            if other is not server and not _same(other, server):
                problems.append(
                    f"{path}: a server named '{server.name}' is in {other.origin} too, which takes precedence. "
                    "Rename this one."
                )
    return list(servers.values()), problems


def expand(server: ServerConfig, environ: Mapping[str, str], folder: Path) -> ServerConfig:
    """The server with its variables replaced: ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}`` and
    ``${workspaceFolder}``. Raises ``ConfigError`` for a variable that is not set.
    """
    values = {**environ, WORKSPACE: str(folder)}

    def expanded(text: str) -> str:
        return re.sub(_VARIABLE, lambda match: _value(match, values, server), text)

    return msgspec.structs.replace(
        server,
        command=None if server.command is None else expanded(server.command),
        args=tuple(expanded(argument) for argument in server.args),
        env={name: expanded(value) for name, value in server.env.items()},
        cwd=None if server.cwd is None else expanded(server.cwd),
        url=None if server.url is None else expanded(server.url),
        headers={name: _header(name, expanded(value), server) for name, value in server.headers.items()},
    )


def _header(name: str, value: str, server: ServerConfig) -> str:
    """A header's value. An invalid one is refused here without showing it, because it may be a secret."""
    value = value.strip()
    if not value.isascii() or not value.isprintable():
        raise ConfigError(
            f"The header {name} of '{server.name}' contains a character that HTTP headers cannot carry."
        )
    return value


def _value(match: re.Match[str], values: Mapping[str, str], server: ServerConfig) -> str:
    name, default = match[1], match[2]
    if name.startswith("input:"):
        raise ConfigError(
            f"{server.origin} asks for ${{{name}}}, but Newel does not support inputs. Use a variable: ${{NAME}}."
        )
    value = values.get(name) or default  # as in a shell, the default also replaces an empty value
    if value is None:
        if name in values:
            return ""
        raise ConfigError(f"The variable {name} is not set ({server.origin} uses it for '{server.name}').")
    return value


# -- reading ----------------------------------------------------------------------------------------


def parse_entry(name: str, raw: bytes, origin: Path, level: Level) -> ServerConfig:
    """Parse the JSON of a server's entry. Raises ``ConfigError``."""
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise ConfigError(f"{origin}: a server's name has 1 to {MAX_NAME} visible characters, not {name!r}.")
    where = f"{origin}: '{name}'"
    try:
        entry = decode_json(raw, _ServerEntry)
    except msgspec.MsgspecError as error:
        what, _, key = describe_type_error(str(error)).removesuffix("`").partition(" - at `$")
        at = f": `{key[1:]}`" if key else ""
        raise ConfigError(f"{where}{at}: {what[:1].lower()}{what[1:]}.") from None
    if (entry.command is None) == (entry.url is None):
        keys = ", ".join(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
        has = ", and not both" if entry.url is not None else f"; it has only {keys[:80]}" if keys else ""
        raise ConfigError(f"{where} needs a `command` or a `url`{has}.")
    if entry.type == "sse":
        raise ConfigError(
            f"{where} has the type sse, which MCP has deprecated. Use the server's HTTP address."
        )
    if entry.url is not None and not re.match(r"https?://[^/]|\$\{", entry.url):
        raise ConfigError(f"{where}: a `url` begins with http:// or https://.")
    if not 0 < entry.timeout <= 86_400:
        raise ConfigError(f"{where}: `timeout` is a number of seconds, at most a day.")
    if not 0 < entry.startup_timeout <= MAX_STARTUP_S:
        raise ConfigError(f"{where}: `startup_timeout` is a number of seconds, at most {MAX_STARTUP_S}.")
    texts = [entry.command, entry.cwd, entry.url, *entry.args, *entry.env, *entry.headers.values()]
    if any("\0" in text for text in texts if text):
        raise ConfigError(f"{where} holds a NUL character.")
    env = {
        variable: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for variable, value in entry.env.items()
    }
    trust_read_only = entry.trust_read_only and level == "user"  # no project can grant this to its own server
    fields: dict[str, Any] = msgspec.structs.asdict(entry)
    sandbox = entry.sandbox if level == "user" else None  # nor let it out
    fields |= {"type": None, "env": env, "trust_read_only": trust_read_only, "sandbox": sandbox}
    return ServerConfig(name=name, origin=origin, level=level, **fields)


def _read(path: Path, level: Level, problems: list[str]) -> list[ServerConfig]:
    try:
        data = read_regular(path).removeprefix(b"\xef\xbb\xbf")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.append(f"Cannot read {path}: {error.strerror or error}.")
        return []
    try:
        file = decode_json(data, _ConfigFile)
    except msgspec.ValidationError as error:
        problems.append(f"{path} is not JSON of servers: {describe_type_error(str(error))}.")
        return []
    except msgspec.DecodeError as error:
        problems.append(f"{describe_syntax_error(path, data, error)}. None of its servers starts.")
        return []
    if file.inputs:
        problems.append(f"{path}: `inputs` are not supported. Use variables: ${{NAME}}.")
    entries = file.servers if path.parent.name == ".vscode" else file.mcp_servers
    if entries is None:
        key = "servers" if path.parent.name == ".vscode" else "mcpServers"
        problems.append(f"{path} has no `{key}`.")
        return []
    if len(entries) > MAX_SERVERS:
        problems.append(f"{path} names {len(entries)} servers; only the first {MAX_SERVERS} are used.")
    servers: list[ServerConfig] = []
    for name, raw in list(entries.items())[:MAX_SERVERS]:
        try:
            servers.append(parse_entry(name, bytes(raw), path, level))
        except ConfigError as error:
            problems.append(str(error))
    return servers


def _same(config: ServerConfig, other: ServerConfig) -> bool:
    """Whether two entries are the same server."""
    return config.level == other.level and msgspec.structs.replace(config, origin=other.origin) == other


# -- showing ----------------------------------------------------------------------------------------


def _mask_args(args: tuple[str, ...]) -> list[str]:
    masked: list[str] = []
    hide_next = False
    for arg in args:
        option = re.fullmatch(_OPTION, arg)
        secret = option is not None and _is_secret_option(option[1])
        if option is not None and secret and option[2] is not None:
            masked.append(arg[: option.start(2)] + HIDDEN)
        else:
            masked.append(HIDDEN if hide_next and not arg.startswith("-") else _masked_url(arg))
        hide_next = option is not None and secret and option[2] is None
    return masked


def _masked_value(name: str, value: str) -> str:
    variable = re.fullmatch(_VARIABLE, value)
    plain = variable is not None and variable[2] is None
    return HIDDEN if is_secret(name) and not plain else _masked_url(value)


def _masked_url(text: str) -> str:
    """A URL, or an option with one, with its secrets masked; other texts unchanged."""
    match = re.fullmatch(_URL, text)
    return (match[1] or "") + redact_url(match[2]) if match else text


def _is_secret_option(option: str) -> bool:
    name = option.replace("-", "_")
    return is_secret(name) or is_secret(f"X_{name}")
