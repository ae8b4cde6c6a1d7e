"""Twelve small tasks for a small model: how many of them it does with Newel.

    ./run python -m benchmarks.small_models --base-url llamacpp:/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf
    ./run python -m benchmarks.small_models --base-url URL --model NAME --tool-calls native --only bug,rename

Each task runs in a folder and with a home of its own, and is checked by its result: files, a program's output, a word of the
answer. ``--transcripts FOLDER`` keeps what was said and done. The model is started once for all tasks, so the first one is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from newel.text.json import as_dict, as_list, as_str

Check = Callable[[Path, str], bool]

TODO = "buy bread\ncall Ada\npay the rent\nwater the plants\n"
CONFIG = "[server]\nhost = 127.0.0.1\nport = 8080\n\n[log]\nlevel = info\n"
CALC = "def add(a, b):\n    return a - b\n\n\ndef half(a):\n    return a / 2\n"
TEST_CALC = "from calc import add, half\n\nassert add(2, 3) == 5, add(2, 3)\nassert half(6) == 3\nprint('all tests pass')\n"
SHAPES = "def square(a):\n    return a * a\n"
DATES = "def parse_date(text):\n    year, month, day = text.split('-')\n    return int(year), int(month), int(day)\n"
NUMBERS = "def parse_number(text):\n    return int(text)\n"
REPORT = "rows = [120, 45, 7]\nprint('Total:', sum(rows))\n"
CSV = "name,age\nAda,36\nAlan,41\nGrace,85\nEdsger,72\n"


class SmallTask(msgspec.Struct, frozen=True):
    """``check`` gets the folder and the answer."""

    name: str
    prompt: str
    files: dict[str, str]
    check: Check


def read(folder: Path, name: str) -> str | None:
    path = folder / name
    return path.read_text() if path.is_file() else None


def output_of(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
    )
    return done.stdout if done.returncode == 0 else ""


def python(folder: Path, code: str) -> str:
    return output_of(folder, sys.executable, "-B", "-c", code).strip()


TASKS = [
    SmallTask(
        "write",
        "Create a file hello.py that prints: Hello, world!",
        {},
        lambda folder, _: output_of(folder, sys.executable, "-B", "hello.py").strip() == "Hello, world!",
    ),
    SmallTask(
        "edit",
        "In config.ini, change the port to 9090.",
        {"config.ini": CONFIG},
        lambda folder, _: read(folder, "config.ini") == CONFIG.replace("8080", "9090"),
    ),
    SmallTask(
        "append",
        "Add the line 'buy milk' to the end of todo.txt.",
        {"todo.txt": TODO},
        lambda folder, _: read(folder, "todo.txt") in {f"{TODO}buy milk\n", f"{TODO}buy milk"},
    ),
    SmallTask(
        "rename",
        "Rename the file draft.txt to final.txt.",
        {"draft.txt": "Dear reader\n"},
        lambda folder, _: (
            read(folder, "final.txt") == "Dear reader\n" and not (folder / "draft.txt").exists()
        ),
    ),
    SmallTask(
        "delete",
        "Delete the file temp.log.",
        {"temp.log": "noise\n", "keep.log": "signal\n"},
        lambda folder, _: not (folder / "temp.log").exists() and read(folder, "keep.log") == "signal\n",
    ),
    SmallTask(
        "copy",
        "Copy settings.json to settings.backup.json.",
        {"settings.json": '{"theme": "dark"}\n'},
        lambda folder, _: (
            read(folder, "settings.json") == read(folder, "settings.backup.json") == '{"theme": "dark"}\n'
        ),
    ),
    SmallTask(
        "bug",
        "`python3 test_calc.py` fails. Fix the bug in calc.py.",
        {"calc.py": CALC, "test_calc.py": TEST_CALC},
        lambda folder, _: (
            read(folder, "test_calc.py") == TEST_CALC
            and "all tests pass" in output_of(folder, sys.executable, "-B", "test_calc.py")
        ),
    ),
    SmallTask(
        "answer",
        "How old is Grace, according to people.csv?",
        {"people.csv": CSV},
        lambda _, answer: "85" in answer,
    ),
    SmallTask(
        "search",
        "Which file defines the function parse_date?",
        {"src/dates.py": DATES, "src/numbers.py": NUMBERS, "src/shapes.py": SHAPES},
        lambda _, answer: "dates.py" in answer,
    ),
    SmallTask(
        "run",
        "Run report.py and tell me the total that it prints.",
        {"report.py": REPORT},
        lambda _, answer: "172" in answer,
    ),
    SmallTask(
        "extend",
        "Add a function double(a) to shapes.py that returns a * 2. Keep what is there.",
        {"shapes.py": SHAPES},
        lambda folder, _: (
            python(folder, "import shapes; print(shapes.double(21), shapes.square(3))") == "42 9"
        ),
    ),
    SmallTask(
        "move",
        "Make a folder docs and move notes.md into it.",
        {"notes.md": "# Notes\n"},
        lambda folder, _: read(folder, "docs/notes.md") == "# Notes\n" and not (folder / "notes.md").exists(),
    ),
]


class Outcome(msgspec.Struct, frozen=True):
    name: str
    passed: bool
    seconds: float
    steps: int
    answer: str
    problem: str = ""


def run(task: SmallTask, arguments: argparse.Namespace) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="newel-small-") as place:
        folder, home = Path(place, "project"), Path(place, "home")
        for name, content in task.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "newel", "--json", "--ephemeral", "--approve", "auto"]
        command += ["--base-url", arguments.base_url, "--max-turns", str(arguments.max_turns)]
        options = {
            "--model": arguments.model,
            "--api-key": arguments.api_key,
            "--tool-calls": arguments.tool_calls,
        }
        for flag, value in options.items():
            command += [flag, value] if value else []
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LLM_")}
        environ |= {"NEWEL_HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        began = time.monotonic()
        done = subprocess.run(
            [*command, "-p", task.prompt],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=arguments.timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        seconds = time.monotonic() - began
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        messages = [event["message"] for event in events if event.get("type") == "message_end"]
        if arguments.transcripts:
            Path(arguments.transcripts).mkdir(parents=True, exist_ok=True)
            transcript = "\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
            Path(arguments.transcripts, f"{task.name}.jsonl").write_text(transcript + "\n")
        said = [message for message in messages if message.get("role") == "assistant"]
        answer = text_of(said[-1]) if said else ""
        passed = task.check(folder, answer)
        problem = done.stderr.strip().splitlines()[-1] if done.returncode and done.stderr.strip() else ""
        return Outcome(task.name, passed, seconds, len(said), answer, problem)


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    return as_str(content) or "".join(as_str(as_dict(part).get("text")) for part in as_list(content))


def main() -> int:
    parser = argparse.ArgumentParser(description="Twelve small tasks for a small model.")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--api-key", default="")
    parser.add_argument("--model", default="")
    parser.add_argument("--tool-calls", default="")
    parser.add_argument("--only", default="", help="names of tasks, separated by commas")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--max-turns", type=int, default=12)
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--transcripts", default="")
    arguments = parser.parse_args()
    wanted = {name for name in str(arguments.only).split(",") if name}
    tasks = [task for task in TASKS if not wanted or task.name in wanted]
    for _ in range(arguments.runs):
        outcomes: list[Outcome] = []
        for task in tasks:
            outcome = run(task, arguments)
            outcomes.append(outcome)
            verdict = "pass" if outcome.passed else "FAIL"
            said = outcome.problem or outcome.answer.replace("\n", " ")[:70]
            print(
                f"{task.name:8} {verdict} {outcome.seconds:6.1f} s {outcome.steps:3} steps  {said}",
                flush=True,
            )
        print(f"{sum(outcome.passed for outcome in outcomes)} of {len(outcomes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
