"""If these fail, hooks that were written for Claude Code do not work in Newel, or a guard that the user has set up lets a call through."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.driver import Driver
from tests.hook_scripts import group, hook, logged, logs, of_project, program, results, users, write
from tests.integration.agents.support import after
from tests.processes import ends
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]
Drive = Callable[..., Driver]

DONE = {"content": "Done."}

BLOCK_RM = """\
#!/bin/bash
# .claude/hooks/block-rm.sh
COMMAND=$(jq -r '.tool_input.command')

if echo "$COMMAND" | grep -q 'rm -rf'; then
  jq -n '{
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision: "deny",
      permissionDecisionReason: "Destructive command blocked by hook"
    }
  }'
else
  exit 0  # no decision; normal permission flow applies
fi
"""
"""From the documentation of Claude Code, unchanged."""


def test_a_hook_from_the_documentation_of_claude_code_works_unchanged(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("rm -rf build"), bash("echo fine"), DONE))
    (newel.project / "build").mkdir()
    script = newel.home / "block-rm.sh"
    script.write_text(BLOCK_RM)
    script.chmod(0o755)
    users(newel, PreToolUse=[group(hook(str(script), **{"if": "Bash(rm *)"}), matcher="Bash")])
    done = newel("go")
    assert "Destructive command blocked by hook" in results(newel)[0]
    assert "fine" in results(newel)[1]
    assert (newel.project / "build").is_dir(), done.stderr


def test_every_event_gets_the_fields_that_claude_codes_hooks_read(with_model: Make) -> None:
    newel = with_model(
        scenario(
            "go",
            write({"file_path": "a.txt", "content": "a\n"}),
            write({"command": "sleep 0; exit 3", "timeout": 5}, "bash"),
            DONE,
        )
    )
    log = newel.home / "log"
    each = program(
        newel.home,
        f"given['env'] = os.environ['CLAUDE_PROJECT_DIR'], os.getcwd()\nopen({str(log)!r}, 'a').write(json.dumps(given) + chr(10))",
    )
    events = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop"]
    users(newel, **{event: [group(hook(each))] for event in [*events, "SessionEnd"]})
    done = newel("go")
    assert done.returncode == 0, done.stderr
    told = logged(log)
    assert [one["hook_event_name"] for one in told] == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreToolUse",
        "PostToolUseFailure",
        "Stop",
        "SessionEnd",
    ]
    project = str(newel.project)
    for one in told:
        assert one["session_id"] in newel.sessions[0].name
        assert one["transcript_path"] == str(newel.sessions[0])
        assert (one["cwd"], one["permission_mode"]) == (project, "bypassPermissions")
        assert one["env"] == [project, project]
    start, prompt, before, after, command, failed, stop, end = told
    assert start["source"] == "startup"
    assert prompt["prompt"] == "go"
    assert before["tool_name"] == "Write"
    assert before["tool_input"] == {"file_path": f"{project}/a.txt", "content": "a\n"}
    assert after["tool_response"] == {"filePath": f"{project}/a.txt", "success": True}
    assert after["tool_use_id"] == before["tool_use_id"]
    assert command["tool_input"] == {"command": "sleep 0; exit 3", "timeout": 5_000}
    assert "exit code: 3" in failed["error"]
    assert (stop["last_assistant_message"], stop["stop_hook_active"]) == ("Done.", False)
    assert end["reason"] == "other"


@pytest.mark.parametrize(
    "matcher", ["Write", "Edit|Write", "write", "edit, write", "^W", "", "*", ".*", None]
)
def test_matchers_are_in_either_spelling(with_model: Make, matcher: str | None) -> None:
    newel = with_model(scenario("go", write({"file_path": "a.txt", "content": "a\n"}), DONE))
    users(newel, PreToolUse=[group(hook("echo no >&2; exit 2"), matcher=matcher)])
    newel("go")
    assert "a hook forbids this call" in results(newel)[0]
    assert results(newel)[0].endswith("no")
    assert not (newel.project / "a.txt").exists()


@pytest.mark.parametrize("matcher", ["Writ", "Bash|Edit", "^(?!Write)", "mcp__.*", "bash"])
def test_hooks_that_match_nothing_start_no_process(with_model: Make, matcher: str) -> None:
    newel = with_model(scenario("go", write({"file_path": "a.txt", "content": "a\n"}), DONE))
    marker = newel.home / "started"
    entry = group(hook(f"touch {marker}"), matcher=matcher)
    condition = group(hook(f"touch {marker}", **{"if": "Write(*.md)"}), matcher="Write")
    users(
        newel,
        PreToolUse=[entry, condition],
        PostToolUse=[entry],
        SubagentStop=[group(hook(f"touch {marker}"))],
    )
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert not marker.exists()


def test_a_start_without_hooks_loads_nothing_of_them(with_model: Make) -> None:
    newel = with_model(scenario("hi", {"content": "Hello."}))
    done = newel("--approve", "plan", "hi", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "newel.hooks" in loaded
    assert not {name for name in loaded if name.startswith(("newel.hooks.", "newel.app.hooks"))}


def test_what_a_hook_prints_about_a_prompt_reaches_the_model_after_it(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    context = {
        "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "Branch: main"}
    }
    users(
        newel,
        SessionStart=[group(hook("echo The build is red."), matcher="startup")],
        UserPromptSubmit=[group(hook(f"echo '{json.dumps(context)}'"))],
    )
    done = newel("go")
    assert done.returncode == 0, done.stderr
    said = [each["content"] for each in newel.requests[0]["messages"] if each["role"] == "user"]
    assert "\n".join(said) == "go\nThe build is red.\n\nBranch: main"


def test_a_blocked_prompt_reaches_no_model_not_even_later(with_model: Make) -> None:
    newel = with_model(scenario("hello", DONE))
    guard = program(
        newel.home,
        "if 'password' in given['prompt']: sys.exit('no' if 0 else (print('It holds a password.', file=sys.stderr), 2)[1])",
    )
    users(newel, UserPromptSubmit=[group(hook(guard))])
    (newel.project / "notes.txt").write_text("notes")
    done = newel("my password in @notes.txt is hunter2")
    assert done.returncode == 1
    assert "It holds a password." in done.stderr
    assert newel("--continue", "hello").returncode == 0
    assert "hunter2" not in json.dumps(newel.requests)
    assert "hunter2" not in newel.sessions[0].read_text()


def test_a_formatter_after_an_edit_is_undone_with_the_run(with_model: Make) -> None:
    newel = with_model(
        scenario(
            "go",
            write({"file_path": "a.py", "content": "x = 1\n"}),
            write({"file_path": "a.py"}, "read"),
            write({"file_path": "a.py", "old_string": "X = 1", "new_string": "x = 2"}, "edit"),
            DONE,
        )
    )
    (newel.project / "a.py").write_text("old = 0\n")
    upper = program(
        newel.home,
        "path = given['tool_input']['file_path']\ntext = open(path).read()\nopen(path, 'w').write(text.upper())",
    )
    users(newel, PostToolUse=[group(hook(upper), matcher="Edit|MultiEdit|Write")])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert "A hook changed a.py" in results(newel)[0]
    assert (newel.project / "a.py").read_text() == "X = 2\n", results(newel)
    undone = newel("undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert "conflict" not in (undone.stdout + undone.stderr).lower()
    assert (newel.project / "a.py").read_text() == "old = 0\n"


UPPER = (
    "path = given['tool_input']['file_path']\ntext = open(path).read()\nopen(path, 'w').write(text.upper())"
)


@pytest.mark.parametrize("approve", ["auto", "review"])
def test_a_model_edits_on_what_a_formatter_has_made_without_reading_it_again(
    with_model: Make, approve: str
) -> None:
    """Otherwise each edit costs a further request, and a refused one first."""
    newel = with_model(
        scenario(
            "go",
            write({"file_path": "a.py", "content": "x = 1\n"}),
            write({"file_path": "a.py", "old_string": "X = 1", "new_string": "x = 2"}, "edit"),
            write({"file_path": "a.py", "old_string": "X = 2", "new_string": "x = 3"}, "edit"),
            DONE,
        )
    )
    users(newel, PostToolUse=[group(hook(program(newel.home, UPPER)), matcher="Edit|Write")])
    done = newel("--approve", approve, "go")
    assert done.returncode == 0, done.stderr
    first, *_ = results(newel)
    assert "A hook changed a.py after this call" in first
    assert "-x = 1\n+X = 1" in first
    assert "Read it again" not in "".join(results(newel))
    newel("keep", "--all", "--yes")
    assert (newel.project / "a.py").read_text() == "X = 3\n", results(newel)
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "a.py").exists() or approve == "review"


@pytest.mark.parametrize("written", ["os.path.dirname(path) + '/b.py'", "path"])
def test_what_a_hook_does_that_is_not_shown_has_to_be_read(with_model: Make, written: str) -> None:
    """Another file, or more than a result can show: the model must not edit what it has not seen."""
    newel = with_model(
        scenario(
            "go",
            write({"file_path": "b.py", "content": "b\n"}),
            write({"file_path": "a.py", "content": "a\n"}),
            write({"file_path": "a.py", "old_string": "a", "new_string": "c"}, "edit"),
            DONE,
        )
    )
    long = f"path = given['tool_input']['file_path']\nopen({written}, 'a').write('another line\\n' * 5_000)"
    users(newel, PostToolUse=[group(hook(program(newel.home, long)), matcher="Write")])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert "Read it again before you edit it" in results(newel)[1]
    assert ("changed on disk since you last saw it" in results(newel)[2]) is (written == "path")


@pytest.mark.parametrize("file", ["a.py", ".env"])
def test_what_a_hook_writes_is_not_shown_from_another_file_or_one_of_secrets(
    with_model: Make, file: str
) -> None:
    """A command in the background could put a link in place of the file while a formatter runs; and reading such files needs approval."""
    newel = with_model(scenario("go", write({"file_path": file, "content": "a = 1\n"}), DONE))
    (newel.home / "private.txt").write_text("hidden-words\n")
    swaps = f"path = {file!r}\nos.remove(path)\nos.symlink({str(newel.home / 'private.txt')!r}, path)"
    writes = f"open({file!r}, 'a').write('TOKEN=hidden-words\\n')"
    users(newel, PostToolUse=[group(hook(program(newel.home, writes if file == ".env" else swaps)))])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert f"A hook changed {file} after this call. Read it again" in results(newel)[0]
    assert "hidden-words" not in results(newel)[0]


def test_hooks_of_a_conversation_say_how_they_last_went(with_model: Make) -> None:
    newel = with_model(scenario("", DONE))
    users(
        newel,
        UserPromptSubmit=[group(hook("true")), group(hook("echo broken >&2; exit 3"))],
        Stop=[group(hook("true"))],
    )
    of_project(newel, Stop=[group(hook("touch \x1b[8m"))])
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel")], newel.project, environ, columns=200, rows=50) as terminal:
        terminal.wait_for("[y/N/never]")
        terminal.answer("", "Enter")
        terminal.wait_for("Enter sends")
        terminal.type("/hooks", "Enter")
        terminal.wait_for("has not run yet", times=3)
        assert "touch ␛[8m" in terminal.text
        terminal.wait_for("runs once you trust it")
        terminal.type("go", "Enter")
        terminal.wait_for(" context · ")  # behind the last hook
        terminal.type("/hooks", "Enter")
        terminal.wait_for("last: ok", times=2)
        terminal.wait_for("last: failed: ")


def test_a_formatter_in_review_mode_formats_the_proposal(with_model: Make) -> None:
    newel = with_model(scenario("go", write({"file_path": "a.py", "content": "x = 1\n"}), DONE))
    (newel.project / "a.py").write_text("old = 0\n")
    upper = program(
        newel.home,
        "path = given['tool_input']['file_path']\nassert path.startswith(os.getcwd() + '/')\n"
        "assert os.getcwd() != os.environ['CLAUDE_PROJECT_DIR']\n"
        "text = open(path).read()\nopen(path, 'w').write(text.upper())",
    )
    users(newel, PostToolUse=[group(hook(upper), matcher="Write")])
    done = newel("--approve", "review", "go")
    assert "The PostToolUse hook" not in done.stderr
    assert (newel.project / "a.py").read_text() == "old = 0\n"
    kept = newel("keep", "--all", "--yes")
    assert kept.returncode == 0, kept.stderr
    assert (newel.project / "a.py").read_text() == "X = 1\n"


def test_a_hook_that_changes_the_project_itself_under_review_is_named_and_undone(with_model: Make) -> None:
    newel = with_model(scenario("go", write({"file_path": "a.py", "content": "x = 1\n"}), DONE))
    users(newel, PostToolUse=[group(hook('echo leaked > "$CLAUDE_PROJECT_DIR/b.txt"'))])
    done = newel("--approve", "review", "go")
    assert "b.txt" in done.stderr
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "b.txt").exists()


def test_a_hook_that_hangs_is_ended_with_its_processes(with_model: Make) -> None:
    newel = with_model(scenario("go", write({"file_path": "a.txt", "content": "a\n"}), DONE))
    pid = newel.home / "pid"
    users(newel, PreToolUse=[group(hook(f"sleep 300 & echo $! > {pid}; wait", timeout=0.5))])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert "hooks.json, line" in done.stderr
    assert "did not finish within 0.5 s" in done.stderr
    assert (newel.project / "a.txt").exists()
    assert ends(int(pid.read_text()))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo '{garbage'", "is not valid"),
        ("echo '{\"decision\": 7}'", "JSON is invalid"),
        ("echo boom >&2; echo more >&2; exit 5", "exit code 5: boom"),
        ("/no/such/program", "exit code 127"),
        ("head -c 3000000 /dev/zero | tr '\\0' x | sed 's/^/{/'", "too long"),
    ],
)
def test_a_hook_that_fails_is_reported_and_the_run_goes_on(with_model: Make, command: str, says: str) -> None:
    newel = with_model(scenario("go", write({"file_path": "a.txt", "content": "a\n"}), DONE))
    users(newel, PreToolUse=[group(hook(command))], PostToolUse=[group(hook(command))])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    for event in ("PreToolUse", "PostToolUse"):
        assert f"The {event} hook of {newel.home}/.newel/hooks.json, line" in done.stderr
    assert says in done.stderr
    assert len(done.stderr) < 4_000
    assert (newel.project / "a.txt").exists()


def test_the_input_that_a_hook_gives_is_judged_and_told(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo one"), DONE))
    changed = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "updatedInput": {"command": "echo two", "description": "x"},
        }
    }
    users(newel, PreToolUse=[group(hook(f"echo '{json.dumps(changed)}'"))])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert "A hook changed this call" in results(newel)[0]
    assert "\ntwo" in results(newel)[0]
    assert "\none" not in results(newel)[0]


def test_the_input_that_a_hook_gives_passes_no_rule(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo one"), DONE))
    changed = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "updatedInput": {"command": "touch made"},
        }
    }
    users(newel, PreToolUse=[group(hook(f"echo '{json.dumps(changed)}'"))])
    (newel.home / ".newel" / "config.toml").write_text('[permissions]\ndeny = ["bash(touch *)"]\n')
    newel("go")
    assert "the user's rule `deny bash(touch *)` forbids it" in results(newel)[0]
    assert not (newel.project / "made").exists()


DECIDES = 'echo \'{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "%s", "permissionDecisionReason": "it is late"}}\''


def test_an_ask_needs_an_approval_even_where_nothing_else_does(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("touch made"), DONE))
    users(newel, PreToolUse=[group(hook(DECIDES % "ask"))])
    assert newel("go", "--approve", "auto").returncode == 1
    assert "it is late" in results(newel)[0]
    assert not (newel.project / "made").exists()


@pytest.mark.parametrize(("mode", "runs"), [("ask", True), ("plan", False), ("read-only", False)])
def test_an_allow_stands_for_an_answer_of_the_user_and_for_nothing_more(
    with_model: Make, mode: str, runs: bool
) -> None:
    newel = with_model(scenario("go", bash("touch made"), DONE))
    users(newel, PreToolUse=[group(hook(DECIDES % "allow"))])
    newel("go", "--approve", mode)
    assert (newel.project / "made").exists() is runs


@pytest.mark.parametrize("rule", ["ask", "deny"])
def test_an_allow_is_weaker_than_the_users_rules(with_model: Make, rule: str) -> None:
    newel = with_model(scenario("go", bash("touch made"), DONE))
    users(newel, PreToolUse=[group(hook(DECIDES % "allow"))])
    (newel.home / ".newel" / "config.toml").write_text(f'[permissions]\n{rule} = ["bash(touch *)"]\n')
    newel("go", "--approve", "auto")
    assert "Not run" in results(newel)[0]
    assert not (newel.project / "made").exists()


def test_an_allow_opens_no_file_that_starts_programs(with_model: Make) -> None:
    newel = with_model(scenario("go", write({"file_path": ".claude/hooks/x.sh", "content": "evil"}), DONE))
    users(newel, PreToolUse=[group(hook(DECIDES % "allow"))])
    newel("go", "--approve", "ask")
    assert "Not run" in results(newel)[0]
    assert not (newel.project / ".claude").exists()


def test_a_stop_hook_sends_the_model_on_until_it_is_content(with_model: Make) -> None:
    scenarios = [scenario("go", DONE), scenario("Run the tests", bash("touch tested"), DONE)]
    newel = with_model({"scenarios": [each["scenarios"][0] for each in scenarios]})
    check = "test -e tested || { echo 'Run the tests first.' >&2; exit 2; }"
    users(newel, Stop=[group(hook(check))])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert (newel.project / "tested").exists()
    assert newel.requests[1]["messages"][-1]["content"] == "Run the tests first."


def test_a_stop_hook_that_is_never_content_does_not_run_for_ever(with_model: Make) -> None:
    newel = with_model(scenario("go", *[{"content": f"Done {number}."} for number in range(12)]))
    log = newel.home / "log"
    never = program(
        newel.home,
        f"open({str(log)!r}, 'a').write(json.dumps(given) + chr(10))\nprint(json.dumps({{'decision': 'block', 'reason': 'More.'}}))",
    )
    users(newel, Stop=[group(hook(never))])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert len(newel.requests) == 9
    assert [one["stop_hook_active"] for one in logged(log)] == [False, *[True] * 8]
    assert "8 times in a row" in done.stderr


def test_a_hook_can_end_the_run(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo one"), bash("touch made"), DONE))
    users(
        newel, PostToolUse=[group(hook('echo \'{"continue": false, "stopReason": "The build is broken."}\''))]
    )
    done = newel("go")
    assert "The build is broken." in done.stderr
    assert len(newel.requests) == 1
    assert not (newel.project / "made").exists()


def test_hooks_get_no_keys(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    users(newel, UserPromptSubmit=[group(hook("env"))])
    newel("go", GITHUB_TOKEN="ghp_secret", LLM_EXTRA="sk-secret")
    said = json.dumps(newel.requests[0]["messages"])
    assert "CLAUDE_PROJECT_DIR" in said
    assert "ghp_secret" not in said
    assert "sk-test-0123456789abcdef" not in said


def test_no_module_of_the_project_is_imported_by_a_hook_before_pythons_own(with_model: Make) -> None:
    """A cloned project, or a sandboxed command, would otherwise run code outside with a file named ``json.py``."""
    newel = with_model(scenario("go", bash("cp json.py csv.py"), DONE))
    (newel.project / "json.py").write_text("import os\nos.system('touch imported')\n")
    users(
        newel,
        SessionStart=[group(hook("python3 -c 'import json, sys; json.load(sys.stdin)'"))],
        PostToolUse=[group(hook("python3 -c 'import csv'"))],
    )
    done = newel("go")
    assert "Done." in done.stdout
    assert "hook" not in done.stderr
    assert not (newel.project / "imported").exists()
    users(newel, SessionStart=[group(hook("python3 -c 'import json'"))])
    newel("go", PYTHONSAFEPATH="")  # as the user has set it
    assert (newel.project / "imported").exists()


def test_hooks_of_subagents_say_whose_they_are(with_model: Make) -> None:
    scenarios = [
        scenario("go", write({"description": "look", "prompt": "count the lines"}, "task"), DONE),
        scenario("count the lines", bash("ls"), {"content": "None."}),
    ]
    newel = with_model({"scenarios": [each["scenarios"][0] for each in scenarios]})
    log = newel.home / "log"
    each = program(newel.home, f"open({str(log)!r}, 'a').write(json.dumps(given) + chr(10))")
    users(newel, PreToolUse=[group(hook(each))], SubagentStop=[group(hook(each), matcher="Explore")])
    done = newel("--tools", "bash,task", "go")
    assert done.returncode == 0, done.stderr
    start, command, stop = logged(log)
    assert (start["tool_name"], "agent_id" in start) == ("Agent", False)
    assert command["tool_name"] == "Bash"
    assert command["agent_id"] == stop["agent_id"]
    assert (stop["hook_event_name"], stop["last_assistant_message"]) == ("SubagentStop", "None.")


def test_hooks_in_config_toml_run_and_a_mistake_names_its_line(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("touch made"), DONE))
    home = newel.home / ".newel"
    home.mkdir()
    (home / "config.toml").write_text(
        '[[hooks.PreToolUse]]\nmatcher = "Bash"\ncommand = "echo no >&2; exit 2"\ntimeout = 5\n'
    )
    newel("go")
    assert f"({home}/config.toml, line 3)" in results(newel)[0]
    (home / "config.toml").write_text('[[hooks.PreToolUse]]\ncomand = "true"\n')
    assert "config.toml, line 2: hooks.PreToolUse[0]" in newel("go").stderr
    (home / "config.toml").write_text("[[hooks.PreTool]]\ncommand = 'true'\n")
    assert "did you mean `PreToolUse`" in newel("go").stderr


def test_the_hooks_of_a_project_run_only_once_they_are_trusted(with_model: Make) -> None:
    """Otherwise cloning a repository and sending a message runs its commands."""
    newel = with_model(scenario("go", DONE))
    marker = newel.project / "was-started"
    rogue = group(hook(f"touch {marker}\x1b[8m"))
    files = [".newel/hooks.json", ".claude/settings.json", ".claude/settings.local.json"]
    for file in files:
        of_project(newel, file, SessionStart=[rogue], UserPromptSubmit=[rogue], SessionEnd=[rogue])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert not list(newel.project.glob("was-started*"))
    assert all(file in done.stderr for file in files)
    assert "newel hooks trust" in done.stderr
    assert "untrusted" in newel("hooks").stdout
    refused = newel("hooks", "trust")
    assert refused.returncode == 2
    assert f"touch {marker}␛[8m" in refused.stdout
    assert newel("hooks", "trust", "--yes").returncode == 0
    assert newel("go").returncode == 0
    assert list(newel.project.glob("was-started*"))


def test_declined_hooks_are_not_mentioned_again(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    of_project(newel, Stop=[group(hook("touch was-started"))])
    assert newel("hooks", "trust", "--decline").returncode == 0
    assert "hooks" not in newel("go").stderr
    assert "declined" in newel("hooks", "list").stdout
    assert not (newel.project / "was-started").exists()


@pytest.mark.parametrize("change", ["command", "script"])
def test_trust_ends_when_a_command_or_its_script_changes(with_model: Make, change: str) -> None:
    newel = with_model(scenario("go", DONE))
    script = newel.project / "scripts" / "check.sh"
    script.parent.mkdir()
    script.write_text("true\n")
    of_project(newel, Stop=[group(hook('sh "$CLAUDE_PROJECT_DIR"/scripts/check.sh'))])
    assert newel("hooks", "trust", "--yes").returncode == 0
    assert "untrusted" not in newel("hooks").stdout
    if change == "script":
        script.write_text("touch was-started\n")
    else:
        of_project(newel, Stop=[group(hook("touch was-started"))])
    assert "not trusted them" in newel("go").stderr
    assert not (newel.project / "was-started").exists()


def test_a_guard_that_a_mistake_in_its_file_has_switched_off_is_named(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    of_project(newel, PreToolUse=[group(hook("exit 2"))])
    settings = newel.project / ".claude" / "settings.json"
    text = settings.read_text()
    settings.write_text(text[:-1])
    assert "hooks" not in newel("go").stderr  # nobody has asked for them
    settings.write_text(text)
    assert newel("hooks", "trust", "--yes").returncode == 0
    settings.write_text(text[:-1])
    assert "do not run any more, because of a mistake in .claude/settings.json" in newel("go").stderr
    settings.write_text("{}")
    assert "hooks" not in newel("go").stderr


def test_a_script_that_the_agent_has_changed_does_not_run(with_model: Make) -> None:
    """Else an agent in a sandbox could leave it by the script of a hook."""
    newel = with_model(scenario("go", write({"file_path": "check.sh", "content": "touch escaped\n"}), DONE))
    (newel.project / "check.sh").write_text("true\n")
    of_project(newel, PostToolUse=[group(hook("sh check.sh"))], Stop=[group(hook("sh ./check.sh"))])
    assert newel("hooks", "trust", "--yes").returncode == 0
    done = newel("go")
    assert "has changed since you trusted it" in done.stderr
    assert not (newel.project / "escaped").exists()


@pytest.mark.parametrize(
    "command",
    [
        "sh $PWD/lib/check.sh",
        'sh "$(pwd)"/lib/check.sh',
        "sh `pwd`/lib/check.sh",
        'sh "${CLAUDE_PROJECT_DIR:-.}"/lib/check.sh',
        "bash -c 'sh ~+/lib/check.sh'",
    ],
)
def test_a_script_is_known_behind_what_only_a_shell_resolves(with_model: Make, command: str) -> None:
    """People write hooks in this way, and an agent could leave its sandbox by such a script."""
    changed = write({"file_path": "lib/check.sh", "content": "touch escaped\n"})
    newel = with_model(scenario("go", changed, DONE))
    (newel.project / "lib").mkdir()
    (newel.project / "lib" / "check.sh").write_text("touch was-started\n")
    of_project(newel, SessionStart=[group(hook(command))], PostToolUse=[group(hook(command))])
    assert newel("hooks", "trust", "--yes").returncode == 0
    done = newel("go")
    assert (newel.project / "was-started").exists(), done.stderr
    assert "has changed since you trusted it" in done.stderr
    assert not (newel.project / "escaped").exists()


@pytest.mark.parametrize("size", [5 << 20, 65 << 20])
def test_a_large_script_that_the_agent_has_changed_does_not_run(with_model: Make, size: int) -> None:
    """Programs in one file, as many projects bring them, are larger than any script by hand."""
    newel = with_model(scenario("go", bash("echo 'touch escaped' | dd of=tool conv=notrunc"), DONE))
    with (newel.project / "tool").open("w") as tool:
        tool.write("touch started\nexit 0\n")
        tool.truncate(size)
    of_project(newel, SessionStart=[group(hook("sh tool"))], PostToolUse=[group(hook("sh tool"))])
    assert newel("hooks", "trust", "--yes").returncode == 0
    done = newel("go")
    assert (newel.project / "started").exists(), done.stderr
    assert "has changed since you trusted it" in done.stderr
    assert not (newel.project / "escaped").exists()


def test_a_hook_of_a_project_cannot_allow_a_call(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("touch made"), DONE))
    of_project(newel, PreToolUse=[group(hook(DECIDES % "allow"))])
    assert newel("hooks", "trust", "--yes").returncode == 0
    done = newel("go", "--approve", "ask")
    assert "only your own hooks may" in done.stderr
    assert not (newel.project / "made").exists()


def test_an_agent_cannot_trust_hooks(with_model: Make) -> None:
    newel = with_model(scenario("go", bash(f"{BIN}/newel hooks trust --yes"), DONE))
    of_project(newel, Stop=[group(hook("touch was-started"))])
    newel("go")
    assert "decision of the user" in results(newel)[0]
    newel("go")
    assert not (newel.project / "was-started").exists()


def test_claude_codes_own_settings_are_read_only_if_the_user_says_so(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    (newel.home / ".claude").mkdir()
    entry = {"hooks": {"Stop": [group(hook("touch was-started"))]}, "permissions": {"allow": ["Bash"]}}
    (newel.home / ".claude" / "settings.json").write_text(json.dumps(entry))
    newel("go")
    assert not (newel.project / "was-started").exists()
    (newel.home / ".newel" / "config.toml").write_text("[hooks]\nclaude_settings = true\n")
    done = newel("go")
    assert done.returncode == 0, done.stderr
    assert (newel.project / "was-started").exists()


def test_all_hooks_can_be_switched_off(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    users(newel, Stop=[group(hook("touch was-started"))])
    (newel.home / ".newel" / "config.toml").write_text("[hooks]\ndisabled = true\n")
    assert newel("go").returncode == 0
    assert not (newel.project / "was-started").exists()
    assert " off " in newel("hooks").stdout


def test_a_list_says_what_runs_when_from_which_line(with_model: Make) -> None:
    newel = with_model()
    users(newel, PreToolUse=[group(hook("one"), hook("two"), matcher="Bash")], Stop=[group(hook("one"))])
    rows = json.loads(newel("hooks", "list", "--json").stdout)
    text = (newel.home / ".newel" / "hooks.json").read_text().splitlines()
    assert [(row["event"], row["matcher"], row["command"]) for row in rows] == [
        ("PreToolUse", "Bash", "one"),
        ("PreToolUse", "Bash", "two"),
        ("Stop", "", "one"),
    ]
    assert all(f'"command": "{row["command"]}"' in text[row["line"] - 1] for row in rows)
    assert len({row["line"] for row in rows}) == 3
    shown = newel("hooks").stdout
    assert f"hooks.json, line {rows[0]['line']}" in shown


def test_a_mistake_in_a_file_concerns_one_hook_and_names_its_line(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    users(
        newel,
        Stop=[group({"type": "prompt", "prompt": "Is it done?"}), group(hook("touch was-started"))],
        PostToolBatch=[group(hook("true"))],
        PreToolUse=[group(hook("true"), matcher="Bash(")],
        PreCompact=[group(hook("true", timeout="soon"))],
    )
    done = newel("go")
    assert (newel.project / "was-started").exists()
    checked = newel("hooks", "check")
    assert checked.returncode == 1
    for text in (done.stderr, checked.stdout):
        assert "hooks of the type 'prompt' do not run here" in text
        assert "PostToolBatch: there is no such event here" in text
        assert "the matcher is not a regular expression" in text
        assert '`timeout` is "soon", and has to be a number of seconds, such as 60' in text
    (newel.home / ".newel" / "hooks.json").write_text('{"hooks": {\n  "Stop": [}\n')
    assert "hooks.json, line 2" in newel("go").stderr


def test_a_check_finds_scripts_that_cannot_run(with_model: Make) -> None:
    newel = with_model()
    (newel.project / "here.sh").write_text("true\n")
    (newel.home / "mine.sh").write_text("true\n")
    paths = [
        '"$CLAUDE_PROJECT_DIR"/here.sh',
        "$CLAUDE_PROJECT_DIR/missing.sh",
        "~/gone.sh -q",
        "~/mine.sh",
        "/bin/sh -c x",
    ]
    users(newel, Stop=[group(*map(hook, paths))])
    text = newel("hooks", "check").stdout
    assert "missing.sh does not exist" in text
    assert "here.sh is not executable" in text
    assert f"{newel.home}/gone.sh does not exist" in text
    assert f"{newel.home}/mine.sh is not executable" in text
    assert "/bin/sh" not in text


def script(*scenarios: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [each["scenarios"][0] for each in scenarios]}


def test_a_question_is_a_notification(with_model: Make, drive: Drive) -> None:
    newel = with_model(scenario("go", bash("touch made"), DONE))
    log = newel.home / "log"
    users(newel, Notification=[group(hook(logs(newel, log)), matcher="permission_prompt")])
    driver = drive(newel, "--approve", "ask")
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "once")
    driver.until("agent_end")
    assert driver.finish() == 0
    (told,) = logged(log)
    assert (told["hook_event_name"], told["notification_type"]) == ("Notification", "permission_prompt")
    assert "permission" in told["message"]
    assert (newel.project / "made").exists()


def test_an_ask_of_a_hook_shows_its_reason_and_is_answered_once(with_model: Make, drive: Drive) -> None:
    newel = with_model(scenario("go", bash("touch made"), DONE))
    users(newel, PreToolUse=[group(hook(DECIDES % "ask"))])
    driver = drive(newel)
    driver.send(type="message", content="go")
    asked = driver.until("approval_request")
    assert "it is late" in asked["preview"].split("\n")[0]
    assert f"{newel.home}/.newel/hooks.json, line" in asked["preview"]
    driver.answer(asked, "once")
    driver.until("agent_end")
    assert (newel.project / "made").exists()


def test_a_message_that_is_queued_during_a_run_passes_the_same_guard(with_model: Make, drive: Drive) -> None:
    newel = with_model(scenario("go", bash("until [ -e on ]; do sleep 0.02; done"), DONE))
    guard = program(
        newel.home, "'hunter2' in given['prompt'] and (print('no', file=sys.stderr), sys.exit(2))"
    )
    users(newel, UserPromptSubmit=[group(hook(guard))])
    driver = drive(newel)
    driver.send(type="message", content="go")
    driver.until("tool_execution_start")
    driver.send(type="steer", content="my password is hunter2")
    driver.until("queue_update")
    (newel.project / "on").touch()
    said = driver.until("error")
    assert (said["code"], said["message"]) == ("hook", "A hook blocked the message. no")
    driver.until("agent_end")
    assert driver.finish() == 0
    assert "hunter2" not in json.dumps(newel.requests)
    assert "hunter2" not in newel.sessions[0].read_text()


def test_a_prompt_that_is_stopped_before_it_is_sent_returns_to_the_input(with_model: Make) -> None:
    """With what goes along: otherwise it is nowhere, neither in the conversation nor in the input."""
    newel = with_model(scenario("", DONE))
    judging, judged = newel.home / "judging", newel.home / "judged"
    os.mkfifo(judging)
    judge = f"mkdir {judged} && echo > {judging} && exec sleep 100; exit 0"
    users(newel, UserPromptSubmit=[group(hook(judge))])
    with Tmux([str(BIN / "newel")], newel.project, newel.environ) as screen:
        screen.wait_for("Enter sends")
        screen.type("!echo shared", "Enter")
        screen.wait_for("The model gets this with your next message")
        screen.type("go on", "Enter")
        judging.read_text()  # until the hook judges it
        screen.type("", "Escape")
        screen.wait_for("Stopped.")
        screen.type(" please", "Enter")
        screen.wait_for("Done.")
    (request,) = newel.requests
    said = str(request["messages"][-1]["content"])
    assert "go on please" in said
    assert "$ echo shared" in said


@pytest.mark.parametrize("words", [[], ["--schema", "any.json"]])
def test_queued_messages_survive_a_stop_while_a_hook_judges_them(
    with_model: Make, drive: Drive, words: list[str]
) -> None:
    """Otherwise the ones that it has let through are gone, though no request has sent them."""
    done = {"content": "{}"}
    newel = with_model(
        script(
            scenario("go", bash("until [ -e on ]; do sleep 0.02; done"), done),
            scenario("again", done),
            scenario("second", done),
        )
    )
    (newel.project / "any.json").write_text("{}")
    judging, judged = newel.home / "judging", newel.home / "judged"
    os.mkfifo(judging)
    judge = f"grep -q second && mkdir {judged} && echo > {judging} && exec sleep 100; exit 0"
    users(newel, UserPromptSubmit=[group(hook(judge))])
    driver = drive(newel, *words)
    driver.send(type="message", content="go")
    driver.until("tool_execution_start")
    for content in ("first", "second"):
        driver.send(type="steer", content=content)
        driver.until("queue_update")
    (newel.project / "on").touch()
    judging.read_text()  # until the hook judges the second one
    driver.send(type="interrupt")
    driver.until("agent_end")
    driver.send(type="message", content="again")
    driver.until("agent_end")
    assert driver.finish() == 0
    said = [message["content"] for message in newel.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["go", "again", "first", "second"]


def test_a_compaction_can_be_held_back_and_begins_the_session_anew(with_model: Make, drive: Drive) -> None:
    newel = with_model(
        script(
            scenario("go", DONE), scenario("on", DONE), scenario("keep it short", {"content": "A summary."})
        )
    )
    log, held = newel.home / "log", newel.home / "held"
    held.touch()
    each = logs(newel, log)
    users(
        newel,
        PreCompact=[group(hook(f"{each}; test ! -e {held} || exit 2"), matcher="manual")],
        SessionStart=[group(hook(f"{each}; echo Remember the rules."), matcher="compact")],
    )
    driver = drive(newel)
    driver.send(type="message", content="go")
    driver.until("agent_end")
    driver.send(type="compact", instructions="keep it short")
    assert "kept the conversation" in driver.until("error")["message"]
    held.unlink()
    driver.send(type="compact", instructions="keep it short")
    while driver.until("message_end")["message"]["role"] != "custom":
        pass
    driver.send(type="message", content="on")
    driver.until("agent_end")
    assert driver.finish() == 0
    first, second, start = logged(log)
    assert (first["trigger"], second["custom_instructions"]) == ("manual", "keep it short")
    assert start["source"] == "compact"
    assert newel.requests[-1]["messages"][-1]["content"].endswith("Remember the rules.")


def test_a_new_session_ends_the_one_before(with_model: Make, drive: Drive) -> None:
    newel = with_model(scenario("go", DONE))
    log = newel.home / "log"
    each = group(hook(logs(newel, log)))
    users(newel, SessionStart=[each], SessionEnd=[each])
    driver = drive(newel)
    for _ in range(2):
        driver.send(type="message", content="go")
        driver.until("agent_end")
        driver.send(type="clear")
    assert driver.finish() == 0
    told = [(one["hook_event_name"], one.get("source") or one["reason"]) for one in logged(log)]
    assert told == [
        ("SessionStart", "startup"),
        ("SessionEnd", "clear"),
        ("SessionStart", "clear"),
        ("SessionEnd", "other"),
    ]
    assert logged(log)[0]["session_id"] == logged(log)[1]["session_id"] != logged(log)[2]["session_id"]


def test_an_agent_on_a_contract_has_the_same_hooks(with_model: Make) -> None:
    newel = with_model(script(after(1, True), scenario("Make a file", bash("touch made"), DONE)))
    log = newel.home / "log"
    each = group(hook(logs(newel, log)))
    users(newel, **{event: [each] for event in ("SessionStart", "PreToolUse", "Stop", "SessionEnd")})
    done = newel("agent", "Make a file", "--accept", "test -e made")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [one["hook_event_name"] for one in logged(log)]
    assert told[:2] == ["SessionStart", "PreToolUse"]
    assert told[-1] == "SessionEnd"


def test_a_blocked_contract_ends_at_once(with_model: Make) -> None:
    newel = with_model(scenario("Make a file", DONE))
    users(newel, UserPromptSubmit=[group(hook("echo not today >&2; exit 2"))])
    done = newel("agent", "Make a file", "--accept", "true")
    assert done.returncode == 1
    assert "not today" in done.stdout + done.stderr
    assert not newel.requests


@pytest.mark.parametrize("command", ["sh check.sh", 'sh "./check.sh"', "bash -c 'sh check.sh'"])
def test_a_script_of_the_copy_that_the_agent_has_changed_does_not_run(with_model: Make, command: str) -> None:
    """Under review, what an agent writes runs nowhere before the user has seen it, least of all outside of the sandbox."""
    newel = with_model(
        scenario("go", write({"file_path": "check.sh", "content": f"touch {'~'}/escaped\n"}), DONE)
    )
    (newel.project / "check.sh").write_text("true\n")
    of_project(newel, PostToolUse=[group(hook(command))])
    assert newel("hooks", "trust", "--yes").returncode == 0
    done = newel("--approve", "review", "go")
    assert "has changed since you trusted it" in done.stderr
    assert not (newel.home / "escaped").exists()


def test_a_project_that_nobody_trusts_writes_nothing_but_its_name(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    rogue = {"hooks": {f"Evil\x1b]0;x\x07{number}": [group(hook("true"))] for number in range(500)}}
    (newel.project / ".claude").mkdir()
    (newel.project / ".claude" / "settings.json").write_text(json.dumps(rogue))
    assert "Evil" not in newel("go").stderr
    listed = newel("hooks")
    assert "\x1b" not in listed.stderr + listed.stdout
    assert listed.stderr.count("Evil") == 20


@pytest.mark.parametrize(
    "command", ["/" * 90_000, "$CLAUDE_PROJECT_DIR" + "/a" * 45_000, "true " + "a" * 200_000]
)
def test_a_command_of_any_length_does_not_stop_the_start(with_model: Make, command: str) -> None:
    """To look for the scripts in it could take minutes, and a project needs no trust for that."""
    newel = with_model(scenario("go", DONE))
    of_project(newel, Stop=[group(hook(command))])
    done = newel("go")
    assert done.returncode == 0, done.stderr
    listed = newel("hooks")
    assert ("at most 100,000 characters" in listed.stderr) is (len(command) > 100_000)


def test_who_comes_from_claude_code_is_told_where_their_hooks_are(with_model: Make) -> None:
    newel = with_model()
    (newel.home / ".claude").mkdir()
    (newel.home / ".claude" / "settings.json").write_text(
        json.dumps({"hooks": {"Stop": [group(hook("true"))]}})
    )
    assert "newel config set hooks.claude_settings true" in newel("hooks").stdout
