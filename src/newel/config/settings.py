"""Settings: plain values, each with its origin.

Precedence, highest first:

1. the command line
2. the environment: ``LLM_*``, then ``OPENAI_*``, ``ANTHROPIC_*``, ``GEMINI_*``. A vendor's key alone chooses no server if the user's file
   names one
3. ``.env`` in the working folder: the same names
4. ``config.toml`` in Newel's home (``$NEWEL_HOME``, else ``~/.newel``)
5. the keys that ``newel keys`` has stored
6. the defaults below

**Keys belong to servers.** A key is sent only to the server that is set in the same place, to the vendor whose variable it is, or
to any server if it is given on the command line (``newel.config.endpoint``). So the ``.env`` of an unknown project can name another server,
but that server never gets the user's key.

**Projects choose a server only with trust.** The ``.env`` of a folder is used once the user trusts the folder with its address
(``newel.config.trust``). Until then its address, key and model are ignored; ``Settings.ignored`` names them. Even then, unless
the server is on this machine, ``approve`` is ``ask`` by default.

**Work on a host needs approval.** With ``--host``, ``approve`` is ``ask`` by default, because hosts are often shared. The model
is, in this order, the command line's, that of ``[remote.model]``, that of the configured server, or one of the host.

**Review limits are the user's.** ``ReviewSettings`` come from the environment (``NEWEL_REVIEW_MAX_SESSIONS`` is ``max_sessions``
of ``[review]``) and the user's ``config.toml``, never from a project's ``.env``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from newel.agent.errors import ConfigError, UsageError
from newel.agent.ports import Limits, ThinkingLevel, ToolCallMode
from newel.config.endpoint import (
    EndpointSettings,
    Place,
    checked_replicas,
    choose_endpoint,
    model_places,
    read_dotenv,
    read_variables,
    with_model_path,
    yield_to_file,
)
from newel.config.extension_files import ExtensionSettings
from newel.config.fleet import EngineSettings, FleetSettings
from newel.config.hook_settings import HookSettings
from newel.config.hosts import HostModel, choose_model, host_places
from newel.config.jexida import RemoteSettings, Through
from newel.config.keymap import KeySettings
from newel.config.keys import KeyStore
from newel.config.otel import OtelSettings
from newel.config.review_settings import ReviewFile, ReviewSettings, read_review_limits
from newel.config.secret_files import with_secret_files
from newel.config.terminal import TerminalSettings
from newel.config.trust import IgnoredServer, named_server, trusted_places
from newel.config.variables import read_modes
from newel.permissions.rules import RuleSet, RuleTexts
from newel.providers.families import Api
from newel.providers.http.urls import is_loopback
from newel.providers.pricing import Rates
from newel.providers.retry import DEFAULT_LIMITS, RetryLimits
from newel.providers.routing import DEFAULT_ROUTING, AgentMode, RoutingLimits
from newel.storage.files import read_regular
from newel.workspace.sandbox.policy import SandboxMode

Approve = Literal["auto", "ask", "review", "plan", "read-only"]
RendererName = Literal["rich", "console", "json"]
ExtraTool = Literal["todo", "task", "bash_output", "web_fetch"]

ONLY_DOTENV = "a server that only .env names"
"""The origin of ``approve`` if such a server sets it to ``ask``."""
ON_A_HOST = "work on a host"
"""The origin of ``approve`` if work on a host sets it to ``ask``."""


Positive = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[float, msgspec.Meta(gt=0)]
Dollars = Annotated[float, msgspec.Meta(ge=0)]
Count0 = Annotated[int, msgspec.Meta(ge=0)]
"""A count or milliseconds; 0 is no limit."""


class ModelFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a model that its server does not report: sizes in tokens, prices in US dollars per million tokens.

    Or else the name is short for the model ``alias_of``, which has the facts.
    """

    alias_of: str | None = None
    context_window: Positive | None = None
    max_output: Positive | None = None
    input_price: Dollars | None = None
    output_price: Dollars | None = None
    cache_read_price: Dollars | None = None
    cache_write_price: Dollars | None = None
    tool_calls: ToolCallMode | None = None

    def __post_init__(self) -> None:
        if self.alias_of is not None and any(msgspec.structs.astuple(self)[1:]):
            raise ValueError("alias_of must be alone; set the facts of the model that it names")
        if (self.input_price is None) != (self.output_price is None):
            raise ValueError("input_price and output_price must be set together")
        if self.input_price is None and (self.cache_read_price, self.cache_write_price) != (None, None):
            raise ValueError("cache_read_price and cache_write_price require input_price and output_price")

    @property
    def rates(self) -> Rates | None:
        if self.input_price is None or self.output_price is None:
            return None
        return Rates(self.input_price, self.output_price, self.cache_read_price, self.cache_write_price)


class UsageCaps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """``newel.agent.ports.Limits`` with bounds for the user's values, and the characters of one tool result."""

    max_turns: Positive | None = None
    max_tool_calls: Positive | None = None
    max_tokens: Positive | None = None
    max_cost: Amount | None = None
    max_result: Annotated[int, msgspec.Meta(ge=1_000, le=10_000_000)] = 30_000


class RetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Retries of requests to an overloaded model server; None is the default."""

    attempts: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    max_wait: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None

    def limits(self, default: RetryLimits) -> RetryLimits:
        return RetryLimits(
            attempts=self.attempts or default.attempts,
            max_wait=default.max_wait if self.max_wait is None else self.max_wait,
            connections=default.connections,
        )


class LocalModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[local]``: the model on this machine. Without an address, it is that of the server that is found here."""

    base_url: str | None = None
    api_key: str | None = None
    model: str | None = None


class HybridSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[hybrid]``: when a run leaves the local model; see ``newel.providers.routing.RoutingLimits``. 0 is no limit."""

    max_local_attempts: Positive = DEFAULT_ROUTING.max_local_attempts
    max_tool_calls: Count0 = DEFAULT_ROUTING.max_tool_calls or 0
    remote_on_schema_fail: bool = DEFAULT_ROUTING.remote_on_schema_fail
    remote_on_context_overflow: bool = DEFAULT_ROUTING.remote_on_context_overflow
    remote_on_timeout_ms: Count0 = DEFAULT_ROUTING.remote_on_timeout_ms or 0

    def limits(self) -> RoutingLimits:
        return RoutingLimits(
            max_local_attempts=self.max_local_attempts,
            max_tool_calls=self.max_tool_calls or None,
            remote_on_schema_fail=self.remote_on_schema_fail,
            remote_on_context_overflow=self.remote_on_context_overflow,
            remote_on_timeout_ms=self.remote_on_timeout_ms or None,
        )


class SandboxSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[sandbox]``. ``writable`` and ``readable`` are more paths for commands, ``domains`` the servers that they may reach.
    ``max_processes`` and ``max_memory`` (in GiB) are limits of a sandbox as a whole where it has a control group; else of the user's
    processes in it, and of each process. ``max_file`` is GiB of each file.

    ``mode`` is None where nobody has chosen one: then ``newel.app.sandbox_choice`` decides by the machine.
    """

    mode: SandboxMode | None = None
    writable: list[str] = []
    readable: list[str] = []
    domains: list[str] = []
    max_processes: Positive | None = None
    max_memory: Amount | None = None
    max_file: Amount | None = None


class RetentionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[retention]``: how long changes of agents are kept (None: the default of ``newel.review.store.retention``), and sessions
    after their last message (None: for ever).
    """

    days: Count0 | None = None
    runs: Count0 | None = None
    gigabytes: Amount | None = None
    session_days: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] | None = None


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``config.toml``."""

    base_url: str | None = None
    replicas: list[str] = []
    """Other servers with the same models, and for the same key, as ``base_url`` in this file."""
    api_key: str | None = None
    api: Api | None = None
    model: str | None = None
    small_model: str | None = None
    thinking: ThinkingLevel | None = None
    approve: Approve | None = None
    renderer: RendererName | None = None
    bash_timeout: Amount | None = None
    limits: UsageCaps = UsageCaps()
    retry: RetrySettings = RetrySettings()
    models: dict[str, ModelFacts] = {}
    review: ReviewFile = ReviewFile()
    remote: RemoteSettings = RemoteSettings()
    permissions: RuleTexts = RuleTexts()
    retention: RetentionSettings = RetentionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    agent_mode: AgentMode | None = None
    local: LocalModel = LocalModel()
    hybrid: HybridSettings = HybridSettings()
    terminal: TerminalSettings = TerminalSettings()
    extra_tools: list[ExtraTool] | None = None
    otel: OtelSettings = OtelSettings()
    hooks: HookSettings = HookSettings()
    extensions: ExtensionSettings = ExtensionSettings()
    engine: EngineSettings = EngineSettings()
    fleet: FleetSettings = FleetSettings()


class Flags(msgspec.Struct, frozen=True):
    """Settings on the command line; None if not given."""

    base_url: str | None = None
    api_key: str | None = None
    api: Api | None = None
    model: str | None = None
    thinking: ThinkingLevel | None = None
    approve: Approve | None = None
    sandbox: SandboxMode | None = None
    renderer: RendererName | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    host: str | None = None
    through: Through | None = None
    agent_mode: AgentMode | None = None
    tool_calls: ToolCallMode | None = None
    extensions: bool | None = None


class Settings(msgspec.Struct, frozen=True):
    """``record`` tells whether changes of files are recorded. ``max_result`` is the number of characters that a model gets of a
    tool's result, ``rules`` are those of ``[permissions]``. ``host`` is the SSH address where agents work
    instead of ``cwd``; ``agent_mode`` chooses between ``endpoint`` and the ``local`` model, by ``routing``; ``tool_calls`` is how every
    model calls tools, None for what suits it; ``host_model`` is the model of that host, if they use one. ``remote`` is ``[remote]``, for
    the host of ``jexida``. ``ignored`` is the untrusted server of the project's ``.env``. ``sandbox_problem`` says why commands run in no
    sandbox, or a partial one, if nobody has chosen that. ``extra_tools`` are offered besides the usual ones; None leaves the choice to the
    front end. ``origins`` names the place of each value that is not a default.
    """

    home: Path
    cwd: Path
    endpoint: EndpointSettings | None
    model: str | None
    small_model: str | None
    thinking: ThinkingLevel
    approve: Approve
    renderer: RendererName | None
    bash_timeout: float
    limits: Limits
    models: dict[str, ModelFacts]
    origins: dict[str, str]
    record: bool = True
    max_result: int = 30_000
    retry: RetryLimits = DEFAULT_LIMITS
    review: ReviewSettings = ReviewSettings()
    host: str | None = None
    host_model: HostModel | None = None
    remote: RemoteSettings = RemoteSettings()
    ignored: IgnoredServer | None = None
    rules: RuleSet = RuleSet()
    sandbox: SandboxSettings = SandboxSettings()
    sandbox_problem: str = ""
    retention: RetentionSettings = RetentionSettings()
    agent_mode: AgentMode = "remote"
    local: LocalModel = LocalModel()
    routing: RoutingLimits = DEFAULT_ROUTING
    terminal: TerminalSettings = TerminalSettings()
    tool_calls: ToolCallMode | None = None
    extra_tools: Sequence[ExtraTool] | None = None
    otel: OtelSettings = OtelSettings()
    hooks: HookSettings = HookSettings()
    extensions: ExtensionSettings = ExtensionSettings()
    replicas: Sequence[str] = ()
    """Other servers that may be asked in place of the one of ``endpoint``."""
    engine: EngineSettings = EngineSettings()
    fleet: FleetSettings = FleetSettings()


def _first(name: str, places: Iterable[Place], origins: dict[str, str]) -> Any:
    """The value of a setting in the strongest place that has one, which is noted in ``origins``; None if there is none."""
    for place in places:
        if place.values.get(name) not in (None, ""):
            origins[name] = place.origin
            return place.values[name]
    return None


def load_settings(
    flags: Flags, *, cwd: Path, environ: Mapping[str, str], retry: RetryLimits = DEFAULT_LIMITS
) -> Settings:
    """Load the settings; ``retry`` is the default of ``[retry]``. Raises ``ConfigError``, which names file and line."""
    environ = with_secret_files(environ)
    home = newel_home(environ)
    path = home / "config.toml"
    file, remote_written = _read_toml(path)
    origins: dict[str, str] = {}
    of_user = Place(str(path), msgspec.structs.asdict(file) | {"sandbox": file.sandbox.mode})
    stronger = yield_to_file(_strongest_places(flags, environ), of_user)
    of_project, ignored = trusted_places(home, cwd, _of_project(cwd), stronger)
    places = [*stronger, *of_project, of_user, *KeyStore(home).places()]
    endpoint = _endpoint(places, home)

    def first(name: str, candidates: Iterable[Place] = places) -> Any:
        return _first(name, candidates, origins)

    host, host_model = _host(flags, home, file, remote_written, has_endpoint=endpoint is not None)
    if host is not None:
        places.insert(1, Place(ON_A_HOST, {"approve": "ask"}))
    if _is_strange(endpoint, cwd) and host_model is None:
        places.insert(1, Place(ONLY_DOTENV, {"approve": "ask"}))
    return Settings(
        home=home,
        cwd=cwd,
        endpoint=endpoint,
        model=first("model", model_places(places, endpoint)),
        small_model=first("small_model", model_places(places, endpoint)),
        thinking=first("thinking") or "off",
        approve=first("approve") or "auto",
        renderer=first("renderer"),
        bash_timeout=first("bash_timeout") or 30.0,
        limits=_limits(flags, file.limits),
        models=file.models,
        origins=origins,
        record=file.review.record,
        max_result=file.limits.max_result,
        retry=file.retry.limits(retry),
        review=read_review_limits(environ, file.review, str(path), origins),
        host=host,
        host_model=host_model,
        remote=file.remote,
        ignored=ignored,
        rules=_rules(path, file.permissions),
        retention=file.retention,
        sandbox=msgspec.structs.replace(file.sandbox, mode=first("sandbox")),
        agent_mode=first("agent_mode") or "remote",
        local=_local_model(file.local, home),
        routing=file.hybrid.limits(),
        terminal=file.terminal,
        tool_calls=flags.tool_calls,
        extra_tools=file.extra_tools,
        otel=file.otel,
        hooks=file.hooks,
        replicas=checked_replicas(file.replicas, endpoint, str(path)),
        engine=file.engine,
        fleet=file.fleet,
        extensions=file.extensions if flags.extensions is None else ExtensionSettings(not flags.extensions),
    )


def _host(
    flags: Flags, home: Path, file: ConfigFile, remote_written: Mapping[str, Any], *, has_endpoint: bool
) -> tuple[str | None, HostModel | None]:
    """The SSH address of the host, and its model if that is used."""
    if flags.host is None:
        if flags.through is not None:
            raise UsageError("--through chooses the connection to a host's model, so it requires --host.")
        return None, None
    host = host_places(home, file.remote).get(flags.host, flags.host)
    typed = (flags.through, flags.base_url, flags.model)
    return host, choose_model(typed, file.remote, remote_written, has_endpoint=has_endpoint)


def _rules(path: Path, texts: RuleTexts) -> RuleSet:
    try:
        return texts.parse(lambda: path.read_text(errors="replace"), "permissions")
    except ConfigError as error:
        raise ConfigError(f"{path}, {error}") from error


def _is_strange(endpoint: EndpointSettings | None, cwd: Path) -> bool:
    """Whether only the project's ``.env`` names the server, and it is not on this machine."""
    if endpoint is None or is_loopback(endpoint.base_url):
        return False
    return endpoint.origin.startswith(str(cwd / ".env"))


def _endpoint(places: list[Place], home: Path) -> EndpointSettings | None:
    chosen = choose_endpoint(places)
    return chosen and msgspec.structs.replace(chosen, base_url=with_model_path(chosen.base_url, home))


def _local_model(local: LocalModel, home: Path) -> LocalModel:
    return msgspec.structs.replace(local, base_url=local.base_url and with_model_path(local.base_url, home))


def _strongest_places(flags: Flags, environ: Mapping[str, str]) -> list[Place]:
    """The command line and the environment."""
    typed = Place("command line", msgspec.structs.asdict(flags))
    return [typed, *read_variables("environment", environ), Place("environment", read_modes(environ))]


def _limits(flags: Flags, caps: UsageCaps) -> Limits:
    return Limits(
        max_turns=flags.max_turns or caps.max_turns,
        max_tool_calls=caps.max_tool_calls,
        max_tokens=caps.max_tokens,
        max_cost=flags.max_cost or caps.max_cost,
    )


def load_host_places(home: Path) -> dict[str, str]:
    """The addresses of all named hosts. Raises ``ConfigError``."""
    file, _ = _read_toml(home / "config.toml")
    return host_places(home, file.remote)


def load_terminal_settings(home: Path) -> TerminalSettings:
    """``[terminal]`` alone, for commands that need no model. Raises ``ConfigError``."""
    file, _ = _read_toml(home / "config.toml")
    return file.terminal


def dotenv_server(cwd: Path) -> str | None:
    """The server that the ``.env`` of a folder names; see ``named_server``."""
    return named_server(_of_project(cwd))


def _of_project(cwd: Path) -> list[Place]:
    dotenv = cwd / ".env"
    return read_variables(str(dotenv), read_dotenv(dotenv), is_users=False)


def newel_home(environ: Mapping[str, str]) -> Path:
    """The folder of settings and sessions."""
    try:
        configured = environ.get("NEWEL_HOME")
        home = Path(configured).expanduser() if configured else Path.home() / ".newel"
    except RuntimeError as error:
        raise ConfigError("Newel's folder cannot be found. Set NEWEL_HOME to your own folder.") from error
    if not configured and not environ.get("HOME", "x"):
        raise ConfigError("HOME is empty. Set HOME or NEWEL_HOME to your own folder.")
    return home.absolute()


def _read_toml(path: Path) -> tuple[ConfigFile, dict[str, Any]]:
    """The settings of the file, and the keys that are set under ``[remote]``, to tell them from defaults."""
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return ConfigFile(), {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    file, written = parse_config(path, data)
    return file, written.get("remote", {})


def parse_config(path: Path, data: bytes) -> tuple[ConfigFile, dict[str, Any]]:
    """The settings that ``config.toml`` has with this content, and the values in it. Raises ``ConfigError``."""
    from newel.config.toml_file import read_toml

    loaded = read_toml(path, data, ConfigFile())
    for problem in loaded.problems:
        raise ConfigError(f"{problem.message}. {_CORRECT}")
    if loaded.settings.terminal.keys != KeySettings():
        _check_keys(path, data, loaded.settings.terminal.keys)
    return loaded.settings, loaded.written


_CORRECT = "Correct the file, or move it away to use the defaults."


def _check_keys(path: Path, data: bytes, keys: KeySettings) -> None:
    from newel.config.key_problems import key_problems
    from newel.text.toml import line_of_key

    for problem in key_problems(keys):
        at = ("terminal", "keys", *problem.name)
        line = line_of_key(data.decode(), at)
        raise ConfigError(f"{path}, line {line}: {'.'.join(at)}: {problem.what}. {_CORRECT}")


def mask_secret(secret: str | None) -> str:
    """Mask a secret: enough remains to recognize it, not to use it."""
    if not secret:
        return "none"
    return f"{secret[:3]}…{secret[-2:]}" if len(secret) >= 16 else "set"
