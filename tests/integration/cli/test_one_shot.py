"""If these fail, ``newel PROMPT`` changes the wrong files or returns the wrong exit code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ordinary_user import run_as_user
from tests.processes import COMMAND_SECONDS
from tests.served import wait_until
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.02)


def test_the_demo_writes_a_real_file_and_runs_a_real_command(with_model: Make) -> None:
    newel = with_model()
    own = {"LLM_BASE_URL": "", "LLM_AUTH_TOKEN": "", "LLM_DEFAULT_MODEL": ""}
    done = newel("demo", **own, TMPDIR=str(newel.home))  # its folder is the user's, who looks at it
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.split("In ")[-1].split(":")[0])
    assert (
        subprocess.run(["python3", folder / "hello.py"], capture_output=True, check=True).stdout
        == b"Hello, World!\n"
    )
    assert "hello.py" in done.stdout
    assert not newel.sessions


def test_a_prompt_writes_a_file_and_the_transcript_shows_it(with_model: Make) -> None:
    newel = with_model()
    done = newel("please write a hello world")
    assert done.returncode == 0, done.stderr
    assert (newel.project / "hello.py").exists()
    assert "write hello.py" in done.stderr
    assert "bash python3 hello.py" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_several_prompts_are_one_conversation(with_model: Make) -> None:
    newel = with_model()
    done = newel("how are you", "and again: how are you")
    assert done.returncode == 0, done.stderr
    assert [len(request["messages"]) for request in newel.requests] == [2, 4]


def test_piped_input_is_added_to_the_prompt(with_model: Make) -> None:
    newel = with_model()
    newel("how are you", stdin="a line from a pipe\n")
    assert newel.requests[0]["messages"][-1]["content"] == "how are you\n\na line from a pipe\n"


def test_piped_input_alone_is_the_prompt(with_model: Make) -> None:
    newel = with_model()
    assert newel(stdin="how are you").returncode == 0
    assert newel.requests[0]["messages"][-1]["content"] == "how are you"


def test_an_empty_prompt_is_reported(with_model: Make) -> None:
    done = with_model()(stdin="")
    assert done.returncode == 2
    assert "nothing to do" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--thinking", "much"],
        ["--nonsense"],
        ["--max-turns", "0"],
        ["--max-cost", "-1"],
        ["--cwd", "/dev/null/x", "x"],
    ],
)
def test_wrong_usage_is_exit_code_2(with_model: Make, words: list[str]) -> None:
    done = with_model()(*words)
    assert done.returncode == 2
    assert "Try `newel --help`." in done.stderr
    assert done.stderr.count("\n") == 2


def test_a_reached_limit_is_exit_code_1_with_its_reason(with_model: Make) -> None:
    newel = with_model()
    done = newel("--max-turns", "1", "please write a hello world")
    assert done.returncode == 1
    assert "limit of 1 turn for one prompt" in done.stdout + done.stderr


def test_a_rejected_request_is_exit_code_1_without_a_traceback_or_the_key(with_model: Make) -> None:
    newel = with_model(scenario("x", {"fault": {"kind": "status", "status": 401}}))
    done = newel("x")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "sk-test" not in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["-q"], ["-p"], ["--output-format", "json"]])
def test_each_error_on_standard_error_begins_with_the_name_of_the_program(
    with_model: Make, words: list[str]
) -> None:
    """Otherwise nobody can tell in the log of a script which program failed."""
    newel = with_model(scenario("x", {"fault": {"kind": "status", "status": 400, "message": "No"}}))
    for options, reason in ((words, "(400): No."), ([*words, "--nonsense"], "no option --nonsense.")):
        said = [line for line in newel(*options, "x").stderr.split("\n") if reason in line]
        assert len(said) == 1
        assert said[0].startswith("newel: ")
    assert newel("-q", "x").stderr.count("\n") == 1


@pytest.mark.slow  # five attempts with pauses
def test_keys_are_not_in_the_environment_of_commands(with_model: Make) -> None:
    newel = with_model(scenario("env", bash("env"), {"content": "Done."}))
    newel("env", AWS_SECRET_ACCESS_KEY="aws-secret", GH_TOKEN="gh-secret", HARMLESS="yes")
    output = newel.requests[1]["messages"][-1]["content"]
    assert "HARMLESS=yes" in output
    for secret in ("sk-test", "aws-secret", "gh-secret"):
        assert secret not in output


def test_the_session_never_contains_the_key(with_model: Make) -> None:
    newel = with_model()
    newel("how are you")
    assert "sk-test" not in newel.sessions[0].read_text()
    assert newel.sessions[0].stat().st_mode & 0o777 == 0o600


def test_continue_without_a_session_says_that_it_begins_one(with_model: Make) -> None:
    newel = with_model()
    first, second = newel("--continue", "how are you"), newel("--continue", "how are you")
    assert "This folder has no earlier session. A new one begins." in first.stderr
    assert "All is well" in first.stdout
    assert "no earlier session" not in second.stderr


def test_continue_resumes_the_last_session(with_model: Make) -> None:
    newel = with_model()
    newel("how are you")
    newel("--continue", "and now, how are you")
    assert [message["role"] for message in newel.requests[-1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert len(newel.sessions) == 1


def test_an_ephemeral_run_leaves_no_session(with_model: Make) -> None:
    newel = with_model()
    assert newel("--ephemeral", "how are you").returncode == 0
    assert newel.sessions == []


def test_a_run_killed_during_a_command_resumes_without_running_it_again(
    with_model: Make,
) -> None:
    after = scenario("carry on", {"content": "I see that it was interrupted."})
    before = scenario("go", bash("echo ran >> log; sleep 5"))
    newel = with_model({"scenarios": after["scenarios"] + before["scenarios"]})
    process = newel.start("go")
    wait_for((newel.project / "log").exists, "the command")
    process.kill()
    process.communicate()
    done = newel("--continue", "carry on")
    assert done.returncode == 0, done.stderr
    roles = [message["role"] for message in newel.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert "outcome of this call is unknown" in newel.requests[-1]["messages"][3]["content"]
    assert (newel.project / "log").read_text() == "ran\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_run_and_all_its_processes(
    with_model: Make, number: signal.Signals, code: int
) -> None:
    newel = with_model(scenario("go", bash("echo $$ > pid; sleep 60")))
    process = newel.start("go")
    wait_for(
        lambda: (newel.project / "pid").exists() and (newel.project / "pid").read_text().strip(),
        "the command",
    )
    shell = int((newel.project / "pid").read_text())
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == code
    with pytest.raises(ProcessLookupError):
        os.kill(shell, 0)


def test_a_run_started_with_nohup_outlives_its_terminal(with_model: Make) -> None:
    newel = with_model(
        scenario("go", bash("touch begun; until test -e on; do sleep 0.05; done"), {"content": "Done."})
    )
    with subprocess.Popen(
        ["nohup", str(BIN / "newel"), "go"],
        cwd=newel.project,
        env=newel.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for((newel.project / "begun").exists, "the command")
        process.send_signal(signal.SIGHUP)
        (newel.project / "on").touch()
        answer, errors = process.communicate(timeout=COMMAND_SECONDS)
    assert (process.returncode, answer) == (0, "Done.\n"), errors


def test_a_run_in_the_background_of_a_terminal_is_not_stopped(with_model: Make) -> None:
    newel = with_model(scenario("go", {"content": "All is well."}))
    with Tmux(["bash", "--norc", "-i"], newel.project, newel.environ) as terminal:
        terminal.type("newel -p go &", "Enter")
        terminal.wait_for("All is well.")


def test_ctrl_c_ends_a_loop_of_the_shell_with_its_run(with_model: Make) -> None:
    """A shell goes on with a loop whose command exits by itself, and starts the next run, which costs money."""
    newel = with_model(scenario("go", bash("echo run >> runs; sleep 20"), {"content": "Done."}))
    runs = newel.project / "runs"
    with Tmux(["bash", "--norc", "-i"], newel.project, newel.environ | {"PS1": "ready> "}) as terminal:
        terminal.type("for i in 1 2 3; do newel --sandbox off --approve auto -p go; done", "Enter")
        wait_until(runs.exists, "the first run's command")
        terminal.type("", "C-c")
        terminal.wait_for("ready>", times=2)
        terminal.type("echo the code is $?", "Enter")
        terminal.wait_for("the code is 130")
    assert runs.read_text() == "run\n"


def test_a_read_only_run_changes_nothing_and_the_model_learns_why(with_model: Make) -> None:
    newel = with_model()
    done = newel("--approve", "read-only", "please write a hello world")
    assert done.returncode == 0
    assert not (newel.project / "hello.py").exists()
    assert "read-only" in newel.requests[1]["messages"][-1]["content"]


def test_ask_without_a_terminal_denies_and_says_so(with_model: Make) -> None:
    newel = with_model()
    newel("--approve", "ask", "please write a hello world")
    assert not (newel.project / "hello.py").exists()
    assert "approval" in newel.requests[1]["messages"][-1]["content"]


def test_json_mode_prints_one_event_per_line_under_the_specified_names(with_model: Make) -> None:
    newel = with_model()
    done = newel("--json", stdin='{"type":"message","content":"please write a hello world"}\n')
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["session", "agent_start"]
    assert kinds[-2:] == ["agent_end", "result"]
    end = next(event for event in events if event["type"] == "tool_execution_end")
    assert {"toolCallId", "toolName", "isError", "result"} <= end.keys()
    session, result = events[0], events[-1]
    assert (session["cwd"], session["model"], session["file"]) == (
        str(newel.project),
        "mock-model",
        str(newel.sessions[0]),
    )
    assert session["sessionId"] in session["file"]
    assert {"read", "bash", "edit", "write"} == set(session["tools"])
    assert "`hello.py` is written and runs" in result["text"]
    assert (result["turns"], result["exitCode"], result["cost"]) == (3, 0, None)  # its price is unknown


def test_an_invalid_config_file_is_one_message(with_model: Make) -> None:
    newel = with_model()
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text("modle = 'x'\n")
    done = newel("how are you")
    assert done.returncode == 1
    assert "modle" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_configuration_newel_says_what_to_do(with_model: Make) -> None:
    done = with_model()("hi", LLM_BASE_URL="", LLM_AUTH_TOKEN="", LLM_DEFAULT_MODEL="")
    assert done.returncode == 1
    assert "LLM_BASE_URL" in done.stderr
    assert "newel demo" in done.stderr


def test_doctor_reports_no_problem_if_there_is_none(with_model: Make) -> None:
    done = with_model()("doctor")
    assert done.returncode == 0, done.stdout
    assert "mock-model" in done.stdout
    assert "sk-…ef" in done.stdout
    assert "sk-test" not in done.stdout


def test_doctor_reports_a_rejected_key_although_the_server_lists_its_models(with_model: Make) -> None:
    """Otherwise a user with a wrong key is told that all is well, and the first prompt fails."""
    refused = {"kind": "status", "status": 401}
    newel = with_model(scenario("Hi", {"fault": refused, "response": {"content": "Never."}}))
    done = newel("doctor")
    assert done.returncode == 1, done.stdout
    assert "!! answer" in done.stdout
    assert "rejected the API key (401)" in done.stdout
    assert "No problems found" not in done.stdout
    assert "sk-test" not in done.stdout
    assert [each["max_tokens"] for each in newel.requests] == [1], "a test costs one token"


def test_doctor_reports_a_key_that_it_could_not_test(with_model: Make) -> None:
    busy = {"kind": "status", "status": 429}
    done = with_model(scenario("Hi", {"fault": busy, "response": {"content": "Never."}}))("doctor")
    assert "The key was not tested" in done.stdout
    assert done.returncode == 0, "a busy server is nothing that needs the user"


def test_doctor_names_each_problem_with_a_remedy(with_model: Make) -> None:
    newel = with_model()
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text("api_key = 'x'\n")
    (newel.home / ".newel" / "config.toml").chmod(0o644)
    done = newel("doctor", LLM_DEFAULT_MODEL="unknown-model")
    assert done.returncode == 1
    assert "chmod 600" in done.stdout
    assert "does not list 'unknown-model'" in done.stdout


def test_sessions_are_listed_and_exported(with_model: Make) -> None:
    newel = with_model()
    newel("how are you")
    listed = newel("sessions")
    assert "how are you" in listed.stdout
    identity = listed.stdout.split()[0]
    assert "how are you" in newel("export", identity).stdout
    page = newel("export", identity, "--html").stdout
    assert page.startswith("<!doctype html>")
    assert "how are you" in page


def test_version_is_printed(with_model: Make) -> None:
    assert with_model()("--version").stdout.startswith("newel 0.")


@pytest.mark.slow  # waits for a timeout
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that another user cannot end")
def test_processes_that_survive_a_timeout_are_reported_as_running(with_model: Callable[..., Newel]) -> None:
    """A process of another user cannot be ended: a user told otherwise starts the next one on the same port."""
    command = "./as-root --reuid 0 --clear-groups sleep 5 < /dev/null > /dev/null 2>&1 & wait"
    call = {"function": {"name": "bash", "arguments": {"command": command, "timeout": 0.3}}}
    newel = with_model(scenario("work", {"tool_calls": [call]}, {"content": "Done."}))
    program = newel.project / "as-root"
    shutil.copy("/usr/bin/setpriv", program)
    program.chmod(0o4755)
    ran = run_as_user(newel, "work")
    assert ran.returncode == 0, ran.stderr
    heard = newel.requests[-1]["messages"][-1]["content"]
    assert "Stopped after 0.3 seconds, but 1 process of this command is still running: sleep 5 (pid " in heard


@pytest.mark.parametrize(
    ("steps", "words", "says"),
    [
        (
            [{"content": "The first half of", "finish_reason": "length"}],
            [],
            "was cut off at the longest output",
        ),
        (
            [{"content": "I will not", "finish_reason": "content_filter"}],
            [],
            "content filter cut the answer off",
        ),
        ([{"content": ""}], [], "The model returned an empty answer"),
        (
            [bash("echo x > f"), {"content": "I could not."}],
            ["--approve", "ask"],
            "1 tool call did not run: this run cannot ask you to approve it.",
        ),
    ],
)
def test_a_task_that_was_not_done_is_not_a_success(
    with_model: Make, steps: list[dict[str, object]], words: list[str], says: str
) -> None:
    """After exit code 0 a script continues as if all were well."""
    newel = with_model(scenario("work", *steps))
    ran = newel(*words, "work")
    assert ran.returncode == 1
    assert says in ran.stderr


def test_an_answer_that_cannot_be_written_is_not_a_success(with_model: Make) -> None:
    newel = with_model(scenario("work", {"content": "Done."}))
    ran = subprocess.run(
        ["sh", "-c", f"exec {BIN}/newel work >&-"],
        cwd=newel.project,
        env=newel.environ,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=20,
        check=False,
    )
    assert ran.returncode == 1
    assert "Standard output is closed" in ran.stderr
