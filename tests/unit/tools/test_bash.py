"""If these fail, the model or the screen gets the wrong output, exit code or state of a command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from newel.tools.bash import BashTool
from newel.workspace.local import LocalWorkspace
from newel.workspace.process.output import FEW, OutputLimits, save_spill_on_host

if TYPE_CHECKING:
    from tests.unit.tools.conftest import Bench

pytestmark = pytest.mark.anyio


async def shown(_: str) -> None:
    pass


async def test_both_outputs_and_the_exit_code_are_returned(bench: Bench) -> None:
    ran = await bench.call("bash", command="echo out; echo err >&2; exit 3")
    assert ran.output == "stdout:\nout\nstderr:\nerr\nexit code: 3"
    assert ran.details.pop("duration") >= 0
    assert ran.details == {
        "command": "echo out; echo err >&2; exit 3",
        "exitCode": 3,
        "truncated": False,
        "outputFile": None,
        "timedOut": False,
    }


async def test_a_failing_command_is_not_a_failed_call(bench: Bench) -> None:
    """The model wants to see a failing test run."""
    assert not (await bench.call("bash", command="false")).is_error


async def test_empty_output_is_stated(bench: Bench) -> None:
    assert (await bench.call("bash", command="true")).output == "stdout:\n\nstderr:\n\nexit code: 0"


async def test_output_streams_to_the_screens(bench: Bench) -> None:
    await bench.call("bash", command="echo one; echo two >&2")
    assert "one\n" in "".join(bench.shown)
    assert "two\n" in "".join(bench.shown)


async def test_a_timeout_says_how_to_raise_it(bench: Bench) -> None:
    ran = await bench.call("bash", command="echo begun; sleep 60", timeout=1)
    assert ran.is_error
    assert ran.details["timedOut"] is True
    assert ran.output == (
        "stdout:\nbegun\nstderr:\n\nexit code: 143\n"
        "Stopped after 1 seconds, with every process it had started. "
        "If it needs longer, set a larger `timeout` (at most 600)."
    )


async def test_no_timeout_exceeds_the_maximum(bench: Bench) -> None:
    tool = BashTool(bench.workspace, timeout=0.1, max_timeout=0.2)
    for timeout in (1_000, "inf"):
        ran = await (await tool.plan(tool.parse({"command": "sleep 60", "timeout": timeout}))).execute(shown)
        assert "Stopped after 0.2 seconds" in ran.output
        assert "This is the longest timeout" in ran.output
    assert "stopped after 0.1 seconds" in tool.description
    assert "(at most 0.2)" in tool.description


async def test_background_processes_are_reported(bench: Bench) -> None:
    ran = await bench.call("bash", command="sleep 3 & echo started")
    assert ran.output.startswith("stdout:\nstarted\n")
    assert "still running" in ran.output
    assert "> out.log 2>&1 &" in ran.output
    begun = "until ps -o comm= -p $! | grep -q sleep; do sleep 0.01; done"
    quiet = await bench.call("bash", command=f"sleep 3 > out.log 2>&1 & {begun}; echo started")
    assert "> out.log" not in quiet.output
    if isinstance(bench.workspace, LocalWorkspace) and sys.platform == "linux":
        assert "\n1 process of this command is still running: sleep 3 (pid " in quiet.output
        assert quiet.details["leftRunning"]


async def test_a_long_output_names_the_file_with_all_of_it(tmp_path: Path) -> None:
    limits = OutputLimits(output=2_000, spill_dir=str(tmp_path / "spill"))
    tool = BashTool(LocalWorkspace(str(tmp_path), limits=limits))
    ran = await (await tool.plan(tool.parse({"command": "seq 100000"}))).execute(shown)
    assert ran.details["truncated"] is True
    kept = Path(ran.details["outputFile"])
    assert f"the whole output is in {kept} …]" in ran.output
    assert kept.read_text().endswith("99999\n100000\n")  # noqa: ASYNC240 — a small file, at the end of the test
    assert ran.output.endswith("99999\n100000\nstderr:\n\nexit code: 0")


async def test_the_preview_is_the_command(bench: Bench) -> None:
    assert await bench.preview("bash", command="rm -rf build\n# note") == "rm -rf build\n# note"


async def test_a_command_sees_earlier_writes(bench: Bench) -> None:
    await bench.call("write", file_path="a.sh", content="echo from the file\n")
    assert "from the file" in (await bench.call("bash", command="sh a.sh")).output


async def test_a_long_result_is_saved_on_the_host_of_the_tools(bench: Bench) -> None:
    """On a host, the file named by a result must be there: the model could not read it here."""
    folder = f"{bench.workspace.root}/kept"
    paths = [await save_spill_on_host(bench.workspace, folder, f"text {number}") for number in range(FEW + 2)]
    assert await save_spill_on_host(bench.workspace, folder, f"text {FEW + 1}") == paths[-1]
    assert await bench.workspace.read_bytes(paths[-1]) == f"text {FEW + 1}".encode()
    assert len(await bench.workspace.list(folder)) == FEW
    info = await bench.workspace.stat(paths[-1])
    assert info is not None
    assert info.mode & 0o777 == 0o600
