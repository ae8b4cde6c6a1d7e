"""If these fail, an agent under review accepts its own changes with the token from the user's home."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from mock_llm_server import running
from tests.served import served, wait_until
from tests.support import Newel, bash, scenario

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells")

STEALING = """
import glob, json, os, socket, sys, urllib.error, urllib.request

how = sys.argv[1]
(file,) = glob.glob(os.environ["HOME"] + "/.newel/web/*.token")
headers = {"Authorization": "Bearer " + open(file).read().strip(), "Content-Type": "application/json"}

def answer(port, path, body=None):
    url = f"http://127.0.0.1:{port}/api/agent/{path}"
    data = None if body is None else json.dumps(body).encode()
    return urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=5).read()

with open(os.environ["HOME"] + "/port") as told:
    port = int(told.read())
(waiting,) = json.loads(answer(port, "pending"))["files"]
seen = {key: waiting[key] for key in ("file_path", "hunk_ids")}
calls = ("decide_all", {"action": "accept", "files": [seen]}), ("save", {"files": [{"file_path": "a.txt"}]})
for path, body in calls:
    if how == "leaves at once":
        whole = json.dumps(body).encode()
        lines = [f"POST /api/agent/{path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {len(whole)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        with socket.create_connection(("127.0.0.1", port)) as there:
            there.sendall("\\r\\n".join([*lines, "", ""]).encode() + whole)
    else:
        try:
            print(answer(port, path, body).decode())
        except urllib.error.HTTPError as error:
            print(error.code, error.read().decode())
"""
WAYS = {
    "plain": "{program} plain",
    "an environment of its own": 'env -i HOME="$HOME" {program} plain',
    "a daemon": 'env -i HOME="$HOME" setsid {program} plain > said 2>&1 & wait; cat said',
    "leaves at once": "{program} 'leaves at once'; sleep 1",
}


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_under_review_cannot_decide_over_http(tmp_path: Path, way: str) -> None:
    script = tmp_path / "steal.py"
    script.write_text(STEALING)
    program = f"{shlex.quote(sys.executable)} -IS {script}"
    steps = bash("echo two > a.txt"), {"content": "Done."}
    steals = bash(WAYS[way].format(program=program)), {"content": "Done."}
    script_of_model = scenario("work", *steps)
    script_of_model["scenarios"] += scenario("steal", *steals)["scenarios"]
    with running(script_of_model) as model:
        newel = Newel(tmp_path, model)
        file = newel.project / "a.txt"
        file.write_text("one\n")
        with served(newel, "go", "--approve", "review") as server:
            (newel.home / "port").write_text(server.url.rpartition(":")[2])
            server.chat("work")
            wait_until(lambda: server.client.get("/api/agent/pending").json()["files"], "a proposal")
            server.chat("steal")
            said = newel.requests[-1]["messages"][-1]["content"]
            if way != "leaves at once":
                assert said.count("Only the user may do this") == 2, said
            files = server.client.get("/api/agent/pending").json()["files"]
            waiting = next(each for each in files if each["file_path"] == "a.txt")
            assert (waiting["pending"], waiting["accepted"]) == (1, 0)
            assert file.read_text() == "one\n"

            seen = {key: waiting[key] for key in ("file_path", "hunk_ids")}
            decided = {"action": "accept", "files": [seen]}
            assert server.client.post("/api/agent/decide_all", json=decided).status_code == 200
            saved = server.client.post("/api/agent/save", json={"files": [{"file_path": "a.txt"}]})
            assert saved.status_code == 200, json.dumps(saved.json())
        assert file.read_text() == "two\n"
