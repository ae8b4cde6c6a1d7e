"""A project with a home, in which a process is killed, and the checks afterwards."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mock_llm_server import MockServer
from newel.session.reader import read_session
from tests.processes import is_alive
from tests.support import Newel, bash, scenario

Found = list[tuple[str, str]]

OLD = {"a.txt": "old a\n", "b.txt": "old b\n", "c.txt": "one\ntwo\nthree\n", "d.txt": "old d\n"}
NEW = {"a.txt": "new a\n", "b.txt": "new b\n" * 500, "c.txt": "one\nTWO\nthree\n", "sub/e.txt": "new e\n"}
GRACE = 10.0
"""Seconds in which all that a killed process has started must end."""


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


STEPS: list[dict[str, Any]] = [
    bash("printf 1 >> ran; printf 'new a\\n' > a.new && mv a.new a.txt; sleep 0.05; printf '!' >> ran"),
    tool("write", file_path="b.txt", content=NEW["b.txt"]),
    tool("edit", file_path="c.txt", old_string="two", new_string="TWO"),
    bash("printf 2 >> ran; rm d.txt; mkdir -p sub; printf 'new e\\n' > e.new && mv e.new sub/e.txt"),
]
"""The work of the model. ``ran`` tells which commands have run, and whether the first one came to its end."""

WORK = scenario("work", *STEPS, {"content": "Done."})
GO_ON = scenario("go on", bash("true"), {"content": "Nothing to do."})
CHAT = {"scenarios": [*GO_ON["scenarios"], *WORK["scenarios"]]}


class Scene:
    """A fresh project and home in ``folder``. Its prompt is recognized among the requests to the model."""

    def __init__(self, folder: Path, server: MockServer, number: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.newel = Newel(folder, server)
        self.prompt = f"work on number {number}."
        self.acknowledged = False
        """Whether a front end has promised to keep the prompt."""
        for name, text in OLD.items():
            (self.newel.project / name).write_text(text)

    @property
    def files(self) -> dict[str, str]:
        project = self.newel.project
        return {
            str(path.relative_to(project)): path.read_text()
            for path in project.rglob("*")
            if path.is_file() and ".git" not in path.parts
        }

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requests to the model with this scene's prompt."""
        return [body for body in self.newel.requests if self.prompt in str(body["messages"])]

    # -- checks -----------------------------------------------------------------------------------

    def orphans(self) -> Found:
        """Processes that work here although what started them is dead."""
        return find_orphans(self.folder)

    def torn(self) -> Found:
        """Files that are neither old nor new."""
        there = self.files
        return [("torn", f"{name}: {there.get(name)!r:.80}") for name in self.torn_in(there)]

    @staticmethod
    def torn_in(files: Mapping[str, str]) -> list[str]:
        return [name for name in {*OLD, *NEW} if files.get(name) not in {OLD.get(name), NEW.get(name)}]

    def untouched(self) -> Found:
        return [] if self.files == OLD else [("torn", f"the project has changed: {sorted(self.files)}")]

    def twice(self) -> Found:
        ran = self.files.get("ran", "")
        return [("twice", f"ran: {ran}")] if any(ran.count(each) > 1 for each in "12!") else []

    def messages_lost(self) -> Found:
        """What the model has been told or the user been promised, and no session has."""
        if not (bodies := self.requests) and not self.acknowledged:
            return []
        told = max((sum(each["role"] == "tool" for each in body["messages"]) for body in bodies), default=0)
        stored = [read_session(path) for path in self.newel.sessions]
        found: Found = [("lost", f"the session is damaged: {each.damage}") for each in stored if each.damage]
        history = [message for each in stored for message in each.history.active()]
        kinds = [message.__struct_config__.tag for message in history]
        if not any(self.prompt in str(getattr(message, "content", "")) for message in history):
            found.append(("lost", "the prompt is in no session"))
        if kinds.count("toolResult") < told:
            found.append(
                ("lost", f"{told} results were sent, {kinds.count('toolResult')} are in the session")
            )
        return found

    def said_once(self) -> Found:
        """How often the session has the prompt itself."""
        said = [
            message
            for path in self.newel.sessions
            for message in read_session(path).history.active()
            if message.__struct_config__.tag == "user" and getattr(message, "content", "") == self.prompt
        ]
        return [] if len(said) <= 1 else [("twice", f"the prompt is in the session {len(said)} times")]

    def undone(self) -> Found:
        """Undo the runs, the latest first, and compare all bytes."""
        said: list[str] = []
        for point in json.loads(self.newel("checkpoints", "--json").stdout)["checkpoints"]:
            if self.files != OLD:
                done = self.newel("undo", point["checkpoint_id"], "--yes")
                said.append(done.stdout + done.stderr)
        there = self.files
        names = sorted(name for name in {*OLD, *there} if OLD.get(name) != there.get(name))
        return [("lost", f"undo left {names}: {said}")] if names else []

    def litter(self) -> Found:
        """Temporary files and copies of the project."""
        home = self.newel.home / ".newel"
        names = [*self.newel.project.rglob(".newel-*"), *home.rglob("*.tmp"), *(home / "copies").glob("*/*")]
        return [("left", str(path.relative_to(self.folder))) for path in names]


def find_orphans(folder: Path) -> Found:
    """Processes that work in a folder, or with it in their environment, after a while in which they may end."""
    until = time.monotonic() + GRACE
    while (pids := _processes(folder)) and time.monotonic() < until:
        time.sleep(0.02)
    return [("left", f"process {pid}: {_command(pid)}") for pid in pids]


def _processes(folder: Path) -> list[int]:
    mark = f"{folder}/".encode()
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if mark in _places(pid) and is_alive(pid)]


def _places(pid: int) -> bytes:
    """The environment and the working folder of a process."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        return environ + os.fsencode(Path(f"/proc/{pid}/cwd").readlink()) + b"/"
    except OSError:
        return b""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "?"
