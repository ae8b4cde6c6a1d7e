"""If these fail, an extension that works in the terminal is missing, or unprotected, in another front end."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.acp_editor import editing
from tests.hook_scripts import results
from tests.integration.agents.support import after
from tests.integration.cli.test_extensions import call, extension, from_page
from tests.integration.rpc.conftest import Program
from tests.served import served
from tests.sshd import Sshd
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

DONE = {"content": "Done."}
WHERE = """\
    from pathlib import Path

    from newel.extensions import ExtensionAPI, ToolContext


    def register(newel: ExtensionAPI) -> None:
        @newel.tool
        def leave_mark(context: ToolContext) -> str:
            "Leave a mark."
            (context.folder / "mark").write_text("here\\n")
            return str(context.folder)
"""


def test_in_the_page_a_broken_one_is_named_and_the_others_work(with_model: Make) -> None:
    newel = with_model(scenario("The release is on Friday", call("leave_mark"), DONE))
    extension(newel, "mark.py", WHERE)
    from_page(newel, "guard.py")
    extension(newel, "broken.py", "raise ValueError('boom')\n")
    with served(newel) as server:
        server.chat("mark")
        assert (newel.project / "mark").read_text() == "here\n"
        server.process.terminate()
        errors = server.process.communicate()[1]
    assert errors.count("The extension broken is left out.") == 1
    assert results(newel) == [str(newel.project)]
    assert "mark" in newel("review").stdout
    assert "The release is on Friday." in json.dumps(newel.requests[0]["messages"])


def test_a_program_gets_the_tools_and_the_commands(with_model: Make) -> None:
    newel = with_model(scenario("Summarize these commits", call("leave_mark"), DONE))
    extension(newel, "mark.py", WHERE)
    from_page(newel, "standup.py")
    with newel.start("rpc", stdin=-1) as process:
        program = Program(process)
        assert '"standup"' in json.dumps(program.ask("commands"))
        program.send("prompt", "p", text="/standup 2", expand=True)
        program.event("agent_end")
        assert program.end() == 0, program.lines
    assert (newel.project / "mark").read_text() == "here\n"


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_in_an_editor_a_call_is_asked_about(with_model: Make) -> None:
    newel = with_model(scenario("mark", call("leave_mark"), DONE))
    extension(newel, "mark.py", WHERE)
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("mark")
        assert ide.editor.asked


def test_in_review_mode_a_tool_works_in_the_copy(with_model: Make) -> None:
    newel = with_model(scenario("mark", call("leave_mark"), DONE))
    extension(newel, "mark.py", WHERE)
    (newel.home / ".newel" / "config.toml").write_text('[permissions]\nallow = ["extension:leave_mark"]\n')
    done = newel("mark", "--approve", "review")
    assert done.returncode == 0, done.stderr
    assert results(newel) != [str(newel.project)]
    assert not (newel.project / "mark").exists()
    waiting = json.loads(newel("review", "--json").stdout)["pending"]
    assert [file["file_path"] for file in waiting] == ["mark"]
    assert newel("keep", "--all", "--yes").returncode == 0
    assert (newel.project / "mark").read_text() == "here\n"


def test_an_agent_on_a_contract_has_them(with_model: Make) -> None:
    newel = with_model(
        {"scenarios": [*after(1, True)["scenarios"], *scenario("Mark it", call("leave_mark"))["scenarios"]]}
    )
    extension(newel, "mark.py", WHERE)
    done = newel("agent", "Mark it", "--accept", "test -s mark")
    assert done.returncode == 0, done.stdout + done.stderr
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "mark").exists()


def test_a_subagent_has_those_that_only_read_unless_it_may_write(with_model: Make) -> None:
    def task(prompt: str, **more: object) -> dict[str, object]:
        return call("task", description=prompt, prompt=prompt, **more)

    each = [
        scenario("go", task("look"), task("work", can_write=True), DONE),
        scenario("look", {"content": "Seen."}),
        scenario("work", {"content": "Worked."}),
    ]
    newel = with_model({"scenarios": [one["scenarios"][0] for one in each]})
    extension(newel, "mark.py", WHERE)
    from_page(newel, "dice.py")
    newel("--tools", "read,task,leave_mark,roll_dice", "go")
    seen = {
        request["messages"][-1]["content"]: {tool["function"]["name"] for tool in request["tools"]}
        for request in newel.requests
        if request["messages"][-1]["role"] == "user"
    }
    assert "roll_dice" in seen["look"]
    assert "leave_mark" not in seen["look"]
    assert {"roll_dice", "leave_mark"} <= seen["work"]


def test_on_a_host_a_tool_works_on_this_machine(
    with_model: Make, sshd: Sshd, request: pytest.FixtureRequest
) -> None:
    newel = with_model(scenario("mark", call("leave_mark"), bash("pwd"), DONE))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    project = sshd.project(request.node.name)
    extension(newel, "mark.py", WHERE)
    done = newel("--host", f"host:{project}", "--approve", "auto", "mark")
    assert done.returncode == 0, done.stderr
    assert results(newel)[0] == str(newel.project)
    assert (newel.project / "mark").exists()
    assert not (project / "mark").exists()


def test_the_library_has_them_and_can_do_without(with_model: Make) -> None:
    newel = with_model(scenario("roll", call("roll_dice", sides=1), DONE))
    from_page(newel, "dice.py")
    program = "import sys, newel\nprint(newel.ask('roll', extensions=False if sys.argv[1:] else None))\n"
    (newel.home / "ask.py").write_text(program)
    assert newel(str(newel.home / "ask.py"), command="python").stdout == "Done.\n"
    assert results(newel) == ["1"]
    newel(str(newel.home / "ask.py"), "without", command="python")
    assert "roll_dice" not in json.dumps(newel.requests[-1].get("tools", []))
