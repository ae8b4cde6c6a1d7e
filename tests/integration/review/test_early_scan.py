"""If these fail, the first command of a run waits for the scan of the project, or a write waits for one that it does not need."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from newel.agent.agent import ProviderTransport
from newel.agent.messages import AssistantMessage
from newel.agent.ports import Model, ModelRequest, ProviderEvent
from newel.review.tracking.early_scan import EarlyScan
from newel.review.tracking.recording_workspace import RecordingWorkspace, ledger_folder
from newel.session.coding_agent import CodingAgent
from newel.workspace.local import LocalWorkspace
from tests.integration.review.recorded_agent import recorded_agent, recorder_of
from tests.review_bench import calls, says
from tests.scripted_provider import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio


class Place:
    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.home = folder / "home"
        self.project.mkdir()
        self.ledger = ledger_folder(self.home, str(self.project))

    async def until_scanned(self) -> None:
        """Wait until the index is saved, with which the first scan ends."""
        with anyio.fail_after(8):
            while not (self.ledger / "files.index").exists():  # noqa: ASYNC110 — a file
                await anyio.sleep(0.01)

    @asynccontextmanager
    async def agent(self, *script: Answer) -> AsyncGenerator[CodingAgent]:
        async with recorded_agent(LocalWorkspace(str(self.project)), self.home, script) as agent:
            transport, workspace = agent.agent.transport, agent.workspace
            assert isinstance(transport, ProviderTransport)
            assert isinstance(workspace, RecordingWorkspace)
            agent.agent.transport = ProviderTransport(EarlyScan(transport.provider, workspace))
            yield agent


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (place.project / "a.txt").write_text("a\n")
    return place


async def test_the_project_is_scanned_while_the_model_answers(place: Place) -> None:
    async def answer(_: ModelRequest) -> AssistantMessage:
        await place.until_scanned()
        return says("Done.")

    async with place.agent(answer) as agent:
        await agent.prompt("go")
        ledger = (await recorder_of(agent)).project.ledger
        assert ledger.has_blob(hashlib.sha256(b"a\n").hexdigest())


async def test_edits_of_the_user_between_the_scan_and_the_command_stay(place: Place) -> None:
    async def answer(_: ModelRequest) -> AssistantMessage:
        await place.until_scanned()
        (place.project / "a.txt").write_text("mine\n")
        (place.project / "mine.txt").write_text("mine\n")
        return calls("bash", command="echo theirs >> a.txt; echo theirs > theirs.txt")

    async with place.agent(answer, says("Done.")) as agent:
        await agent.prompt("go")
        assert (place.project / "a.txt").read_text() == "mine\ntheirs\n"
        review = (await recorder_of(agent)).project
        await review.apply(await review.undo())
    assert {path.name: path.read_text() for path in place.project.iterdir()} == {
        "a.txt": "mine\n",
        "mine.txt": "mine\n",
    }


@pytest.mark.slow  # seconds of waiting
async def test_a_command_waits_for_the_scan_that_has_begun(place: Place) -> None:
    """Whatever the moment."""
    for number in range(120):
        (place.project / f"{number}.txt").write_text(f"{number}\n")

    for moment in range(6):
        before = {path.name: path.read_text() for path in place.project.iterdir()}

        async def answer(_: ModelRequest, moment: int = moment) -> AssistantMessage:
            await anyio.sleep(0.1 + moment * 0.02)
            return calls("bash", command="for n in 1??.txt; do echo changed >> $n; done; rm 7.txt")

        async with place.agent(answer, says("Done.")) as agent:
            await agent.prompt("go")
            review = (await recorder_of(agent)).project
            await review.apply(await review.undo())
        assert {path.name: path.read_text() for path in place.project.iterdir()} == before


async def test_no_answer_waits_for_the_scan() -> None:
    has_begun = anyio.Event()

    async def answer(_: ModelRequest) -> AssistantMessage:
        await has_begun.wait()
        return says("Done.")

    class Endless:
        has_scanned = False

        async def scan_early(self) -> None:
            has_begun.set()
            await anyio.sleep_forever()

    async def on_delta(_: ProviderEvent) -> None:
        pass

    request = ModelRequest(model=Model("m", "script"), system_prompt="", messages=[])
    with anyio.fail_after(8):
        done = await EarlyScan(ScriptedProvider([answer]), Endless()).complete(request, on_delta)
    assert done.text == "Done."


async def test_a_failing_scan_does_not_fail_the_answer(place: Place) -> None:
    async def answer(_: ModelRequest) -> AssistantMessage:
        await anyio.sleep(0.3)
        return says("Done.")

    place.home.mkdir()
    (place.home / "review").write_text("in place of the folder")
    async with place.agent(answer) as agent:
        end = await agent.prompt("go")
    assert end.reason == "done"
