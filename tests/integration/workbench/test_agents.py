"""If these fail, agents on contracts show wrong states, or interfere with each other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from newel.runs.models import Contract, SequencedEvent
from newel.workbench.tab_reader import follow
from newel.workbench.tab_session import TabServiceError
from tests.integration.workbench.conftest import Bench, until, wait_for_end
from tests.requirements import require_program
from tests.support import bash

pytestmark = pytest.mark.anyio


def verdict(satisfied: bool, why: str, missing: str = "") -> dict[str, Any]:
    arguments = {"satisfied": satisfied, "why": why, "missing": missing}
    return {"tool_calls": [{"function": {"name": "verdict", "arguments": arguments}}]}


def contract_scenarios(work: str, *, judged: bool = True) -> dict[str, Any]:
    """An agent that runs one command, and a judge that is satisfied or not."""
    judge = {
        "name": "judge",
        "trigger_regex": r"After \d+ tool calls?",
        "steps": [
            {
                "response": verdict(
                    judged, "It is made." if judged else "Nothing is.", "" if judged else "all of it"
                )
            }
        ],
        "loop": True,
    }
    worker = {
        "name": "worker",
        "trigger": "Make it",
        "steps": [{"response": bash(work)}, {"response": {"content": "Made."}}],
    }
    more = {"name": "more", "trigger": "Not yet", "steps": [{"response": {"content": "I cannot."}}]}
    return {"scenarios": [judge, worker, more]}


async def test_an_agent_runs_completes_and_starts_again(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(contract_scenarios("echo x >> made"))
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        assert (tab.title, tab.status) == ("Agent-1", "ready")
        run = await workbench.tab(tab.id).start(Contract(text="Make it"))
        assert workbench.tab(tab.id).state.status == "running"
        with pytest.raises(TabServiceError, match="Stop it first"):
            await workbench.tab(tab.id).start(Contract(text="Make it"))
        await wait_for_end(workbench, run)
        done = workbench.tab(tab.id).state
        assert (done.status, done.run) == ("completed", run)
        log = await anyio.Path(done.log or "").read_text()
        assert "Make it" in log
        assert "satisfied" in log
        again = await workbench.tab(tab.id).start(Contract(text="Make it again, Make it"))
        await wait_for_end(workbench, again)
        assert workbench.tab(tab.id).state.session != done.session
        assert workbench.tab(tab.id).state.log != done.log
    async with bench.open() as workbench:
        assert [(tab.status, tab.run) for tab in workbench.tabs] == [("completed", again)]
    assert (bench.folder / "made").read_text() == "x\nx\n"


async def test_a_late_reader_sees_the_whole_run_with_its_verdicts(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(contract_scenarios("echo hello"))
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        await wait_for_end(
            workbench, await workbench.tab(tab.id).start(Contract(text="Make it", accept="true"))
        )
        kinds: list[str] = []
        with anyio.fail_after(8):
            async for frame in follow(workbench.tab(tab.id)):
                if isinstance(frame, SequencedEvent):
                    kinds.append(str(frame.event.__struct_config__.tag))
                    if kinds[-1] == "contract_state" and len(kinds) > 1:
                        break
        assert {"evaluation", "acceptance_end", "tool_execution_end", "message_end"} <= set(kinds)


async def test_stop_ends_the_agent_and_keeps_its_output(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(contract_scenarios("touch began; until [ -e go ]; do sleep 0.02; done"))
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        run = await workbench.tab(tab.id).start(Contract(text="Make it"))
        await until((bench.folder / "began").exists)
        await workbench.tab(tab.id).stop()
        (bench.folder / "go").touch()
        await wait_for_end(workbench, run)
        stopped = workbench.tab(tab.id).state
        assert stopped.status == "stopped"
        assert "Stopped" in stopped.reason
        assert len(bench.newel.requests) == 1


async def test_a_limit_stops_an_agent_that_is_never_satisfied(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(contract_scenarios("echo x", judged=False))
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        await wait_for_end(
            workbench, await workbench.tab(tab.id).start(Contract(text="Make it", max_turns=1))
        )
        assert workbench.tab(tab.id).state.status == "stopped"
        assert "1 turn" in workbench.tab(tab.id).state.reason


async def test_an_agent_with_a_worktree_does_not_touch_the_project(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(contract_scenarios("echo x > made"))
    _git(bench.folder, "init", "-q")
    _git(bench.folder, "commit", "-q", "--allow-empty", "-m", "begin")
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        await wait_for_end(
            workbench, await workbench.tab(tab.id).start(Contract(text="Make it", worktree=True))
        )
        done = workbench.tab(tab.id).state
        assert done.status == "completed", done.reason
        assert (Path(done.folder) / "made").read_text() == "x\n"
        assert not (bench.folder / "made").exists()


async def test_a_worktree_without_a_repository_is_refused_before_anything_runs(
    bench_with: Callable[..., Bench],
) -> None:
    require_program("git")
    bench = bench_with(contract_scenarios("echo x > made"))
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        with pytest.raises(Exception, match="not in a git repository"):
            await workbench.tab(tab.id).start(Contract(text="Make it", worktree=True))
        assert workbench.tab(tab.id).state.status == "ready"


async def test_many_agents_run_at_once_each_in_its_own_conversation(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(contract_scenarios("echo x >> made"))
    async with bench.open() as workbench:
        tabs = [(await workbench.open_agent()).state for _ in range(12)]
        runs = [await workbench.tab(tab.id).start(Contract(text=f"Make it {tab.title}")) for tab in tabs]
        for run in runs:
            await wait_for_end(workbench, run)
        assert {tab.status for tab in workbench.tabs} == {"completed"}
    assert len((bench.folder / "made").read_text().splitlines()) == 12
    assert len(bench.newel.sessions) == 12


def _git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run([require_program("git"), *who, *words], cwd=folder, check=True)


async def test_the_configured_limits_apply_to_contracts_without_limits(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(contract_scenarios("echo x", judged=False))
    home = bench.newel.home / ".newel"
    home.mkdir()
    (home / "config.toml").write_text("[limits]\nmaxTokens = 10\n")
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        await wait_for_end(workbench, await workbench.tab(tab.id).start(Contract(text="Make it")))
        assert workbench.tab(tab.id).state.status == "stopped"
        assert "10 tokens" in workbench.tab(tab.id).state.reason
