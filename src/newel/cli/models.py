"""``newel models``: the server's models, or those of the catalogue, with the facts about them that Newel uses."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final, get_args

import anyio
import msgspec

from newel.agent.errors import BadResponse, ProviderError
from newel.app.extensions import open_server
from newel.app.model_resolver import default_model, expanded_name, find_endpoint
from newel.cli.options import Parser
from newel.config.model_details import find_details, merge_details
from newel.config.settings import EndpointSettings, Flags, ModelFacts, Settings, load_settings
from newel.providers.catalog.model_catalog import load_catalog
from newel.providers.families import Api
from newel.providers.listed_models import ListedModel, ModelDetails
from newel.providers.ollama.model_info import full_name
from newel.text.format import short_number
from newel.text.json import to_printable_json
from newel.text.sanitize import escape_line, redact_url

NO_LIST: Final = frozenset({404, 405, 501})
"""The statuses of servers that have no list of models."""

HEADER: Final = ("model", "context", "output", "$ in", "$ out", "tools", "thinking", "images")
INDENT: Final = "    "


class ModelRow(ModelDetails, frozen=True):
    """A model in the list."""

    in_use: bool = False


EPILOG: Final = """\
`newel models pull` lists models that run on this machine, and downloads one. `newel models remove NAME` \
deletes it."""


def command_models(arguments: Sequence[str]) -> int:
    if arguments[:1] in (["pull"], ["remove"]):
        from newel.cli import local_models

        command = local_models.command_pull if arguments[0] == "pull" else local_models.command_remove
        return command(arguments[1:])
    parser = Parser(
        prog="newel models",
        usage="newel models [FILTER] [OPTIONS]\n       newel models pull [NAME]\n       newel models remove NAME",
        description="List the server's models, with their sizes in tokens, prices in US dollars per million tokens, and abilities.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "filter", nargs="?", default="", metavar="FILTER", help="list names that contain this"
    )
    parser.add_argument(
        "--all", action="store_true", help="list the models of the built-in catalogue instead"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object per line")
    parser.add_argument("--base-url", metavar="URL", help="list this server's models")
    parser.add_argument("--api-key", metavar="KEY", help="use this key")
    parser.add_argument("--api", choices=get_args(Api), help="the API that the server speaks")
    parser.add_argument("-m", "--model", metavar="NAME", help="mark this model as the one in use")
    options = parser.parse_args(arguments)
    rows = _all_rows() if options.all else anyio.run(_server_rows, _settings(options))
    wanted = options.filter.lower()
    _print([row for row in rows if wanted in row.name.lower()], options)
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    flags = Flags(base_url=options.base_url, api_key=options.api_key, api=options.api, model=options.model)
    return load_settings(flags, cwd=Path.cwd(), environ=os.environ)


# -- the facts ----------------------------------------------------------------------------------------


def _all_rows() -> list[ModelRow]:
    catalog = load_catalog()
    return [
        _row(merge_details(ListedModel(f"{vendor.id}/{model.id}"), model, ModelFacts()))
        for vendor in catalog.vendors
        for model in catalog.models(vendor)
        if model.writes_text
    ]


async def _server_rows(settings: Settings) -> list[ModelRow]:
    """The models of the configured server, that in use among them even if it is not listed."""
    endpoint = await find_endpoint(settings)
    async with aclosing(open_server(settings, endpoint)) as server:
        try:
            listed, problem = await server.list_models(), ""
        except ProviderError as error:
            if error.status not in NO_LIST and not isinstance(error, BadResponse):
                raise
            listed, problem = [], "has no list of models"
    names = [model.name for model in listed]
    chosen = settings.model or default_model(endpoint, names)
    if not listed:
        listed = _catalogued(endpoint, problem or "lists no models")
        names = [model.name for model in listed]
    in_use = expanded_name(settings.models, chosen, names) if chosen else None
    if in_use and full_name(in_use) not in map(full_name, names):
        listed = [ListedModel(in_use), *listed]
    return [
        _row(model, in_use=in_use is not None and full_name(model.name) == full_name(in_use))
        for model in await find_details(listed, endpoint.base_url, settings.models)
    ]


def _catalogued(endpoint: EndpointSettings, problem: str) -> list[ListedModel]:
    """The vendor's models by the catalogue, after a message about the server's list."""
    models = [model for model in load_catalog().models_at(endpoint.base_url) if model.writes_text]
    instead = "These are the vendor's, by the built-in catalogue:" if models else "Name one with --model."
    print(f"newel: {redact_url(endpoint.base_url)} {problem}. {instead}", file=sys.stderr)
    return [ListedModel(model.id) for model in models]


def _row(model: ModelDetails, *, in_use: bool = False) -> ModelRow:
    return ModelRow(**msgspec.structs.asdict(model), in_use=in_use)


# -- the output ---------------------------------------------------------------------------------------


def _print(rows: list[ModelRow], options: argparse.Namespace) -> None:
    if options.json:
        for row in rows:
            print(to_printable_json(row))
    elif rows:
        for line in _table(rows, _columns()):
            print(line)
    else:
        print(
            f"No model's name contains '{escape_line(options.filter)}'." if options.filter else "No models."
        )


def _columns() -> int | None:
    """The width of the terminal; None if the output goes elsewhere."""
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None


def _table(rows: Iterable[ModelRow], columns: int | None) -> list[str]:
    """A line for each model. Where that is too wide, a name has its own line: it is never cut."""
    from rich.cells import cell_len

    cells = [HEADER, *map(_cells, rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    is_wide = columns is not None and sum(widths) + 2 * len(widths) > columns
    lines: list[str] = []
    for name, *facts in cells:
        padded = [f"{fact:>{width}}" for fact, width in zip(facts, widths[1:], strict=True)]
        told = "  ".join(padded).rstrip()
        if is_wide:
            lines += [name.rstrip(), f"{INDENT}{told}".rstrip()]
        else:
            lines.append(f"{name}{' ' * (widths[0] - cell_len(name))}  {told}".rstrip())
    return [line for line in lines if line]


def _cells(row: ModelRow) -> tuple[str, ...]:
    tiers = "+" if row.has_tiers else ""
    return (
        f"{'*' if row.in_use else ' '} {escape_line(row.name)}",
        short_number(row.context_window) if row.context_window else "",
        short_number(row.max_output) if row.max_output else "",
        *("" if price is None else f"{price:g}{tiers}" for price in (row.input_price, row.output_price)),
        *("" if fact is None else "yes" if fact else "no" for fact in (row.tools, row.thinking, row.images)),
    )
