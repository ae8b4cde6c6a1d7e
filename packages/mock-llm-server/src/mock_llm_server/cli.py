"""The command ``mock-llm-server``."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec

from mock_llm_server import __version__
from mock_llm_server.replay import RecordingError, read, script_from
from mock_llm_server.scenarios import ScenarioError, Script, load
from mock_llm_server.server import serve
from mock_llm_server.upstream import Upstream


class _Failure(Exception):
    """Ends the command; ``code`` is its exit status."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Exit status: 0 done, 1 the checked file has an error, 2 cannot start, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "check":
                _check(options.file)
            case "replay-from":
                _replay_from(options)
            case _:
                _serve(options)
    except _Failure as failure:
        sys.stderr.write(f"mock-llm-server: {failure}\n")
        return failure.code
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mock-llm-server",
        description="A scripted OpenAI-compatible server for testing agents. Without a command, it starts.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=_port, default=8000, help="port; 0 selects a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--scenarios", type=Path, metavar="FILE", help="scenario file (default: the bundled one)"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="append each exchange as a JSON line")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse a history with unpaired tool calls and results, as strict endpoints do",
    )
    parser.add_argument("--upstream", metavar="URL", help="forward to this endpoint instead of answering")
    parser.add_argument(
        "--upstream-key-env",
        metavar="NAME",
        help="environment variable with its key (default: forward the client's key)",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    check = commands.add_parser("check", help="check a scenario file")
    check.add_argument("file", type=Path)
    replay = commands.add_parser("replay-from", help="convert a recording to a scenario file")
    replay.add_argument("file", type=Path)
    replay.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="output file (default: standard output)"
    )
    replay.add_argument("--timing", action="store_true", help="keep the recorded pace")
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port number (0 to 65535)")
    return port


def _load(path: Path | None, code: int = 2) -> Script:
    try:
        return load(path)
    except ScenarioError as error:
        raise _Failure(str(error), code) from error


def _serve(options: argparse.Namespace) -> None:
    script = _load(options.scenarios)
    upstream = _upstream(options.upstream, options.upstream_key_env)
    try:
        anyio.run(_run, script, options, upstream)
    except OSError as error:
        raise _Failure(_unusable(error, options)) from error


async def _run(script: Script, options: argparse.Namespace, upstream: Upstream | None) -> None:
    async with serve(
        script,
        host=options.host,
        port=options.port,
        record=options.record,
        strict=options.strict,
        keep=0,
        upstream=upstream,
    ) as server:
        sys.stdout.write(f"mock-llm-server listens on {server.url}\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


def _upstream(url: str | None, key_variable: str | None) -> Upstream | None:
    if url is None:
        return None
    key = os.environ.get(key_variable) if key_variable else None
    if key_variable and not key:
        raise _Failure(f"the environment variable {key_variable} is not set; set it to the key of {url}")
    try:
        return Upstream(url, key)
    except ValueError as error:
        raise _Failure(str(error)) from error


def _unusable(error: OSError, options: argparse.Namespace) -> str:
    if options.record and error.filename == str(options.record):
        return f"cannot record to {error.filename}: {error.strerror}"
    if error.errno == errno.EADDRINUSE:
        return f"port {options.port} on {options.host} is in use. Choose another with --port; --port 0 selects a free one."
    if error.errno == errno.EACCES:
        return f"port {options.port} needs root privileges. Choose one above 1023 with --port."
    return f"cannot listen on {options.host}, port {options.port}: {error.strerror or error}"


def _check(path: Path) -> None:
    script = _load(path, code=1)
    steps = sum(len(scenario.steps) for scenario in script.scenarios)
    sys.stdout.write(
        f"{path}: valid, {_pluralize(len(script.scenarios), 'scenario')}, {_pluralize(steps, 'step')}\n"
    )


def _pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _replay_from(options: argparse.Namespace) -> None:
    try:
        recorded = script_from(read(options.file), timing=options.timing)
        text = msgspec.json.format(msgspec.json.encode(recorded.script), indent=2).decode() + "\n"
        if options.output:
            options.output.write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)
    except RecordingError as error:
        raise _Failure(str(error), 1) from error
    except OSError as error:
        raise _Failure(f"{error.filename}: {error.strerror}") from error
    for problem in recorded.skipped:
        sys.stderr.write(f"mock-llm-server: skipped: {problem}\n")
