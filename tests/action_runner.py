"""A small runner of composite GitHub Actions: the expressions of ``env`` and outputs, and each step's script in bash."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.processes import COMMAND_SECONDS

EXPRESSION = re.compile(r"\$\{\{\s*(?P<path>[\w.-]+)\s*\}\}")


class ActionRun(NamedTuple):
    """The exit code of the step that failed, else 0; what all steps printed; and the action's outputs."""

    code: int
    log: str
    outputs: dict[str, str]


class ActionRunner:
    """Runs the action in ``action.yml``, as GitHub documents it, with files of its own in ``folder``."""

    def __init__(self, file: Path, folder: Path, workspace: Path, environ: dict[str, str]) -> None:
        self.action: dict[str, Any] = yaml.safe_load(file.read_text())
        self._folder = folder
        self._workspace = workspace
        self._environ = environ | {
            "GITHUB_ACTION_PATH": str(file.parent),
            "GITHUB_ACTIONS": "true",
            "RUNNER_TEMP": str(folder),
        }

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self.action["runs"]["steps"]

    def run(self, **inputs: str) -> ActionRun:
        """Run the steps up to the first that fails. An underscore in an input's name is a hyphen."""
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        unknown = given.keys() - self.action["inputs"].keys()
        assert not unknown, unknown
        values = {
            f"inputs.{name}": given.get(name, str(about.get("default", "")))
            for name, about in self.action["inputs"].items()
        }
        log = ""
        for number, step in enumerate(self.steps):
            done, outputs = self._run_step(number, step, values)
            log += done.stdout
            values |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in outputs.items()}
            if done.returncode:
                return ActionRun(done.returncode, log, self._outputs(values))
        return ActionRun(0, log, self._outputs(values))

    def _run_step(
        self, number: int, step: dict[str, Any], values: dict[str, str]
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
        script = self._folder / f"step{number}.sh"
        script.write_text(_evaluate(step["run"], values))
        output, path = self._folder / f"output{number}", self._folder / "path"
        for file in (output, path):
            file.touch()
        environ = self._environ | {"GITHUB_OUTPUT": str(output), "GITHUB_PATH": str(path)}
        environ |= {name: _evaluate(text, values) for name, text in step.get("env", {}).items()}
        environ["PATH"] = ":".join([*reversed(path.read_text().split()), environ["PATH"]])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self._workspace / _evaluate(step.get("working-directory", "."), values),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        return done, _read_outputs(output.read_text())

    def _outputs(self, values: dict[str, str]) -> dict[str, str]:
        return {name: _evaluate(each["value"], values) for name, each in self.action["outputs"].items()}


def _evaluate(text: str, values: dict[str, str]) -> str:
    """The text with its expressions replaced, once: a value is not looked at again."""
    return EXPRESSION.sub(lambda match: values.get(match["path"], ""), text)


def _read_outputs(text: str) -> dict[str, str]:
    """Parse the file of a step's outputs: ``name<<END``, lines, ``END``."""
    outputs: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, _, end = line.partition("<<")
        value: list[str] = []
        for inner in lines:
            if inner == end:
                break
            value.append(inner)
        outputs[name] = "\n".join(value)
    return outputs
