"""If these fail, what the user has forbidden runs, or they are asked about what they have allowed."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from tests.driver import Driver
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]


def rules(newel: Newel, **lists: list[str]) -> None:
    config = newel.home / ".newel" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    lines = [f"{effect} = {json.dumps(texts)}\n" for effect, texts in lists.items()]
    config.write_text("[permissions]\n" + "".join(lines))


def write(path: str, content: str = "x\n") -> dict[str, object]:
    arguments = {"file_path": path, "content": content}
    return {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}


def git(newel: Newel, *words: str) -> None:
    subprocess.run(["git", *words], cwd=newel.project, check=True)


@contextmanager
def conversation(newel: Newel) -> Generator[Tmux]:
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel"), "--approve", "ask"], newel.project, environ) as terminal:
        terminal.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")
        yield terminal


def result(newel: Newel) -> str:
    """What the model got of its last call."""
    return str(newel.requests[-1]["messages"][-1]["content"])


@pytest.mark.parametrize("approve", ["auto", "ask", "review"])
@pytest.mark.parametrize(
    "command",
    ["touch a", "echo x && /usr/bin/touch a", "sh -c 'touch a'", "env X=1 touch a", "echo $(touch a)"],
)
def test_a_denied_command_runs_in_no_mode(with_model: Make, approve: str, command: str) -> None:
    newel = with_model(scenario("work", bash(command), {"content": "Done."}))
    rules(newel, deny=["bash(touch *)"], allow=["bash"])
    newel("--approve", approve, "work")
    assert "the user's rule `deny bash(touch *)` forbids it" in result(newel)
    assert not (newel.project / "a").exists()


def test_a_denied_command_does_not_run_as_an_edited_one_either(with_model: Make) -> None:
    newel = with_model(scenario("work", bash("echo a"), {"content": "Done."}))
    rules(newel, deny=["bash(touch *)"], ask=["bash(echo *)"])
    with conversation(newel) as terminal:
        terminal.type("work", "Enter")
        terminal.wait_for("e edit it")
        terminal.answer("e", "Enter")
        terminal.wait_for("? echo a")
        terminal.type("; touch a", "Enter")
        terminal.wait_for("Done.")
    assert "the user's rule `deny bash(touch *)` forbids it" in result(newel)
    assert not (newel.project / "a").exists()


@pytest.mark.parametrize("approve", ["auto", "ask", "review"])
def test_a_denied_file_is_neither_read_nor_written(with_model: Make, approve: str) -> None:
    newel = with_model(scenario("work", write("private/notes.md"), {"content": "Done."}))
    rules(newel, deny=["read(private/**)"], allow=["write"])
    newel("--approve", approve, "work")
    assert "`deny read(private/**)` forbids it" in result(newel)
    assert not (newel.project / "private").exists()


def test_what_a_rule_asks_about_does_not_run_where_nobody_can_be_asked(with_model: Make) -> None:
    """Also in auto, which asks about nothing else."""
    newel = with_model(scenario("work", bash("touch a"), {"content": "Done."}))
    rules(newel, ask=["bash(touch *)"])
    done = newel("--approve", "auto", "work")
    assert "needs the user's approval (your rule asks: bash(touch *))" in result(newel)
    assert done.returncode == 1
    assert not (newel.project / "a").exists()


def test_an_allowed_command_runs_unasked(with_model: Make) -> None:
    newel = with_model(scenario("work", bash("touch a && ls"), {"content": "Done."}))
    rules(newel, allow=["bash(touch *)"])
    assert newel("--approve", "ask", "work").returncode == 0
    assert (newel.project / "a").exists()


@pytest.mark.parametrize(
    "command", ["touch a; mkdir b", "touch a > c", "touch $X a", "X=1 touch a", "./touch a"]
)
def test_an_allowed_command_takes_no_other_along(with_model: Make, command: str) -> None:
    newel = with_model(scenario("work", bash(command), {"content": "Done."}))
    rules(newel, allow=["bash(touch *)"])
    assert newel("--approve", "ask", "work").returncode == 1
    assert list(newel.project.iterdir()) == []


def test_an_allowed_folder_is_edited_unasked_and_no_other(with_model: Make) -> None:
    newel = with_model(
        scenario("work", write("src/a"), write("b"), write("src/.vscode/tasks.json"), {"content": "Done."})
    )
    rules(newel, allow=["write(src/**)"])
    assert newel("--approve", "ask", "work").returncode == 1
    assert {str(path.relative_to(newel.project)) for path in newel.project.rglob("*")} == {"src", "src/a"}


@pytest.mark.parametrize(
    "command", ["ls -la", "cat a | head -3", "git status --short", "grep -rn x .", "cd ./ && ls"]
)
def test_commands_that_only_read_run_unasked(with_model: Make, command: str) -> None:
    newel = with_model(scenario("work", bash(f"{command}"), {"content": "Done."}))
    (newel.project / "a").write_text("x\n")
    git(newel, "init", "-q")
    assert newel("--approve", "ask", "work").returncode == 0
    assert "exit code: 0" in result(newel)


@pytest.mark.parametrize(
    "setting",
    [
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "filter.x.clean",
        "include.path",
        "alias.x",
        "lfs.extension.x.clean",
    ],
)
def test_git_is_asked_about_in_a_repository_that_starts_programs(with_model: Make, setting: str) -> None:
    newel = with_model(scenario("work", bash("git status"), {"content": "Done."}))
    git(newel, "init", "-q")
    git(newel, "config", setting, "touch pwned")
    assert newel("--approve", "ask", "work").returncode == 1
    assert "needs the user's approval" in result(newel)


@pytest.mark.parametrize(("hook", "code"), [("pre-commit", 0), ("post-index-change", 1)])
def test_git_is_asked_about_where_reading_runs_a_hook(with_model: Make, hook: str, code: int) -> None:
    """Tools such as husky keep their hooks in the project: most concern commits alone."""
    newel = with_model(scenario("work", bash("git status"), {"content": "Done."}))
    git(newel, "init", "-q")
    git(newel, "config", "core.hooksPath", "hooks")
    (newel.project / "hooks").mkdir()
    (newel.project / "hooks" / hook).write_text("#!/bin/sh\ntouch pwned\n")
    assert newel("--approve", "ask", "work").returncode == code


@pytest.mark.parametrize("mode", ["ask", "plan", "read-only"])
def test_a_project_shows_no_other_repository(with_model: Make, mode: str) -> None:
    """An unpacked archive may name any one of the user's as its own."""
    newel = with_model(scenario("work", bash("git log -p --all"), {"content": "Done."}))
    private = newel.home / "private"
    private.mkdir()
    git(newel, "init", "-q", str(private))
    words = ["-C", str(private), "-c", "user.name=A", "-c", "user.email=a@b"]
    git(newel, *words, "commit", "-q", "--allow-empty", "-m", "very secret")
    git(newel, "init", "-q")
    (newel.project / ".git/commondir").write_text(f"{private}/.git\n")
    newel("--approve", mode, "work")
    assert "very secret" not in result(newel)


@pytest.mark.parametrize("mode", ["ask", "plan", "read-only"])
@pytest.mark.parametrize("command", ["branch --format --list pwned", "tag --format -l pwned"])
def test_a_value_that_looks_like_an_option_creates_nothing(with_model: Make, mode: str, command: str) -> None:
    newel = with_model(scenario("work", bash(f"git {command}"), {"content": "Done."}))
    git(newel, "init", "-q")
    git(newel, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one")
    newel("--approve", mode, "work")
    assert not list(newel.project.rglob("pwned"))


def test_a_project_tightens_and_never_allows(with_model: Make) -> None:
    newel = with_model(scenario("work", bash("touch a"), {"content": "Done."}))
    project_rules = newel.project / ".newel" / "permissions.toml"
    project_rules.parent.mkdir()
    project_rules.write_text('deny = ["bash(touch *)"]\n')
    newel("work")
    assert "`deny bash(touch *)` forbids it" in result(newel)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('allow = ["bash"]\n', "A project can `ask` and `deny`"),
        ("deny = [", "Invalid value (at end of document). Correct"),
        (
            '\ndenny = ["bash"]\n',
            "line 2: there is no `denny` here; write `ask = […]` or `deny = […]`. Correct",
        ),
        ('[permissions]\ndeny = ["bash"]\n', "line 1: there is no `permissions` here; write `ask = […]` or"),
        ('deny = "bash"\n', "line 1: deny: expected a list, got a string. Correct"),
        ("[[deny]]\nbash = true\n", "line 1: deny[0]: expected a string, got a table. Correct"),
        ('deny = ["bsah"]\n', "line 1: deny: 'bsah' is not a rule."),
    ],
)
def test_nothing_runs_if_the_rules_of_a_project_have_a_mistake(
    with_model: Make, text: str, reason: str
) -> None:
    newel = with_model()
    (newel.project / ".newel").mkdir()
    (newel.project / ".newel/permissions.toml").write_text(text)
    done = newel("work")
    assert done.returncode == 1
    assert f"permissions.toml: The project's permission rules cannot be used: {reason}" in done.stderr
    assert re.search(r"[^.]\. Correct the file, or delete it\.$", done.stderr, re.MULTILINE)
    assert newel.requests == []


FOREIGN = """\
{table}
ask = ["bash(git push *)"]
deny = [
  "bash(rm *)",  # as in "mcp__github__delete_repo"
  'mcp__github__delete_repo',
]
"""


@pytest.mark.parametrize("of_project", [True, False])
def test_a_rule_that_can_never_match_is_told_with_its_line_and_with_what_to_write(
    with_model: Make, *, of_project: bool
) -> None:
    """A deny that does nothing looks like protection."""
    newel = with_model(scenario("work", {"content": "Done."}))
    path = newel.project / ".newel/permissions.toml" if of_project else newel.home / ".newel/config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(FOREIGN.format(table="" if of_project else "[permissions]"))
    for words in (["work"], ["permissions"]):
        done = newel(*words)
        assert done.returncode == 1
        assert f"{path}" in done.stderr
        assert "line 5" in done.stderr
        assert "'mcp__github__delete_repo' is not a rule" in done.stderr
        assert "Write `github__delete_repo`" in done.stderr
    assert not newel.requests


def test_a_rule_that_can_never_match_is_not_added(with_model: Make) -> None:
    newel = with_model(scenario("work", {"content": "Done."}))
    done = newel("permissions", "add", "mcp__github")
    assert done.returncode == 1
    assert "Write `github__*`" in done.stderr
    assert "github" not in newel("permissions").stdout


def test_an_answer_for_the_project_is_kept_listed_and_revoked(with_model: Make) -> None:
    """The same question each day teaches people to answer without reading."""
    call = bash("npm test -- --watch=false || true")
    steps = [
        scenario("first", call, {"content": "One."}),
        scenario("second", bash("npm test; npm testx"), {"content": "Two."}),
        scenario("third", call, {"content": "Three."}),
    ]
    newel = with_model({"scenarios": [each["scenarios"][0] for each in steps]})
    with conversation(newel) as terminal:
        terminal.type("first", "Enter")
        terminal.wait_for("p always allows here: npm test *")
        terminal.wait_for("a exactly this for the session · p always in this project")
        terminal.wait_for("Enter answers")
        terminal.type("p", "Enter")
        terminal.wait_for("One.")
        terminal.type("second", "Enter")
        terminal.wait_for("p always allows here: npm testx")
        terminal.wait_for("Enter answers")
        terminal.type("n", "Enter")
        terminal.wait_for("Two.")
        terminal.type("/permissions", "Enter")
        terminal.wait_for("allow  bash(npm test *)")
    assert newel("--approve", "ask", "third").returncode == 0
    (kept,) = json.loads(newel("permissions", "list", "--json").stdout)
    assert (kept["rule"], newel("permissions", "revoke", kept["id"]).returncode) == ("bash(npm test *)", 0)
    assert newel("--approve", "ask", "third").returncode == 1
    assert newel("permissions").stdout.startswith("No rules yet.")


def test_what_add_has_allowed_is_confirmed(with_model: Make) -> None:
    """Without a word, the user does not know that it holds in this project only, or what it is called."""
    newel = with_model()
    done = newel("permissions", "add", "bash(npm test:*)", "write(docs/**)")
    assert (
        done.stdout
        == "Allowed in this project: bash(npm test:*), write(docs/**). `newel permissions` lists and revokes it.\n"
    )


def test_edits_in_a_folder_are_allowed_by_one_answer(with_model: Make) -> None:
    newel = with_model(
        scenario("go", write("src/a"), write("src/deep/b"), write("c"), {"content": "Done."}),
    )
    with conversation(newel) as terminal:
        terminal.type("go", "Enter")
        terminal.wait_for("p always allows here: edits in src/")
        terminal.wait_for("Enter answers")
        terminal.type("p", "Enter")
        terminal.wait_for("p always allows here: all edits in the project")
        terminal.wait_for("+++ c")
        assert (newel.project / "src/deep/b").exists()
        assert not (newel.project / "c").exists()


@pytest.mark.parametrize("path", ["~a/b", "a(b)/c", "a*/b", " /a", "-/a", "é/a"])
def test_a_folder_with_an_odd_name_can_be_asked_about(
    drive: Callable[..., Driver], with_model: Make, path: str
) -> None:
    newel = with_model(scenario("go", write(f"./{path}"), {"content": "Done."}))
    driver = drive(newel, "--approve", "ask")
    driver.send(type="message", content="go")
    asked = driver.until("approval_request")
    driver.answer(asked, "once")
    driver.until("agent_end")
    assert (newel.project / path).exists()


def test_an_agent_keeps_no_rule_for_itself(with_model: Make) -> None:
    newel = with_model(scenario("work", bash(f"{BIN}/newel permissions add bash"), {"content": "Done."}))
    newel("work")
    assert "is a decision of the user" in result(newel)
    assert newel("permissions").stdout.startswith("No rules yet.")


def test_kept_servers_are_listed_and_revoked(with_model: Make) -> None:
    """Those of other projects stay."""
    newel = with_model(scenario("go", {"content": "Hello."}))
    servers = newel.home / ".newel" / "sandbox_servers.json"
    servers.parent.mkdir()
    ours, others = ["one.example.org", "two.example.org:81", "three.example.org"], ["one.example.org"]
    servers.write_text(json.dumps({str(newel.project): ours, "/other": others}))
    assert newel("permissions").stdout.count("allow  server ") == 3
    rows = json.loads(newel("permissions", "list", "--json").stdout)
    assert [(row["kind"], row["rule"]) for row in rows] == [("server", server) for server in ours]
    assert newel("permissions", "revoke", "one.example.org").stdout.startswith("Revoked: one.example.org.")
    assert newel("permissions", "revoke", rows[1]["id"]).returncode == 0
    assert json.loads(servers.read_text()) == {str(newel.project): ours[2:], "/other": others}
    with conversation(newel) as terminal:
        terminal.type("/permissions", "Enter")
        terminal.wait_for("allow  server three.example.org")
        terminal.type(f"/permissions revoke {rows[2]['id']}", "Enter")
        terminal.wait_for("Revoked: three.example.org.")
    assert json.loads(servers.read_text()) == {"/other": others}
    assert newel("permissions", "revoke", "one.example.org").returncode == 1


def test_a_damaged_file_is_named_and_what_is_in_the_other_one_can_be_revoked(with_model: Make) -> None:
    newel = with_model(scenario("go", {"content": "Hello."}))
    assert newel("permissions", "add", "bash(npm test *)").returncode == 0
    damaged = newel.home / ".newel" / "sandbox_servers.json"
    damaged.write_text("{")
    listed = newel("permissions")
    assert f"{damaged} is damaged" in listed.stderr
    assert newel("permissions", "revoke", "bash(npm test *)").returncode == 0
    refused = newel("permissions", "revoke", "--all")
    assert (refused.returncode, "is damaged, and was left as it is" in refused.stderr) == (1, True)
    assert damaged.read_text() == "{"


def test_a_rule_that_cannot_be_saved_is_said_where_it_was_answered(with_model: Make) -> None:
    """The call runs, and the next one is asked about."""
    newel = with_model(scenario("go", bash("touch one"), bash("touch two"), {"content": "Done."}))
    damaged = newel.home / ".newel" / "permissions.json"
    damaged.parent.mkdir()
    damaged.write_text("{")
    with conversation(newel) as terminal:
        terminal.type("go", "Enter")
        terminal.wait_for("p always allows here: touch *")
        terminal.wait_for("Enter answers")
        terminal.type("p", "Enter")
        terminal.wait_for("Not saved for this project: bash(touch *).")
        terminal.wait_for("touch two")
        assert (newel.project / "one").exists()
    assert not (newel.project / "two").exists()
    assert damaged.read_text() == "{"


def test_a_revoked_rule_is_asked_about_at_once_in_the_session_that_made_it(
    drive: Callable[..., Driver], with_model: Make
) -> None:
    newel = with_model(scenario("go", bash("touch one"), {"content": "Done."}))
    driver = drive(newel, "--approve", "ask")
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "rule")
    driver.until("agent_end")
    assert newel("permissions", "revoke", "bash(touch *)").returncode == 0
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "no")
    driver.until("agent_end")
    assert "declined" in result(newel)
