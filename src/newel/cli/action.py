"""``newel action``: the step of the GitHub Action.

Its inputs are environment variables, because a shell script that GitHub puts an input into would run what the input says. A log is
read by the runner for commands (``::set-output …``), so they are turned off while the model or a file name is printed.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from newel.agent.errors import UsageError
from newel.cli.options import Parser
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.app.answer import Answer
    from newel.app.api import AgentFlags
    from newel.config.settings import Approve

PREFIX = "NEWEL_ACTION_"
DONE, FAILED = 0, 1

EPILOG = """\
environment: NEWEL_ACTION_PROMPT, or NEWEL_ACTION_CHECK=true; NEWEL_ACTION_MODEL, _BASE_URL, _API_KEY, _MAX_COST and \
_APPROVE. The answer, the session's ID and the cost are written to the file that GITHUB_OUTPUT names.
exit codes: 0 done, 1 failed, incomplete or changes wait for a decision, 2 wrong usage"""


def command_action(arguments: Sequence[str]) -> int:
    description = "Run a prompt, or `newel review --check`, with inputs from the environment."
    Parser(prog="newel action", description=description, epilog=EPILOG).parse_args(arguments)
    inputs = _take_inputs(os.environ)
    if (inputs.get("CHECK", "false") == "true") == bool(inputs.get("PROMPT")):
        raise UsageError("The action needs either a prompt or `check: true`.")
    with _without_log_commands():
        if not inputs.get("PROMPT"):
            from newel.cli.review import command_review

            return command_review(["--check"])
        from newel.app.answer import ask

        answer = ask(inputs["PROMPT"], progress=True, **_flags(inputs))
    _write_outputs(answer)
    if answer.problem:
        print(f"newel: {sanitize(answer.problem)}", file=sys.stderr)
    return FAILED if answer.problem or answer.reason != "done" else DONE


def _take_inputs(environ: MutableMapping[str, str]) -> Mapping[str, str]:
    """The inputs that are not empty. They are removed from the environment: commands of the agent get no key."""
    names = [name for name in environ if name.startswith(PREFIX)]
    inputs = {name.removeprefix(PREFIX): environ.pop(name).strip() for name in names}
    return {name: value for name, value in inputs.items() if value}


def _flags(inputs: Mapping[str, str]) -> AgentFlags:
    try:
        max_cost = float(inputs["MAX_COST"]) if "MAX_COST" in inputs else None
    except ValueError:
        raise UsageError(
            f"max-cost is {inputs['MAX_COST']!r}. Give a number of US dollars, such as 0.50."
        ) from None
    from newel.app.api import AgentFlags

    return AgentFlags(
        model=inputs.get("MODEL"),
        base_url=inputs.get("BASE_URL"),
        api_key=inputs.get("API_KEY"),
        max_cost=max_cost,
        approve=cast("Approve", inputs.get("APPROVE", "read-only")),  # the API refuses any other word
    )


@contextmanager
def _without_log_commands() -> Generator[None]:
    """Turn off the commands in the log, until a word that nobody can guess."""
    if not os.environ.get("GITHUB_ACTIONS"):
        yield
        return
    word = secrets.token_hex(16)
    print(f"::stop-commands::{word}", flush=True)
    try:
        yield
    finally:
        print(f"\n::{word}::", flush=True)


def _write_outputs(answer: Answer) -> None:
    if not (path := os.environ.get("GITHUB_OUTPUT")):
        return
    cost = "" if answer.cost is None else f"{answer.cost:.6f}"
    with Path(path).open("ab") as file:
        for name, value in (("answer", answer.text), ("session", answer.session), ("cost", cost)):
            end = secrets.token_hex(16)  # an answer must not end its own output and begin another
            file.write(f"{name}<<{end}\n{value}\n{end}\n".encode(errors="replace"))
