"""If this fails, a run with a model in a file says nothing about the model: its trials are counted as if the tasks were broken.

It runs a real, tiny model (see ``tests.real_model``): what the model gets done is another matter.
"""

from __future__ import annotations

import json

import pytest

from tests.integration.evals.test_eval_run import WithModel, results
from tests.real_model import require_model

pytestmark = [pytest.mark.realmodel, pytest.mark.timeout(120)]

SECONDS = 45
"""Time enough for a first answer on a processor with nothing else to do; without it, the trial ends as ``timeout``."""


def test_a_task_is_tried_with_a_model_in_a_file(with_model: WithModel) -> None:
    path = require_model()
    newel = with_model({"scenarios": []})
    limit = ["--timeout", str(SECONDS)]
    words = ["eval", "run", "find-minimum-version", "--base-url", f"llamacpp:{path}", *limit]
    with newel.start(*words) as process:
        assert process.wait(timeout=110) in {0, 1}
    (found,) = results(newel)
    assert found["end"] in {"done", "failed", "timeout"}
    assert found["checks"], "the result of the trial has to be checked"
    (folder,) = newel.home.glob(".newel/evals/*")
    assert json.loads((folder / "run.json").read_text())["timeout"] == SECONDS
    trace = (folder / "trials" / "find-minimum-version.1" / "trace.jsonl").read_text()
    assert f'"model":"{path.name}"' in trace
    assert newel.requests == []
