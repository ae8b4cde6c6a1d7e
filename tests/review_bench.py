"""A project under review for tests: real files, a real engine and ledger, and a model that answers from a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from newel.agent.messages import AssistantMessage, TextContent, ToolCall, new_id
from newel.agent.ports import AgentMode, Model, ModelRequest, Provider, RunConfig
from newel.agent.transform import Transformer
from newel.jobs.engine import Engine
from newel.jobs.sqlite import SqliteEngine, open_engine
from newel.jobs.worker import Worker
from newel.review.checkpoints import Checkpoints
from newel.review.save import DiskSync
from newel.review.store.ledger import Ledger
from newel.review_jobs.dependencies import ReviewDependencies, ReviewLimits
from newel.review_jobs.requests import RunRequest
from newel.review_jobs.responses import JobView
from newel.review_jobs.service import ReviewService
from newel.review_jobs.traces import Traces
from newel.workspace.local import LocalWorkspace
from tests.scripted_provider import Answer, ScriptedProvider

SETTLED = {"waiting_for_user", "awaiting_review", "completed", "failed"}


def says(text: str) -> AssistantMessage:
    return AssistantMessage(content=[TextContent(text)])


def calls(name: str, **arguments: Any) -> AssistantMessage:
    return AssistantMessage(
        content=[ToolCall(id=f"tc_{new_id()[:8]}", name=name, arguments=arguments)], stop_reason="toolUse"
    )


def replace(path: str, line: int, text: str, *, end: int | None = None, **more: Any) -> dict[str, Any]:
    """An edit that replaces one line, or those up to ``end``."""
    return {
        "file_path": path,
        "operation": "replace",
        "start_line": line,
        "end_line": end or line,
        "new_text": text,
        **more,
    }


def proposes(*edits: dict[str, Any]) -> AssistantMessage:
    return calls("propose_edits", edits=list(edits))


class ReviewBench:
    """The review services with their worker; ``reopen`` closes them and opens new ones on the stored state, as a new
    process would.
    """

    def __init__(self, folder: Path, provider: Provider, limits: ReviewLimits) -> None:
        self.root = folder / "project"
        self.root.mkdir(exist_ok=True)
        self._folder = folder
        self.jobs = folder / "jobs"
        self.limits = limits
        self.provider = provider
        self.model = Model("mock-model")
        self.engine: SqliteEngine
        self.ledger: Ledger
        self.bench: ReviewDependencies
        self.desk: ReviewService

    @asynccontextmanager
    async def open(self, *, working: bool = True) -> AsyncGenerator[ReviewService]:
        async with open_engine(self.jobs) as engine:
            with Ledger.open(self._folder / "review") as ledger:
                workspace = LocalWorkspace(str(self.root))
                saver = DiskSync(ledger, workspace)
                self.engine, self.ledger = engine, ledger
                traces = self.new_traces(engine)
                self.bench = ReviewDependencies(
                    engine=self.wrap_engine(engine),
                    ledger=ledger,
                    workspace=workspace,
                    saver=saver,
                    checkpoints=Checkpoints(ledger, saver),
                    provider=self.provider,
                    config=RunConfig(model=self.model, transform=Transformer()),
                    limits=self.limits,
                    traces=traces,
                    find_model=self.find_model,
                )
                self.desk = await ReviewService.open(self.bench)
                async with anyio.create_task_group() as tasks:
                    if working:
                        tasks.start_soon(Worker(engine, self.desk.handlers, slots=4).run)
                    yield self.desk
                    tasks.cancel_scope.cancel()

    async def find_model(self, mode: AgentMode) -> Model:
        return Model(f"model of {mode}")

    def wrap_engine(self, engine: Engine) -> Engine:
        """What the services take for the engine; the worker takes the engine itself."""
        return engine

    def new_traces(self, engine: Engine) -> Traces | None:
        """Where the jobs write traces."""
        return None

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.root / f"{name}.md").write_bytes(text.encode())

    def read(self, name: str) -> str:
        return (self.root / name).read_bytes().decode()

    async def start(self, instruction: str = "Do it", session: str | None = None, **more: Any) -> JobView:
        """Start a job, and wait until it pauses or ends."""
        if session is None:
            session = (await self.desk.sessions.create()).session_id
        request = RunRequest(session_id=session, instruction=instruction, **more)
        return await self.settled((await self.desk.jobs.run(request)).job_id)

    async def settled(self, job: str) -> JobView:
        """The job, once it has ended or waits for the user."""
        with anyio.fail_after(20):
            while (view := await self.desk.jobs.get(job)).status not in SETTLED:  # noqa: ASYNC110 — clients poll, too
                await anyio.sleep(0.005)
        return view

    async def released(self, job: str) -> None:
        """Wait until the worker has released the job, which happens after its last event."""
        assert await self.engine.wait_for_release(job, wait=20)

    async def types(self, job: str) -> list[str]:
        return [each.type for each in (await self.desk.jobs.events(job)).events]


@asynccontextmanager
async def open_bench(
    folder: Path, *script: Answer, limits: ReviewLimits | None = None
) -> AsyncGenerator[ReviewBench]:
    """The services with a model that answers from ``script``, opened."""
    made = ReviewBench(folder, ScriptedProvider(script), limits or ReviewLimits())
    async with made.open():
        yield made


def hunks(view: JobView) -> Mapping[str, Any]:
    """A bundle's hunks by file and number in it: ``a.md/0``."""
    assert view.diff_bundle is not None
    return {
        f"{file.file_path}/{number}": hunk
        for file in view.diff_bundle.files
        for number, hunk in enumerate(file.hunks)
    }


def request_text(request: ModelRequest) -> str:
    """The whole content of a request, as one text."""
    return "\n".join(str(message) for message in request.messages)
