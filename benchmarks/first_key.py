"""How soon after its start an interactive prompt takes keys.

    ./run python -m benchmarks.first_key [--runs 15]

``newel`` starts on a pseudo-terminal, in a git repository with an AGENTS.md and with a configured server on loopback. *key* is the time
from the start of the process to the first output with a character that was typed before, *sent* that to the arrival of the request for a
prompt that was typed before, in milliseconds; *CPU* is what the process used until then, which other programs on the machine hardly change.
The floors are a bare prompt of prompt_toolkit, and Python itself. All are run in turns; the first turn, which compiles and tests the
sandbox, does not count.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from benchmarks.pseudo_terminal import PATIENCE_S
from benchmarks.typist import Desk, StreamingServer, desk, late

KEY = "\N{CYRILLIC CAPITAL LETTER ZHE}"
LIMIT_MS = 350
FLOOR = 'from prompt_toolkit import prompt; prompt("> ")'


def key(at: Desk, *command: str) -> tuple[float, float]:
    with at.typing(*command, early=KEY) as typist:
        came = typist.wait_for(KEY)
        return (came - typist.began) * 1000, typist.cpu_ms()


def sent(at: Desk, server: StreamingServer) -> tuple[float, float]:
    before = len(server.asked)
    with at.typing("-m", "newel", early="hello\r") as typist:
        while len(server.asked) == before:
            if time.monotonic() - typist.began > PATIENCE_S:
                raise SystemExit(f"The prompt was not sent:\n{typist.output[-2000:]}")
            typist.read(0.001)
        return (server.asked[before] - typist.began) * 1000, typist.cpu_ms()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    server = StreamingServer(2000, 0)
    with desk(server.url) as at:
        measured: dict[str, Callable[[], tuple[float, float]]] = {
            "newel, key": lambda: key(at, "-m", "newel"),
            "newel, sent": lambda: sent(at, server),
            "floor: prompt": lambda: key(at, "-c", FLOOR),
            "floor: python": lambda: key(at, "-c", f"print('{KEY}')"),
        }
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in measured}
        for turn in range(runs + 1):
            for name, measure in measured.items():
                figure = measure()
                if turn:
                    figures[name].append(figure)
    print("                median    95 %   limit     CPU")
    for name, each in figures.items():
        took, ran = zip(*each, strict=True)
        limit = LIMIT_MS if name == "newel, key" else ""
        print(
            f"{name:<14} {statistics.median(took):7.0f} {late(took):7.0f} {limit:>7} {statistics.median(ran):7.0f}"
        )


if __name__ == "__main__":
    main()
