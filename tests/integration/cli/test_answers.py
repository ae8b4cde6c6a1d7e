"""If these fail, a script captures more than the answer, or the user pays for a word that was no prompt."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

LOOKS = scenario(
    "look",
    {"content": "I look first.", **bash("echo here; exit 3")},
    {"content": "# Found\n\nOne fault in `a.py`."},
)


def said(newel: Newel) -> list[Any]:
    """The user messages of the last request."""
    messages = newel.requests[-1]["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


# -- the answer ---------------------------------------------------------------------------------------


def test_a_pipe_gets_only_the_answer(with_model: Make) -> None:
    done = with_model(LOOKS)("look at it")
    assert done.returncode == 0
    assert done.stdout == "# Found\n\nOne fault in `a.py`.\n"
    assert "I look first.\nbash echo here; exit 3 ✗ exit code 3" in done.stderr
    assert " in · " in done.stderr
    assert "One fault" not in done.stderr


@pytest.mark.parametrize("words", [[], ["--quiet"], ["--renderer", "console"], ["--renderer", "rich"]])
def test_errors_go_to_standard_error(with_model: Make, words: list[str]) -> None:
    newel = with_model(scenario("x", {"fault": {"kind": "status", "status": 401}}))
    done = newel(*words, "x")
    assert done.returncode == 1
    assert "401" in done.stderr
    if words != ["--renderer", "rich"]:
        assert done.stdout.strip() == "" or (words and "401" not in done.stdout)


def test_a_run_that_reaches_a_limit_has_no_answer(with_model: Make) -> None:
    done = with_model(LOOKS)("--max-turns", "1", "look at it")
    assert (done.returncode, done.stdout) == (1, "")
    assert "I look first." in done.stderr
    assert "limit of 1 turn for one prompt" in done.stderr


def test_quiet_shows_only_the_answer(with_model: Make) -> None:
    done = with_model(LOOKS)("-q", "look at it")
    assert (done.returncode, done.stdout, done.stderr) == (0, "# Found\n\nOne fault in `a.py`.\n", "")


def test_each_prompt_gets_its_answer(with_model: Make) -> None:
    done = with_model(LOOKS)("look at it", "--then", "look at it again")
    assert done.stdout == "# Found\n\nOne fault in `a.py`.\n" * 2


def test_a_complete_log_can_be_requested(with_model: Make) -> None:
    done = with_model(LOOKS)("--renderer", "console", "look at it")
    assert done.stdout.startswith("I look first.\nbash echo here; exit 3 ✗ exit code 3")
    assert " in · " in done.stdout


def test_a_renderer_in_the_settings_does_not_request_a_log(with_model: Make) -> None:
    newel = with_model(LOOKS)
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text('renderer = "console"\n')
    assert newel("look at it").stdout == "# Found\n\nOne fault in `a.py`.\n"


def test_the_answer_is_written_to_a_file_verbatim(with_model: Make) -> None:
    newel = with_model(scenario("go", {"content": "\x1b[31mred\x1b[0m\u2028and more"}))
    done = newel("-o", "answer.md", "go on with it")
    assert (newel.project / "answer.md").read_text() == "\x1b[31mred\x1b[0m\u2028and more\n"
    assert done.stdout == "red\nand more\n"


def test_an_unwritable_output_file_is_reported_before_any_request(with_model: Make) -> None:
    newel = with_model()
    done = newel("-o", "missing/answer.md", "how are you")
    assert done.returncode == 2
    assert "missing/answer.md is not writable" in done.stderr
    assert newel.requests == []


def test_an_unreadable_progress_stream_does_not_end_the_run(with_model: Make) -> None:
    newel = with_model(LOOKS)
    with open("/dev/full", "w") as full:  # noqa: PTH123 — a device, no file
        done = subprocess.run(
            [BIN / "newel", "look at it"],
            cwd=newel.project,
            env=newel.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "# Found\n\nOne fault in `a.py`.\n")


@pytest.mark.parametrize("words", [["-q"], ["-o", "x"], ["--json", "-q"]])
def test_a_conversation_has_no_single_answer(with_model: Make, words: list[str]) -> None:
    done = with_model()(*words, *([] if "--json" in words else ["--renderer", "json"]))
    assert done.returncode == 2


def test_a_terminal_still_shows_the_whole_run(with_model: Make) -> None:
    newel = with_model(LOOKS)
    env = newel.environ | {"TERM": "xterm-256color"}
    command = [str(BIN / "newel"), "-p", "look at it"]
    with Tmux(command, newel.project, env, rows=24) as terminal:
        terminal.wait_for_end()
        assert "● bash echo here; exit 3" in terminal.text
        assert "One fault in a.py." in terminal.text
        assert " in · " in terminal.text


# -- the prompt ---------------------------------------------------------------------------------------


def test_bare_words_are_one_prompt(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    assert newel("fix", "the", "failing", "test").returncode == 0
    assert said(newel) == ["fix the failing test"]
    assert len(newel.requests) == 1


@pytest.mark.parametrize(
    ("words", "prompts"),
    [
        (["Add validation", "Write tests"], ["Add validation", "Write tests"]),
        (["fix", "the failing", "test"], ["fix the failing test"]),
        (["fix", "it", "--then", "run the tests"], ["fix it", "run the tests"]),
        (["--then", "one", "--then", "two"], ["one", "two"]),
        (["hello"], ["hello"]),
        (["explore"], ["explore"]),
        (["résumé"], ["résumé"]),
        (["--", "reviw"], ["reviw"]),
        (["--", "help", "me"], ["help me"]),
        (["help", "me"], ["help me"]),
    ],
)
def test_several_prompts_are_quoted_or_separated_by_then(
    with_model: Make, words: list[str], prompts: list[str]
) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    assert newel(*words).returncode == 0
    assert said(newel) == prompts


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["reviw"], "`newel review`"),
        (["Sesions"], "`newel sessions`"),
        (["udno"], "`newel undo`"),
        (["sutep"], "`newel setup`"),
        (["settings"], "`newel config`"),
        (["login"], "`newel setup`"),
        (["model"], "`newel models`"),
        (["update"], "`./run uv tool install --reinstall .`. Name the extras"),
        (["completions"], "`newel completion"),
        (["exec"], "`newel -p PROMPT`"),
        (["exec", "hi"], "`newel -p PROMPT`"),
        (["status"], "`newel review`"),
        (["version"], "`newel --version`"),
        (["init"], "`newel setup`"),
        (["configure"], "`newel setup`"),
        (["--model", "x", "doctor"], "newel doctor"),
        (["model", "list"], "`newel models`"),
        (["settings", "set", "model", "x"], "`newel config`"),
        (["help", "reviw"], "`newel review`"),
        (["/undo"], "`newel undo`"),
        (["/compact", "now"], "of the conversation"),
    ],
)
def test_a_mistyped_command_is_not_sent_to_the_model(with_model: Make, words: list[str], hint: str) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    done = newel(*words)
    assert done.returncode == 2
    assert hint in done.stderr
    prompt = words[2:] if words[0] == "--model" else words
    assert f"newel -- {' '.join(prompt)}" in done.stderr
    assert newel.requests == []


@pytest.mark.parametrize(
    "words", [["update", "the", "README"], ["/etc/hosts"], ["resume", "the work"], ["-p", "hi"]]
)
def test_a_prompt_is_sent_although_it_looks_like_a_command(with_model: Make, words: list[str]) -> None:
    """If this fails, an ordinary prompt is refused, or scripts with an option of other agents break."""
    newel = with_model(scenario("", {"content": "Done."}))
    assert newel(*words).returncode == 0
    assert said(newel) == [" ".join(words).removeprefix("-p ")]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--modle", "x", "hi"], "Did you mean --model?"),
        (["--resume"], "`newel --continue`"),
        (["-r"], "`/resume` in a conversation lists them."),
        (["--read", "CONVENTIONS.md", "hi"], "`@path`"),
        (["--yolo", "hi"], "`--approve auto`, the default, runs everything without asking, in the sandbox"),
        (["-s", "read-only", "hi"], "`--sandbox workspace|read-only|partial|off`"),
        (
            ["--sandbox", "workspace-write", "hi"],
            "There is no --sandbox workspace-write: choose from workspace, ",
        ),
        (["--sandbox", "danger-full-access", "hi"], "`--sandbox off` lets commands do whatever you can do."),
        (["--approve", "on-request", "hi"], "`--approve ask` shows each change and command first."),
        (["--approve=bypassPermissions", "hi"], "`--approve auto`, the default, runs everything"),
        (["--sandbox", "fix it"], "There is no --sandbox fix it: choose from"),
        (["--add-dir", "../lib", "hi"], "writable"),
        (["--allow-network", "hi"], "domains"),
        (["--read-only", "hi"], "`--approve read-only`"),
        (["permissions", "remove", "x"], "There is no command 'remove': choose from list, add, revoke."),
        (["hi", "--model"], "newel: --model needs a value."),
        (["hi", "-o"], "newel: --output needs a value."),
        (["hi", "--max-turns", "x"], "newel: --max-turns: must be a whole number of at least 1."),
        (["completion", "ksh"], "There is no shell 'ksh': choose from bash, zsh, fish."),
        (["--stream-json", "hi"], "`--json`"),
        (["--json-schema", "{}", "hi"], "--schema FILE"),
        (["--allowedTools", "Read", "hi"], "--tools LIST"),
        (["review", "the", "last", "commit"], "newel -- review the last commit"),
        (["-m", "fix it"], "-m is the model. The prompt needs no option: newel 'fix it'"),
        (["undo", "--all"], "There is no option --all."),
        (["--mode", "json", "hi"], "`--output-format text|json|stream-json`"),
        (["--out", "x", "hi"], "Did you mean --output-format or --output?"),
        (["-p", "hi", "--max-budget-usd", "1"], "`--max-cost USD`"),
        (["--no-session", "hi"], "`--ephemeral`"),
        (["agents", "--no-session"], "There is no option --no-session.\nTry "),
        (["edit", "--help"], "There is no command 'edit'."),
        (["--list-models"], "`newel models`"),
        (["-w"], "`--worktree`"),
        (["--fallback-model", "x", "hi"], "hybrid_auto"),
        (["--mcp-config", "x.json", "hi"], "`newel mcp add`"),
        (["--search", "hi"], "`web_fetch`"),
        (["--oss", "hi"], "`--agent-mode local`"),
        (["--profile", "x", "hi"], "`newel config`"),
        (["--agents", "{}", "hi"], "`newel agent CONTRACT`"),
        (["--no-tools", "hi"], "`--tools none`"),
        (["--ide"], "`newel acp`"),
        (["--dark-mode"], "terminal.theme"),
    ],
)
def test_an_option_of_another_tool_gets_a_hint_at_newels(
    with_model: Make, words: list[str], hint: str
) -> None:
    """If this fails, a newcomer gets a page of usage and no hint."""
    done = with_model()(*words)
    assert done.returncode == 2
    assert hint in done.stderr
    assert "--help`." in done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["-c", "model=o3"], "`--model NAME`"),
        (["-c", 'model="o3"', "fix it"], "`--model NAME`"),
        (["fix it", "-c", "model_reasoning_effort=high"], "`--thinking LEVEL`"),
        (["-c", "approval_policy=never"], "`--approve auto|ask|"),
        (["-c", "sandbox_mode=workspace-write"], "`--sandbox workspace|"),
        (["-c", "sandbox_workspace_write.network_access=true"], "domains"),
        (["-c", 'sandbox_workspace_write.writable_roots=["/a", "/b"]'], "writable"),
        (["-c", "mcp_servers.docs.command=npx"], "`newel mcp add`"),
        (["-c", "a.b-c=d"], "`newel --help` lists the options"),
        (["-cmodel=o3", "fix it"], "`--model NAME`"),
        (["--config", "model=o3", "hi"], "`newel --help` lists the options"),
    ],
)
def test_a_setting_after_c_is_no_prompt_for_the_latest_session(
    with_model: Make, words: list[str], hint: str
) -> None:
    """If this fails, a user of Codex resumes a session, and pays for a model that guesses at their setting."""
    newel = with_model(scenario("", {"content": "Done."}))
    assert newel("first").returncode == 0
    done = newel(*words)
    assert done.returncode == 2
    assert hint in done.stderr
    assert said(newel) == ["first"]


@pytest.mark.parametrize(
    "words", [["-c", "and x = 1?"], ["-c", "a=b is wrong here"], ["-c", "--", "a=b"], ["-c", "go on"]]
)
def test_a_prompt_after_c_is_sent(with_model: Make, words: list[str]) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    assert newel("first").returncode == 0
    assert newel(*words).returncode == 0
    assert said(newel)[-1] == words[-1]


@pytest.mark.parametrize("word", ["sandbox", "restore", "log"])
def test_the_name_of_another_tools_command_is_not_sent_to_a_model(with_model: Make, word: str) -> None:
    """If this fails, a newcomer who looks for a command pays for a model that guesses."""
    newel = with_model(scenario("", {"content": "Done."}))
    done = newel(word)
    assert done.returncode == 2
    assert f"There is no command '{word}'. `newel " in done.stderr
    assert newel.requests == []


def test_bare_words_are_one_contract(with_model: Make) -> None:
    """If this fails, `newel agent fix the bug` is a usage error, while `newel fix the bug` works."""
    newel = with_model(scenario("", {"content": "Done."}))
    newel("agent", "--max-turns", "1", "fix", "the", "bug")
    assert said(newel)[0] == "fix the bug"


@pytest.mark.parametrize(
    ("words", "shown"), [(["help"], "exit codes:"), (["help", "review"], "usage: newel review")]
)
def test_help_is_a_command_like_any_other(with_model: Make, words: list[str], shown: str) -> None:
    done = with_model()(*words)
    assert done.returncode == 0
    assert shown in done.stdout
