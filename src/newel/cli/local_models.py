"""``newel models pull`` and ``newel models remove``: models in files on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio

from newel.agent.errors import ConfigError, ConnectionFailed, RateLimited, ServerFailed, UsageError
from newel.cli.options import Parser
from newel.config.endpoint import MODELS
from newel.config.settings import newel_home
from newel.providers.catalog.downloadable_models import DOWNLOADABLE, HUGGING_FACE, DownloadableModel
from newel.providers.http.urls import is_loopback
from newel.providers.llamacpp.client import MISSING_EXTRA, PACKAGE
from newel.providers.llamacpp.download import Download
from newel.providers.llamacpp.model_store import SUFFIX, ModelStore, StoredModel
from newel.text.format import format_size
from newel.text.sanitize import escape_line

MODELS_URL: Final = "NEWEL_MODELS_URL"

PULL_HELP: Final = """\
Download a model that runs on this machine, or give a file of yours a short name. Without NAME, list the models."""

PULL_EPILOG: Final = f"""\
An interrupted download continues when the command is repeated. {MODELS_URL} names a mirror of \
{HUGGING_FACE} to download from."""

HEADER: Final = ("model", "parameters", "licence", "download", "memory", "context", "")
INDENT: Final = "    "

Show = Callable[[str, int], None]


def command_pull(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel models pull",
        description=PULL_HELP,
        epilog=PULL_EPILOG,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the model, or the name of your file")
    parser.add_argument("--file", type=Path, metavar="PATH", help="use this GGUF file; it stays where it is")
    parser.add_argument(
        "--verify", action="store_true", help="check the sha256 of a model that was downloaded before"
    )
    options = parser.parse_args(arguments)
    if options.verify and (options.file is not None or options.name is None):
        parser.error("--verify needs the NAME of a downloaded model")
    home = newel_home(os.environ)
    store = ModelStore(home / MODELS)
    if options.file is not None:
        stored = _link(store, options.file, options.name)
    elif options.name is None:
        _list(store)
        return 0
    else:
        stored = pull(store, _known(options.name), verify=options.verify)
    explain_use(stored, home)
    return 0


def command_remove(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel models remove",
        description="Delete a downloaded model, or the short name of a file of yours; the file itself stays.",
    )
    parser.add_argument("name", metavar="NAME", help="as `newel models pull` shows it")
    name = parser.parse_args(arguments).name
    store = ModelStore(newel_home(os.environ) / MODELS)
    stored = store.find(name)
    freed = store.remove(name)
    if freed is None:
        names = [model.name for model in store.all()]
        has = f"There are: {', '.join(names)}." if names else "None is downloaded."
        raise ConfigError(f"There is no pulled model '{name}'.{_did_you_mean(name, names)} {has}")
    if stored is not None and stored.target is not None:
        print(f"Removed the name {name}. The file {escape_line(str(stored.target))} is still there.")
    else:
        print(f"Removed {name}: {format_size(freed)}.")
    return 0


def _known(name: str) -> DownloadableModel:
    """The model of a name. Raises ``UsageError``."""
    if found := next((model for model in DOWNLOADABLE if model.name == name.lower()), None):
        return found
    if name.lower().endswith(SUFFIX):
        raise UsageError(f"For a file of yours: newel models pull --file {escape_line(name)}")
    names = [model.name for model in DOWNLOADABLE]
    raise UsageError(
        f"Newel knows no model '{escape_line(name[:80])}'.{_did_you_mean(name, names)} `newel models pull` lists them; "
        "--file PATH.gguf uses a file of yours."
    )


def _did_you_mean(name: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), names, n=2, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _link(store: ModelStore, file: Path, name: str | None) -> StoredModel:
    return store.link(name or file.name.removesuffix(SUFFIX), file)


# -- the download -------------------------------------------------------------------------------------


def pull(store: ModelStore, model: DownloadableModel, *, verify: bool = False) -> StoredModel:
    """Download a model unless it is there; ``verify`` checks the sha256 of one that is. Raises ``ConfigError`` and
    ``ProviderError``.
    """
    stored = store.find(model.name)
    if stored is not None and stored.target is not None:
        raise ConfigError(
            f"{model.name} is the name of your file {escape_line(str(stored.target))}. Remove the name first: "
            f"newel models remove {model.name}"
        )
    base_url = _base_url()
    try:
        with _progress(model) as (show, say):
            download = Download(model, store, base_url, on_progress=show, on_notice=say)
            if stored is not None and download.is_complete(hashed=verify):
                checked = "its sha256 is right" if verify else "complete; --verify checks its sha256"
                say(f"{model.name} is here already ({checked}).")
            else:
                if stored is not None:
                    say(f"{stored.path} is damaged, or another file. It is downloaded again and replaced.")
                say(_beginning(model, base_url, _size(store.partial_path(model.name))))
                anyio.run(download.run)
    except (KeyboardInterrupt, ConnectionFailed, RateLimited, ServerFailed):
        if have := _size(store.partial_path(model.name)):
            reached = f"{format_size(have)} of {format_size(model.size)}"
            _say(f"Stopped at {reached}. To continue: newel models pull {model.name}")
        raise
    return StoredModel(model.name, store.path(model.name), model.size)


def _base_url() -> str:
    """The server of the downloads. Raises ``ConfigError`` for an address that is not safe, without showing a password in it."""
    url = os.environ.get(MODELS_URL, "").strip() or HUGGING_FACE
    if not url.startswith("https://") and not (url.startswith("http://") and is_loopback(url)):
        raise ConfigError(
            f"{MODELS_URL} must begin with https://, like {HUGGING_FACE}; http:// is for this machine only."
        )
    return url


def _beginning(model: DownloadableModel, base_url: str, have: int) -> str:
    host = urlsplit(base_url).hostname
    rest = f", continuing at {format_size(have)}" if have else ""
    return f"Downloading {model.name} ({model.licence}): {format_size(model.size)} from {host}{rest}."


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextmanager
def _progress(model: DownloadableModel) -> Generator[tuple[Show, Callable[[str], None]]]:
    """What shows the progress, and what prints a sentence meanwhile, on standard error. The bars need a terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda _action, _at: None, _say
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=22),
        TaskProgressColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, highlight=False, markup=False),
    )
    tasks: dict[str, TaskID] = {}

    def show(action: str, at: int) -> None:
        if action not in tasks:
            tasks[action] = bar.add_task(action, total=model.size, completed=at)
        bar.update(tasks[action], completed=at)

    with bar:
        yield show, lambda text: bar.console.print(f"newel: {escape_line(text)}", soft_wrap=True)


def _say(text: str) -> None:
    print(f"newel: {escape_line(text)}", file=sys.stderr)


def explain_use(stored: StoredModel, home: Path) -> None:
    """Print the command that uses a model."""
    where = f"{stored.path} -> {stored.target}" if stored.target else str(stored.path)
    print(f"{stored.name} is ready: {escape_line(where)}")
    print(f"To use it:  newel --base-url llamacpp:{stored.name}")
    print(f'Or always:  base_url = "llamacpp:{stored.name}" in {escape_line(str(home / "config.toml"))}')
    if find_spec(PACKAGE) is None:
        print(MISSING_EXTRA)


# -- the list -----------------------------------------------------------------------------------------


def _list(store: ModelStore) -> None:
    stored = {model.name: model for model in store.all()}
    rows = [HEADER, *(_row(model, stored, store) for model in DOWNLOADABLE)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for index, row in enumerate(rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())
        if index:
            model = DOWNLOADABLE[index - 1]
            print(f"{INDENT}{model.note}\n{INDENT}sha256 {model.sha256}")
    names = {model.name for model in DOWNLOADABLE}
    if own := [model for model in stored.values() if model.name not in names or model.target]:
        print("\nyour files:")
        for model in own:
            size = format_size(model.size) if model.size is not None else "missing"
            where = escape_line(str(model.target or model.path))
            print(f"{model.name}  {size}  {where}")
    print("\nMemory is for a context of 16,384 tokens. Of 21B-A3.6B, 3.6B work on each token.")
    print("To download a model: newel models pull NAME")


def _row(model: DownloadableModel, stored: dict[str, StoredModel], store: ModelStore) -> tuple[str, ...]:
    state = ""
    if model.name in stored and not stored[model.name].target:
        state = "here"
    elif have := _size(store.partial_path(model.name)):
        state = f"{have / model.size:.0%} here".replace("%", " %")
    return (
        model.name,
        model.parameters,
        model.licence,
        format_size(model.size),
        f"{model.memory} GB",
        f"{model.context:,}",
        state,
    )
