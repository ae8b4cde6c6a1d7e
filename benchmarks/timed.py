"""A page of the workbench for timings, and a project with many changes under review."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, cast

import msgspec
from benchmarks.ledger import proposed_review
from playwright.sync_api import Page

from newel.review.model.file_lines import content_of
from newel.review.model.file_review import FileReview
from newel.review.store.ledger import Ledger
from newel.review.store.schema import FILE
from tests.browser.bench import Workbench

HELP: Final = """
window.painted = () => new Promise((resolve) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(performance.now());
    port2.postMessage(0);
}));
window.seen = async (isThere) => {
    for (;;) {
        const at = await painted();
        if (isThere()) return at;
    }
};
window.keys = [];
addEventListener("keydown", (event) => painted().then((at) => keys.push(at - event.timeStamp)), true);
"""
ASKED: Final = """async ([method, path, body]) => {
    const begun = performance.now();
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return [performance.now() - begun, text];
}"""


class Figures:
    """Milliseconds of repeated measurements, and the CPU milliseconds of the page's main thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.took: list[float] = []
        self.ran: list[float] = []

    def add(self, page: Page, act: Callable[[], float], *, rest: int = 200) -> None:
        """Measure an action, and wait ``rest`` milliseconds for its consequences."""
        before = cpu_ms(page)
        self.took.append(act())
        page.wait_for_timeout(rest)
        self.ran.append(cpu_ms(page) - before)

    def tell(self) -> None:
        values = sorted(self.took)
        late = values[min(len(values) - 1, int(len(values) * 0.95))]
        words = [f"median {statistics.median(values):6.1f}", f"p95 {late:6.1f}"]
        words += [f"busy {statistics.median(self.ran):.0f}"] if self.ran else []
        print(f"{self.name:44} {', '.join(words)}, n {len(values)}", flush=True)


def cpu_ms(page: Page) -> float:
    """The CPU milliseconds of the main thread so far."""
    return 1_000 * _metric(_session(page, "threadTicks"), "TaskDuration")


def heap(page: Page) -> float:
    """The MiB of the page's JavaScript heap."""
    session = _session(page, "timeTicks")
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    return _metric(session, "JSHeapUsedSize") / 2**20


@cache
def _session(page: Page, clock: str) -> Any:
    """It counts from its start."""
    session = cast("Any", page.context.new_cdp_session(page))
    session.send("Performance.enable", {"timeDomain": clock})
    return session


def _metric(session: Any, name: str) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in metrics if each["name"] == name)


def store_reviews(bench: Workbench, reviews: Iterable[FileReview]) -> None:
    """Write files to the project, and their reviews to its ledger."""
    page = bench.page()
    ask(page, "GET", "pending")  # the answer means that the ledger is open
    page.context.close()
    (found,) = (bench.newel.home / ".newel" / "review").rglob(FILE)
    with Ledger.open(found.parent) as ledger, ledger.batch():
        for review in reviews:
            path = bench.newel.project / review.path
            path.parent.mkdir(parents=True, exist_ok=True)
            content = content_of(review.base)
            assert content is not None
            path.write_bytes(content.data)
            path.chmod(content.mode)
            before = msgspec.structs.replace(review, hunks=())
            ledger.change(review.path, "rebase", lambda _, made=before: made)
            ledger.change(review.path, "propose", lambda _, made=review: made, run="r_1")


def file_with_hunks(path: str, lines: int, hunks: int) -> FileReview:
    """A source file with this number of hunks."""
    review = proposed_review(lines, hunks)
    chosen = (review.hunks[number * len(review.hunks) // hunks] for number in range(hunks))
    named = (msgspec.structs.replace(hunk, id=f"{hunk.id}_{path}") for hunk in chosen)
    return FileReview(path=path, base=review.base, hunks=tuple(named), rev=1)


def open_wide(bench: Workbench, *columns: str) -> Page:
    """A page with these columns open."""
    context = bench.context(width=1400, height=900)
    context.add_init_script(HELP)
    context.add_init_script(f"localStorage.setItem('newel:columns', '{json.dumps(columns)}')")
    return bench.page(context)


def open_bare_page(bench: Workbench, address: str) -> Page:
    """A page that is not the workbench's."""
    context = bench.context(width=1400, height=900)
    context.add_init_script(HELP)
    page = context.new_page()
    page.goto(address)
    return page


def ask(page: Page, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[float, Any]:
    """Make a request from the page; returns its duration and the answer."""
    took, text = page.evaluate(ASKED, [method, f"/api/agent/{path}", body])
    return took, json.loads(text)
