"""Write packaging/man: a manual page of each command, from the parsers that also print its help.

    ./run python scripts/man_pages.py            write them
    ./run python scripts/man_pages.py --check    exit 1 if one is out of date

The wheel has them in share/man/man1. They do not depend on the Python that writes them, as the help does.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from mock_llm_server import __version__ as mock_version
from mock_llm_server.cli import main as mock_llm_server
from newel.cli import HELP, MODULES
from newel.cli.completion import ACTIONS, described_commands
from newel.cli.main import agent_parser

TARGET = Path(__file__).resolve().parent.parent / "packaging" / "man"

ALIASES = {
    "coding-agent": "newel",
    "lsimons-agent-web": "newel-web",
    "newel-jexida": "jexida",
}
"""Other names of commands, by the page that is about them."""

Command = Callable[[Sequence[str]], int]


def parsers_of(command: Command, actions: Sequence[str]) -> Iterator[argparse.ArgumentParser]:
    """The parser of a command, then those of its ``actions`` that have one of their own."""
    known: set[str] = set()
    for words in ([], *([action] for action in actions)):
        found: list[argparse.ArgumentParser] = []

        def print_help(
            self: argparse.ArgumentParser, *_: object, to: list[argparse.ArgumentParser] = found
        ) -> None:
            to.append(self)

        with (
            patch.object(argparse.ArgumentParser, "print_help", print_help),
            contextlib.suppress(SystemExit),
        ):
            command([*words, "--help"])
        for parser in found:
            if parser.prog not in known:
                known.add(parser.prog)
                yield parser


def escaped(text: str) -> str:
    """Text for troff: its escapes and the hyphens that a reader copies."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    plain = plain.replace("…", "\\&...").replace("^", "\\(ha").replace("~", "\\(ti")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.split("\n"))


def bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fR"


def italic(text: str) -> str:
    return f"\\fI{escaped(text)}\\fR"


def value_of(action: argparse.Action) -> str:
    """How an option's value or an argument is written."""
    name = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    return name if isinstance(name, str) else " ".join(name)


def synopsis(parser: argparse.ArgumentParser) -> list[str]:
    lines = ["[\\fIOPTIONS\\fR]"]
    for action in shown(parser):
        if action.option_strings:
            continue
        value = italic(value_of(action))
        match action.nargs:
            case "?" | argparse.PARSER if not action.required:
                value = f"[{value}]"
            case "*":
                value = f"[{value} \\&...]"
            case "+":
                value = f"{value} \\&..."
            case _:
                pass
        lines.append(value)
    return [f"{bold(parser.prog)} {' '.join(lines)}"]


def shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [each for each in parser._actions if each.help != argparse.SUPPRESS]  # noqa: SLF001 — argparse has no other list


def about(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""  # noqa: SLF001 — what `--help` prints


def paragraphs(text: str | None) -> list[str]:
    """A text of the help: as it is if its lines are those of a terminal, else filled, but for rows with columns."""
    stripped = (text or "").strip()
    rows = stripped.split("\n")
    is_laid_out = len(rows) > 1 and max(map(len, rows)) <= 80
    lines: list[str] = []
    for verbatim, group in groupby(rows, key=lambda row: is_laid_out or "  " in row.strip()):
        body = [escaped(row) or ".PP" for row in group]
        lines += [".PP", *([".nf", *body, ".fi"] if verbatim else body)]
    return lines if stripped else []


def arguments(parser: argparse.ArgumentParser, *without: list[str]) -> list[str]:
    """The arguments and options, as tagged paragraphs."""
    lines: list[str] = []
    for action in shown(parser):
        if children_of(action) or action.option_strings[-1:] in without:
            continue
        if action.option_strings:
            names = ", ".join(map(bold, action.option_strings))
            value = value_of(action) if action.nargs != 0 else ""
            joint = "" if value.startswith("=") else " "
            tag = f"{names}{joint}{italic(value)}" if value else names
        else:
            tag = italic(value_of(action))
        lines += [".TP", tag, escaped(about(action, parser)) or "\\&"]
    return lines


def split_epilog(epilog: str | None) -> tuple[str, str]:
    """What a help says after the options, and the exit codes at its end."""
    notes, _, status = (epilog or "").partition("exit codes")
    return notes.strip("\n"), " ".join(status.split())


def exit_status(status: str) -> list[str]:
    """The exit codes of a command as tagged paragraphs; those of every command if its help names none."""
    condition, _, named = (status or ": 0 success, 1 failed, 2 wrong usage").partition(": ")
    codes, _, more = named.partition("; ")
    lines = [f"{escaped(condition[:1].upper() + condition[1:])}:"] if condition else []
    for code in re.split(r", (?=\d)", codes):
        number, meaning = re.findall(r"^(\d+(?: \+ N)?) (.+)", code)[0]
        lines += [".TP", bold(number), escaped(meaning)]
    return [*lines, *paragraphs(more)]


def children_of(action: argparse.Action) -> Mapping[str, argparse.ArgumentParser]:
    """The parsers to which an argument hands on; none if it is an ordinary one."""
    choices: Any = action.choices
    return cast("Mapping[str, argparse.ArgumentParser]", choices) if isinstance(choices, Mapping) else {}


def actions_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The actions that a parser hands on to other parsers, with what each does."""
    for action in shown(parser):
        says = {each.dest: each.help or "" for each in getattr(action, "_choices_actions", ())}
        for name, child in children_of(action).items():
            yield says.get(name, ""), child


def commands() -> list[str]:
    """The commands of ``newel`` by topic, as its help lists them."""
    lines = [".SH COMMANDS"]
    for title, rows in HELP:
        lines += [f".SS {escaped(title)}"]
        for usage, says in rows:
            lines += [".TP", bold(usage), escaped(says)]
    return lines


def page(name: str, parsers: Sequence[argparse.ArgumentParser], *, more: Sequence[str] = ()) -> str:
    """A manual page: the first parser is the command's, the others are those of its actions."""
    first = parsers[0]
    described = " ".join((first.description or "").split())
    product = "mock-llm-server" if name == "mock-llm-server" else "newel"
    number = mock_version if product == "mock-llm-server" else version("newel")
    release = f"{product} {number}"
    lines = [
        '.\\" Written by scripts/man_pages.py from the parsers of the commands.',
        f'.TH {escaped(name.upper())} 1 "" "{escaped(release)}" "User Commands"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(summary(name, described))}",
        ".SH SYNOPSIS",
        *synopsis(first),
        *([f".br\n{bold(first.prog)} {italic('ACTION')} \\&..."] if parsers[1:] else []),
        ".SH DESCRIPTION",
        *paragraphs(first.description)[1:],
        *more,
        ".SH OPTIONS",
        *arguments(first),
    ]
    notes, status = split_epilog(first.epilog)
    inner = [*actions_of(first), *((parser.description or "", parser) for parser in parsers[1:])]
    if inner:
        lines.append(".SH ACTIONS")
    for says, parser in inner:
        lines += [f".SS {escaped(parser.prog)}", *synopsis(parser), *paragraphs(parser.description or says)]
        lines += [
            *arguments(parser, ["--help"], ["--version"]),
            *paragraphs(parser.epilog if parser.epilog != first.epilog else None),
        ]
    if product == "newel":
        lines += [".SH EXIT STATUS", *exit_status(status)]
    if notes:
        lines += [".SH NOTES", *paragraphs(notes)[1:]]
    if name != "newel" and product == "newel":
        lines += [".SH SEE ALSO", "\\fBnewel\\fR(1)"]
    elif name == "newel":
        pages = ", ".join(f"\\fB{escaped(f'newel-{each}')}\\fR(1)" for each in sorted(MODULES))
        lines += [
            ".SH SEE ALSO",
            pages,
            "",
            "\\fBnewel help\\fR \\fICOMMAND\\fR prints the options of a command.",
        ]
    return "\n".join(lines) + "\n"


def summary(name: str, described: str) -> str:
    """One line about a command."""
    listed = dict(described_commands()).get(name.removeprefix("newel-"))
    text = listed or described.split(". ", maxsplit=1)[0].partition(": ")[0].rstrip(".")
    return text[:1].lower() + text[1:]


def pages() -> Mapping[str, str]:
    """All pages by the names of their files."""
    written = {
        "newel": page("newel", [plain_agent_parser()], more=commands()),
        "lsimons-agent": page("lsimons-agent", [agent_parser("lsimons-agent")]),
    }
    for name in sorted(set(MODULES) - {"jexida"}):
        command: Command = getattr(import_module(f"newel.cli.{MODULES[name]}"), f"command_{name}")
        actions = () if name == "completion" else ACTIONS.get(name, ())
        own = list(parsers_of(command, actions))
        nested = {parser.prog for _, parser in actions_of(own[0])}
        written[f"newel-{name}"] = page(f"newel-{name}", [each for each in own if each.prog not in nested])
    jexida: Command = import_module("newel.cli.jexida").command_jexida
    written["jexida"] = page("jexida", list(parsers_of(jexida, ())))
    written["mock-llm-server"] = page("mock-llm-server", list(parsers_of(mock_llm_server, ())))
    for alias, target in ALIASES.items():
        written[alias] = f".so man1/{target}.1\n"
    return {f"{name}.1": text for name, text in written.items()}


def plain_agent_parser() -> argparse.ArgumentParser:
    """The parser of ``newel``, without the commands in its description: they are a section of their own."""
    parser = agent_parser("newel")
    parser.description = (parser.description or "").split("\n")[0]
    return parser


def main() -> int:
    wanted = pages()
    there = {path.name: path.read_text() for path in TARGET.glob("*.1")}
    if "--check" in sys.argv[1:]:
        for name in sorted({*wanted, *there}):
            if wanted.get(name) != there.get(name):
                print(f"{name} is out of date. Run scripts/man_pages.py and commit the result.")
        return int(wanted != there)
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in set(there) - set(wanted):
        (TARGET / name).unlink()
    for name, text in wanted.items():
        (TARGET / name).write_text(text)
    print(f"{len(wanted)} pages in {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
