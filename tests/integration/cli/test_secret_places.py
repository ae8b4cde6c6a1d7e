"""If these fail, a model receives keys, tokens or files outside the project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.driver import Driver
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]
KEY = "-----BEGIN OPENSSH PRIVATE KEY----- the user's own"


def read(path: object) -> dict[str, Any]:
    return call("read", file_path=str(path))


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def sent(newel: Newel) -> str:
    """Everything that the model server has received."""
    return str(newel.requests)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


WAYS = {
    "absolute": "{home}/.ssh/id_work",
    "~": "~/.ssh/id_work",
    "..": "../home/.ssh/id_work",
    "link": "README.md",
    "linked folder": "docs/.ssh/id_work",
    "/proc": "/proc/self/root{home}/.ssh/id_work",
}
MODES = [*(("auto", way) for way in WAYS), *((mode, "link") for mode in ("ask", "review", "read-only"))]


@pytest.mark.parametrize(("approve", "way"), MODES)
def test_no_model_gets_a_private_key_in_any_mode(
    with_model: Make, tmp_path: Path, approve: str, way: str
) -> None:
    path = WAYS[way].format(home=tmp_path / "home")
    newel = with_model(scenario("look", read(path), {"content": "I see."}))
    key = put(newel.home / ".ssh" / "id_work", KEY)
    (newel.project / "README.md").symlink_to(key)
    (newel.project / "docs").symlink_to(newel.home)
    done = newel("look", "--approve", approve, "--renderer", "console")
    assert done.returncode == 0, done.stderr
    assert KEY not in sent(newel)
    assert "holds secrets" in sent(newel)
    assert "[permissions]" in sent(newel)


def test_a_link_that_is_not_yet_in_the_copy_is_judged_by_its_target(with_model: Make) -> None:
    newel = with_model(scenario("look", read("zz/README.md"), {"content": "I see."}))
    key = put(newel.home / ".ssh" / "id_work", KEY)
    for number in range(1_500):
        put(newel.project / f"{number % 50}" / f"{number}", "text")
    (newel.project / "zz").mkdir()
    (newel.project / "zz" / "README.md").symlink_to(key)
    assert newel("look", "--approve", "review").returncode == 0
    assert KEY not in sent(newel)
    assert "holds secrets" in sent(newel)


@pytest.mark.parametrize(
    "name",
    [
        ".newel/config.toml",
        ".aws/credentials",
        ".netrc",
        ".config/gh/hosts.yml",
        ".bash_history",
        "id_ed25519",
    ],
)
def test_tokens_of_other_programs_and_newels_own_stay_secret_in_auto(with_model: Make, name: str) -> None:
    newel = with_model(scenario("look", read(f"~/{name}"), {"content": "Well."}))
    put(newel.home / name, f"# {KEY}\n")
    assert newel("look", "--approve", "auto").returncode == 0
    assert KEY not in sent(newel)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="a file of Linux")
def test_newels_own_environment_cannot_be_read(with_model: Make) -> None:
    newel = with_model(scenario("look", read("/proc/self/environ"), {"content": "Well."}))
    assert newel("look", "--approve", "auto").returncode == 0
    assert "sk-test-0123456789abcdef" not in sent(newel)


def test_edit_and_write_cannot_open_secret_places(with_model: Make) -> None:
    keys = "~/.ssh/authorized_keys"
    newel = with_model(
        scenario(
            "look",
            call(
                "edit",
                file_path="~/.ssh/id_work",
                old_string="-----BEGIN OPENSSH PRIVATE KEY",
                new_string="x",
            ),
            call("edit", file_path="~/.ssh/id_work", old_string="-----BEGIN RSA PRIVATE KEY", new_string="x"),
            call("write", file_path=keys, content="ssh-ed25519 AAAA evil\n"),
            {"content": "Well."},
        )
    )
    key = put(newel.home / ".ssh" / "id_work", KEY)
    assert newel("look", "--approve", "auto").returncode == 0
    assert "the user's own" not in sent(newel)
    assert key.read_text() == KEY
    assert not (newel.home / ".ssh" / "authorized_keys").exists()


def test_an_allow_rule_of_the_user_covers_exactly_its_files(with_model: Make) -> None:
    newel = with_model(
        scenario("look", read("~/.ssh/known_hosts"), read("~/.ssh/id_work"), {"content": "Well."})
    )
    put(newel.home / ".ssh" / "known_hosts", "github.com ssh-ed25519 KNOWN")
    put(newel.home / ".ssh" / "id_work", KEY)
    put(newel.home / ".newel" / "config.toml", '[permissions]\nallow = ["read(~/.ssh/known_hosts)"]\n')
    assert newel("look", "--approve", "auto").returncode == 0
    assert "KNOWN" in sent(newel)
    assert KEY not in sent(newel)


def test_a_project_cannot_allow_itself_anything(with_model: Make) -> None:
    newel = with_model(scenario("look", read("~/.ssh/id_work"), {"content": "Well."}))
    put(newel.home / ".ssh" / "id_work", KEY)
    for name in (".newel/config.toml", "config.toml", "newel.toml"):
        put(newel.project / name, '[permissions]\nallow = ["read(~/.ssh/**)"]\n')
    assert newel("look", "--approve", "auto").returncode == 0
    assert KEY not in sent(newel)


@pytest.mark.parametrize(
    "rule", ["reed", "read()", "read(../notes.txt)", "run(~/x)", "read(~/x) write(~/y)", "read(~bob/x)"]
)
def test_an_invalid_rule_is_refused_at_start(with_model: Make, rule: str) -> None:
    newel = with_model()
    put(newel.home / ".newel" / "config.toml", f'[permissions]\nallow = ["{rule}"]\n')
    done = newel("how are you")
    assert done.returncode == 1
    assert "permissions" in done.stderr
    assert "bash(npm run *)" in done.stderr
    assert newel.requests == []


@pytest.mark.parametrize("approve", ["ask", "review", "read-only"])
@pytest.mark.parametrize("way", ["absolute", "link"])
def test_files_outside_the_project_are_read_only_after_approval(
    with_model: Make, drive: Callable[..., Driver], tmp_path: Path, approve: str, way: str
) -> None:
    notes = tmp_path / "home" / "notes.txt"
    path = str(notes) if way == "absolute" else "NOTES"
    newel = with_model(scenario("look", read(path), read(path), {"content": "Well."}))
    put(notes, "the notes of the user")
    (newel.project / "NOTES").symlink_to(notes)
    driver = drive(newel, "--approve", approve)
    driver.send(type="message", content="look")
    asked = driver.until("approval_request")
    assert str(notes) in asked["preview"]
    assert "outside the project" in asked["preview"]
    assert (asked["touches"][0]["path"], asked["touches"][0].get("writes", False)) == (str(notes), False)
    driver.answer(asked, "no")
    driver.answer(driver.until("approval_request"), "once")
    driver.until("agent_end")
    assert driver.finish() == 0
    results = [each["result"] for each in driver.seen if each["type"] == "tool_execution_end"]
    assert len(results) == 1
    assert "the notes of the user" in results[0]
    assert "the notes of the user" not in str(newel.requests[1])


@pytest.mark.parametrize("approve", ["ask", "review", "read-only"])
def test_without_a_user_files_outside_stay_unread_and_the_model_is_told(
    with_model: Make, approve: str
) -> None:
    newel = with_model(scenario("look", read("~/notes.txt"), read("here.txt"), {"content": "Well."}))
    put(newel.home / "notes.txt", "the notes of the user")
    put(newel.project / "here.txt", "of the project")
    assert newel("look", "--approve", approve).returncode == 0
    assert "the notes of the user" not in sent(newel)
    assert "outside the project" in sent(newel)
    assert "of the project" in sent(newel)


def wrong_edit(path: str) -> dict[str, object]:
    arguments = {"file_path": path, "old_string": "nowhere in it", "new_string": "x"}
    return {"tool_calls": [{"function": {"name": "edit", "arguments": arguments}}]}


@pytest.mark.parametrize("approve", ["ask", "review", "plan", "read-only"])
@pytest.mark.parametrize("path", [".env", "~/notes.txt"])
def test_an_edit_that_fails_does_not_tell_what_only_an_approval_opens(
    with_model: Make, approve: str, path: str
) -> None:
    """Its error has the content of a file that the model has not read, to save a step."""
    newel = with_model(scenario("change", wrong_edit(path), {"content": "Well."}))
    put(newel.home / "notes.txt", "the notes of the user")
    put(newel.project / ".env", "KEY=the notes of the user")
    newel("change", "--approve", approve)
    assert "the notes of the user" not in sent(newel)
    assert "Not run: " in sent(newel)


def test_once_the_file_is_opened_the_model_learns_why_an_edit_fails(
    with_model: Make, drive: Callable[..., Driver]
) -> None:
    newel = with_model(
        scenario("change", wrong_edit(".env"), read(".env"), wrong_edit(".env"), {"content": "Well."})
    )
    put(newel.project / ".env", "KEY=x")
    driver = drive(newel, "--approve", "ask")
    driver.send(type="message", content="change")
    driver.answer(driver.until("approval_request"), "once")
    driver.until("agent_end")
    assert driver.finish() == 0
    before, _, after = (each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool")
    assert "Read the file, then correct the call." in before
    assert "old_string not found in .env" in after


def test_in_auto_files_outside_are_read_unless_secret(with_model: Make) -> None:
    newel = with_model(scenario("look", read("~/notes.txt"), {"content": "Well."}))
    put(newel.home / "notes.txt", "the notes of the user")
    assert newel("look", "--approve", "auto").returncode == 0
    assert "the notes of the user" in sent(newel)


def test_the_projects_dotenv_needs_approval_and_its_example_does_not(with_model: Make) -> None:
    newel = with_model(scenario("look", read(".env"), read(".env.example"), {"content": "Well."}))
    put(newel.project / ".env", "TOKEN=tok-of-the-project\n")
    put(newel.project / ".env.example", "TOKEN=put-yours-here\n")
    assert newel("look", "--approve", "ask").returncode == 0
    assert "tok-of-the-project" not in sent(newel)
    assert "put-yours-here" in sent(newel)


@pytest.mark.parametrize("target", [".env", "deep/server.pem"])
def test_no_link_of_a_project_makes_its_secrets_instructions(with_model: Make, target: str) -> None:
    """They would be sent with the first request, before anybody is asked."""
    newel = with_model(scenario("look", {"content": "Done."}))
    put(newel.project / target, "TOKEN=hidden-4711\n")
    (newel.project / "AGENTS.md").symlink_to(target)
    put(newel.project / ".newel/prompts/plain.md", "look at $1.")
    (newel.project / ".newel/prompts/look.md").symlink_to(f"../../{target}")
    for prompt in ("look", "/look at it", "/plain it"):
        newel(prompt, "--approve", "read-only")
    assert "hidden-4711" not in sent(newel)
    assert "look at it" in sent(newel)


def test_the_saved_output_of_a_command_stays_readable(with_model: Make) -> None:
    spill = r"{{ tool_result | output is in (\S+?\.txt) }}"
    newel = with_model(
        scenario(
            "look",
            bash("seq 300000"),
            call("read", file_path=spill, offset=150_000, limit=1),
            {"content": "Well."},
        )
    )
    assert newel("look", "--approve", "review").returncode == 0
    assert "150000" in newel.requests[-1]["messages"][-1]["content"]


def attached(newel: Newel) -> str:
    return str(newel.requests[-1]["messages"][-1]["content"])


def test_a_mention_of_a_link_out_of_the_project_is_not_attached_with_a_reason(with_model: Make) -> None:
    newel = with_model(scenario("look at", {"content": "Well."}))
    key = put(newel.home / ".ssh" / "id_work", KEY)
    notes = put(newel.home / "notes.txt", "the notes of the user")
    (newel.project / "README.md").symlink_to(key)
    (newel.project / "NOTES").symlink_to(notes)
    done = newel("look at @README.md and @NOTES please")
    assert done.returncode == 0
    assert KEY not in sent(newel)
    assert "the notes of the user" not in sent(newel)
    assert f"README.md was not attached: {key} holds secrets" in done.stderr
    assert f"NOTES was not attached: it is a link to {notes}, outside the project" in done.stderr


def test_a_mention_of_a_secret_place_is_not_attached_with_the_reason_whether_or_not_it_exists(
    with_model: Make,
) -> None:
    newel = with_model(scenario("look at", {"content": "Well."}))
    key = put(newel.home / ".ssh" / "id_work", KEY)
    done = newel("look at @~/.ssh/id_work and @~/.ssh/gone")
    assert KEY not in sent(newel)
    for name, path in (("id_work", key), ("gone", key.with_name("gone"))):
        assert f"@~/.ssh/{name} was not attached: {path} holds secrets" in done.stderr
        assert f'allow = ["read({path})"]' in done.stderr


def test_a_mention_of_a_link_to_a_secret_of_the_project_is_not_attached(with_model: Make) -> None:
    newel = with_model(scenario("explain", {"content": "Done."}))
    dotenv = put(newel.project / ".env", "TOKEN=hidden-4711\n")
    (newel.project / "README.md").symlink_to(".env")
    done = newel("explain @README.md")
    assert "hidden-4711" not in sent(newel)
    assert f"README.md was not attached: it is a link to {dotenv}" in done.stderr
    newel("explain @.env")
    assert "hidden-4711" in sent(newel)


def test_a_mentioned_file_outside_is_attached_unless_it_is_secret(with_model: Make) -> None:
    newel = with_model(scenario("look at", {"content": "Well."}))
    put(newel.home / ".ssh" / "id_work", KEY)
    put(newel.home / "notes.txt", "the notes of the user")
    done = newel("look at @~/notes.txt and @~/.ssh/id_work and @../home/.ssh/id_work", "--approve", "ask")
    assert done.returncode == 0
    assert "the notes of the user" in attached(newel)
    assert KEY not in sent(newel)
    assert '[permissions] allow = ["read(' in done.stderr


def test_the_projects_prompt_does_not_replace_the_users(with_model: Make) -> None:
    newel = with_model(scenario("prompt", {"content": "Well."}))
    put(newel.home / ".newel" / "prompts" / "check.md", "My own prompt.")
    put(newel.project / ".newel" / "prompts" / "check.md", "The project's prompt.")
    assert newel("/check").returncode == 0
    assert attached(newel) == "My own prompt."
    assert newel("/project.check").returncode == 0
    assert attached(newel) == "The project's prompt."
