"""The memory of a conversation of 2,000 tool calls in one sitting.

    ./run python -m benchmarks.long_sitting [--calls 2000] [--at-once 20]

``newel`` on a pseudo-terminal gets one prompt, and a scripted model answers each request with calls until there are enough: commands that
print a few lines, two in ten that print 10 KB, edits of a file, the todo list, and a subagent that runs a command of its own.
*now* and *peak* are the resident size of the process in MiB, *texts* the size of the request's body, which is the least that has to be
kept. At the end the whole transcript is opened with Ctrl+O, and closed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.chat_server import ChatServer
from benchmarks.pseudo_terminal import PseudoTerminal

LIMIT: Final = "120 MiB"
END: Final = "That was the last call."


class Model(ChatServer):
    """Asks for ``calls`` calls, ``at_once`` in an answer."""

    def __init__(self, calls: int, at_once: int) -> None:
        self.calls, self.at_once = calls, at_once
        self.made = self.body = 0
        super().__init__(self._answer)

    def _answer(self, body: bytes) -> dict[str, Any]:
        if b'"name":"task"' not in body:  # a subagent
            if b'"role":"tool"' in body:
                return {"content": "The subagent is done."}
            return {"tool_calls": [_call(0, "bash", {"command": "seq 20"})]}
        self.body = len(body)
        if self.made >= self.calls:
            return {"content": END}
        first, self.made = self.made, min(self.made + self.at_once, self.calls)
        return {"content": "Next.", "tool_calls": [_step(n, n - first) for n in range(first, self.made)]}


def _step(number: int, place: int) -> dict[str, Any]:
    match number % 10:
        case 0:
            items = [
                {"text": f"step {n}", "status": "done" if n < number % 9 else "pending"} for n in range(9)
            ]
            return _call(place, "todo", {"items": items}, number)
        case 1 if number % 50 == 1:
            task = {"description": f"look at part {number}", "prompt": "Count.", "can_write": True}
            return _call(place, "task", task, number)
        case 2 | 3:
            return _call(place, "bash", {"command": f"seq {number} {number + 1_900}"}, number)
        case 4:
            text = "".join(f"line {n} of {number}\n" for n in range(10))
            return _call(place, "write", {"file_path": f"notes{number % 7}.txt", "content": text}, number)
        case _:
            return _call(place, "bash", {"command": f"seq {number} {number + 20}"}, number)


def _call(place: int, name: str, arguments: dict[str, Any], number: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": place, "id": f"call_{number}_{name}", "type": "function", "function": function}


def report(newel: PseudoTerminal, model: Model, calls: int, began: float) -> None:
    took, cpu = time.monotonic() - began, newel.cpu()
    print(
        f"{calls:>8}{newel.resident('VmRSS'):>8.0f}{newel.resident():>8.0f}{model.body / 2**20:>8.1f}"
        f"{took:>9.0f}{cpu:>8.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--at-once", type=int, default=20)
    options = parser.parse_args()
    model = Model(options.calls, options.at_once)
    with tempfile.TemporaryDirectory(prefix="newel-bench-") as folder:
        home = Path(folder)
        project = home / "project"
        project.mkdir()
        environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": folder,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "LLM_BASE_URL": f"http://127.0.0.1:{model.server_address[1]}/v1",
            "LLM_DEFAULT_MODEL": "m",
        }
        command = [sys.executable, "-m", "newel", "--sandbox", "off", "--approve", "auto"]
        print(f"{'calls':>8}{'now':>8}{'peak':>8}{'texts':>8}{'seconds':>9}{'cpu':>8}   limit: {LIMIT}")
        with PseudoTerminal(command, cwd=project, environ=environ) as newel:
            newel.send("go\r")
            began, next_report = time.monotonic(), 0
            while END not in newel.output[-20_000:]:
                newel.read(0.2)
                if newel.process.poll() is not None:
                    raise SystemExit(newel.output[-2000:])
                if model.made >= next_report:
                    report(newel, model, model.made, began)
                    next_report += options.calls // 4
            newel.read(1)
            report(newel, model, model.made, began)
            newel.send("\x0f")
            newel.wait_for("Transcript", since=len(newel.output))
            newel.read(1)
            print(f"Ctrl+O:  {newel.resident('VmRSS'):>7.0f}{newel.resident():>8.0f}")


if __name__ == "__main__":
    main()
