"""Hints for commands and options of other tools, which Newel lacks or has under another name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from newel.agent.errors import UsageError
from newel.cli import HIDDEN, MODULES

LIKENESS: Final = 0.8

_SETTINGS = "Settings are read from the environment and ~/.newel/config.toml; `newel doctor` shows them."
_UPDATE = "Newel is updated by the tool that installed it, for example `uv tool upgrade newel`."
_COMMAND_HINTS: Final = {
    **dict.fromkeys(["acp"], "Newel does not support ACP; programs can use `newel --json`."),
    **dict.fromkeys(
        ["auth", "login", "logout", "setup", "config", "configure", "settings", "init"], _SETTINGS
    ),
    **dict.fromkeys(["update", "upgrade"], _UPDATE),
    **dict.fromkeys(["install", "uninstall"], "Tool servers are added with `newel mcp add`."),
    **dict.fromkeys(
        ["resume", "session", "history"],
        "`newel --continue` resumes this folder's last session, `newel --session ID` another one; `newel sessions` lists them.",
    ),
    **dict.fromkeys(
        ["model", "models"], "`newel doctor` lists the server's models, `--model NAME` chooses one."
    ),
    **dict.fromkeys(["version"], "`newel --version` shows the version."),
    **dict.fromkeys(["completion", "completions"], "Newel has no shell completion."),
    **dict.fromkeys(["status", "diff"], "`newel review` shows what agents changed in this folder."),
    **dict.fromkeys(
        ["rewind", "revert"], "`newel undo` undoes the last run, `newel rollback` an earlier one."
    ),
    **dict.fromkeys(["redo"], "`newel undo` after an undo brings the changes back."),
    **dict.fromkeys(
        ["host", "remote", "ssh"], "`newel hosts` lists hosts, `newel --host PLACE` works on one."
    ),
    **dict.fromkeys(["serve", "server", "ui"], "`newel web` starts the workbench in the browser."),
    **dict.fromkeys(
        ["accept", "apply"], "`newel decide` asks about each change, `newel keep` keeps changes by id."
    ),
}


_VERBS: Final = frozenset(
    {"add", "delete", "edit", "get", "list", "login", "logout", "ls", "remove", "rm", "set", "show", "status"}
)
"""After a word that looks like a command, these make it a command and not a prompt."""

_AUTO: Final = "`--approve auto`, the default, runs everything without asking."
_APPROVE: Final = "`--approve auto|ask|review|read-only` sets what runs without asking."
_RESUME: Final = "`newel --continue` resumes this folder's last session, `newel --session ID` another one."
_ONCE: Final = 'A prompt on the command line is one task: newel "fix the failing test"'
_OPTION_HINTS: Final = {
    **dict.fromkeys(["-i", "--interactive"], "`newel` without a prompt starts a conversation."),
    **dict.fromkeys(["--prompt", "--message", "--msg", "-e", "--exec"], _ONCE),
    **dict.fromkeys(["-r", "--resume", "--fork-session", "--last"], _RESUME),
    **dict.fromkeys(
        ["-y", "--yes", "--yolo", "--full-auto", "--yes-always", "--auto-approve", "--force"], _AUTO
    ),
    **dict.fromkeys(["--dangerously-skip-permissions", "--dangerously-bypass-approvals-and-sandbox"], _AUTO),
    **dict.fromkeys(["-a", "--ask-for-approval", "--permission-mode", "--sandbox", "-s"], _APPROVE),
    **dict.fromkeys(
        ["--output-format", "--input-format", "--stream-json"], "`--json` reads and writes JSON lines."
    ),
    **dict.fromkeys(["--append-system-prompt"], "Put instructions into AGENTS.md, or use --system-prompt."),
    **dict.fromkeys(["-C", "--cd", "--add-dir", "--dir"], "`--cwd DIR` works in another folder."),
    **dict.fromkeys(
        ["--openai-api-base", "--api-base", "--provider", "--endpoint"], "`--base-url URL` names the server."
    ),
    **dict.fromkeys(["--openai-api-key", "--key"], "`--api-key KEY`, or LLM_AUTH_TOKEN, sets the key."),
    **dict.fromkeys(
        ["--effort", "--reasoning-effort"], "`--thinking LEVEL` sets how much the model reasons."
    ),
    **dict.fromkeys(
        ["--verbose", "--debug", "-v", "-d"], "`--renderer console` shows all of a run as plain text."
    ),
}


def check_words(words: Sequence[str]) -> None:
    """Raises ``UsageError`` for words that are probably no prompt: a mistyped command must not start a run with all tools."""
    as_prompt = f"To send it as a prompt: newel -- {' '.join(words)}"
    first = words[0]
    if first.startswith("/"):
        _check_slash(first, as_prompt)
        return
    rest = words[1:]
    if first == "help" and len(rest) == 1:
        first, rest = rest[0], ()
    is_command_like = not rest or rest[0] in _VERBS or (first == "resume" and _is_id(rest))
    if not (is_command_like and first.isascii() and first.isalpha()):
        return
    plain = first.lower()
    if plain in MODULES:
        raise UsageError(f"'{first}' is a command: newel {plain} … {as_prompt}")
    if hint := _COMMAND_HINTS.get(plain):
        raise UsageError(f"There is no command '{first}'. {hint} {as_prompt}")
    if near := _near(plain, MODULES.keys() - HIDDEN):
        raise UsageError(f"There is no command '{first}'. Did you mean `newel {near}`? {as_prompt}")


def _near(word: str, names: Iterable[str]) -> str:
    """The most similar name; empty if none is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, names, n=1, cutoff=LIKENESS)), "")


def _is_id(words: Sequence[str]) -> bool:
    return len(words) == 1 and any(map(str.isdigit, words[0])) and set(words[0]) <= set("0123456789abcdef-")


def _check_slash(first: str, as_prompt: str) -> None:
    """Raises ``UsageError`` for a command of the conversation: a model would guess at its meaning."""
    from newel.terminal.repl.slash_commands import COMMANDS

    name = first[1:]
    if name not in COMMANDS:
        return
    outside = f" In the shell it is `newel {name}`." if name in MODULES else ""
    raise UsageError(
        f"{first} is a command of the conversation: start `newel` and enter it there.{outside} {as_prompt}"
    )


def explain_usage_error(prog: str, message: str, options: Sequence[str]) -> str:
    """A parser's message, with a hint at what was probably meant."""
    _, unknown, given = message.partition("unrecognized arguments: ")
    if not unknown:
        return f"{message}."
    name = given.split()[0]
    if not name.startswith("-"):
        words = f"Unexpected argument: {given}."
        line = sys.argv[1:]
        is_command = prog == f"newel {' '.join(line[:1])}"
        if not is_command:
            return words
        import shlex

        return f"{words} To send it as a prompt: newel -- {shlex.join(line)}"
    name = name.partition("=")[0]
    near = _near(name, options)
    hint = _OPTION_HINTS.get(name, f"Did you mean {near}?" if near else "")
    return f"There is no option {name}. {hint}".rstrip()
