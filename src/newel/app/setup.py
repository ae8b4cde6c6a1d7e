"""The dialogue that chooses a model server, its key and a model, tries them, and saves them. Until the last question nothing is written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from newel.agent.errors import ConfigError, NewelError, ProviderError, UsageError
from newel.app.model_trial import ADDRESSES, ModelTrial, remedy, try_model
from newel.app.setup_questions import (
    SetupCancelled,
    ask_line,
    ask_secret,
    choose_name,
    choose_or_type,
    confirm,
    say,
)
from newel.config.editing import FILE, check_config, save
from newel.config.endpoint import EndpointSettings, Place, choose_endpoint
from newel.config.keys import KeyStore, check_key, key_name, vendors
from newel.config.model_details import find_details
from newel.config.settings import Flags, Settings, load_settings, mask_secret
from newel.providers.errors import KeyRejected
from newel.providers.http.urls import is_private
from newel.providers.listed_models import ModelDetails
from newel.providers.model_server import connect
from newel.storage.files import read_regular
from newel.text.sanitize import redact_url

_TITLES: Final = {"openai": "OpenAI", "anthropic": "Anthropic (Claude)", "gemini": "Google (Gemini)"}

_OF_A_SERVER: Final = ("api_key", "api", "small_model")
"""Settings that mean nothing to another server."""


class ServerChoice(msgspec.Struct, frozen=True):
    """``key_name`` is what the key is stored under, empty for a model file; ``vendor`` is empty for a server that is none's. One that was
    found here seldom needs a key.
    """

    base_url: str
    key_name: str
    vendor: str = ""
    is_found: bool = False

    @property
    def label(self) -> str:
        return _TITLES.get(self.vendor, redact_url(self.base_url))


class ChosenKey(msgspec.Struct, frozen=True):
    """``is_new`` tells that it has to be stored."""

    key: str | None
    is_new: bool = False


def run_setup(home: Path) -> None:
    """Ask, try and save. Raises ``SetupCancelled`` where the user ends the input, ``ConfigError`` if the settings cannot be read or
    written.

    Call it outside of an event loop: it blocks on the terminal, and Ctrl+C must interrupt it.
    """
    written = _written(home)
    say("This chooses the model that Newel uses. Ctrl+C leaves; nothing is saved yet.")
    while True:
        server = _choose_server()
        reached = _reach(home, written, server)
        if reached is None:
            continue
        key, models = reached
        model = _choose_model(server, models)
        if model is None:
            continue
        tried = _try_key(server, key, model)
        if tried is None:
            continue
        if _save(home, written, server, tried, model):
            return


def choose_listed_model(settings: Settings, names: Sequence[str]) -> Settings:
    """The settings with one of the server's models, which the user chooses. It is saved if the file names the server. Raises
    ``SetupCancelled``.
    """
    endpoint = settings.endpoint
    url = redact_url(endpoint.base_url) if endpoint else "the server"
    name = choose_name(f"No model is chosen. Which one of {url}?", names, otherwise="leave")
    if name is None:
        raise SetupCancelled("No model is chosen. Set LLM_DEFAULT_MODEL or use --model.")
    if endpoint and endpoint.origin == str(settings.home / FILE):
        save(settings.home, {("model",): name})
        say(f"Saved in {settings.home / FILE}. /model switches to another one.")
    else:
        say("For this run. To keep it: export LLM_DEFAULT_MODEL=NAME, or newel config set model NAME")
    return msgspec.structs.replace(settings, model=name)


def _choose_server() -> ServerChoice:
    from newel.app.local_server import describe
    from newel.providers.discovery import discover

    found = anyio.run(discover)
    servers = [ServerChoice(family.base_url, name, name) for name, family in vendors().items()]
    rows = [server.label for server in servers]
    servers += [ServerChoice(server.base_url, server.address, is_found=True) for server in found]
    rows += [f"this machine: {describe(server)}" for server in found]
    picked = choose_or_type("Which server has the model?", [*rows, "another address"], _is_address)
    if isinstance(picked, str):
        return _ask_address(picked)
    return servers[picked] if picked < len(servers) else _ask_address()


def _is_address(answer: str) -> bool:
    return "://" in answer or re.fullmatch(r"[\w.-]+:\d+(?:/.*)?", answer) is not None


def _ask_address(typed: str = "") -> ServerChoice:
    while True:
        base_url = typed or ask_line(
            f"Address of the server, such as https://api.example/v1.\n{ADDRESSES}\nAddress: "
        )
        typed = ""
        if _is_address(base_url) and "://" not in base_url:
            base_url = f"http://{base_url}" if is_private(f"http://{base_url}") else f"https://{base_url}"
        try:
            endpoint = choose_endpoint([Place("", {}), Place("typed", {"base_url": base_url})])
            if endpoint is None:
                continue
            connect(endpoint.base_url, None)
            name = key_name(endpoint.base_url) if "://" in endpoint.base_url else ""
        except NewelError as error:
            say(str(error))
            continue
        return ServerChoice(endpoint.base_url, name)


def _reach(
    home: Path, written: Mapping[str, Any], server: ServerChoice
) -> tuple[ChosenKey, list[ModelDetails]] | None:
    """A key that the server accepts for its list of models, and the list. None to choose another server."""
    known = _known_key(home, written, server)
    is_rejected = False
    while True:
        key = known
        if server.key_name and (is_rejected or not server.is_found):
            is_required = bool(server.vendor) or is_rejected
            otherwise = "another server" if is_required else "none"
            if known.key:
                otherwise = f"the one that is set, {mask_secret(known.key)}"
            asked = _ask_key(server, otherwise)
            if asked is None and is_required and not known.key:
                return None
            key = asked or known
        endpoint = EndpointSettings(server.base_url, "newel setup", key.key)
        say(f"Asking {server.label} for its models …")
        try:
            return key, anyio.run(_models, endpoint)
        except KeyRejected as error:
            say(error.reason)
            known, is_rejected = ChosenKey(None), True
        except ProviderError as error:
            if error.status in {404, 405, 501}:
                return key, []  # it has no list
            say(f"{error}{remedy(error)}")
            return None
        except ConfigError as error:
            say(str(error))
            return None


def _known_key(home: Path, written: Mapping[str, Any], server: ServerChoice) -> ChosenKey:
    """The key that would be sent to the server already."""
    if written.get("base_url") == server.base_url and written.get("api_key"):
        return ChosenKey(str(written["api_key"]))
    family = vendors().get(server.vendor)
    if family and (key := os.environ.get(family.variables["api_key"])):
        return ChosenKey(key)
    for place in KeyStore(home).places():
        if (place.vendor.name.lower() if place.vendor else place.address) == server.key_name:
            return ChosenKey(str(place.values["api_key"]))
    return ChosenKey(None)


def _ask_key(server: ServerChoice, otherwise: str) -> ChosenKey | None:
    """A new key. None if the user gives none, which means ``otherwise``."""
    while True:
        key = ask_secret(f"Key for {server.label} (hidden; Enter: {otherwise}):").strip()
        if not key:
            return None
        try:
            check_key(key)
        except UsageError as error:
            say(str(error))
            continue
        return ChosenKey(key, is_new=True)


async def _models(endpoint: EndpointSettings) -> list[ModelDetails]:
    async with aclosing(connect(endpoint.base_url, endpoint.api_key)) as client:
        return await find_details(await client.list_models(), endpoint.base_url, {})


def _try_key(server: ServerChoice, key: ChosenKey, model: str) -> ChosenKey | None:
    """The key with which the model answered, or that is to be saved nevertheless. None to choose another server."""
    while True:
        say(f"Trying {model} with one request of a few tokens …")
        trial = anyio.run(_try, EndpointSettings(server.base_url, "newel setup", key.key), model)
        say(trial.rejection or trial.message)
        if trial.rejection and (asked := _ask_key(server, "keep this one" if key.key else "none")):
            key = asked
            continue
        keeps = trial.works is not False or confirm("Save it anyway?", default=False)
        return key if keeps else None


async def _try(endpoint: EndpointSettings, model: str) -> ModelTrial:
    async with aclosing(connect(endpoint.base_url, endpoint.api_key)) as client:
        return await try_model(endpoint, client, model)


def _choose_model(server: ServerChoice, models: Sequence[ModelDetails]) -> str | None:
    facts = {model.name: model.summary for model in models}
    names = list(facts)
    if len(names) == 1:
        return names[0]
    if not names:
        say("The server lists no models.")
        return ask_line("Name of the model (Enter: another server): ") or None
    return choose_name(f"Which model of {server.label}?", names, facts=facts)


def _save(home: Path, written: Mapping[str, Any], server: ServerChoice, key: ChosenKey, model: str) -> bool:
    """Save what was chosen, if the user agrees."""
    changes: dict[tuple[str, ...], object] = {("base_url",): server.base_url, ("model",): model}
    is_other = written.get("base_url") != server.base_url
    stale = _OF_A_SERVER if is_other else ("api_key",) if key.is_new else ()
    removed = [name for name in stale if name in written]
    changes |= {(name,): None for name in removed}
    file = home / FILE
    say(f"To be saved in {file}:\n  base_url = {redact_url(server.base_url)}\n  model = {model}")
    if removed:
        say(f"To be removed there, because it belongs to the earlier server or key: {', '.join(removed)}")
    if key.is_new:
        say(f"To be stored for {server.key_name}, as by `newel keys set`:\n  key = {mask_secret(key.key)}")
    if not confirm("Save?", default=True):
        return False
    store = KeyStore(home)
    if key.is_new and key.key:
        store.set(server.key_name, key.key)
    save(home, changes)
    say(f"Saved. `newel setup` changes it, `newel config` shows it.{_precedence()}")
    return True


def _precedence() -> str:
    """A warning of what has precedence over the file."""
    settings = load_settings(Flags(), cwd=Path.cwd(), environ=os.environ)
    file = str(settings.home / FILE)
    origins = {settings.endpoint.origin if settings.endpoint else file, settings.origins.get("model", file)}
    others = ", ".join(sorted(origins - {file}))
    return f"\nBut these have precedence over it: {others}." if others else ""


def _written(home: Path) -> dict[str, Any]:
    """The values in the file, which must be without mistakes. Raises ``ConfigError``."""
    file = home / FILE
    return check_config(file, read_regular(file)) if file.exists() else {}
