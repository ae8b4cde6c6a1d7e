"""The cost of comparing texts: 20,000 lines with 500 changed places.

    python -m benchmarks.diff [--lines 20000] [--places 500] [--runs 25] [--difflib]

``code``: seven of ten lines are unique, as in a program. ``records``: no line is, all come from 2,000 different ones.
``log``: all come from 20. Each place is changed in one of four ways: lines inserted, deleted, changed, or moved by a
few lines. ``first``: milliseconds of the first comparison in a new process. ``median`` and ``p95``: of the ``--runs``
after it. ``difflib`` is the standard library's, without ``autojunk``, as lines of programs are no junk: it may take
minutes for ``records`` and ``log``, and runs once. Do not trust a row that was measured on a busy machine.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
import statistics
import subprocess
import sys
import time
from typing import Final

from newel.diff.patience import diff
from tests.nodejs import NODE, ROOT

NODE_SCRIPT: Final = """
import { readFileSync } from "node:fs";
const { diff } = await import(process.argv[1]);
const { a, b, runs } = JSON.parse(readFileSync(0, "utf8"));
const took = [];
let spans;
for (let run = 0; run <= runs; run++) {
  const begun = performance.now();
  spans = diff(a, b);
  took.push(performance.now() - begun);
}
console.log(JSON.stringify({ took, spans }));
"""


def texts(kind: str, lines: int, places: int) -> tuple[list[str], list[str]]:
    """A text and its changed version, which shares no string objects with the first, as if read from the disk."""
    rng = random.Random(1986)  # noqa: S311 - these are texts, not secrets
    common = {"code": ["\n", "    }\n", "        return\n", "    else:\n"]}.get(
        kind, [f"2026-11-22 INFO record {i} was written\n" for i in range(2_000 if kind == "records" else 20)]
    )
    share = 0.7 if kind == "code" else 0.0
    a = [
        f"    value_{i} = compute({i})\n" if rng.random() < share else rng.choice(common)
        for i in range(lines)
    ]
    b = list(a)
    room = lines // places
    for place in reversed(range(places)):
        at = place * room + rng.randrange(room // 2)
        match place % 4:
            case 0:
                b[at:at] = [f"put in {at}\n", rng.choice(common)]
            case 1:
                del b[at : at + 2]
            case 2:
                b[at : at + 2] = [f"changed {at}\n", rng.choice(common), f"{at} too\n"]
            case _:
                b[at : at + 4] = [*b[at + 2 : at + 4], *b[at : at + 2]]
    return a, "".join(b).splitlines(keepends=True)


def in_python(a: list[str], b: list[str], runs: int) -> list[float]:
    """Milliseconds of each comparison, in this process."""
    took: list[float] = []
    for _ in range(runs + 1):
        begun = time.perf_counter()
        diff(a, b)
        took.append((time.perf_counter() - begun) * 1000)
    return took


def in_node(a: list[str], b: list[str], runs: int) -> list[float]:
    """The same in a new process of Node.js, which must find the same spans."""
    module = (ROOT / "web" / "src" / "patience.js").as_uri()
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", NODE_SCRIPT, module],
        input=json.dumps({"a": a, "b": b, "runs": runs}),
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert answer["spans"] == [list(span) for span in diff(a, b)]
    return answer["took"]


def by_difflib(a: list[str], b: list[str]) -> list[float]:
    begun = time.perf_counter()
    difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return [(time.perf_counter() - begun) * 1000]


def row(kind: str, what: str, spans: int, took: list[float]) -> str:
    later = sorted(took[1:] or took)
    p95 = later[len(later) * 95 // 100]
    return f"{kind:>8}{what:>9}{spans:>7}{took[0]:>12.1f}{statistics.median(later):>10.1f}{p95:>10.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--places", type=int, default=500)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--difflib", action="store_true", help="measure difflib, too: seconds to minutes")
    options = parser.parse_args()
    print(f"{'text':>8}{'':>9}{'spans':>7}{'first ms':>12}{'median':>10}{'p95':>10}")
    for kind in ("code", "records", "log"):
        a, b = texts(kind, options.lines, options.places)
        spans = len(diff(a, b))
        took = {"python": in_python(a, b, options.runs), "node": in_node(a, b, options.runs)}
        if options.difflib:
            took["difflib"] = by_difflib(a, b)
        for what, each in took.items():
            print(row(kind, what, spans, each), flush=True)


if __name__ == "__main__":
    sys.exit(main())
