"""If these fail, a review over HTTP, as docs/review_story.py tells it, loses a decision or a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from docs import review_story as story

from mock_llm_server import running
from tests.served import Served, served
from tests.support import Newel

STORY = Path(story.__file__)


@pytest.fixture
def newel(tmp_path: Path) -> Iterator[Newel]:
    with running(STORY.with_suffix(".json"), strict=True) as model:
        yield Newel(tmp_path, model)


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--ephemeral",), marks=pytest.mark.slow)]
)  # a story each
def test_the_documented_story_works_over_http(newel: Newel, options: tuple[str, ...]) -> None:
    with served(newel, "go", *options) as server:
        words = [sys.executable, str(STORY), server.url, server.token, str(newel.project)]
        told = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    kept = {str(path.relative_to(newel.project)) for path in newel.project.rglob("*") if path.is_file()}
    assert kept == {"notes.md", "plan.md", "guide/index.md"}


@pytest.mark.slow  # the server is killed and restarted after each of its twenty changes
@pytest.mark.timeout(180)
def test_the_story_ends_the_same_if_the_server_is_killed_after_each_request(newel: Newel) -> None:
    kills = 0

    class Killed(story.Api):
        """An API whose server is killed after each response to a changing request."""

        def __init__(self, start: Callable[[], Served]) -> None:
            self.start = start
            self.begin()

        def begin(self) -> None:
            self.server = self.start()
            super().__init__(self.server.url, self.server.token)

        def ask(self, method: str, path: str, body: bytes | None) -> object:
            nonlocal kills
            answer = super().ask(method, path, body)
            if method == "POST":
                self.server.kill()
                kills += 1
                self.begin()
            return answer

    with ExitStack() as servers:
        story.tell(Killed(lambda: servers.enter_context(served(newel))), newel.project)
    assert kills > 15
