"""The cost of the workbench's page: its first paint, the way of a token to the screen, drawing long answers.

    python -m benchmarks.page [--runs N]

A real server, a scripted model and a real headless browser, all on this machine. Floors beside the figures: a bare page
on the same socket that appends the pieces as text nodes, each line in a block of its own, and nothing else: as they
arrive, five times a second as the workbench does under load, or never (the cost of reading the socket).

first paint   from navigation to the first contentful paint, and until the page is usable; nothing cached
token         from the event's timestamp (the server has it) to the change of the DOM; 20 ms between tokens
60 KB         total time of the main thread's tasks (script, style, layout, paint, and their waits) for 60 KB in
              tokens of four characters, the CPU time of it, and by kind
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import Browser, Page

from tests.browser.bench import Workbench, launch_browser, open_chat, open_workbench, say
from tests.browser.scenarios import answering, scenarios

SIZE = 60_000
PROSE = " ".join(["the", "cat", "sat", "and", "ran", "off", "for", "tea"] * 12)
CODE = "\n".join(["let tea = pot and cup;"] * 8)
MIXED = f"## The one\n\n{PROSE}\n\n- the **old** cat\n- `let` tea = pot\n\n```rust\n{CODE}\n```\n\n"
TEXTS = {
    "mixed": MIXED * (SIZE // len(MIXED)),
    "a paragraph": (PROSE + " ") * (SIZE // (len(PROSE) + 1)),
    "a list": "- one of two and six\n" * (SIZE // 21),
    "code": "```rust\n" + "let tea = pot and cup;\n" * (SIZE // 23) + "```\n",
}
FLOOR = {"mixed"}

USABLE = """
new MutationObserver((_, observer) => {
    if (!document.querySelector("[role=tab], .whole button")) return;
    window.usable = performance.now();
    observer.disconnect();
}).observe(document, { subtree: true, childList: true });
"""
STAMPS = """
window.stamps = [];
window.late = [];
const data = Object.getOwnPropertyDescriptor(MessageEvent.prototype, "data");
Object.defineProperty(MessageEvent.prototype, "data", {
    get() {
        const value = data.get.call(this);
        if (value.includes('"text_delta"')) stamps.push(Date.parse(/"timestamp":"([^"]+)"/.exec(value)[1]));
        return value;
    },
});
const drawn = () => {
    const now = performance.timeOrigin + performance.now();
    late.push(...stamps.splice(0).map((stamp) => now - stamp));
};
new MutationObserver(drawn).observe(document, { subtree: true, childList: true, characterData: true });
"""
BARE = """
async ([text, rest]) => {
    document.body.textContent = "";
    let line = document.body.appendChild(document.createElement("div"));
    const socket = new WebSocket(`ws://${location.host}/ws`);
    const waiting = new Map();
    const ask = (type, fields) => new Promise((resolve) => {
        const id = `r${waiting.size}`;
        waiting.set(id, resolve);
        socket.send(JSON.stringify({ type, id, ...fields }));
    });
    let pieces = "";
    let timer = null;
    const draw = () => {
        timer = null;
        const [first, ...lines] = pieces.split("\\n");
        pieces = "";
        line.append(first);
        for (const each of lines) {
            line = document.body.appendChild(document.createElement("div"));
            line.append(each);
        }
    };
    const over = new Promise((resolve) => {
        socket.onmessage = (message) => {
            const frame = JSON.parse(message.data);
            if (frame.re) waiting.get(frame.re)(frame);
            else if (frame.event?.type === "message_update") {
                pieces += frame.event.assistantMessageEvent.delta;
                if (rest === 0) draw();
                else if (rest !== null) timer ??= setTimeout(draw, rest);
            }
            else if (frame.event?.type === "agent_end") resolve();
        };
    });
    await new Promise((resolve) => { socket.onopen = resolve; });
    const { tab } = await ask("openChat");
    await ask("watch", { tab });
    await ask("send", { tab, messageId: crypto.randomUUID().replaceAll("-", ""), text });
    await over;
    socket.close();
}
"""
FILLED = """
(meter) => new Promise((resolve) => {
    new MutationObserver(() => meter.textContent && resolve()).observe(meter, { subtree: true, childList: true });
})
"""
Asks = Callable[[str], None]


def bare(bench: Workbench, script: str = "", *, rest: int | None = 0) -> tuple[Page, Asks]:
    """An empty page with a function that asks the model and waits for the whole answer; it draws every ``rest`` ms, or
    never.
    """
    page = bench.page()
    page.context.add_init_script(script)
    page.goto(bench.url.partition("#")[0] + "static/LICENSES.txt")
    return page, lambda text: page.evaluate(BARE, [text, rest])


def workbench(bench: Workbench, script: str = "") -> tuple[Page, Asks]:
    """The same with the workbench's page."""
    context = bench.context()
    context.add_init_script(script)
    page = bench.page(context)

    def ask(text: str) -> None:
        open_chat(page)
        say(page, text)
        page.locator(".meter").evaluate(FILLED)

    return page, ask


def first_paint(bench: Workbench, runs: int) -> None:
    painted: list[float] = []
    usable: list[float] = []
    for _ in range(runs):
        context = bench.context()
        context.add_init_script(USABLE)
        page = bench.page(context)
        page.wait_for_timeout(100)
        painted.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        usable.append(page.evaluate("window.usable"))
        context.close()
    for name, values in (("first paint", painted), ("usable", usable)):
        print(f"{name:32} {statistics.median(values):8.0f} ms  ({min(values):.0f}-{max(values):.0f})")


def latency(bench: Workbench) -> None:
    for name, made in (("token to DOM", workbench), ("  floor: bare page", bare)):
        page, ask = made(bench, STAMPS)
        ask("paced")
        late = sorted(page.evaluate("window.late"))
        p50, p95 = late[len(late) // 2], late[int(len(late) * 0.95)]
        print(f"{name:32} {p50:8.1f} ms  p95 {p95:.1f} ms, {len(late)} tokens")
        page.context.close()


def main_thread_time(page: Page, act: Callable[[], None]) -> str:
    """The main thread's time for an action."""
    clock, processor = (cast("Any", page.context.new_cdp_session(page)) for _ in range(2))
    clock.send("Performance.enable")
    processor.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> list[float]:
        values = [
            {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
            for session in (clock, processor)
        ]
        kinds = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
        return [each["TaskDuration"] for each in values] + [values[0][kind] for kind in kinds]

    before, began = spent(), time.monotonic()
    act()
    page.wait_for_timeout(300)
    tasks, ran, *kinds = (1_000 * (after - first) for first, after in zip(before, spent(), strict=True))
    names = ("script", "style", "layout", "paint and the rest")
    split = zip(names, [*kinds, tasks - sum(kinds)], strict=True)
    words = ", ".join(f"{name} {took:.0f}" for name, took in split)
    return f"{tasks:8.0f} ms, {ran:.0f} on a processor  ({words})  in {time.monotonic() - began:.1f} s"


def draw_long_answers(bench: Workbench) -> None:
    ways: list[tuple[str, Callable[[Workbench], tuple[Page, Asks]], set[str]]] = [
        ("60 KB", workbench, set(TEXTS)),
        ("  floor: bare page", bare, FLOOR),
        ("  floor: five times a second", partial(bare, rest=200), FLOOR),
        ("  floor: only read", partial(bare, rest=None), FLOOR),
    ]
    for label, made, names in ways:
        for text, name in ((f"{name}, {pace}", name) for name in TEXTS for pace in ("at once", "1 ms")):
            if name in names:
                page, ask = made(bench)
                print(f"{f'{label}, {text}':44} {main_thread_time(page, partial(ask, text))}", flush=True)
                page.context.close()


def script() -> dict[str, Any]:
    paced = {"token_delay_ms": 20, "response": {"content": MIXED * 4}}
    steps = [
        answering(f"{name}, {pace}", {"token_delay_ms": delay, "response": {"content": text}})
        for name, text in TEXTS.items()
        for pace, delay in (("at once", 0), ("1 ms", 1))
    ]
    return scenarios(answering("paced", paced), *steps)


def measure(browser: Browser, runs: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="newel-bench-") as folder,
        open_workbench(Path(folder), browser, script()) as bench,
    ):
        first_paint(bench, runs)
        latency(bench)
        draw_long_answers(bench)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=7, help="paints (7)")
    with launch_browser() as browser:
        measure(browser, parser.parse_args().runs)


if __name__ == "__main__":
    main()
