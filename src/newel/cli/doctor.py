"""``newel doctor``: the settings, their origin, and a test of them, with a remedy for each problem."""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final, get_args

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.formatting import format_number, pluralize
from newel.agent.ports import ToolCallMode
from newel.app.extensions import open_server
from newel.app.model_resolver import expanded_name, find_endpoint, find_model, tool_call_mode
from newel.app.model_trial import remedy, try_model
from newel.app.sandbox import describe_limits, paths_without_effect
from newel.app.sandbox_choice import choose_sandbox, why_partial
from newel.app.trusting import ignored_message
from newel.cli.diagnostics import BAD, GOOD, NOTE, Check, Checks
from newel.cli.options import Parser
from newel.config.endpoint import EndpointSettings
from newel.config.settings import Flags, Settings, load_settings, mask_secret
from newel.providers.families import Api
from newel.providers.http.urls import is_loopback, ollama_http_url
from newel.providers.model_server import ModelServer
from newel.providers.ollama.model_info import full_name
from newel.storage.files import read_regular
from newel.text.sanitize import redact_url
from newel.version import VERSION

PROBE_BYTES: Final = 64 * 1024
"""More than a session needs for its first message."""
LOAD: Final = "Load one; with Ollama: ollama pull NAME."


def command_doctor(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel doctor", description="Show the settings and their origin, and test them.")
    parser.add_argument("--base-url", metavar="URL", help="test this server")
    parser.add_argument("--api-key", metavar="KEY", help="use this key")
    parser.add_argument("--api", choices=get_args(Api), help="the API that the server speaks")
    parser.add_argument("-m", "--model", metavar="NAME", help="test this model")
    parser.add_argument("--tool-calls", choices=get_args(ToolCallMode), help="how the model calls tools")
    flags = Flags(**vars(parser.parse_args(arguments)))
    print(f"newel {VERSION} · Python {platform.python_version()} · {platform.system()} {platform.release()}")
    findings = Checks()
    findings.show(_findings(flags))
    return findings.close()


def _findings(flags: Flags) -> Iterator[Check]:
    """Yields checks one by one, so that a slow server does not delay those before it."""
    try:
        settings = load_settings(flags, cwd=Path.cwd(), environ=os.environ)
    except NewelError as error:
        yield Check(BAD, "settings", str(error))
        return
    yield from _settings(settings)
    yield from _home(settings.home)
    yield from _sandbox(settings)
    try:
        yield from anyio.run(_server, settings)
    except NewelError as error:
        yield Check(BAD, "server", str(error))


def _settings(settings: Settings) -> Iterator[Check]:
    endpoint = settings.endpoint
    yield from _dotenv(settings)
    if endpoint is not None:
        yield Check(NOTE, "server", f"{redact_url(endpoint.base_url)}   ({endpoint.origin})")
        yield Check(NOTE, "key", f"{mask_secret(endpoint.api_key)}{_from(endpoint.key_origin)}")
    for name in ("model", "small_model", "thinking", "approve", "renderer"):
        value = getattr(settings, name)
        if value is not None:
            origin = settings.origins.get(name, "default")
            yield Check(NOTE, name.replace("_", " "), f"{value}{_from(origin)}")
    yield Check(NOTE, "commands", f"stopped after {settings.bash_timeout:g} s")
    for name, limit in msgspec.structs.asdict(settings.limits).items():
        if limit is not None:
            yield Check(NOTE, name.replace("_", " "), format_number(limit))
    for model, facts in settings.models.items():
        sizes = f"context {facts.context_window}, output {facts.max_output}"
        yield Check(NOTE, "facts", f"{model}: {f'alias of {facts.alias_of}' if facts.alias_of else sizes}")


def _sandbox(settings: Settings) -> Iterator[Check]:
    """Whether commands run in a sandbox, and its limits."""
    try:
        chosen = choose_sandbox(settings, attended=True)
    except NewelError as error:
        yield Check(BAD, "sandbox", str(error))
        return
    if chosen.sandbox_problem:
        yield Check(BAD, "sandbox", chosen.sandbox_problem)
    else:
        mode = f"{chosen.sandbox.mode}{_from(chosen.origins.get('sandbox', 'default'))}"
        why = why_partial(chosen)
        yield Check(NOTE, "sandbox", f"{mode}{why and f': {why}'}")
    if chosen.sandbox.mode != "off" and sys.platform == "linux":
        yield Check(NOTE, "limits", describe_limits(chosen.sandbox))
    if chosen.sandbox.mode != "off" and chosen.host is None:
        for why in paths_without_effect(chosen):
            yield Check(NOTE, "sandbox", why)


def _dotenv(settings: Settings) -> Iterator[Check]:
    """Whether the server named in the project's .env may be used."""
    if settings.ignored is not None:
        yield Check(NOTE, ".env", ignored_message(settings.ignored))
    elif settings.endpoint is not None and settings.endpoint.origin.startswith(str(settings.cwd / ".env")):
        yield Check(NOTE, ".env", "names the server; you have trusted it in this folder")


def _from(origin: str | None) -> str:
    return f"   ({origin})" if origin else ""


def _home(home: Path) -> Iterator[Check]:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = home / f".doctor-{os.getpid()}"
        try:
            with probe.open("wb") as file:  # on a full disk, a file can be created and not be written
                file.write(bytes(PROBE_BYTES))
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)
        yield Check(GOOD, "home", f"{home} is writable")
    except OSError as error:
        message = (
            f"{home}: {error.strerror}.\nSet NEWEL_HOME to a writable folder, or use `newel --ephemeral`."
        )
        yield Check(BAD, "home", message)
    file = home / "config.toml"
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return
    if mode & 0o077 and "api_key" in read_regular(file).decode(errors="replace"):
        yield Check(BAD, "config.toml", f"It holds a key, and other users can read it.\nchmod 600 {file}")
    else:
        yield Check(GOOD, "config.toml", str(file))


async def _server(settings: Settings) -> list[Check]:
    endpoint = await find_endpoint(settings)
    checks: list[Check] = []
    if settings.endpoint is None:
        checks.append(Check(NOTE, "server", f"{redact_url(endpoint.base_url)}   ({endpoint.origin})"))
    async with aclosing(open_server(settings, endpoint)) as client:
        try:
            names = await client.models()
        except NewelError as error:
            return [*checks, Check(BAD, "connection", f"{error}{remedy(error)}")]
        return checks + await _answers(settings, endpoint, client, names)


async def _answers(
    settings: Settings, endpoint: EndpointSettings, client: ModelServer, names: list[str]
) -> list[Check]:
    """Checks of a server that lists its models."""
    checks = [Check(NOTE, "asked by", f"{client.way}{await _own_api(endpoint)}")]
    if not names:
        message = f"The server answers, but it has no models.\n{LOAD}"
        return [*checks, Check(BAD, "connection", message)]
    listed = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    checks.append(Check(GOOD, "connection", f"{pluralize(len(names), 'model')}: {listed}"))
    model = settings.model and expanded_name(settings.models, settings.model, names)
    if model and full_name(model) not in map(full_name, names):
        message = f"The server does not list '{model}'.\nChoose one that it lists (--model, LLM_DEFAULT_MODEL), or load it; with Ollama: ollama pull NAME."
        checks.append(Check(BAD, "model", message))
    elif not model and settings.endpoint is not None and len(names) != 1:
        checks.append(Check(BAD, "model", "No model is chosen. Set LLM_DEFAULT_MODEL, or use --model."))
    else:
        name = await find_model(settings, settings.model, endpoint, client)
        return [*checks, _tool_calls(settings, name, client), await _answer(endpoint, client, name)]
    return [*checks, Check(NOTE, "answer", "The key was not tested: there is no model to ask.")]


def _tool_calls(settings: Settings, name: str, client: ModelServer) -> Check:
    """How the model will be asked to call tools, and how to change that."""
    mode, origin = tool_call_mode(settings, name, client)
    other = "native" if mode == "schema" else "schema"
    way = "in answers held to a JSON Schema" if mode == "schema" else "by the API's own protocol"
    hint = f"; --tool-calls {other} changes it" if client.supports_schema else ""
    return Check(NOTE, "tool calls", f"{mode}: {way}   ({origin}{hint})")


async def _answer(endpoint: EndpointSettings, client: ModelServer, name: str) -> Check:
    if ollama_http_url(endpoint.base_url) and endpoint.api_key is None:
        return Check(NOTE, "answer", "Not tested: Ollama would load the model first. `newel setup` tests it.")
    tried = await try_model(endpoint, client, name)
    mark = NOTE if tried.works is None else GOOD if tried.works else BAD
    return Check(mark, "answer", tried.message)


async def _own_api(endpoint: EndpointSettings) -> str:
    """A hint for a local Ollama that is used through its OpenAI-compatible API, which silently truncates long contexts."""
    from urllib.parse import urlsplit

    from newel.providers.discovery import discover

    port = urlsplit(endpoint.base_url).port
    if port is None or ollama_http_url(endpoint.base_url) or not is_loopback(endpoint.base_url):
        return ""
    urls = [
        server.base_url for server in await discover(servers=[("", port)]) if ollama_http_url(server.base_url)
    ]
    return (
        f"\nThis is Ollama. Use LLM_BASE_URL={urls[0]} so that it gets a large enough context."
        if urls
        else ""
    )
