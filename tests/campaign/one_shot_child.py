"""A whole one-shot run, from the end of its imports: ``one_shot_child FOLDER URL PROMPT``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from newel.app import terminal
from newel.cli.main import main
from newel.review.tracking import change_recorder, effect_log
from newel.session import appender, coding_agent
from newel.tools import coding_tools
from newel.workspace.snapshots import local_source, manager
from tests.faults.traced_start import wait_for_tracer

__all__ = [
    "appender",
    "change_recorder",
    "coding_agent",
    "coding_tools",
    "effect_log",
    "local_source",
    "manager",
    "terminal",
]

if __name__ == "__main__":
    folder, url, prompt = sys.argv[1:]
    os.environ |= {
        "HOME": f"{folder}/home",
        "TERM": "dumb",
        "LLM_BASE_URL": url,
        "LLM_AUTH_TOKEN": "sk-test-0123456789abcdef",
        "LLM_DEFAULT_MODEL": "mock-model",
    }
    os.chdir(Path(folder, "project"))
    wait_for_tracer()
    sys.exit(main(["--approve", "auto", prompt]))
