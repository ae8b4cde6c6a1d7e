"""How soon a key is on the screen, and how soon Escape has stopped the work, while Newel is busy.

    ./run python -m benchmarks.typing_echo [WHAT …] [--rate 2000] [--seconds 6]

A server on loopback sends an answer at a rate in tokens of four characters per second: prose with lists and code, one long block of code, a
long table, lines of 20 KB; or it has a command flood its output, or a subagent answer. Meanwhile keys are pressed in ``newel`` on a
pseudo-terminal of 120 columns and 40 rows, at varying intervals of about 100 milliseconds. *echo* is the time from a key to the first
output with its character, *Esc* that from Escape to ``ScanCancelled`` on the screen, in milliseconds; *CPU* the time that the process ran
meanwhile, which other programs on the machine hardly change; *core* the part of a core that it used, in percent. The floor is a bare prompt
of prompt_toolkit, to which nothing streams, and one that says ``ScanCancelled`` at an Escape.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.typist import END, TEXTS, Desk, StreamingServer, Typist, desk, late, spread

NEWEL = ("-m", "newel", "--ephemeral")
FLOOR = """
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.key_binding import KeyBindings
keys = KeyBindings()
@keys.add("escape", eager=True)
def stop(event):
    run_in_terminal(lambda: print("Stopped."))
session = PromptSession("\\u203a ", key_bindings=keys)
session.app.ttimeoutlen = 0.02
session.prompt()
"""
PROMPT = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
KEYS = [chr(0x410 + number) for number in range(64)] + [chr(0x391 + number) for number in range(17)]
ECHO_MS, ESC_MS = 16, 60
STOPS = 15
BUSY = [*TEXTS, "flood", "subagent"]


def press_keys(typist: Typist, seconds: float) -> tuple[list[tuple[float, float]], float]:
    """The figures of each key, and the part of a core that was used."""
    began, cpu = time.monotonic(), typist.cpu_ms()
    figures: list[tuple[float, float]] = []
    for number, key in enumerate(KEYS):
        if time.monotonic() - began > seconds:
            break
        figures.append(typist.press(key))
        typist.read(0.05 + spread_out(number) / 10)
    return figures, (typist.cpu_ms() - cpu) / (time.monotonic() - began) / 10


def spread_out(number: int) -> float:
    """Numbers between 0 and 1 that keep no step with what happens at regular times."""
    return number * 0.618034 % 1


def begin(typist: Typist, server: StreamingServer, what: str) -> None:
    """Send a prompt, and wait until its answer or command is at work."""
    asked = len(server.asked) + (2 if what == "subagent" else 1)
    typist.send(f"{what}\r")
    while len(server.asked) < asked:
        typist.read(0.01)
    typist.read(0.7)


def measure_echo(at: Desk, server: StreamingServer, what: str, seconds: float) -> None:
    with at.typing(*NEWEL) as typist:
        typist.wait_for(PROMPT)
        typist.read(1.0)
        begin(typist, server, what)
        figures, core = press_keys(typist, seconds - 1.0)
        typist.wait_for(END)
    tell(what, figures, limit=ECHO_MS, core=core)


def measure_stops(at: Desk, server: StreamingServer, what: str) -> None:
    figures: list[tuple[float, float]] = []
    with at.typing(*NEWEL) as typist:
        typist.wait_for(PROMPT)
        typist.read(1.0)
        for number in range(STOPS):
            begin(typist, server, what)
            typist.read(spread_out(number) / 5)
            figures.append(typist.press("\x1b", "Stopped"))
            typist.read(0.2)
    tell(f"Esc, {what}", figures, limit=ESC_MS)


def measure_floor(at: Desk) -> None:
    with at.typing("-c", FLOOR) as typist:
        typist.wait_for(PROMPT)
        typist.read(0.5)
        figures, core = press_keys(typist, 4.0)
        tell("floor", figures, core=core)
        stops: list[tuple[float, float]] = []
        for _ in range(STOPS):
            stops.append(typist.press("\x1b", "Stopped"))
            typist.read(0.1)
        tell("Esc, floor", stops)


def tell(
    what: str, figures: list[tuple[float, float]], *, limit: int | None = None, core: float | None = None
) -> None:
    took, ran = zip(*figures, strict=True)
    share = "" if core is None else f"{core:.0f} %"
    print(f"{what:<12} {spread(took)} {limit or '':>7} {late(ran):10.1f} {share:>7}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=[], choices=[[], *BUSY, "stops"], help="only these")
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    server = StreamingServer(options.rate, options.seconds)
    print("               median    95 %   worst   limit  CPU: 95 %    core", flush=True)
    with desk(server.url) as at:
        measure_floor(at)
        for what in BUSY:
            if not options.what or what in options.what:
                measure_echo(at, server, what, options.seconds)
        if not options.what or "stops" in options.what:
            measure_stops(at, server, "prose")
            measure_stops(at, server, "sleep")


if __name__ == "__main__":
    main()
