"""``newel doctor``: what is set, from where, and whether it works. Each problem comes with its remedy."""

from __future__ import annotations

import argparse
import os
import platform
import stat
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import anyio

from newel import app, config
from newel.agent.errors import NewelError
from newel.config import Endpoint, Flags, Settings
from newel.terminal.safe import safe

GOOD, BAD, NOTE = "ok", "!!", "  "


class Finding(NamedTuple):
    """One line: how it stands, what is looked at, and what was found."""

    mark: str
    subject: str
    words: str


def command_doctor(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="newel doctor", description=__doc__)
    parser.add_argument("--base-url", metavar="URL", help="look at this server")
    parser.add_argument("--api-key", metavar="KEY", help="with this key")
    parser.add_argument("--model", help="and this model")
    given = parser.parse_args(arguments)
    flags = Flags(base_url=given.base_url, api_key=given.api_key, model=given.model)
    cwd = Path.cwd()
    print(
        f"newel {version('newel')} · Python {platform.python_version()} · {platform.system()} {platform.release()}"
    )
    problems = 0
    try:
        settings = config.load(flags, cwd=cwd, environ=os.environ)
        findings = [*_settings(settings), *_home(settings.home), *anyio.run(_server, settings)]
    except NewelError as error:
        findings = [Finding(BAD, "settings", str(error))]
    for mark, subject, words in findings:
        problems += mark == BAD
        first, *rest = safe(words).split("\n")
        print(f"{mark} {subject:<12} {first}")
        for line in rest:
            print(f"{'':16}{line}")
    print("Nothing is wrong." if not problems else f"{problems} of these need you.")
    return 1 if problems else 0


def _settings(settings: Settings) -> Iterator[Finding]:
    endpoint = settings.endpoint
    if endpoint is not None:
        yield Finding(NOTE, "server", f"{endpoint.base_url}   ({endpoint.origin})")
        yield Finding(
            NOTE,
            "key",
            f"{config.masked(endpoint.api_key)}" + _from(endpoint.key_origin if endpoint.api_key else None),
        )
    for name in ("model", "small_model", "thinking", "approve", "renderer", "bash_timeout"):
        value = getattr(settings, name)
        if value is not None:
            yield Finding(
                NOTE, name.replace("_", " "), f"{value}{_from(settings.origins.get(name, 'default'))}"
            )


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
    if mode & 0o077 and "api_key" in file.read_text(errors="replace"):
        yield Finding(BAD, "config.toml", f"It holds a key and others may read it.\nchmod 600 {file}")
    else:
        yield Finding(GOOD, "config.toml", str(file))


async def _server(settings: Settings) -> list[Finding]:
    try:
        endpoint = await app.find_endpoint(settings)
    except NewelError as error:
        return [Finding(BAD, "server", str(error))]
    findings: list[Finding] = []
    if settings.endpoint is None:
        findings.append(Finding(NOTE, "server", f"{endpoint.base_url}   ({endpoint.origin})"))
    client = app.connect(endpoint)
    try:
        names = await client.models()
    except NewelError as error:
        return [*findings, Finding(BAD, "connection", f"{error}\n{_remedy(endpoint)}")]
    finally:
        await client.aclose()
    shown = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    findings.append(Finding(GOOD, "connection", f"{len(names)} models: {shown}"))
    if settings.model and names and settings.model not in names:
        words = (
            f"The server does not list '{settings.model}'.\nUse one of its names: --model, LLM_DEFAULT_MODEL."
        )
        findings.append(Finding(BAD, "model", words))
    elif not settings.model and len(names) != 1:
        findings.append(Finding(BAD, "model", "None is chosen. Set LLM_DEFAULT_MODEL, or use --model."))
    return findings


def _remedy(endpoint: Endpoint) -> str:
    if endpoint.api_key is None and endpoint.base_url.startswith("https://"):
        return "No key goes there: set LLM_AUTH_TOKEN beside LLM_BASE_URL (or OPENAI_API_KEY)."
    return "Is the server running, and does the address end where its API begins (often /v1)?"
