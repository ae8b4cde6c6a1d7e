"""If these fail, the workbench does not show what runs on other machines, or loses or repeats what it proposes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import FleetOfProcesses, wait_for
from tests.integration.agents.support import after
from tests.postgres import PostgresServer
from tests.served import Served, served
from tests.support import Newel, bash, scenario

MakeFleet = Callable[..., FleetOfProcesses]

WAIT = "until [ -e {folder}/go ]; do sleep 0.05; done"


def laptop(fleet: FleetOfProcesses, folder: Path) -> Newel:
    """The machine from which the fleet is used, with its project."""
    (folder / "desk").mkdir()
    newel = Newel(folder / "desk", fleet.model)
    newel.environ |= {name: fleet.environ(newel.home)[name] for name in ("NEWEL_ENGINE", "NEWEL_FLEET_STORE")}
    fleet.project = newel.project
    return newel


def get(server: Served, path: str, **query: Any) -> Any:
    answer = server.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(server: Served, path: str) -> tuple[int, Any]:
    answer = server.client.post(path, json={}, timeout=30)
    return answer.status_code, answer.json()


@pytest.mark.slow  # a second of a core
def test_a_job_is_followed_while_it_runs_and_its_changes_are_proposed_once(
    make_fleet: MakeFleet, tmp_path: Path
) -> None:
    wait = bash(f"echo hello >> greeting; {WAIT.format(folder=tmp_path)}")
    fleet = make_fleet(after(1, True), scenario("Greet", wait))
    newel = laptop(fleet, tmp_path)
    (newel.project / "greeting").write_text("good day\n")
    fleet.worker("one")
    with served(newel, "newel", "web") as server:
        assert get(server, "/api/fleets")["fleets"] == []
        job = fleet.run("Greet {{name}}\nand be polite", "--matrix", rows(tmp_path, "the reader"))
        (listed,) = get(server, "/api/fleets")["fleets"]
        assert listed["title"] == "Greet the reader\nand be polite"
        path = f"/api/fleet-jobs/{job}"
        seen = follow(server, path, "tool_execution_start")
        seen_job = get(server, path)
        assert (seen_job["status"], seen_job["session"]) == ("running", f"fleet_{job}")
        assert get(server, f"/api/fleets/{listed['id']}", state="running")["jobs"][0]["id"] == job
        status, answer = post(server, f"{path}/propose")
        assert status == 409
        assert "has not ended yet" in answer["error"]["message"]
        (tmp_path / "go").touch()
        seen += follow(server, path, "contract_state", after=seen[-1]["seq"], state="completed")
        assert [each["seq"] for each in seen] == [*range(1, len(seen) + 1)]
        wait_for(lambda: get(server, path)["status"] == "completed")
        status, proposed = post(server, f"{path}/propose")
        assert (status, proposed) == (200, {"run": job, "files": 1, "notices": []})
        assert (newel.project / "greeting").read_text() == "good day\n"
        (file,) = get(server, "/api/agent/pending")["files"]
        assert (file["file_path"], file["run_ids"], file["pending"]) == ("greeting", [job], 1)
        status, again = post(server, f"{path}/propose")
        assert (status, again["files"], "proposed here already" in again["notices"][0]) == (200, 0, True)
        assert post(server, f"/api/fleets/{listed['id']}/cancel") == (200, {"cancelled": 0})


def read_stream(
    server: Served, path: str, until: Callable[[str, Any], bool], **headers: str
) -> list[tuple[str, str, Any]]:
    """The events of a stream, as (name, id, value), up to one with this name and value."""
    seen: list[tuple[str, str, Any]] = []
    accept = {"Accept": "text/event-stream", **headers}
    with server.client.stream("GET", f"{path}/events", headers=accept, timeout=30) as answer:
        assert answer.status_code == 200
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                value = json.loads(fields["data"])
                seen.append((fields["event"], fields.get("id", ""), value))
                if until(fields["event"], value):
                    break
                fields = {}
    return seen


def text_of(value: Any) -> str:
    return "".join(part["text"] for part in value.get("message", {}).get("content", []))


@pytest.mark.slow  # a second of a core
def test_an_answer_is_streamed_while_the_model_writes_it(make_fleet: MakeFleet, tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    slow = {"token_delay_ms": 50, "response": {"content": words}}
    fleet = make_fleet(after(0, True), scenario("Tell", slow))
    newel = laptop(fleet, tmp_path)
    fleet.worker("one")
    with served(newel, "newel", "web") as server:
        path = f"/api/fleet-jobs/{fleet.run('Tell')}"
        begun = read_stream(server, path, lambda name, value: name == "soFar" and "word10" in text_of(value))
        partial = text_of(begun[-1][2])
        assert words.startswith(partial)
        assert "word59" not in partial
        numbers = [int(number) for name, number, _ in begun if name == "event"]
        assert numbers == [*range(1, len(numbers) + 1)]
        rest = read_stream(server, path, lambda name, _: name == "end", **{"Last-Event-ID": str(numbers[-1])})
        assert rest[0][0] == "job"
        texts = [text_of(value) for name, _, value in rest if name == "soFar"]
        assert len({*texts}) > 3  # it grows
        numbers += [int(number) for name, number, _ in rest if name == "event"]
        assert numbers == [*range(1, len(numbers) + 1)]
        messages = [
            value["message"] for name, _, value in rest if name == "event" and value["type"] == "message_end"
        ]
        assert words in [text_of({"message": each}) for each in messages if each["role"] == "assistant"]
        assert [value["status"] for name, _, value in rest if name == "job"][-1] == "completed"
        assert rest[-1] == ("end", "", {"state": "done", "reason": rest[-1][2]["reason"]})
        assert (
            len(read_stream(server, path, lambda name, _: name == "end")) == len(numbers) + 3
        )  # job, soFar, end


def rows(folder: Path, name: str) -> str:
    file = folder / "rows.json"
    file.write_text(json.dumps([{"name": name}]))
    return str(file)


def follow(server: Served, path: str, kind: str, *, after: int = 0, **fields: str) -> list[dict[str, Any]]:
    """The events of a job up to one of a kind, with these fields."""
    seen: list[dict[str, Any]] = []
    while True:
        page = get(server, f"{path}/events", after=after, wait=5)
        seen += page["events"]
        after = page["next"]
        if any(each["event"]["type"] == kind and fields.items() <= each["event"].items() for each in seen):
            return seen


@pytest.mark.slow  # a second of a core
def test_jobs_are_cancelled_and_what_cannot_be_shown_is_said(
    make_fleet: MakeFleet, postgres: PostgresServer, tmp_path: Path
) -> None:
    fleet = make_fleet()
    newel = laptop(fleet, tmp_path)
    with served(newel, "newel", "web") as server:
        job = fleet.run("Nobody runs this")
        (listed,) = get(server, "/api/fleets")["fleets"]
        assert listed["states"] == {"queued": 1}
        assert post(server, f"/api/fleet-jobs/{job}/cancel") == (200, {"cancelled": 1})
        assert get(server, f"/api/fleet-jobs/{job}")["status"] == "cancelled"
        unchanged = post(server, f"/api/fleet-jobs/{job}/propose")[1]
        assert unchanged["notices"] == [f"Job {job[:8]} has changed no file."]
        assert server.client.get(f"/api/fleet-jobs/{job[:-1]}").status_code == 404
        deep = """('{"x":' || repeat('[', 100000) || repeat(']', 100000) || '}')::bytea"""
        for seq, data in enumerate(("'no json'", "'\\xff'", deep), 1):
            event = f"insert into newel.events select n, {seq}, {data} from newel.jobs"  # noqa: S608 — the test's own
            postgres.execute(event, fleet.database)
        said = [each["event"]["message"] for each in get(server, f"/api/fleet-jobs/{job}/events")["events"]]
        assert said == [f"Event {seq} of this job cannot be read by this Newel." for seq in (1, 2, 3)]
        for params in ("'{}'", "'\\xff'", deep):
            postgres.execute(f"update newel.jobs set params = {params}", fleet.database)  # noqa: S608 — likewise
            (listed,) = get(server, "/api/fleets")["fleets"]
            assert listed["title"].startswith("This Newel cannot read this job")
        assert "cannot read this job" in fleet("fleet", "status").stdout
        assert server.client.get("/api/fleets/%25").status_code == 422
        assert (
            server.client.get("/api/fleets/none").json()["error"]["message"].startswith("There is no fleet")
        )


@pytest.mark.slow
def test_a_database_that_is_away_is_said_and_found_again(
    make_fleet: MakeFleet, postgres: PostgresServer, tmp_path: Path
) -> None:
    fleet = make_fleet()
    newel = laptop(fleet, tmp_path)
    postgres.stop()
    try:
        with served(newel, "newel", "web") as server:
            answer = server.client.get("/api/fleets", timeout=30)
            assert answer.status_code == 409
            assert "cannot be reached" in answer.json()["error"]["message"]
            postgres.start()
            assert get(server, "/api/fleets")["fleets"] == []
            postgres.stop()
            postgres.start()
            assert get(server, "/api/fleets")["fleets"] == []
    finally:
        postgres.stop()
        postgres.start()


def test_without_a_database_the_page_says_how_to_set_one(with_model: Callable[..., Newel]) -> None:
    with served(with_model(), "newel", "web") as server:
        answer = server.client.get("/api/fleets")
        assert answer.status_code == 409
        assert "Set NEWEL_ENGINE" in answer.json()["error"]["message"]
