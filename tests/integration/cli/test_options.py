"""If these fail, options and settings do not reach the model, the folder or the screen."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)


def system(newel: Newel, request: int = 0) -> str:
    return newel.requests[request]["messages"][0]["content"]


def last(newel: Newel, request: int = 0) -> Any:
    return newel.requests[request]["messages"][-1]["content"]


def configure(newel: Newel, text: str) -> None:
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(text)


# -- the command line ---------------------------------------------------------------------------------


def test_the_model_and_its_reasoning_are_chosen_on_the_command_line(with_model: Make) -> None:
    newel = with_model()
    newel("--model", "another-model", "--thinking", "high", "how are you")
    request = newel.requests[0]
    assert (request["model"], request["reasoning_effort"]) == ("another-model", "high")


def test_a_server_on_the_command_line_is_used(with_model: Make) -> None:
    newel = with_model()
    done = newel(
        "--base-url",
        f"{newel.server.url}/v1",
        "--api-key",
        "typed",
        "how are you",
        LLM_BASE_URL="http://127.0.0.1:9/v1",
    )
    assert done.returncode == 0, done.stderr
    assert len(newel.requests) == 1


def test_a_custom_system_prompt_replaces_the_style_and_keeps_tools_and_folder(with_model: Make) -> None:
    newel = with_model()
    newel("--system-prompt", "Answer like a pirate.", "how are you")
    newel("how are you")
    assert system(newel).startswith("Answer like a pirate.")
    assert "You are Newel" not in system(newel)
    assert system(newel, 1).startswith("You are Newel")
    assert str(newel.project) in system(newel)
    assert [tool["function"]["name"] for tool in newel.requests[0]["tools"]] == [
        "read",
        "bash",
        "edit",
        "write",
    ]


def test_cwd_sets_the_folder_of_commands_and_sessions(with_model: Make, tmp_path: Path) -> None:
    newel = with_model(scenario("where", bash("pwd"), {"content": "There."}))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    newel("--cwd", str(elsewhere), "where")
    assert f"stdout:\n{elsewhere}\n" in last(newel, 1)
    assert "No sessions in this folder" in newel("sessions").stdout
    assert "where" in newel("sessions", "--all").stdout


def test_a_session_is_resumed_by_an_id_prefix(with_model: Make) -> None:
    newel = with_model()
    newel("how are you")
    first = newel.sessions[0].stem.partition("_")[2]
    newel("a later session: how are you")
    newel("--session", first[:12], "still there?")
    assert [message["content"] for message in newel.requests[2]["messages"] if message["role"] == "user"] == [
        "how are you",
        "still there?",
    ]
    assert len(newel.sessions) == 2


def test_the_other_command_name_starts_the_same_agent(with_model: Make) -> None:
    """Under that name, the names of newel's commands are plain prompts."""
    newel = with_model()
    assert newel("please write a hello world", command="coding-agent").returncode == 0
    assert (newel.project / "hello.py").exists()
    newel("--continue", "demo", command="coding-agent")
    assert last(newel, -1) == "demo"
    assert "--continue" in newel("--help", command="coding-agent").stdout


def test_a_prompt_named_like_a_command_can_be_passed(with_model: Make) -> None:
    newel = with_model()
    newel("--", "doctor")
    assert last(newel) == "doctor"


def test_prompts_with_json_are_answered_and_standard_input_is_not_read_as_requests(with_model: Make) -> None:
    newel = with_model()
    done = newel("--renderer", "json", "how are you")
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert (kinds[0], kinds[-1], kinds.count("agent_start")) == ("session", "result", 1)


# -- the settings -------------------------------------------------------------------------------------


def test_each_setting_of_the_file_takes_effect(with_model: Make) -> None:
    newel = with_model(scenario("slow", bash("sleep 20"), {"content": "Given up."}))
    configure(
        newel,
        f"""
        base_url = "{newel.server.url}/v1"
        api_key = "from-the-file"
        model = "model-of-the-file"
        thinking = "low"
        renderer = "json"
        bash_timeout = 0.2
        [models."model-of-the-file"]
        max_output = 77
        """,
    )
    done = newel("slow", LLM_BASE_URL="", LLM_AUTH_TOKEN="", LLM_DEFAULT_MODEL="")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    request = newel.requests[0]
    assert (request["model"], request["reasoning_effort"], request["max_tokens"]) == (
        "model-of-the-file",
        "low",
        77,
    )
    assert "Stopped after 0.2 seconds" in last(newel, 1)
    assert events[-1]["reason"] == "done"


def test_limits_and_approval_can_be_in_the_file_and_the_command_line_wins(with_model: Make) -> None:
    newel = with_model(scenario("twice", bash("touch one"), bash("touch two"), {"content": "Done."}))
    configure(newel, 'approve = "read-only"\n[limits]\nmaxToolCalls = 1\n')
    newel("twice")
    assert not list(newel.project.iterdir())
    done = newel("--approve", "auto", "twice")
    assert done.returncode == 1
    assert "limit of 1 tool call for" in done.stderr
    assert [path.name for path in newel.project.iterdir()] == ["one"]


def test_a_full_window_is_summarized_by_the_small_model_without_loss(with_model: Make) -> None:
    say = {"content": "word " * 2400, "usage": {"prompt_tokens": 4000, "completion_tokens": 3000}}
    newel = with_model(scenario("", say))
    configure(newel, '[models."mock-model"]\ncontext_window = 8000\n')
    done = newel("the first task", "the second", "the third", LLM_SMALL_FAST_MODEL="small-one")
    assert done.returncode == 0, done.stderr
    assert "small-one" in {request["model"] for request in newel.requests}
    final = newel.requests[-1]["messages"]
    assert "Summary of the conversation" in final[1]["content"]
    assert "the first task" in final[1]["content"]
    assert len(final) < 6
    kept = [json.loads(line) for line in newel.sessions[0].read_text().splitlines()]
    roles = [line["message"]["role"] for line in kept if line["type"] == "message"]
    assert (roles.count("user"), roles.count("assistant")) == (3, 3)


def test_newels_home_can_be_moved(with_model: Make, tmp_path: Path) -> None:
    newel = with_model()
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "config.toml").write_text('model = "moved-model"\n')
    newel("how are you", NEWEL_HOME=str(moved), LLM_DEFAULT_MODEL="")
    assert newel.requests[0]["model"] == "moved-model"
    assert len(list(moved.glob("sessions/*/*.jsonl"))) == 1
    assert not (newel.home / ".newel").exists()


def test_a_projects_dotenv_is_read_once_it_is_trusted(with_model: Make) -> None:
    newel = with_model()
    url = newel.environ["LLM_BASE_URL"]
    lines = [f"{name}={newel.environ.pop(name)}" for name in list(newel.environ) if name.startswith("LLM_")]
    (newel.project / ".env").write_text("\n".join(lines))
    assert newel("trust", url).returncode == 0
    assert newel("how are you").returncode == 0
    assert newel.requests[0]["model"] == "mock-model"


# -- what goes along with a prompt --------------------------------------------------------------------


def test_the_projects_and_the_users_instructions_reach_the_model(with_model: Make) -> None:
    newel = with_model()
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "AGENTS.md").write_text("Prefer tabs.")
    (newel.project / "AGENTS.md").write_text("The tests run with make check.")
    newel("how are you")
    assert system(newel).index("Prefer tabs.") < system(newel).index("make check")


def test_a_template_of_the_project_is_a_command(with_model: Make) -> None:
    newel = with_model()
    folder = newel.project / ".newel" / "prompts"
    folder.mkdir(parents=True)
    (folder / "review.md").write_text("Review $1 with care.\n")
    newel("/review parser.py")
    assert last(newel) == "Review parser.py with care."


def test_mentioned_files_and_images_are_attached(with_model: Make) -> None:
    newel = with_model()
    (newel.project / "notes.txt").write_text("Remember the milk.\n")
    (newel.project / "shot.png").write_bytes(PIXEL)
    newel("read @notes.txt and look at shot.png")
    parts = last(newel)
    assert [part["type"] for part in parts] == ["text", "text", "image_url"]
    assert "Remember the milk." in parts[1]["text"]
    assert parts[2]["image_url"]["url"].startswith("data:image/png;base64,")
