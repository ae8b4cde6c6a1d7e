"""The options that commands share, and the types of their values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

from newel.config.jexida import Through
from newel.config.settings import Flags


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Which model, and what it may do unasked."""
    add = parser.add_argument
    add("-m", "--model", help="the model's name at the server")
    add("--base-url", metavar="URL", help="an OpenAI-compatible server, or ollama://host")
    add("--api-key", metavar="KEY", help="its key; prefer LLM_AUTH_TOKEN, which other users cannot see")
    add("--thinking", choices=["off", "minimal", "low", "medium", "high"], help="how much the model reasons")
    add("--approve", choices=["auto", "ask", "review", "read-only"], help="what runs without asking (auto)")
    add(
        "--through",
        choices=get_args(Through),
        help="with --host: where its model is asked (auto); api: the server that is set here",
    )
    add_place(parser, "work in")


def add_place(parser: argparse.ArgumentParser, doing: str) -> None:
    """In which folder, of this machine or of a host."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cwd", metavar="DIR", help=f"{doing} this folder")
    where.add_argument(
        "--host",
        metavar="PLACE",
        help=f"{doing} a folder of a host, over ssh: user@host:/path, or a name of `newel hosts`",
    )


def flags_of(given: argparse.Namespace, **more: Any) -> Flags:
    """What was given of ``add_model_options``, and what else a command has of flags."""
    return Flags(
        base_url=given.base_url,
        api_key=given.api_key,
        model=given.model,
        thinking=given.thinking,
        approve=given.approve,
        host=given.host,
        through=given.through,
        **more,
    )


def folder(parser: argparse.ArgumentParser, given: str | None) -> Path:
    """The folder to work in. Ends the program with words if there is none."""
    try:
        path = Path(given or ".").expanduser().resolve()
    except (RuntimeError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        parser.error(f"--cwd: {given or 'the working folder'} cannot be found: {why}")
    if not path.is_dir():
        parser.error(f"--cwd: there is no folder {path}")
    return path


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number, more than 0")
    return value


def positive_int(text: str) -> int:
    if not text.isdecimal() or not (value := int(text)):
        raise argparse.ArgumentTypeError("must be a whole number, 1 or more")
    return value
