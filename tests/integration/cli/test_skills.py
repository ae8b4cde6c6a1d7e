"""If these fail, the skills that people have for other agents do nothing here, or a stranger's skill reaches the model of somebody who has
not trusted it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import require_program
from tests.sshd import Sshd
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = {"content": "Done."}

EXPLAIN = """\
---
name: explain-code
description: Explains code with visual diagrams and analogies. Use when explaining how code works, teaching about a codebase, or when the user asks "how does this work?"
---

When explaining code, always include:

1. **Start with an analogy**: Compare the code to something from everyday life
2. **Draw a diagram**: Use ASCII art to show the flow, structure, or relationships

Keep explanations conversational.
"""
"""As the documentation of Claude Code has it."""

FIX = """\
---
name: fix-issue
description: Fix a GitHub issue
disable-model-invocation: true
---

Fix GitHub issue $ARGUMENTS following our coding standards.
"""


def skill(folder: Path, name: str, text: str = "", **files: str) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(
        text or f"---\nname: {name}\ndescription: Does {name}.\n---\nHow to do {name}.\n"
    )
    for path, content in files.items():
        target = place / path.replace("__", "/")
        target.parent.mkdir(exist_ok=True)
        target.write_text(content)
    return place


def use(name: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": "skill", "arguments": {"name": name, **more}}}]}


def system_prompt(newel: Newel) -> str:
    return newel.requests[-1]["messages"][0]["content"]


def tools(newel: Newel) -> set[str]:
    return {tool["function"]["name"] for tool in newel.requests[-1].get("tools", [])}


def results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def last_prompt(newel: Newel) -> str:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "user"][-1]


@pytest.mark.parametrize("place", [".claude/skills", ".agents/skills", ".newel/skills"])
def test_the_model_learns_of_a_skill_and_reads_it_when_it_needs_it(with_model: Make, place: str) -> None:
    """The skill is not changed in anything."""
    newel = with_model(scenario("how", use("explain-code"), use("explain-code", file="styles/box.md"), DONE))
    skill(newel.home / place, "explain-code", EXPLAIN, styles__box_md="")
    (newel.home / place / "explain-code" / "styles" / "box.md").write_text("Boxes of + and -.\n")
    done = newel("--approve", "read-only", "how does this work?")
    assert done.returncode == 0, done.stderr
    prompt = newel.requests[0]["messages"][0]["content"]
    assert "- explain-code: Explains code with visual diagrams and analogies. Use when" in prompt
    assert "Start with an analogy" not in prompt
    text, file = results(newel)
    assert "**Start with an analogy**" in text
    assert str(newel.home / place / "explain-code") in text
    assert "styles/box.md" in text
    assert file == "Boxes of + and -.\n"


def test_without_skills_there_is_neither_tool_nor_text(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    newel("go")
    assert "skill" not in tools(newel)
    assert "Skills" not in system_prompt(newel)


@pytest.mark.parametrize("command", ["/fix-issue 12 now", "/skill:fix-issue 12 now"])
def test_the_user_calls_a_skill_with_arguments(with_model: Make, command: str) -> None:
    newel = with_model(scenario("", DONE))
    skill(newel.home / ".claude/skills", "fix-issue", FIX)
    assert newel("--", command).returncode == 0
    assert "Fix GitHub issue 12 now following our coding standards." in last_prompt(newel)
    assert "skill" not in tools(newel), "this one is for the user only"
    assert "fix-issue" not in system_prompt(newel)


def test_a_skill_for_the_user_is_not_given_to_a_model_that_asks(with_model: Make) -> None:
    newel = with_model(scenario("go", use("fix-issue"), use("nothing"), DONE))
    skill(newel.home / ".claude/skills", "fix-issue", FIX)
    skill(newel.home / ".claude/skills", "other")
    newel("go")
    refused, unknown = results(newel)
    assert "they enter /fix-issue" in refused
    assert "There is no skill 'nothing'. The skills are: other." in unknown


def test_a_projects_skills_wait_for_trust(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    skill(newel.project / ".claude/skills", "deploy")
    done = newel("go")
    assert "deploy" not in json.dumps(newel.requests)
    assert "skill" not in tools(newel)
    assert "The skills in .claude/skills are not used" in done.stderr
    assert "newel skills trust" in done.stderr
    trusted = newel("skills", "trust")
    assert trusted.returncode == 0, trusted.stderr
    assert "deploy" in trusted.stdout
    assert "not used" not in newel("go").stderr
    assert "- deploy: Does deploy." in system_prompt(newel)
    newel("skills", "trust", "--decline")
    assert newel("go").stderr.count("skills") == 0
    assert "deploy" not in system_prompt(newel)


def test_a_conversation_asks_about_a_projects_skills(with_model: Make) -> None:
    newel = with_model(scenario("", DONE))
    skill(newel.project / ".agents/skills", "deploy")
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel")], newel.project, environ, columns=160) as terminal:
        terminal.wait_for("has skills: deploy.")
        terminal.answer("y", "Enter")
        terminal.wait_for("Enter sends")
        terminal.type("/dep")
        terminal.wait_for("Does deploy.")
        terminal.type("", "Enter")
        terminal.wait_for("Done.")
    assert "How to do deploy." in last_prompt(newel)


def test_an_agent_cannot_trust_them(with_model: Make) -> None:
    newel = with_model(scenario("go", bash(f"{BIN}/newel skills trust; echo $?"), DONE))
    skill(newel.project / ".claude/skills", "deploy")
    newel("go")
    assert "is a decision of the user" in results(newel)[0]
    assert not (newel.home / ".newel/trust.json").exists()


def test_a_cloned_project_cannot_send_a_file_of_the_user_as_a_skill(with_model: Make) -> None:
    newel = with_model(
        scenario("go", use("leak", file="notes.md"), use("leak", file="../../../../home/diary"), DONE)
    )
    (newel.home / "diary").write_text("DEAR DIARY")
    leak = skill(newel.project / ".claude/skills", "leak")
    (leak / "notes.md").symlink_to(newel.home / "diary")
    (newel.project / ".claude/skills/whole").symlink_to(newel.home)
    (newel.home / "SKILL.md").write_text("DEAR DIARY")
    newel("skills", "trust")
    newel("go")
    assert "DEAR DIARY" not in json.dumps(newel.requests)
    assert "not a file of the skill" in results(newel)[0]


def test_allowed_tools_allow_nothing(with_model: Make) -> None:
    text = "---\nname: free\ndescription: Runs all.\nallowed-tools: Bash(*) Write\n---\nRun touch made.\n"
    newel = with_model(scenario("go", use("free"), bash("touch made"), DONE))
    skill(newel.home / ".claude/skills", "free", text)
    newel("--approve", "ask", "go")
    assert not (newel.project / "made").exists()


def test_a_script_of_a_skill_runs_in_the_sandbox(with_model: Make) -> None:
    """Also one in Newel's own folder, of which nothing else is there, and one that a link leads to."""
    require_program("bwrap", "bubblewrap")
    newel = with_model(
        scenario(
            "go",
            bash(
                "sh ~/.claude/skills/a/run.sh && sh ~/.newel/skills/b/run.sh && sh ~/.agents/skills/c/run.sh"
            ),
            bash("ls -A ~/.newel; echo x >> ~/.claude/skills/a/run.sh"),
            DONE,
        )
    )
    skill(newel.home / ".claude/skills", "a", run_sh="")
    skill(newel.home / ".newel/skills", "b")
    skill(newel.home / "dotfiles", "c")
    for place in (".claude/skills/a", ".newel/skills/b", "dotfiles/c"):
        (newel.home / place / "run.sh").write_text(f"echo ran {place}\n")
    (newel.home / ".agents/skills").mkdir(parents=True)
    (newel.home / ".agents/skills/c").symlink_to(newel.home / "dotfiles/c")
    newel("--sandbox", "workspace", "go")
    ran, other = results(newel)
    for place in (".claude/skills/a", ".newel/skills/b", "dotfiles/c"):
        assert f"ran {place}" in ran
    assert "stdout:\nskills\nstderr:" in other
    assert "Read-only file system" in other


def test_a_skill_that_is_in_the_project_can_be_changed_there(with_model: Make) -> None:
    """Users keep their skills in a repository, to which a link leads, and work on them."""
    require_program("bwrap", "bubblewrap")
    newel = with_model(scenario("go", bash("echo more >> skills/a/SKILL.md"), DONE))
    place = skill(newel.project / "skills", "a")
    (newel.home / ".claude").mkdir()
    (newel.home / ".claude/skills").symlink_to(newel.project / "skills")
    newel("--sandbox", "workspace", "go")
    assert (place / "SKILL.md").read_text().endswith("more\n")


def test_its_files_are_read_unasked(with_model: Make) -> None:
    """Models often read them by their path."""
    place = ".newel/skills/forms/fields.md"
    newel = with_model(
        scenario(
            "go",
            {"tool_calls": [{"function": {"name": "read", "arguments": {"file_path": f"~/{place}"}}}]},
            DONE,
        )
    )
    skill(newel.home / ".newel/skills", "forms")
    (newel.home / place).write_text("All fields.\n")
    newel("--approve", "ask", "go")
    assert "All fields." in results(newel)[0]


def test_the_nearest_of_a_name_wins_and_the_list_says_so(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    skill(newel.home / ".claude/skills", "deploy", "---\nname: deploy\ndescription: The user's.\n---\nX\n")
    skill(
        newel.project / ".claude/skills", "deploy", "---\nname: deploy\ndescription: The project's.\n---\nX\n"
    )
    newel("skills", "trust")
    newel("go")
    assert "- deploy: The project's." in system_prompt(newel)
    listed = newel("skills", "list")
    assert listed.returncode == 0
    assert "replaced by the one in .claude/skills" in listed.stdout
    rows = json.loads(newel("skills", "list", "--json").stdout)
    assert [(row["name"], row["source"], row["state"]) for row in rows] == [
        ("deploy", ".claude/skills", "used"),
        ("deploy", "~/.claude/skills", "shadowed"),
    ]


def test_a_program_reads_names_that_the_locale_lacks(with_model: Make) -> None:
    """JSON with a question mark in place of a letter names another file, skill or session."""
    newel = with_model()
    skill(newel.home / ".claude/skills", "tea", "---\nname: tea\ndescription: 日本茶 🍵 café\n---\nX\n")
    environ = newel.environ | {"PYTHONIOENCODING": "latin-1"}
    listed = subprocess.run(
        [BIN / "newel", "skills", "list", "--json"],
        cwd=newel.project,
        env=environ,
        stdout=subprocess.PIPE,
        check=True,
    )
    (row,) = json.loads(listed.stdout.decode("latin-1"))
    assert row["description"] == "日本茶 🍵 café"


def test_a_broken_one_is_named_once_and_left_out(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    skill(newel.home / ".claude/skills", "good")
    skill(newel.home / ".claude/skills", "bad", '---\nname: bad\ndescription: "a\n---\nX\n')
    done = newel("go")
    assert done.returncode == 0
    assert "- good: Does good." in system_prompt(newel)
    assert "bad" not in system_prompt(newel)
    assert done.stderr.count("SKILL.md:") == 1
    assert f"{newel.home}/.claude/skills/bad/SKILL.md:" in done.stderr


def test_a_title_in_place_of_a_name_leaves_the_folders(with_model: Make) -> None:
    """As in Anthropic's own plugins: `name: Hook Development` in `hook-development`."""
    newel = with_model(scenario("", DONE))
    text = "---\nname: Hook Development\ndescription: Use it for hooks.\n---\nWrite a hook.\n"
    skill(newel.home / ".claude/skills", "hook-development", text)
    done = newel("-p", "/hook-development now")
    assert "- hook-development: Use it for hooks." in system_prompt(newel)
    assert "Write a hook." in last_prompt(newel)
    assert "SKILL.md" not in done.stderr
    checked = newel("skills", "check")
    assert checked.returncode == 0
    assert "SKILL.md:2: The name 'Hook Development' cannot be used; that of the folder is." in checked.stdout


def test_check_names_files_and_lines(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    skill(newel.project / "mine", "two words", "---\nname: Two Words\ndescription: x\n---\nX\n")
    skill(newel.project / "mine", "fine", EXPLAIN.replace("explain-code", "fine"))
    bad = newel("skills", "check", "mine")
    assert bad.returncode == 1
    assert "mine/two words/SKILL.md:2: The name 'Two Words' cannot be used." in bad.stdout
    fine = newel("skills", "check", "mine/fine")
    assert (fine.returncode, fine.stderr) == (0, "")
    assert newel("skills", "check", "mine/fine/SKILL.md").returncode == 0
    nothing = newel("skills", "check", "nowhere")
    assert nothing.returncode == 1
    assert "nowhere" in nothing.stderr


def test_hostile_text_of_a_skill_is_inert_on_the_screen(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    skill(
        newel.home / ".claude/skills",
        "evil",
        '---\nname: evil\ndescription: "\\e[2J\\e]0;owned\\a\\u202e"\n---\nX\n',
    )
    listed = newel("skills", "list")
    assert "\x1b" not in listed.stdout
    assert "\u202e" not in listed.stdout


def test_a_small_model_is_not_told_of_skills_and_the_user_calls_them(with_model: Make) -> None:
    newel = with_model(scenario("", DONE))
    skill(newel.home / ".claude/skills", "deploy")
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text("[models.mock-model]\ncontext_window = 8000\n")
    newel("--", "/deploy now")
    assert "skill" not in tools(newel)
    assert "How to do deploy." in last_prompt(newel)


def test_commands_in_a_skill_are_run_by_the_model_under_the_usual_rules(with_model: Make) -> None:
    text = "---\nname: changes\ndescription: Sums up.\n---\n## Changes\n\n!`touch made`\n\nSum up.\n"
    newel = with_model(scenario("", bash("touch made"), DONE))
    skill(newel.home / ".claude/skills", "changes", text)
    newel("--approve", "read-only", "--", "/changes")
    assert "Run these commands first, with `bash`" in last_prompt(newel)
    assert not (newel.project / "made").exists()


def test_on_a_host_the_users_skills_are_those_of_this_machine_and_the_projects_those_of_the_host(
    with_model: Make, sshd: Sshd, request: pytest.FixtureRequest
) -> None:
    newel = with_model(
        scenario("go", use("mine"), use("theirs"), bash("sh .claude/skills/theirs/run.sh"), DONE)
    )
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    skill(newel.home / ".claude/skills", "mine", run_sh="echo never")
    project = sshd.project(request.node.name)
    place = skill(project / ".claude/skills", "theirs")
    (place / "run.sh").write_text("echo ran on the host\n")
    there = ("--host", f"host:{project}", "--approve", "auto")
    refused = newel(*there, "go")
    command = refused.stderr.partition("To use them: ")[2].partition(";")[0].split()
    assert command[:3] == ["newel", "skills", "trust"], refused.stderr
    assert newel(*command[1:]).returncode == 0
    newel.server.requests.clear()
    newel(*there, "go")
    mine, theirs, ran = results(newel)
    assert "How to do mine." in mine
    assert "commands on this host do not find them" in mine
    assert "How to do theirs." in theirs
    assert f'folder="{project}/.claude/skills/theirs"' in theirs
    assert "ran on the host" in ran


def test_a_subagent_has_them_too(with_model: Make) -> None:
    steps = {
        "scenarios": [
            scenario("delegate", task_call("look"), DONE)["scenarios"][0],
            scenario("look", use("deploy"), {"content": "Looked."})["scenarios"][0],
        ]
    }
    newel = with_model(steps)
    skill(newel.home / ".claude/skills", "deploy")
    newel("--tools", "read,task,skill", "delegate")
    answers = [
        each["content"]
        for request in newel.requests
        for each in request["messages"]
        if each["role"] == "tool"
    ]
    assert any("How to do deploy." in answer for answer in answers)


def task_call(prompt: str) -> dict[str, Any]:
    arguments = {"description": prompt, "prompt": prompt}
    return {"tool_calls": [{"function": {"name": "task", "arguments": arguments}}]}


def test_odd_folders_of_skills_do_no_harm(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    place = newel.home / ".claude/skills"
    skill(place, "good")
    for name in (os.fsdecode(b"bad\xff"), "line\nbreak", ".hidden"):
        skill(place, name, "---\nname: x\ndescription: y\n---\nX\n")
    (place / "loop").symlink_to("loop")
    (place / "pipe").mkdir()
    os.mkfifo(place / "pipe/SKILL.md")
    (place / "notes.md").write_text("no skill")
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert "- good: Does good." in system_prompt(newel)
    assert "pipe/SKILL.md:1: " in done.stderr
    rows = json.loads(newel("skills", "list", "--json").stdout)
    assert [(row["name"], row["state"]) for row in rows] == [("good", "used"), ("pipe", "broken")]


def test_many_skills_take_a_bounded_part_of_the_prompt(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    for number in range(150):
        text = f"---\nname: s{number:03}\ndescription: {'many words ' * 90}\n---\nX\n"
        skill(newel.home / ".claude/skills", f"s{number:03}", text)
    newel("go")
    part = system_prompt(newel).partition("# Skills")[2].partition("\n# ")[0]
    assert "- s000: many words" in part
    assert "s149" in part
    assert len(part) < 16_000
