"""Three requests, each traced through a real process: the functions that ``docs/architecture.md`` lists.

``python -m tests.walks`` prints how many files and functions each enters.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mock_llm_server import running
from tests.integration.review.served_review import Review, hunk_ids, line, proposes
from tests.served import Served, begin, wait_until
from tests.support import Newel, scenario
from tests.tmux import Tmux

TEXT: Final = "one\ntwo\n"


def write(path: str, content: str) -> dict[str, Any]:
    """A model's response that writes a file."""
    return {
        "tool_calls": [{"function": {"name": "write", "arguments": {"filePath": path, "content": content}}}]
    }


WRITE: Final = scenario("write it", write("notes.md", TEXT), {"content": "Written."})
PROPOSE: Final = scenario("Translate", proposes(line("notes.md", 1, "eins\n")), {"content": "In German."})


def recorder(output: Path, *command: str) -> list[str]:
    return [sys.executable, "-m", "tests.recorded_calls", str(output), *command]


def calls_between(pid: int, output: Path, act: Callable[[], None]) -> list[str]:
    """The functions that a recorded process enters while ``act`` runs."""
    os.kill(pid, signal.SIGUSR1)
    act()
    os.kill(pid, signal.SIGUSR2)
    wait_until(output.exists, "the recording")
    return json.loads(output.read_text())


def terminal(folder: Path) -> list[str]:
    """(a) A prompt is typed, the model writes a file, the terminal shows it."""
    output = folder / "terminal.json"
    with running(WRITE, strict=True) as model:
        newel = Newel(folder, model)
        environ = newel.environ | {"PYTHONPATH": str(Path.cwd())}
        command = recorder(output, "newel", "--approve", "auto")
        with Tmux(command, newel.project, environ) as screen:
            screen.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}")

            def act() -> None:
                screen.type("write it", "Enter")
                screen.wait_for("Written.")
                screen.wait_for(" in · ")

            return calls_between(screen.pid, output, act)


@contextmanager
def recorded_server(newel: Newel, output: Path) -> Generator[tuple[Served, int]]:
    """A workbench, with the number of its process."""
    with begin(newel, *recorder(output, "go"), "--port", "0") as process:
        try:
            assert process.stdout is not None
            server = Served(process, process.stdout.readline().strip())
            with server.client:
                yield server, process.pid
        finally:
            process.kill()


def browser(folder: Path) -> list[str]:
    """(b) The same prompt as a message of the page's socket."""
    output = folder / "browser.json"
    with (
        running(WRITE, strict=True) as model,
        recorded_server(Newel(folder, model), output) as (server, pid),
        server.page() as page,
    ):
        tab = page.ask("openChat")["tab"]
        # Reviews are opened in the background, with a job of their own.
        server.client.get("/api/agent/sessions").raise_for_status()

        def act() -> None:
            run = page.ask("send", tab=tab, messageId="m1", text="write it")["run"]
            page.ask("watch", tab=tab, run=run, after=0)
            page.until_event("agent_end")

        return calls_between(pid, output, act)


def review(folder: Path) -> list[str]:
    """(c) A review job proposes an edit over HTTP, and the edit is applied."""
    output = folder / "review.json"
    with running(PROPOSE, strict=True) as model:
        newel = Newel(folder, model)
        file = newel.project / "notes.md"
        file.write_text(TEXT)
        with recorded_server(newel, output) as (server, pid):

            def act() -> None:
                client = Review(newel, server)
                job = client.settled(client.start("Translate"))
                decision = {"session_id": job["session_id"], "accepted_hunk_ids": hunk_ids(job)}
                client.post("/apply", job_id=job["id"], **decision)
                assert file.read_text() == TEXT.replace("one", "eins")

            return calls_between(pid, output, act)


WALKS: Final = {"terminal": terminal, "browser": browser, "review": review}


def main() -> None:
    for name, walk in WALKS.items():
        with tempfile.TemporaryDirectory() as folder:
            entered = walk(Path(folder))
        files = {each.partition(":")[0] for each in entered}
        print(f"walk of {name:15} {len(files)} files, {len(entered)} functions")
        if "--list" in sys.argv:
            print(*entered, sep="\n")


if __name__ == "__main__":
    main()
