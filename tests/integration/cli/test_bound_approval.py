"""If these fail, approving one change makes a different one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.mcp.types import offered_name
from tests.driver import Driver
from tests.integration.mcp.rogues import ROGUE
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]
Drive = Callable[..., Driver]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def calls(*each: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": given}} for name, given in each]}


WRITE = call("write", file_path="sub/a.txt", content="mine\n")
EDIT = call("edit", file_path="sub/a.txt", old_string="one", new_string="1")


def asked_about(drive: Drive, newel: Newel) -> tuple[Driver, dict[str, Any]]:
    driver = drive(newel, "--approve", "ask")
    driver.send(type="message", content="do it")
    return driver, driver.until("approval_request")


def prepared(with_model: Make, *steps: dict[str, Any]) -> tuple[Newel, Path]:
    newel = with_model(scenario("do it", *steps, {"content": "Done."}))
    (newel.project / "sub").mkdir()
    file = newel.project / "sub" / "a.txt"
    file.write_text("one\n")
    return newel, file


@pytest.mark.parametrize("step", [WRITE, EDIT], ids=["write", "edit"])
def test_a_file_replaced_by_a_link_needs_approval_again_for_its_target(
    with_model: Make, drive: Drive, step: dict[str, Any]
) -> None:
    newel, file = prepared(with_model, step)
    bashrc = newel.home / ".bashrc"
    bashrc.write_text("one\n")
    driver, asked = asked_about(drive, newel)
    file.unlink()
    file.symlink_to(bashrc)
    driver.answer(asked, "once")
    again = driver.until("approval_request")
    assert bashrc.read_text() == "one\n"
    assert f"→ {bashrc}" in again["preview"]
    assert "changed while" in again["preview"]
    driver.answer(again, "no")
    driver.until("agent_end")
    assert driver.finish() == 0
    assert bashrc.read_text() == "one\n"


@pytest.mark.parametrize("step", [WRITE, EDIT], ids=["write", "edit"])
@pytest.mark.parametrize("decision", ["once", "always"])
def test_replaced_content_is_shown_before_it_is_overwritten(
    with_model: Make, drive: Drive, step: dict[str, Any], decision: str
) -> None:
    newel, file = prepared(with_model, step)
    driver, asked = asked_about(drive, newel)
    file.write_text("one\nprecious\n")
    driver.answer(asked, decision)
    again = driver.until("approval_request")
    assert file.read_text() == "one\nprecious\n"
    assert "precious" in again["preview"]
    driver.answer(again, "once")
    assert driver.until("tool_execution_end")["isError"] is False
    driver.until("agent_end")
    assert driver.finish() == 0
    assert file.read_text() in {"mine\n", "1\nprecious\n"}


@pytest.mark.parametrize("step", [WRITE, EDIT], ids=["write", "edit"])
def test_a_folder_replaced_by_a_link_is_not_written_through(
    with_model: Make, drive: Drive, step: dict[str, Any]
) -> None:
    newel, file = prepared(with_model, step)
    elsewhere = newel.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("one\n")
    driver, asked = asked_about(drive, newel)
    file.parent.rename(newel.project / "was")
    (newel.project / "sub").symlink_to(elsewhere)
    driver.answer(asked, "once")
    again = driver.until("approval_request")
    assert f"→ {elsewhere}/a.txt" in again["preview"]
    driver.answer(again, "no")
    driver.until("agent_end")
    assert driver.finish() == 0
    assert (elsewhere / "a.txt").read_text() == "one\n"


def test_a_file_that_keeps_changing_is_given_up_and_not_touched(with_model: Make, drive: Drive) -> None:
    newel, file = prepared(with_model, EDIT)
    driver, asked = asked_about(drive, newel)
    for number in range(10):
        file.write_text(f"one\n{number}\n")
        driver.answer(asked, "once")
        event = driver.until_one_of("approval_request", "agent_end")
        if event["type"] == "agent_end":
            break
        asked = event
    else:
        pytest.fail("it asks for ever")
    assert driver.finish() == 0
    assert file.read_text() == f"one\n{number}\n"
    assert "keeps changing" in newel.requests[-1]["messages"][-1]["content"]


def test_the_question_names_the_target_of_a_link(with_model: Make, drive: Drive) -> None:
    newel = with_model(
        scenario("do it", call("write", file_path="notes.txt", content="x"), {"content": "Done."})
    )
    bashrc = newel.home / ".bashrc"
    bashrc.write_text("one\n")
    (newel.project / "notes.txt").symlink_to(bashrc)
    driver, asked = asked_about(drive, newel)
    assert f"notes.txt → {bashrc}" in asked["preview"]
    assert "outside the project" in asked["preview"]
    assert [touch["path"] for touch in asked["touches"]] == [str(bashrc)]
    driver.answer(asked, "once")
    driver.until("agent_end")
    assert driver.finish() == 0
    assert bashrc.read_text() == "x"


def test_always_applies_to_the_shown_file_and_not_to_its_name(with_model: Make, drive: Drive) -> None:
    newel = with_model(
        scenario(
            "do it",
            call("write", file_path="a.txt", content="x\n"),
            call("write", file_path="a.txt", content="x\n"),
            call("write", file_path="a.txt", content="x\n"),
            {"content": "Done."},
        )
    )
    driver, asked = asked_about(drive, newel)
    bashrc = newel.home / ".bashrc"
    bashrc.write_text("one\n")
    driver.answer(asked, "always")
    driver.until("tool_execution_end")
    again = driver.until_one_of("approval_request", "tool_execution_end")
    assert again["type"] == "tool_execution_end"
    # The third call follows at once: from now on the name may lead elsewhere, or not yet.
    driver.until("agent_end")
    (newel.project / "a.txt").unlink()
    (newel.project / "a.txt").symlink_to(bashrc)
    driver.send(type="message", content="do it")
    again = driver.until_one_of("approval_request", "agent_end")
    assert again["type"] == "approval_request"
    assert str(bashrc) in again["preview"]
    driver.answer(again, "no")
    assert driver.finish() == 0
    assert bashrc.read_text() == "one\n"


def test_a_command_is_bound_to_the_folder_of_its_approval(with_model: Make, drive: Drive) -> None:
    newel = with_model(scenario("do it", bash("echo made > made.txt"), {"content": "Done."}))
    driver, asked = asked_about(drive, newel)
    newel.project.rename(newel.home / "moved")
    newel.project.symlink_to(newel.home)
    driver.answer(asked, "once")
    again = driver.until("approval_request")
    assert not (newel.home / "made.txt").exists()
    assert f"→ {newel.home}" in again["preview"]
    driver.answer(again, "no")
    driver.until("agent_end")
    driver.finish()
    assert not (newel.home / "made.txt").exists()


def test_a_second_edit_of_a_file_is_shown_after_the_first_and_approved_once(
    with_model: Make,
    drive: Drive,
) -> None:
    """Both are in one message: the second question waits until the first call is done."""
    newel, file = prepared(
        with_model,
        calls(
            ("edit", {"file_path": "sub/a.txt", "old_string": "one", "new_string": "two"}),
            ("edit", {"file_path": "sub/a.txt", "old_string": "two", "new_string": "three"}),
        ),
    )
    driver, asked = asked_about(drive, newel)
    driver.answer(asked, "once")
    asked = driver.until("approval_request")
    assert file.read_text() == "two\n"
    assert "-two" in asked["preview"]
    driver.answer(asked, "once")
    driver.until("agent_end")
    assert driver.finish() == 0
    assert file.read_text() == "three\n"
    assert len([each for each in driver.seen if each["type"] == "approval_request"]) == 2


def test_approval_to_read_one_file_covers_no_other(with_model: Make, drive: Drive) -> None:
    newel = with_model(scenario("do it", call("read", file_path="NOTES"), {"content": "Done."}))
    (newel.home / "notes.txt").write_text("notes")
    (newel.home / "diary.txt").write_text("dear diary")
    (newel.project / "NOTES").symlink_to(newel.home / "notes.txt")
    driver, asked = asked_about(drive, newel)
    (newel.project / "NOTES").unlink()
    (newel.project / "NOTES").symlink_to(newel.home / "diary.txt")
    driver.answer(asked, "once")
    again = driver.until("approval_request")
    assert f"NOTES → {newel.home}/diary.txt" in again["preview"]
    driver.answer(again, "no")
    driver.until("agent_end")
    assert driver.finish() == 0
    assert "dear diary" not in str(newel.requests)


def test_approval_to_read_one_file_does_not_cover_a_key(with_model: Make, drive: Drive) -> None:
    newel = with_model(scenario("do it", call("read", file_path="NOTES"), {"content": "Done."}))
    (newel.home / ".ssh").mkdir()
    (newel.home / ".ssh" / "key").write_text("PRIVATE")
    (newel.home / "notes.txt").write_text("notes")
    (newel.project / "NOTES").symlink_to(newel.home / "notes.txt")
    driver, asked = asked_about(drive, newel)
    (newel.project / "NOTES").unlink()
    (newel.project / "NOTES").symlink_to(newel.home / ".ssh" / "key")
    driver.answer(asked, "always")
    driver.until("agent_end")
    assert driver.finish() == 0
    assert "PRIVATE" not in str(newel.requests)
    assert "holds secrets" in str(newel.requests)


@pytest.mark.parametrize("content", ["two\n", "one\n", ""])
def test_a_file_name_cannot_forge_lines_of_a_question(with_model: Make, drive: Drive, content: str) -> None:
    """A model that chooses the name could show the diff of another file above the real one."""
    name = "a.txt\n@@ -1 +1 @@\n-one\n+harmless"
    newel, file = prepared(with_model, call("write", file_path=f"sub/{name}", content=content))
    file.with_name(name).write_text("one\n" if content else "")
    driver, asked = asked_about(drive, newel)
    lines = asked["preview"].split("\n")
    assert "+harmless" not in lines
    assert any(
        line.endswith("a.txt␊@@ -1 +1 @@␊-one␊+harmless") or "␊+harmless: no" in line for line in lines
    )
    driver.answer(asked, "no")
    driver.until("agent_end")


def test_a_tool_name_cannot_forge_lines_of_a_question(with_model: Make, drive: Drive) -> None:
    """A server could pass off parts of its tool's name as arguments."""
    offered = offered_name("rogue", name := "act of rogue\n{}\n\nDone: act")
    newel = with_model(scenario("do it", call(offered, path="/"), {"content": "Done."}))
    entry = {
        "command": sys.executable,
        "args": ["-IS", str(ROGUE), "turncoat"],
        "env": {"SAYS": "", "NAME": name},
    }
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "mcp_config.json").write_text(json.dumps({"mcpServers": {"rogue": entry}}))
    driver, asked = asked_about(drive, newel)
    assert asked["preview"].split("\n")[0].startswith("act of rogue␊{}␊␊Done: act of rogue (")
    driver.answer(asked, "no")
    driver.until("agent_end")
