"""If these fail, Harbor cannot install or run Newel, or reports another result, model or number of tokens.

A real Harbor is needed, in an environment of its own: it does not go together with Newel's packages. So these tests
are run on request.

    uv tool install harbor && NEWEL_TESTS_HARBOR=$(which harbor) ./run pytest -m "" tests/integration/evals/test_harbor.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import MockServer, running
from tests.requirements import require_program
from tests.support import bash

HARBOR = os.environ.get("NEWEL_TESTS_HARBOR", "")
if not HARBOR:
    pytest.skip("NEWEL_TESTS_HARBOR does not name the program of a Harbor", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]  # Harbor takes 10 s, and Newel is installed

ROOT = Path(__file__).resolve().parents[3]
PROMPT = """Write "it's $5" into hello.txt."""
TOKENS = {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 800}}
SCENARIOS = {
    "scenarios": [
        {
            "name": "hello",
            "trigger": PROMPT,
            "steps": [
                {"response": bash("echo 'it is' > hello.txt") | {"usage": TOKENS}},
                {"response": {"content": "Done.", "usage": TOKENS}},
            ],
        }
    ]
}
TEST = '[ "$(cat /app/hello.txt)" = "it is" ] && echo 1 > /logs/verifier/reward.txt\n'

MODELS = {
    "openai": ("/v1/chat/completions", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "{url}/v1"}),
    "anthropic": ("/v1/messages", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "{url}"}),
}


@pytest.fixture
def model() -> Iterator[MockServer]:
    with running(SCENARIOS) as server:
        yield server


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(["uv", "build", "--quiet", "--wheel", "-o", str(place), str(ROOT)], check=True)
    return next(place.glob("*.whl"))


def run_harbor(wheel: Path, folder: Path, *words: str, **environ: str) -> dict[str, Any]:
    """Run Newel on a task; return Harbor's result of the trial."""
    require_program("bwrap", "bubblewrap")
    uv = shutil.which("uv")
    assert uv is not None
    task = folder / "task"
    for name, text in {
        "task.toml": '[environment]\nworkdir = "/app"\n',
        "instruction.md": PROMPT,
        "tests/test.sh": TEST,
        "environment/Dockerfile": "FROM scratch\n",
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    options = [
        "--agent",
        "newel.evals.harbor:NewelAgent",
        "--env",
        "harbor_environment:BubblewrapEnvironment",
    ]
    environ = {
        **{name: value for name, value in os.environ.items() if name.startswith(("UV_", "SSL_CERT_"))},
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TOOLS": str(Path(uv).parent),
        "PYTHONPATH": f"{wheel}:{ROOT / 'tests' / 'standins'}",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        **environ,
    }
    command = [HARBOR, "run", "-p", str(task), "-o", str(folder / "jobs"), "-q", "-y", *options, *words]
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)
    found = list((folder / "jobs").glob("*/task__*/result.json"))
    assert len(found) == 1, done.stdout + done.stderr
    return json.loads(found[0].read_text())


@pytest.mark.parametrize("vendor", MODELS)
def test_harbor_installs_and_runs_newel_and_reports_what_it_has_used(
    wheel: Path, tmp_path: Path, model: MockServer, vendor: str
) -> None:
    path, variables = MODELS[vendor]
    environ = {name: value.format(url=model.url) for name, value in variables.items()}
    result = run_harbor(wheel, tmp_path, "-m", f"{vendor}/m", **environ)
    assert result["exception_info"] is None, result
    assert result["verifier_result"]["rewards"] == {"reward": 1}
    used = result["agent_result"]
    assert (used["n_input_tokens"], used["n_cache_tokens"], used["n_output_tokens"]) == (2000, 1600, 100)
    assert {each["path"] for each in model.requests} == {path}
    assert {each["body"]["model"] for each in model.requests} == {"m"}


def test_a_server_that_is_away_is_told(wheel: Path, tmp_path: Path) -> None:
    options = ["-m", "openai/m", "--base-url", "http://127.0.0.1:9/v1", "--api-key-name", "MINE"]
    result = run_harbor(wheel, tmp_path, *options, MINE="k")
    assert "No connection to http://127.0.0.1:9/v1" in result["exception_info"]["exception_message"]


def test_without_a_wheel_no_package_of_a_stranger_is_installed(tmp_path: Path) -> None:
    result = run_harbor(ROOT / "src", tmp_path, "-m", "openai/m", OPENAI_API_KEY="k")
    assert (
        "Name the wheel of Newel to install: --ak wheel=PATH" in result["exception_info"]["exception_message"]
    )
