"""``newel completion``: scripts with which shells complete the commands, their actions and the options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from newel.app.documentation import documentation_folder, load_pages
from newel.cli import HELP, MODULES
from newel.cli.options import Parser

ACTIONS: Final[Mapping[str, Sequence[str]]] = {
    "agents": ("tail", "log"),
    "fleet": ("run", "status", "log", "review", "cancel", "list", "delete", "prune", "drain", "workers"),
    "completion": ("bash", "zsh", "fish"),
    "config": ("get", "set", "unset", "edit", "path"),
    "eval": ("list", "check", "run", "show", "report", "compare", "export", "record"),
    "import": ("claude", "codex", "pi"),
    "hooks": ("list", "check", "trust"),
    "hosts": ("list", "add", "remove", "test"),
    "keys": ("list", "set", "remove"),
    "mcp": ("list", "add", "add-json", "remove", "test", "trust"),
    "models": ("pull", "remove"),
    "permissions": ("list", "add", "revoke"),
    "extensions": ("list", "check"),
    "skills": ("list", "check", "trust"),
}
"""The first words after a command."""

_EPILOG: Final = """\
bash: echo 'eval "$(newel completion bash)"' >> ~/.bashrc
zsh:  echo 'eval "$(newel completion zsh)"' >> ~/.zshrc
fish: newel completion fish > ~/.config/fish/completions/newel.fish"""

_BASH: Final = """\
_newel() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=
  case $before in
%(values)s
  esac
  if [[ -z $words && $COMP_CWORD == 1 && $word != -* ]]; then
    words='%(commands)s'
  elif [[ -z $words && $COMP_CWORD == 2 && $word != -* ]]; then
    case $before in
%(actions)s
    esac
  elif [[ -z $words && $word == -* ]]; then
    case ${COMP_WORDS[1]} in
      %(alternatives)s) words=$(newel help "${COMP_WORDS[1]}" 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u) ;;
      *) words='%(options)s' ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -o bashdefault -F _newel newel"""

_ZSH: Final = "autoload -Uz +X compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n"


class _CompletedOption(NamedTuple):
    """An option of ``newel``, its values if they are known, and its help."""

    name: str
    choices: Sequence[str]
    takes_value: bool
    help: str


def command_completion(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel completion",
        description="Print a script that completes Newel's commands and options in a shell.",
        epilog=_EPILOG,
    )
    parser.add_argument("shell", choices=ACTIONS["completion"], metavar="SHELL", help="bash, zsh or fish")
    shell = parser.parse_args(arguments).shell
    print(_fish() if shell == "fish" else f"{_ZSH if shell == 'zsh' else ''}{_bash()}")
    return 0


def _commands() -> list[str]:
    return [*sorted(MODULES), "help"]


def _first_words() -> Mapping[str, Sequence[str]]:
    """What completes the second word."""
    return {
        "help": _commands(),
        "docs": [page.name for page in load_pages(documentation_folder())],
        **ACTIONS,
    }


def _options() -> Iterator[_CompletedOption]:
    from newel.cli.main import agent_parser

    for action in agent_parser("newel")._actions:  # noqa: SLF001 — argparse has no other list of them
        for name in action.option_strings[-1:]:
            choices = [str(choice) for choice in action.choices or ()]
            yield _CompletedOption(name, choices, action.nargs != 0, action.help or "")


def _bash() -> str:
    options = list(_options())
    actions = _first_words()
    return _BASH % {
        "commands": " ".join(_commands()),
        "alternatives": "|".join(_commands()),
        "options": " ".join(option.name for option in options),
        "values": "\n".join(
            f"    {option.name}) words='{' '.join(option.choices)}' ;;"
            for option in options
            if option.choices
        ),
        "actions": "\n".join(
            f"      {command}) words='{' '.join(words)}' ;;" for command, words in actions.items()
        ),
    }


def _fish() -> str:
    described = dict(described_commands())
    lines = ["complete -c newel -e"]
    for name in _commands():
        about = f" -d {shlex.quote(described[name])}" if name in described else ""
        lines.append(f"complete -c newel -n __fish_use_subcommand -a {name}{about}")
    for name, words in _first_words().items():
        seen = f"__fish_seen_subcommand_from {name}; and test (count (commandline -opc)) -eq 2"
        lines.append(f"complete -c newel -n {shlex.quote(seen)} -a {shlex.quote(' '.join(words))}")
    for option in _options():
        values = f" -x -a {shlex.quote(' '.join(option.choices))}" if option.choices else ""
        needs = " -r" if option.takes_value and not values else ""
        about = shlex.quote(option.help)
        lines.append(
            f"complete -c newel -n __fish_use_subcommand -l {option.name[2:]}{values}{needs} -d {about}"
        )
    return "\n".join(lines)


def described_commands() -> Iterator[tuple[str, str]]:
    """The commands with what they do, by the help."""
    for _, rows in HELP:
        for usage, about in rows:
            for part in usage.split(", "):
                words = part.split()
                if len(words) > 1 and words[1] in MODULES and (len(words) < 3 or words[2] not in ACTIONS):
                    yield words[1], about
