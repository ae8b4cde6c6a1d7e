"""Hints for commands and options of other tools, which Newel lacks or has under another name."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final, NoReturn

from newel.agent.errors import UsageError
from newel.cli import MODULES
from newel.version import UPDATE_HINT

LIKENESS: Final = 0.82

_AUTO: Final = "`--approve auto`, the default, runs everything without asking, in the sandbox; `--sandbox off` lifts its limits."
_SETTINGS: Final = "`newel --help` lists the options; `newel config set NAME VALUE` changes a setting."
_OFF: Final = "`--sandbox off` lets commands do whatever you can do."
_ASK: Final = "`--approve ask` shows each change and command first."
_PLAN: Final = "`--approve plan` looks around, changes nothing and ends with a plan."

_COMMAND_HINTS: Final = {
    word: hint
    for words, hint in (
        (
            "auth login logout connect onboard",
            "`newel setup` asks for a server, its key and a model; `newel keys` lists and removes keys.",
        ),
        (
            "configure settings preferences",
            "`newel config` shows and changes settings, `newel setup` asks for the server and the model.",
        ),
        (
            "init",
            "`/init` in a conversation writes AGENTS.md; `newel setup` asks for the server and the model.",
        ),
        ("update upgrade", UPDATE_HINT),
        ("install uninstall", "`newel mcp add` adds tool servers."),
        (
            "history",
            "`newel --continue` resumes this folder's latest session, `newel --session ID` another; `newel sessions` lists them.",
        ),
        ("pull download", "`newel models pull` downloads a model that runs on this machine."),
        ("model", "`newel models` lists the server's models, `--model NAME` chooses one."),
        ("version", "`newel --version` shows the version."),
        ("completions", "`newel completion bash|zsh|fish` prints a script for the shell."),
        ("exec run", "`newel -p PROMPT` runs a task, prints the answer and exits."),
        (
            "chat ask code start repl tui interactive",
            "`newel` starts a conversation, `newel PROMPT` one with this prompt.",
        ),
        ("usage cost tokens", "`newel stats` shows the tokens, cost and time used."),
        ("commit", "`newel -p 'commit the changes'` lets the agent commit."),
        (
            "memory",
            "Put instructions for agents into AGENTS.md; `/remember WORDS` in a conversation adds one.",
        ),
        ("plugin plugins", "`newel extensions` lists extensions in Python, `newel skills` skills."),
        ("ps kill stop", "`newel agents` lists the agents that work on a contract."),
        ("status diff log changes", "`newel review` shows what agents changed in this folder."),
        ("rewind revert restore", "`newel undo` undoes the last run, `newel rollback` an earlier one."),
        (
            "sandbox",
            "`newel --sandbox workspace|read-only|partial|off` chooses the sandbox, `newel doctor` tests it.",
        ),
        ("host remote ssh", "`newel hosts` lists hosts, `newel --host PLACE` works on one."),
        ("serve server ui", "`newel web` starts the workbench in the browser."),
        (
            "rules permission allow deny",
            "`newel permissions` lists, adds and revokes rules about what agents may do.",
        ),
        ("plan", _PLAN),
        ("accept apply", "`newel decide` asks about each change, `newel keep` keeps changes by ID."),
    )
    for word in words.split()
}

_VERBS: Final = frozenset(
    {"add", "delete", "edit", "get", "list", "login", "logout", "ls", "remove", "rm", "set", "show", "status"}
)
"""After a word that looks like a command, these make it a command and not a prompt."""

_OPTION_HINTS: Final = {
    option: hint
    for options, hint in (
        ("-i --interactive", "In a terminal, `newel` starts a conversation, with a prompt or without."),
        (
            "--prompt --message --msg -e --exec",
            'The prompt needs no option: newel "fix the failing test", or with -p for the answer alone.',
        ),
        (
            "-r --resume --fork-session --last",
            "`newel --continue` resumes this folder's latest session, `newel --session ID` another; `/resume` in a conversation lists them.",
        ),
        (
            "-y --yes --yolo --full-auto --auto --yes-always --auto-approve --force --dangerously-skip-permissions",
            _AUTO,
        ),
        ("--allow-all-tools --allow-all --trust-all-tools --skip-permissions", _AUTO),
        ("--dangerously-bypass-approvals-and-sandbox --no-sandbox --unsandboxed --unsafe", _OFF),
        (
            "-a --ask-for-approval --approval-mode --approval-policy --permission-mode",
            "`--approve auto|ask|review|plan|read-only` sets the approval mode: what runs without asking.",
        ),
        ("-s --sandbox-mode", "`--sandbox workspace|read-only|partial|off` sets what commands may change."),
        ("--ask --manual --confirm", _ASK),
        (
            "--readonly --read-only",
            "`--approve read-only` looks around, and refuses every call that could change something.",
        ),
        ("--review --diff", "`--approve review` holds all changes back until you have decided."),
        (
            "--dry-run",
            "`--approve plan` changes nothing; `--approve review` holds all changes back until you have decided.",
        ),
        (
            "--network --net --allow-network --allow-net --allow-domain --allowed-domains",
            'Newel asks about each server; domains = ["example.org"] under [sandbox] in ~/.newel/config.toml allows one.',
        ),
        (
            "--add-dir --include-directories --writable",
            'writable = ["/path"] under [sandbox] in ~/.newel/config.toml lets commands change another folder; `--cwd DIR` works in it.',
        ),
        ("--no-git --no-auto-commits --no-commit", "Newel never commits by itself."),
        (
            "--stream-json",
            "`--json` reads and writes JSON lines, `--output-format stream-json` those of Claude Code.",
        ),
        ("--json-schema --output-schema", "`--schema FILE` holds the answer to a JSON Schema."),
        (
            "--allowedTools --allowed-tools --disallowedTools --disallowed-tools --allow-tool --deny-tool",
            "`newel permissions add RULE` allows calls, `[permissions]` in config.toml denies them, `--tools LIST` chooses the tools.",
        ),
        ("--plan --plan-mode", _PLAN),
        ("--append-system-prompt", "Put instructions into AGENTS.md, or use --system-prompt."),
        ("-C --cd --dir", "`--cwd DIR` works in another folder."),
        ("--openai-api-base --api-base --provider --endpoint", "`--base-url URL` names the server."),
        ("--openai-api-key --key", "`--api-key KEY`, or LLM_AUTH_TOKEN, sets the key."),
        ("--effort --reasoning-effort", "`--thinking LEVEL` sets how much the model reasons."),
        ("--config --set --setting", _SETTINGS),
        ("--debug -v -d", "`--renderer console` shows all of a run as plain text."),
        (
            "--mode",
            "`--approve auto|ask|review|plan|read-only` sets the approval mode, `--output-format text|json|stream-json` what a script gets.",
        ),
        ("--no-session --no-session-persistence", "`--ephemeral` saves no session."),
        ("--list-models", "`newel models` lists the server's models."),
        (
            "--oss --local --local-provider",
            "`--agent-mode local` works with a model on this machine; `--base-url ollama://localhost` with one of Ollama.",
        ),
        ("-w", "`--worktree` works in a new git worktree."),
        ("--max-budget-usd --max-budget --budget", "`--max-cost USD` limits the cost of a prompt."),
        (
            "--fallback-model",
            "`--agent-mode hybrid_auto` begins with a local model and goes on with the remote one.",
        ),
        ("--mcp-config --mcp --allowed-mcp-server-names", "`newel mcp add` adds tool servers."),
        (
            "--search --web-search",
            "The model can fetch web pages by itself: `web_fetch` is one of its tools.",
        ),
        (
            "--settings --setting-sources --profile",
            "`newel config` shows and changes the settings; NEWEL_HOME=DIR uses those of another folder.",
        ),
        (
            "--agents --agent",
            "The model starts subagents by itself; `newel agent CONTRACT` runs an agent on its own.",
        ),
        ("-f --image --file --read", "`@path` in the prompt attaches a file or an image."),
        ("-V", "`newel --version` shows the version."),
        ("--format", "`--output-format text|json|stream-json` sets what a script gets."),
        ("--color --no-color --colour --no-colour", "NO_COLOR=1 in the environment turns colours off."),
        (
            "--theme --dark-mode --light-mode --dark --light",
            "`/theme` in a conversation chooses the colours, `newel config set terminal.theme NAME` sets them for all.",
        ),
        ("--vim --vi", "`newel config set terminal.editing vi` makes the keys those of vi."),
        ("--list", "`newel sessions` lists this folder's sessions, `newel models` the server's models."),
        ("--no-tools", "`--tools none` offers no tools."),
        ("--ide", "`newel acp` serves an editor."),
        ("--export", "`newel export SESSION` writes a session as Markdown or HTML."),
        ("--skill --skills", "`newel skills` lists skills; the model loads those that it needs."),
        ("--extension --plugin-dir", "`newel extensions` lists extensions in Python."),
    )
    for option in options.split()
}


_VALUE_HINTS: Final = {
    (option, word): hint
    for option, words, hint in (
        (
            "--sandbox",
            "workspace-write write strict default on true enabled",
            "`--sandbox workspace`, the default, lets commands change this folder only.",
        ),
        ("--sandbox", "danger-full-access full none no false disabled unrestricted", _OFF),
        ("--approve", "never always all yes yolo full-auto bypasspermissions dontask", _AUTO),
        ("--approve", "on-request on-failure untrusted default manual suggest", _ASK),
        (
            "--approve",
            "acceptedits accept-edits auto-edit auto_edit",
            '`--approve ask` and `newel permissions add "write(**)"` ask about commands only.',
        ),
        (
            "--scope",
            "local",
            "`user`, the default, is for you in every folder; `project` is for all users of this one.",
        ),
        ("--transport", "sse", "MCP has deprecated SSE: use the server's HTTP address."),
        (
            "newel mcp",
            "get show info ls status",
            "`newel mcp list` shows the servers, `newel mcp test NAME` starts one and lists its tools.",
        ),
        ("newel mcp", "rm delete uninstall", "`newel mcp remove NAME` removes a server."),
        (
            "newel mcp",
            "add-from-claude-desktop import",
            "`newel mcp add-json NAME JSON` adds one entry of such a file.",
        ),
        ("newel mcp", "serve", "`newel acp` serves an editor, `newel rpc` a program."),
    )
    for word in words.split()
}
"""For the values that other tools have for an option, or the actions that they have for a command, in lower case."""

_SETTING_HINTS: Final = {
    "model": "`--model NAME` chooses the model.",
    "model_provider": "`--base-url URL` names the server.",
    "model_providers": "`--base-url URL` names the server.",
    "model_reasoning_effort": _OPTION_HINTS["--effort"],
    "approval_policy": _OPTION_HINTS["--approval-policy"],
    "sandbox_mode": _OPTION_HINTS["--sandbox-mode"],
    "sandbox_workspace_write": f"{_OPTION_HINTS['--network']} {_OPTION_HINTS['--writable']}",
    "sandbox_permissions": _OPTION_HINTS["--sandbox-mode"],
    "mcp_servers": "`newel mcp add` adds tool servers.",
}
"""For the settings that Codex takes after ``-c``, by the first part of their names."""

_OVERRIDE: Final = r"(?s)(?P<name>[A-Za-z_][\w-]*)(?:\.[\w\"'-]+)*=(?:\S*|[\"'\[{].*)"
"""A setting and its value in TOML: ``model=o3``, ``a.b="c d"``."""

_OWN_OPTION: Final = r"(?<!newel )--[a-z][a-z-]*"
"""An option in a hint that the command itself has to have: it follows no other command."""

_OF_OPTION: Final = r"(?s)argument (-\S+): (.+)"
_INVALID: Final = r"(?s)argument (.+): invalid choice: (.+) \(choose from (.+)\)"


def check_words(arguments: Sequence[str]) -> None:
    """Raises ``UsageError`` for words that are probably no prompt: a mistyped command must not start a run with all tools."""
    as_prompt = f"To send it as a prompt: newel -- {' '.join(arguments)}"
    first = arguments[0]
    if first.startswith("/"):
        _check_slash(first, as_prompt)
        return
    rest = arguments[1:]
    if first == "help" and len(rest) == 1:
        first, rest = rest[0], ()
    is_command_like = not rest or rest[0] in _VERBS or first == "exec"  # no sentence begins with it
    if not (is_command_like and first.isascii() and first.isalpha()):
        return
    plain = first.lower()
    if plain in MODULES:
        raise UsageError(f"'{first}' is a command: newel {plain} … {as_prompt}")
    if hint := _COMMAND_HINTS.get(plain):
        raise UsageError(f"There is no command '{first}'. {hint} {as_prompt}")
    if near := _near(plain, MODULES):
        raise UsageError(f"There is no command '{first}'. Did you mean `newel {near}`? {as_prompt}")
    if sys.stdin.isatty():  # with piped input, a word such as "implement" is a task
        _check_slash(f"/{plain}", as_prompt)


def refuse_help(word: str) -> NoReturn:
    """Raises ``UsageError``: there is no command whose help this could be."""
    check_words([word])
    raise UsageError(f"There is no command '{word}'. To list the commands: `newel --help`.")


def check_override(arguments: Sequence[str]) -> None:
    """Raises ``UsageError`` for ``-c NAME=VALUE``, with which Codex sets something. Here it would be a prompt for the latest session."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    settings = [setting for option, setting in pairwise(words) if option == "-c"]
    settings += [word[2:] for word in words if re.match("-c[a-z_]{2}", word)]
    for setting in settings:
        if match := re.fullmatch(_OVERRIDE, setting):
            hint = _SETTING_HINTS.get(match["name"], _SETTINGS)
            raise UsageError(
                f"`-c` resumes this folder's latest session and sets nothing. {hint} To send it as a prompt: newel -c -- {shlex.quote(setting)}"
            )


def _near(word: str, names: Collection[str]) -> str:
    """The most similar name; empty if none is similar. Swapped letters weigh too much in the likeness of a short one: ``udno``."""
    from difflib import get_close_matches

    swapped = [name for name in names if sorted(name) == sorted(word)]
    return next(iter([*swapped, *get_close_matches(word, names, n=1, cutoff=LIKENESS)]), "")


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
    if invalid := re.fullmatch(_INVALID, message):
        return _explain_value(prog, *invalid.groups())
    _, unknown, unexpected = message.partition("unrecognized arguments: ")
    if option := re.fullmatch(_OF_OPTION, message):
        name, problem = option[1].rpartition("/")[2], option[2]
        return f"{name} needs a value." if problem == "expected one argument" else f"{name}: {problem}."
    if not unknown:
        return f"{message}."
    name = unexpected.split()[0]
    if not name.startswith("-"):
        explanation = f"Unexpected argument: {unexpected}."
        line = sys.argv[1:]
        is_command = prog == f"newel {' '.join(line[:1])}"
        if not is_command:
            return explanation
        return f"{explanation} To send it as a prompt: newel -- {shlex.join(line)}"
    name = name.partition("=")[0]
    longer = [option for option in options if option.startswith(name) and name.startswith("--")]
    near = " or ".join(longer) or _near(name, options)
    hint = _OPTION_HINTS.get(name, "")
    if not set(re.findall(_OWN_OPTION, hint)) <= {*options}:
        hint = ""
    hint = hint or (f"Did you mean {near}?" if near else "")
    return f"There is no option {name}. {hint}".rstrip()


def _explain_value(prog: str, of: str, quoted: str, choices: str) -> str:
    """The error for a value that an option lacks, or a command that a command lacks. Python quotes the choices or not."""
    value = quoted[1:-1]
    name = of.rpartition("/")[2]  # of -m/--model the long one
    kind = "shell" if name == "SHELL" else "command"
    what = f"{name} {value}" if name.startswith("-") else f"{kind} '{value}'"
    hint = _VALUE_HINTS.get((name if name.startswith("-") else prog, value.lower()), "")
    return f"There is no {what}: choose from {choices.replace(chr(39), '')}. {hint}".rstrip()
