"""``newel doctor``: what is set, from where, and whether it works. Each problem comes with its remedy."""

from __future__ import annotations

import argparse
import os
import platform
import stat
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path
from typing import Final

import anyio
import msgspec

from newel import config
from newel.agent.errors import NewelError, ProviderError, RateLimited, RequestRejected
from newel.agent.guard import number
from newel.agent.messages import UserMessage
from newel.agent.ports import Model, ModelRequest
from newel.app.model import connect, find_endpoint, find_model
from newel.app.trusting import ignored_words
from newel.commands.findings import BAD, GOOD, NOTE, Finding, Findings
from newel.config import Endpoint, Flags, Settings
from newel.providers.model_server import ModelServer
from newel.providers.ollama_model import full_name
from newel.providers.urls import is_loopback, of_ollama
from newel.terminal.words import plural
from newel.workspace.addresses import shown_url
from newel.workspace.own_files import read_regular

PATIENCE: Final = 20.0
"""Seconds that one token may take: a server may load its model first."""

LOAD: Final = "Load one there; with Ollama: ollama pull NAME."
ADDRESSES: Final = "Most end in /v1; Ollama's own is ollama://host:11434."


def command_doctor(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="newel doctor", description="What is set, from where, and whether it works."
    )
    parser.add_argument("--base-url", metavar="URL", help="look at this server")
    parser.add_argument("--api-key", metavar="KEY", help="with this key")
    parser.add_argument("--model", help="and this model")
    given = parser.parse_args(arguments)
    flags = Flags(base_url=given.base_url, api_key=given.api_key, model=given.model)
    print(
        f"newel {version('newel')} · Python {platform.python_version()} · {platform.system()} {platform.release()}"
    )
    findings = Findings()
    findings.show(_findings(flags))
    return findings.close()


def _findings(flags: Flags) -> Iterator[Finding]:
    """One after the other, so that a slow server does not hold back what is known without it."""
    try:
        settings = config.load(flags, cwd=Path.cwd(), environ=os.environ)
    except NewelError as error:
        yield Finding(BAD, "settings", str(error))
        return
    yield from _settings(settings)
    yield from _home(settings.home)
    try:
        yield from anyio.run(_server, settings)
    except NewelError as error:
        yield Finding(BAD, "server", str(error))


def _settings(settings: Settings) -> Iterator[Finding]:
    endpoint = settings.endpoint
    yield from _dotenv(settings)
    if endpoint is not None:
        yield Finding(NOTE, "server", f"{shown_url(endpoint.base_url)}   ({endpoint.origin})")
        yield Finding(NOTE, "key", f"{config.masked(endpoint.api_key)}{_from(endpoint.key_origin)}")
    for name in ("model", "small_model", "thinking", "approve", "renderer"):
        value = getattr(settings, name)
        if value is not None:
            origin = settings.origins.get(name, "default")
            yield Finding(NOTE, name.replace("_", " "), f"{value}{_from(origin)}")
    yield Finding(NOTE, "commands", f"stopped after {settings.bash_timeout:g} s")
    for name, limit in msgspec.structs.asdict(settings.limits).items():
        if limit is not None:
            yield Finding(NOTE, name.replace("_", " "), number(limit))
    for model, facts in settings.models.items():
        yield Finding(NOTE, "facts", f"{model}: context {facts.context_window}, output {facts.max_output}")


def _dotenv(settings: Settings) -> Iterator[Finding]:
    """Whether the server that the project's .env names may be used."""
    if settings.ignored is not None:
        yield Finding(NOTE, ".env", ignored_words(settings.ignored))
    elif settings.endpoint is not None and settings.endpoint.origin.startswith(str(settings.cwd / ".env")):
        yield Finding(NOTE, ".env", "names the server; you have trusted it in this folder")


def _from(origin: str | None) -> str:
    return f"   ({origin})" if origin else ""


def _home(home: Path) -> Iterator[Finding]:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = home / f".doctor-{os.getpid()}"
        probe.touch()
        probe.unlink()
        yield Finding(GOOD, "home", f"{home} can be written to")
    except OSError as error:
        words = f"{home}: {error.strerror}.\nSet NEWEL_HOME to a folder of yours, or use --ephemeral."
        yield Finding(BAD, "home", words)
    file = home / "config.toml"
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return
    if mode & 0o077 and "api_key" in read_regular(file).decode(errors="replace"):
        yield Finding(BAD, "config.toml", f"It holds a key and others may read it.\nchmod 600 {file}")
    else:
        yield Finding(GOOD, "config.toml", str(file))


async def _server(settings: Settings) -> list[Finding]:
    endpoint = await find_endpoint(settings)
    found: list[Finding] = []
    if settings.endpoint is None:
        found.append(Finding(NOTE, "server", f"{shown_url(endpoint.base_url)}   ({endpoint.origin})"))
    async with aclosing(connect(endpoint.base_url, endpoint.api_key)) as client:
        try:
            names = await client.models()
        except NewelError as error:
            return [*found, Finding(BAD, "connection", f"{error}{_remedy(endpoint, error)}")]
        return found + await _answers(settings, endpoint, client, names)


async def _answers(
    settings: Settings, endpoint: Endpoint, client: ModelServer, names: list[str]
) -> list[Finding]:
    """What there is to say of a server that lists its models."""
    found = [Finding(NOTE, "asked by", f"{client.way}{await _own_api(endpoint)}")]
    if not names:
        words = f"The server answers, but it has no models.\n{LOAD}"
        return [*found, Finding(BAD, "connection", words)]
    shown = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    found.append(Finding(GOOD, "connection", f"{plural(len(names), 'model')}: {shown}"))
    if settings.model and full_name(settings.model) not in map(full_name, names):
        words = f"The server does not list '{settings.model}'.\nUse one of its names (--model, LLM_DEFAULT_MODEL). {LOAD}"
        found.append(Finding(BAD, "model", words))
    elif not settings.model and settings.endpoint is not None and len(names) != 1:
        found.append(Finding(BAD, "model", "None is chosen. Set LLM_DEFAULT_MODEL, or use --model."))
    else:
        return [*found, await _answer(settings, endpoint, client)]
    return [*found, Finding(NOTE, "answer", "The key was not tested: there is no model to ask.")]


async def _answer(settings: Settings, endpoint: Endpoint, client: ModelServer) -> Finding:
    """Whether the model can be asked with the key that is set. Many servers list their models to everybody, so that one token
    is asked for.
    """
    if of_ollama(endpoint.base_url) and endpoint.api_key is None:
        return Finding(NOTE, "answer", "Not tested: Ollama would load the model first, and no key is set.")
    name = await find_model(settings, endpoint, client)
    request = ModelRequest(Model(name, client.name, max_output=1), "", [UserMessage("Hi")])
    try:
        with anyio.fail_after(PATIENCE):
            await client.complete(request, _unheard)
    except TimeoutError:
        return Finding(
            NOTE, "answer", f"The key was not tested: {name} did not answer within {PATIENCE:g} s."
        )
    except (RateLimited, RequestRejected) as error:
        if error.status not in {401, 402, 403, 404}:  # some refuse so small an answer, or are busy
            return Finding(NOTE, "answer", f"The key was not tested. {error}")
        return Finding(BAD, "answer", f"{error}{_remedy(endpoint, error)}")
    except ProviderError as error:
        return Finding(BAD, "answer", f"{error}{_remedy(endpoint, error)}")
    return Finding(
        GOOD, "answer", f"{name} answers {'with this key' if endpoint.api_key else 'without a key'}"
    )


async def _unheard(_: object) -> None:
    """What the model says does not matter."""


async def _own_api(endpoint: Endpoint) -> str:
    """What to change where an Ollama of this machine is asked as any other server: it drops what its context has no room for."""
    from urllib.parse import urlsplit

    from newel.providers.local import discover

    port = urlsplit(endpoint.base_url).port
    if port is None or of_ollama(endpoint.base_url) or not is_loopback(endpoint.base_url):
        return ""
    own = [each.base_url for each in await discover(servers=[("", port)]) if of_ollama(each.base_url)]
    return (
        f"\nThis is Ollama. With LLM_BASE_URL={own[0]} it is asked for a context that is large enough."
        if own
        else ""
    )


def _remedy(endpoint: Endpoint, error: NewelError) -> str:
    if isinstance(error, ProviderError) and error.status in {401, 403}:
        if endpoint.api_key is None:
            return "\nNo key goes there: set LLM_AUTH_TOKEN beside LLM_BASE_URL (or OPENAI_API_KEY)."
        return ""
    return f"\nIs the server running, and does the address begin and end as its API does? {ADDRESSES}"
