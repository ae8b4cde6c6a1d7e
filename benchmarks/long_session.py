"""Opening a session of 100 MB, with the floor of each figure beside it.

    ./run python -m benchmarks.long_session [--megabytes 100] [--runs 3]

The session has prompts, calls with results of up to 30 KB, and a compaction for each 400 KB. There is a table for ASCII, one with a Chinese
word in each result, for which Python stores a whole text with two bytes a character, and one with an emoji, which takes four. *wall* and
*cpu* are seconds, *MiB* is the largest resident size.

open          ``newel -c`` on a pseudo-terminal, from its start until the last turns are shown and a key is echoed
first request from Enter until the request has arrived at the model's server
/resume       the same conversation from within another one: until the list is shown, and from the choice until the last turns are
newel sessions  the list on standard output
The floors are Python programs that read the file, and that parse each of its lines.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.chat_server import ChatServer
from benchmarks.pseudo_terminal import Figure, PseudoTerminal, heading, measure, median

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.session.manager import SessionManager

NEWEL = [sys.executable, "-m", "newel"]
SIZES = [200, 500, 1_000, 2_000, 2_000, 4_000, 8_000, 30_000]
"""Characters of a result."""
ENDS = {
    "ASCII": "",
    "Chinese": " \N{CJK UNIFIED IDEOGRAPH-6587}\N{CJK UNIFIED IDEOGRAPH-5B57}",
    "emoji": " \N{PARTY POPPER}",
}
"""How each result ends."""
SINCE_COMPACTION = 400_000
LIMIT = "0.7 s, 250 MiB"
KEY = "Ж"
LAST_PROMPT = "The last prompt."
READ = "import sys\nwith open(sys.argv[1], 'rb', buffering=2**20) as f:\n    n = sum(map(len, f))"
PARSE = "import sys, json\nwith open(sys.argv[1], 'rb', buffering=2**20) as f:\n    for line in f: json.loads(line)"
KEEP = "import sys, json\nwith open(sys.argv[1], 'rb', buffering=2**20) as f:\n    all = [json.loads(line) for line in f]"


def conversation(size: int, end: str) -> Iterator[AppMessage]:
    """Messages with about ``size`` characters in all; each result has this ``end``."""
    draw = random.Random(1)  # noqa: S311 — the same texts each time
    pool = ["".join(draw.choice("abcdefghij klmnop qrstuv (){}=._") for _ in range(60)) for _ in range(2_000)]

    def text(characters: int) -> str:
        return "\n".join(draw.choice(pool) for _ in range(max(characters // 61, 1)))

    total = since = turn = 0
    usage = Usage()
    while total < size:
        turn += 1
        yield UserMessage(f"Prompt {turn}: fix module {turn % 97}.")
        for step in range(8):
            result = text(draw.choice(SIZES)) + end
            total += len(result) + 1_400  # with all that is around it
            since += len(result)
            usage = Usage(input=2_000 + since // 4, output=150)
            call = ToolCall(f"c{turn}_{step}", "bash", {"command": text(100)})
            content = [ThinkingContent(text(300)), TextContent(text(200)), call]
            yield AssistantMessage(content, model="m", usage=usage, stop_reason="toolUse")
            yield ToolResultMessage(call.id, "bash", result, False, details={"exitCode": 0}, duration=12)
        answer = AssistantMessage([TextContent(text(600))], model="m", usage=usage)
        yield answer
        if since > SINCE_COMPACTION:
            data = {"summary": text(4_000), "account": text(3_000), "firstKept": answer.id, "reason": "full"}
            yield CustomMessage("compaction", data)
            since = 0
    yield UserMessage(LAST_PROMPT)
    yield AssistantMessage([TextContent("The last answer.")], model="m", usage=usage)


class Model(ChatServer):
    """Answers each request with a word; ``asked`` is the time of the last one."""

    def __init__(self) -> None:
        self.asked = 0.0
        super().__init__(self._answer)

    def _answer(self, _: bytes) -> dict[str, Any]:
        self.asked = time.monotonic()
        return {"content": "Answered."}


def write_session(home: Path, cwd: Path, size: int, end: str) -> Path:
    with SessionManager(directory=home / ".newel/sessions", cwd=str(cwd)) as session:
        session.start_session({"model": "m"})
        session.extend(list(conversation(size, end)))
        path = session.get_file_path()
    assert path is not None
    return path


class Bench:
    """A home with a long session."""

    def __init__(self, home: Path, size: int, end: str) -> None:
        self.home = home
        self.project = home / "project"
        self.project.mkdir(parents=True)
        self.model = Model()
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "LLM_BASE_URL": f"http://127.0.0.1:{self.model.server_port}/v1",
            "LLM_DEFAULT_MODEL": "m",
        }
        # In a process of its own: the largest size of a process is at least that of its parent.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            self.path = pool.submit(write_session, home, self.project, size, end).result()
        self.size = self.path.stat().st_size

    def terminal(self, *options: str) -> PseudoTerminal:
        command = [*NEWEL, "--sandbox", "off", *options]
        return PseudoTerminal(command, cwd=self.project, environ=self.environ)

    def open(self) -> tuple[Figure, Figure]:
        """Opening it, and the first request after that."""
        with self.terminal("-c") as newel:
            newel.wait_for("── Resumed")
            newel.send(KEY)
            opened = newel.wait_for(KEY, since=newel.output.index("── Resumed")) - newel.began
            figure = Figure(opened, newel.cpu(), newel.resident())
            at, cpu, sent = len(newel.output), newel.cpu(), time.monotonic()
            newel.send("\x7fgo on\r")
            newel.wait_for("Answered.", since=at)
            asked = Figure(self.model.asked - sent, newel.cpu() - cpu, newel.resident())
        os.truncate(self.path, self.size)
        return figure, asked

    def resume(self) -> tuple[Figure, Figure]:
        """The list of ``/resume`` in a new conversation, and the choice of the long one there."""
        with self.terminal() as newel:
            newel.send(KEY)
            newel.wait_for(KEY)
            newel.read(0.3)
            at, cpu = len(newel.output), newel.cpu()
            newel.send("\x7f/resume \r")
            sent = time.monotonic()
            listed = Figure(newel.wait_for("Prompt 1", since=at) - sent, newel.cpu() - cpu, newel.resident())
            at, cpu = len(newel.output), newel.cpu()
            newel.send("\r")
            sent = time.monotonic()
            shown = newel.wait_for("── Resumed", since=at) - sent
            return listed, Figure(shown, newel.cpu() - cpu, newel.resident())

    def run(self, *command: str) -> Figure:
        return measure(command, cwd=self.project, environ=self.environ)

    def floor(self, program: str) -> Figure:
        return self.run(sys.executable, "-c", program, str(self.path))


def report(bench: Bench, runs: int) -> None:
    bench.open()  # warm-up: bytecode and first-run set-up
    opened = [bench.open() for _ in range(runs)]
    median([each for each, _ in opened]).tell("open", LIMIT)
    median([each for _, each in opened]).tell("first request")
    resumed = [bench.resume() for _ in range(runs)]
    median([each for each, _ in resumed]).tell("/resume: the list")
    median([each for _, each in resumed]).tell("/resume: until the last turns are shown", LIMIT)
    median([bench.run(*NEWEL, "sessions") for _ in range(runs)]).tell("newel sessions")
    for name, program in (("read", READ), ("parse as JSON", PARSE), ("parse and keep", KEEP)):
        median([bench.floor(program) for _ in range(runs)]).tell(f"floor: {name} each line")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for script, end in ENDS.items():
        with tempfile.TemporaryDirectory(prefix="newel-bench-") as home:
            bench = Bench(Path(home), options.megabytes * 1_000_000, end)
            print(heading(f"{bench.size / 1e6:.0f} MB, {script}"))
            report(bench, options.runs)


if __name__ == "__main__":
    main()
