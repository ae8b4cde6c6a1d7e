"""A single word on the command line that hardly is a prompt: a misspelt command, or one that other tools have."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from newel.agent.errors import UsageError
from newel.commands import HIDDEN, MODULES

LIKENESS: Final = 0.8

_SETTINGS = "Settings are read from the environment and ~/.newel/config.toml; `newel doctor` shows them."
_UPDATE = "Newel is updated by the tool that installed it, for example `uv tool upgrade newel`."
_KNOWN: Final = {
    **dict.fromkeys(["acp"], "Newel does not speak ACP; `newel --json` is its mode for programs."),
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


def check_word(word: str) -> None:
    """Raises ``UsageError`` for a word that is no prompt in all likelihood; it costs a run with all tools otherwise."""
    plain = word.lower()
    if not plain.isascii():
        return
    as_prompt = f"To send it as a prompt: newel -- {word}"
    if plain in MODULES:
        raise UsageError(f"'{word}' is a command, and commands come first: newel {plain} … {as_prompt}")
    if hint := _KNOWN.get(plain):
        raise UsageError(f"There is no command '{word}'. {hint} {as_prompt}")
    if near := get_close_matches(plain, MODULES.keys() - HIDDEN, n=1, cutoff=LIKENESS):
        raise UsageError(f"There is no command '{word}'. Did you mean `newel {near[0]}`? {as_prompt}")
