"""If these fail, a suite of Harbor measures Newel with another prompt or model, or counts its tokens wrongly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import newel
from newel.evals.harbor_run import EVENTS, install_command, model_environ, read_totals, run_command

PROMPT = 'Write "it\'s" $HOME `id` into\n--file\n'
SERVER = {"LLM_BASE_URL": "http://h/v1", "LLM_AUTH_TOKEN": "k"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home in an environment where uv is, which installs a Newel that writes down its arguments."""
    place = tmp_path / "home"
    programs = {
        "uv": 'printf "%s\\n" "$@" >"$HOME/uv.txt"\n',
        "newel": 'printf "%s\\0" "$@" >"$HOME/newel.txt"\necho "$SAID"\necho Oh >&2\nexit ${EXIT:-0}\n',
    }
    for name, text in programs.items():
        path = place / ".local" / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}")
        path.chmod(0o755)
    return place


def shell(command: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """As Harbor runs commands."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **environ}
    words = ["bash", "-c", f"set -o pipefail; {command}"]
    return subprocess.run(words, env=environ, capture_output=True, text=True, check=False)


def test_newel_is_installed_from_a_wheel_and_records_nothing(home: Path) -> None:
    wheel = "/installed-agent/newel-0.1.0 it's.whl"
    assert shell(install_command(wheel), home).returncode == 0
    assert (home / "uv.txt").read_text().splitlines()[-1] == wheel
    config = home / ".newel" / "config.toml"
    assert config.read_text() == "[review]\nrecord = false\n"
    config.write_text("")
    assert shell(install_command("newel"), home).returncode == 0
    assert config.read_text() == ""


def test_a_failed_installation_is_a_failure(home: Path) -> None:
    (home / ".local" / "bin" / "uv").write_text("#!/bin/bash\nexit 3\n")
    assert shell(install_command("newel"), home).returncode == 3


def test_newel_gets_the_instruction_as_it_is(home: Path) -> None:
    done = shell(run_command(PROMPT, str(home), "--max-turns 3"), home, SAID='{"type": "result"}')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    words = (home / "newel.txt").read_text().split("\0")[:-1]
    assert words == ["--json", "--approve", "auto", "--sandbox", "off", "--max-turns", "3", "--", PROMPT]
    assert (home / EVENTS).read_text() == '{"type": "result"}\n'


def test_why_newel_has_failed_can_be_seen(home: Path) -> None:
    """Harbor tells an overloaded server, after which it tries again, from other failures by this output."""
    done = shell(run_command(PROMPT, str(home), ""), home, SAID='{"message": "rate limit"}', EXIT="4")
    assert done.returncode == 4
    assert done.stderr == 'Oh\n{"message": "rate limit"}\n'


def test_the_model_is_the_one_that_harbor_names() -> None:
    assert model_environ("m", SERVER, None) == {
        **SERVER,
        "LLM_DEFAULT_MODEL": "m",
        "LLM_SMALL_FAST_MODEL": "m",
    }
    assert model_environ("m", SERVER, "anthropic_messages")["LLM_API"] == "anthropic"
    with pytest.raises(
        ValueError, match=r"does not know the server of the model m\. Name it: --base-url URL"
    ):
        model_environ("m", {"LLM_AUTH_TOKEN": "k"}, None)


def lines(*events: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, events)) + '\n{"type": "cut of'


def test_tokens_and_cost_are_those_of_the_results() -> None:
    usage = {"input": 1000, "output": 20, "cacheRead": 900}
    result = {"type": "result", "usage": usage, "cost": 0.5}
    answer = {"type": "message_end", "message": {"role": "assistant", "usage": usage}}
    assert read_totals(lines(answer, result)) == (1000, 900, 20, 0.5)
    assert read_totals(lines(answer, result | {"cost": None})) == (1000, 900, 20, None)
    assert read_totals(lines({"type": "session"})) is None


def test_a_run_that_was_ended_has_used_what_its_messages_say() -> None:
    """One that reaches Harbor's timeout has no result, but a bill."""
    answer = {"role": "assistant", "usage": {"input": 1000, "output": 20}, "cost": 0.25}
    user = {"role": "user", "content": "Go."}
    events = [{"type": "message_end", "message": message} for message in (user, answer, answer)]
    assert read_totals(lines(*events)) == (2000, 0, 40, 0.5)


def test_harbor_loads_it_without_what_newel_depends_on() -> None:
    """Harbor and Newel need versions of packages that do not go together."""
    source = Path(newel.__file__).parents[1]
    code = f"import sys; sys.path.insert(0, {str(source)!r}); import newel.evals.harbor_run"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
