"""If these fail, a user cannot work on a host as they do locally, or does not learn why."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from newel.agent.errors import ConfigError
from newel.app.hosts import SSH_CONFIG, open_host
from newel.workspace.ssh.connection import connected
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshHost
from tests.sshd import SECONDS, Sshd, served
from tests.support import Newel, bash, scenario
from tests.tcp_relay import open_relay

Make = Callable[..., Newel]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


STEPS = [
    call("write", file_path="new/made.py", content="print(1)\n"),
    call("edit", file_path="app.py", old_string="two", new_string="TWO"),
    bash(
        "mv old.txt 'moved \"it\".txt' && rm gone.txt && chmod +x run.sh && printf '\\000\\377\\r\\n' > blob.bin"
    ),
    {"content": "Done."},
]


@pytest.fixture
def project(sshd: Sshd, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of the host's user, with files in it."""
    folder = sshd.project(request.node.name)
    for name, content in {
        "app.py": b"one\ntwo\nthree",
        "old.txt": b"old\r\n",
        "gone.txt": b"\xff\xfe\x00",
        "run.sh": b"#!/bin/sh\n",
    }.items():
        path = folder / name
        path.write_bytes(content)
        sshd.give(path)
    yield folder
    shutil.rmtree(sshd.home / ".newel", ignore_errors=True)


def states(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes()) for path in found}


@pytest.mark.slow  # many commands over SSH; see test_remote.py
def test_an_agents_changes_on_a_host_are_recorded_and_undone_exactly(
    with_model: Make, sshd: Sshd, project: Path
) -> None:
    newel = with_model(scenario("change it", *STEPS))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    before = states(project)
    assert newel("hosts", "add", "shop", f"host:{project}").returncode == 0
    done = newel("--host", "shop", "--approve", "auto", "change it")
    assert (done.returncode, "Done." in done.stdout) == (0, True), done.stderr
    after = states(project)
    assert after["new/made.py"][1] == b"print(1)\n"
    assert after["app.py"][1] == b"one\nTWO\nthree"
    assert after['moved "it".txt'] == before["old.txt"]
    assert list(newel.project.iterdir()) == []
    shown = newel("review", "--host", "shop").stdout
    assert "+TWO" in shown
    assert "gone.txt" in shown
    assert newel("undo", "--host", "shop", "--yes").returncode == 0
    assert states(project) == before
    assert newel("redo", "--host", "shop", "--yes").returncode == 0
    assert states(project) == after
    assert "change it" in newel("sessions", "--host", "shop").stdout
    assert "the host host, reached over ssh" in newel.requests[0]["messages"][0]["content"]


def test_on_a_host_nothing_runs_without_approval(with_model: Make, sshd: Sshd, project: Path) -> None:
    """Nobody can be asked here, so calls that need approval are refused."""
    newel = with_model(scenario("change it", *STEPS))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    before = states(project)
    newel("--host", f"host:{project}", "change it")
    assert states(project) == before


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("git status --short", 0),
        ("git log --oneline", 0),
        ("grep -rn two .", 0),
        ("grep -rn two '..'", 1),
        ("git -C .. log", 1),
        ("cd hostile && git status", 1),
        ("cd linked && grep -r x .", 1),
        ("cd private && grep -r x .", 1),
    ],
)
def test_commands_that_only_read_run_unasked_on_a_host(
    with_model: Make, sshd: Sshd, project: Path, command: str, code: int
) -> None:
    newel = with_model(scenario("look", bash(command), {"content": "Done."}))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    script = {
        "linked": "mkdir linked && ln -s /etc linked/etc",
        "private": "mkdir private && touch private/.env",
        "hostile": "mkdir hostile && cd hostile && git init -q && git config core.fsmonitor 'touch pwned'",
    }
    made = ["git init -q && git add . && git -c user.name=n -c user.email=e commit -qm First"]
    made += [text for word, text in script.items() if word in command]
    assert sshd.ssh("sh", "-c", " && ".join([f"cd {shlex.quote(str(project))}", *made])).returncode == 0
    done = newel("--host", f"host:{project}", "look")
    (result,) = [
        message["content"] for message in newel.requests[-1]["messages"] if message["role"] == "tool"
    ]
    assert done.returncode == code, result
    assert ("needs the user's approval" in result) == bool(code)
    assert not (project / "hostile/pwned").exists()


@pytest.mark.parametrize(("approve", "opened"), [("auto", True), ("ask", False), ("review", False)])
def test_the_hosts_secrets_stay_there_and_paths_outside_the_project_need_approval(
    with_model: Make, sshd: Sshd, project: Path, approve: str, opened: bool
) -> None:
    paths = ["~/.netrc", "README.md", "~/outside.txt", "app.py"]
    newel = with_model(
        scenario("read it", *(call("read", file_path=path) for path in paths), {"content": "Done."})
    )
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    secret, outside = sshd.home / ".netrc", sshd.home / "outside.txt"
    secret.write_text("machine x password PRIVATE")
    outside.write_text("the notes of the host")
    for path in (secret, outside):
        sshd.give(path)
    (project / "README.md").symlink_to(secret)
    try:
        done = newel("--host", f"host:{project}", "--approve", approve, "read it")
    finally:
        secret.unlink()
        outside.unlink()
    assert done.returncode == 0, done.stderr
    results = [message["content"] for message in newel.requests[-1]["messages"] if message["role"] == "tool"]
    assert "PRIVATE" not in str(newel.requests)
    assert [result for result in results[:2] if "holds secrets" not in result] == []
    assert ("the notes of the host" in results[2]) is opened
    assert "two" in results[3]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("-oProxyCommand=touch${IFS}pwned", "begins with a dash"),
        ("a;touch pwned", "contains invalid characters"),
        ("host:/no/such/folder", "Cannot work in /no/such/folder"),
        ("nobody.invalid", "Cannot resolve the host name"),
    ],
)
def test_an_unusable_folder_on_a_host_is_refused_with_the_reason(
    with_model: Make, sshd: Sshd, place: str, words: str
) -> None:
    newel = with_model()
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    for command in (["hosts", "test", "--", place], [f"--host={place}", "hello"]):
        done = newel(*command)
        assert done.returncode != 0
        assert words in done.stdout + done.stderr
    assert list(newel.project.iterdir()) == []


def test_a_host_test_reports_its_programs(with_model: Make, sshd: Sshd, project: Path) -> None:
    newel = with_model()
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    done = newel("hosts", "test", f"host:{project}")
    assert done.returncode == 0
    for words in (f"{sshd.user}@127.0.0.1, port {sshd.port}", str(project), "No problems found."):
        assert words in done.stdout
    done = newel("hosts", "test", f"host:{project}", "--model", "phi3")
    assert done.returncode == 1
    assert "`ollama` was not found" in done.stdout


def git_on(sshd: Sshd, folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    done = sshd.ssh("git", "-C", str(folder), *who, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def hunks(newel: Newel, host: str) -> dict[str, list[str]]:
    """The ids of the pending hunks on a host, by file."""
    pending = json.loads(newel("review", "--host", host, "--json").stdout)["pending"]
    return {file["file_path"]: [hunk["hunk_id"] for hunk in file["hunks"]] for file in pending}


REVIEWED = [
    call("edit", file_path="app.py", old_string="two", new_string="TWO"),
    bash(
        "sed -i s/eight/EIGHT/ app.py; mv old.txt 'moved \"it\".txt'; rm gone.txt; chmod +x run.sh;"
        " printf '\\000\\377' > b.bin; git -c user.name=b -c user.email=b@b.invalid commit -qam 'in the copy'; git branch -D other; git log --oneline | wc -l; pwd"
    ),
    {"content": "Done."},
]


@pytest.mark.slow  # a dozen commands over SSH; the page and the ledger have their own tests for this
def test_changes_under_review_on_a_host_are_pending_hunk_by_hunk(
    with_model: Make, sshd: Sshd, project: Path
) -> None:
    """The project and its git repository stay unchanged before the user keeps something; and no copy stays behind."""
    (project / "app.py").write_bytes(b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["branch", "other"]):
        git_on(sshd, project, *words)
    before, refs = states(project), git_on(sshd, project, "for-each-ref")
    newel = with_model(scenario("change it", *REVIEWED))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    place = f"host:{project}"
    done = newel("--host", place, "--approve", "review", "change it")
    assert done.returncode == 0, done.stderr
    assert states(project) == before
    assert git_on(sshd, project, "for-each-ref") == refs
    told = newel.requests[-1]["messages"][-1]["content"]
    lines, folder = told.partition("\nstderr:")[0].splitlines()[-2:]
    assert lines.strip() == "2"
    assert folder.startswith(f"{sshd.home}/.newel/copies/")
    assert f"newel decide --host {place}" in done.stdout + done.stderr
    assert f"(`newel decide --host {place}`):" in newel("review", "--host", place).stdout
    found = hunks(newel, place)
    assert found.keys() == {"app.py", "old.txt", 'moved "it".txt', "gone.txt", "run.sh", "b.bin"}
    two, eight = found["app.py"]
    assert newel("keep", two, "b.bin", "--host", place, "--yes").returncode == 0
    assert newel("reject", eight, "gone.txt", "--host", place, "--yes").returncode == 0
    after = states(project)
    assert after["app.py"] == (before["app.py"][0], b"one\nTWO\nthree\nfour\nfive\nsix\nseven\neight")
    assert after["b.bin"][1] == b"\0\377"
    assert {name for name in after if after[name] != before.get(name)} - {".git/index"} == {"app.py", "b.bin"}
    assert newel("keep", "--all", "--host", place, "--yes").returncode == 0
    after = states(project)
    assert after['moved "it".txt'] == before["old.txt"]
    assert after["run.sh"][0] & 0o111
    assert (after["gone.txt"], "old.txt" in after) == (before["gone.txt"], False)
    assert until(lambda: list((sshd.home / ".newel" / "copies").iterdir()) == [])


def until(holds: Callable[[], bool]) -> bool:
    """Wait for background work of the host, which sends no notification."""
    deadline = time.monotonic() + 10
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


def test_review_on_a_host_without_room_for_a_copy_is_refused_with_the_reason(
    with_model: Make, project: Path
) -> None:
    newel = with_model(scenario("change it", *STEPS))
    before = states(project)
    with served() as other:
        (other.home / ".newel").write_text("no folder\n")
        newel.environ["NEWEL_SSH_CONFIG"] = str(other.config)
        done = newel("--host", f"host:{project}", "--approve", "review", "change it")
    assert done.returncode != 0
    assert f"{other.home}/.newel/copies" in done.stderr
    assert "--approve ask" in done.stderr
    assert states(project) == before


@pytest.mark.anyio
async def test_errors_during_work_on_a_host_are_reported_as_what_they_are(
    sshd: Sshd, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user would see an exception group as a page of code, and no command could handle it."""

    async def tell(_: str) -> None:
        pass

    monkeypatch.setenv(SSH_CONFIG, str(sshd.config))
    async with open_host(project, f"host:{project}") as host:
        assert host.monitor is not None
        with pytest.raises(ConfigError, match="mend this"):
            async with host.monitor.notices(tell):
                raise ConfigError("mend this")


@pytest.mark.anyio
async def test_a_host_that_does_not_answer_is_reported_once_and_its_return_too(
    sshd: Sshd, project: Path, tmp_path: Path
) -> None:
    """As a message and at the head of a page; a user's request is not given up for it."""
    said: list[str] = []

    async def tell(words: str) -> None:
        said.append(words)

    async def until(condition: Callable[[], object]) -> None:
        with anyio.fail_after(SECONDS):
            while not condition():  # noqa: ASYNC110 — no event tells of what is waited for
                await anyio.sleep(0.01)

    with open_relay(sshd.port) as relay:
        config = tmp_path / "config"
        config.write_text(sshd.client_config(port=relay.port))
        target = Target("host", path=str(project))
        async with connected(target, config=str(config), lost_after=60, slow_after=0.3) as connection:
            host = SshHost(connection)
            async with host.monitor.notices(tell), anyio.create_task_group() as tasks:
                with relay.holding():
                    tasks.start_soon(connection.ping)
                    await until(lambda: said)
                    with host.monitor.request_deadline():
                        await until(lambda: host.monitor.state.reason not in said[0])
                    assert host.monitor.state.state == "slow"
                await until(lambda: len(said) == 2)
            assert host.monitor.state.state == "up"
    assert re.fullmatch(r"There is no answer for \d+ s from host. Newel is waiting for it.", said[0])
    assert said[1:] == ["host answers again."]
