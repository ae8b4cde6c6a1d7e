"""Fixtures: a workbench without its screen: real settings, sessions, engine and tools, and a scripted model over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mock_llm_server import running
from newel.agent.messages import AssistantMessage, ToolResultMessage, UserMessage
from newel.app.agent_place import open_agent_place
from newel.app.web_server import open_workbench
from newel.config.settings import Flags, load_settings
from newel.jobs.engine import FINAL
from newel.workbench.workbench import Workbench
from tests.served import SECONDS
from tests.support import Newel


class Bench:
    """Opens the workbench of a project, any number of times."""

    def __init__(self, newel: Newel) -> None:
        self.newel = newel

    @asynccontextmanager
    async def open(
        self, *, ephemeral: bool = False, work: bool = True, **flags: Any
    ) -> AsyncGenerator[Workbench]:
        settings = load_settings(
            Flags(**flags), cwd=self.newel.project, environ=self.newel.environ | self._home
        )
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(open_agent_place(settings, attended=True))
            workbench = await open_workbench(place, stack, ephemeral=ephemeral)
            async with anyio.create_task_group() as tasks:
                if work:
                    tasks.start_soon(workbench.run)
                yield workbench
                tasks.cancel_scope.cancel()

    @property
    def _home(self) -> dict[str, str]:
        return {"NEWEL_HOME": str(self.newel.home / ".newel")}

    @property
    def folder(self) -> Path:
        return self.newel.project


async def wait_for_end(workbench: Workbench, run: str) -> str:
    """Wait for a run's end; returns the state of its job."""
    with anyio.fail_after(SECONDS):
        while (job := await workbench.engine.get(run)) is None or job.state not in FINAL:
            await workbench.engine.read(run, job.seq if job else 0, wait=1)
    # The worker reports it to the tabs a moment later.
    await until(lambda: not any(tab.run == run and tab.status == "running" for tab in workbench.tabs))
    return job.state


async def until(happened: Callable[[], Any]) -> None:
    with anyio.fail_after(SECONDS):
        while not happened():  # noqa: ASYNC110 — of files and requests no event tells
            await anyio.sleep(0.01)


async def texts(workbench: Workbench, tab: str) -> list[str]:
    """The messages of a tab, one per line."""
    messages, _ = await workbench.tab(tab).history("", 1000)
    lines: list[str] = []
    for message in messages:
        match message:
            case UserMessage() | AssistantMessage():
                lines.append(f"{message.__struct_config__.tag}: {message.text}")
            case ToolResultMessage():
                lines.append(f"result: {message.output}")
            case _:
                lines.append("custom")
    return lines


async def send_and_wait(workbench: Workbench, tab: str, text: str, **more: Any) -> str:
    """Send a message and wait for the answer; returns the run."""
    run = await workbench.tab(tab).send(UserMessage(content=text), **more)
    await wait_for_end(workbench, run)
    return run


@pytest.fixture
def bench_with(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Makes a workbench whose model follows the given scenarios."""
    with ExitStack() as servers:

        def make(scenarios: dict[str, Any] | None = None) -> Bench:
            return Bench(Newel(tmp_path, servers.enter_context(running(scenarios, strict=True))))

        yield make


__all__ = ["Bench", "send_and_wait", "texts", "until", "wait_for_end"]
