"""The cost of the review page: a long file with many hunks, many hunks in many files, a project of many files.

    python -m benchmarks.review_page [--parts file,list,tree,heap] [--runs 15] [--keys 240] [--rounds 120]

A real server and a real headless browser on this machine; the pending hunks are put into the ledger beforehand.
Milliseconds until the end of the frame that shows the result. "busy": CPU time of the page's main thread for the action
and its consequences, which other programs disturb less. A floor is a bare page with the same editor and text
(``bare_editor.js``): no hunks, no requests, and a server of files.

file   20,000 lines with 500 hunks: from the change of the URL until hunks are painted, with and without loading the editor's
       code; a key, from its event until it is painted, in words of 12 keys 80 ms apart, with pauses in which the typed text
       is sent; accept, from the click until the editor and the list show it; the server's answers.
list   10,200 hunks in 300 files: the list beside the editor, all pending changes, and a decision in both.
tree   100,000 files: from the navigation until the tree is shown, until a folder is unfolded, and the transferred data.
heap   the page's JavaScript heap after garbage collection, while files are opened and closed, edited and decided, and jobs
       run.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.bare import bare_page
from benchmarks.timed import (
    HELP,
    Figures,
    ask,
    cpu_ms,
    file_with_hunks,
    heap,
    open_bare_page,
    open_wide,
    store_reviews,
)
from playwright.sync_api import Browser, Page, expect

from newel.review.model.file_review import buffer
from tests.browser.bench import Workbench, launch_browser, open_workbench
from tests.browser.proposals import NOTES, proposal_scenarios, propose, replace_line

LONG, SHORT = "src/long.py", "src/short.py"
LINES, HUNKS = 20_000, 500
FILES, EACH = 300, 34
FOLDERS, IN_EACH = 1_000, 100
WORD: Final = "twelve_keys "
NEXT: Final = ".inline-hunk:has(.hunk-accept:enabled)"
JOB: Final = "Put the notes in order"


class Sizes(NamedTuple):
    runs: int
    keys: int
    rounds: int


SHOWN: Final = """async ([address, selector]) => {
    const begun = performance.now();
    location.hash = address;
    return (await seen(() => document.querySelector(selector)?.offsetParent)) - begun;
}"""
CLICKED: Final = """async ([selector, wanted]) => {
    const begun = performance.now();
    document.querySelector(selector).click();
    return (await seen(() => document.querySelector(wanted))) - begun;
}"""
ACCEPTED: Final = """async () => {
    const begun = performance.now();
    const row = [...document.querySelectorAll(".pending-hunk")].find((each) => each.querySelector("[aria-keyshortcuts=A]"));
    const key = row.dataset.key;
    row.querySelector("[aria-keyshortcuts=A]").click();
    return (await seen(() => document.querySelector(`[data-key="${key}"] .completed`))) - begun;
}"""
SCROLLED: Final = """async () => {
    const begun = performance.now();
    const box = document.querySelector(".waiting-list .windowed");
    box.scrollTop += 10 * box.clientHeight;
    const isThere = () => [...document.querySelectorAll(".pending-hunk")].some((each) => {
        const { top, bottom } = each.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
    });
    return (await seen(isThere)) - begun;
}"""
CLOSED: Final = """async () => {
    for (let left; (left = document.querySelector(".tab-close")); await painted()) {
        left.click();
        await painted();
        document.querySelector("dialog[open] .danger")?.click();
    }
}"""
TREE_SEEN: Final = """
window.treeSeen = seen(() => document.querySelector(".tree-row[role=treeitem]"));
"""
BARE: Final = """async (name) => {
    const begun = performance.now();
    await openBare(name);
    return (await seen(() => document.querySelector(".cm-line"))) - begun;
}"""


# -- a long file --------------------------------------------------------------------------------------


def in_file(path: str, selector: str) -> str:
    return f"[aria-label='{path}'] {selector}"


def show(page: Page, path: str) -> float:
    """Open a file's URL."""
    return page.evaluate(SHOWN, [f"#/file/{path}", in_file(path, ".inline-hunk")])


def open_file(bench: Workbench, runs: int) -> None:
    first, again = (
        Figures("first paint, the editor is loaded with it"),
        Figures("first paint, the editor is there"),
    )
    for _ in range(runs):
        page = open_wide(bench)
        page.wait_for_timeout(300)
        first.add(page, partial(show, page, LONG), rest=700)
        page.context.close()
        page = open_wide(bench)
        show(page, SHORT)
        page.wait_for_timeout(300)
        again.add(page, partial(show, page, LONG), rest=700)
        page.context.close()
    first.tell()
    again.tell()


def type_words(page: Page, name: str, keys: int) -> None:
    page.evaluate("keys.length = 0")
    page.locator(".cm-line:visible").nth(12).click()
    before = cpu_ms(page)
    for _ in range(keys // len(WORD)):
        page.keyboard.type(WORD, delay=80)
        page.wait_for_timeout(600)
    figures = Figures(name)
    figures.took = page.evaluate("keys")
    figures.ran = [(cpu_ms(page) - before) / len(figures.took)]
    figures.tell()


def bare(bench: Workbench, text: str, runs: int, keys: int) -> None:
    folder = bench.newel.home / "bare"
    folder.mkdir()
    with bare_page(folder, {"long.txt": text}) as address:
        first = Figures("  floor: first paint")
        for number in range(runs):
            page = open_bare_page(bench, address)
            page.wait_for_timeout(300)
            first.add(page, partial(page.evaluate, BARE, "long.txt"), rest=700)
            if number == runs - 1:
                first.tell()
                type_words(page, "  floor: a key", keys)
            page.context.close()


def decide_in_editor(page: Page, runs: int) -> None:
    """Accept in the editor, and undo that."""
    accept, back = Figures("accept, in the editor"), Figures("undo of that, by its button")
    for _ in range(runs):
        hunk = page.evaluate(f"document.querySelector(`{in_file(LONG, NEXT)}`).dataset.hunk")
        yes, no = (in_file(LONG, f"[data-hunk='{hunk}'] .hunk-{each}") for each in ("accept", "reopen"))
        accept.add(page, partial(page.evaluate, CLICKED, [yes, no]), rest=600)
        back.add(page, partial(page.evaluate, CLICKED, [no, yes]), rest=600)
    accept.tell()
    back.tell()


def decide_in_list(page: Page, path: str, runs: int) -> None:
    """Accept in the sidebar, in an unfolded file."""
    page.locator(".listed-file", has_text=path).locator(".file-head").click()
    expect(page.locator(".listed-hunk").first).to_be_visible()
    page.wait_for_timeout(1_000)
    accept = Figures("accept, in the list")
    for number in range(1, runs + 1):
        row = f".listed-hunk:nth-child({number})"
        accept.add(
            page,
            partial(page.evaluate, CLICKED, [f"{row} button:not(.hunk-main)", f"{row}[data-state=accepted]"]),
            rest=600,
        )
    accept.tell()


def server_times(page: Page, runs: int) -> None:
    """The server's part, measured from the page."""
    read, edit, decide = (
        Figures(f"  the server's answer: {name}") for name in ("the file", "an edit", "a decision")
    )
    for number in range(runs):
        took, view = ask(page, "GET", f"file?file_path={LONG}")
        read.took.append(took)
        splice = {"start_line": 3, "delete_lines": 1, "new_text": f"a line {number}\n"}
        took, view = ask(page, "POST", "edit", {"file_path": LONG, "rev": view["rev"], "splices": [splice]})
        edit.took.append(took)
        hunk = next(
            each["hunk_id"] for each in view["hunks"] if each["state"] == "pending" and not each["mine"]
        )
        body = {"file_path": LONG, "rev": view["rev"], "action": "accept", "hunk_id": hunk}
        decide.took.append(ask(page, "POST", "decide", body)[0])
    for each in (read, edit, decide):
        each.tell()


def measure_file(bench: Workbench, sizes: Sizes) -> None:
    long = file_with_hunks(LONG, LINES, HUNKS)
    store_reviews(bench, [file_with_hunks(SHORT, 100, 3), long])
    open_file(bench, sizes.runs)
    bare(bench, "".join(buffer(long)[1:]), sizes.runs, sizes.keys)
    page = open_wide(bench)
    show(page, LONG)
    page.wait_for_timeout(1_000)
    type_words(page, "a key", sizes.keys)
    decide_in_editor(page, sizes.runs)
    page.context.close()
    page = open_wide(bench, "review")
    show(page, LONG)
    page.wait_for_timeout(1_000)
    decide_in_list(page, LONG, sizes.runs)
    type_words(page, "a key, its hunks in the list beside", sizes.keys)
    server_times(page, sizes.runs)


# -- many hunks in many files -------------------------------------------------------------------------


def measure_list(bench: Workbench, sizes: Sizes) -> None:
    store_reviews(bench, (file_with_hunks(f"src/module{number:03}.py", 400, EACH) for number in range(FILES)))
    beside, waiting, answer = (
        Figures("the list beside"),
        Figures("everything that waits"),
        Figures("  the server's answer: what waits"),
    )
    page = None
    for _ in range(sizes.runs):
        page = open_wide(bench)
        page.wait_for_timeout(500)
        answer.took.append(ask(page, "GET", "pending")[0])
        waiting.add(page, partial(page.evaluate, SHOWN, ["#/pending", ".pending-hunk"]), rest=700)
        beside.add(
            page, partial(page.evaluate, CLICKED, ["[aria-controls=side-review]", ".listed-file"]), rest=700
        )
    for each in (beside, waiting, answer):
        each.tell()
    assert page is not None
    accept, scroll = Figures("accept, in everything that waits"), Figures("scrolling there, by ten sights")
    for _ in range(sizes.runs):
        accept.add(page, partial(page.evaluate, ACCEPTED), rest=700)
        scroll.add(page, partial(page.evaluate, SCROLLED), rest=700)
    accept.tell()
    scroll.tell()
    decide_in_list(page, "module000.py", sizes.runs)
    print(f"{'heap':44} {heap(page):6.1f} MiB", flush=True)


# -- many files ---------------------------------------------------------------------------------------


def measure_tree(bench: Workbench, sizes: Sizes) -> None:
    root = bench.newel.project
    for folder in range(FOLDERS):
        (root / f"package{folder:03}").mkdir()
        for number in range(IN_EACH):
            (root / f"package{folder:03}" / f"module{number:02}.py").touch()
    bench.kill()
    bench.start()
    shown, unfolded, fetched = (
        Figures("the tree, from the navigation"),
        Figures("a folder unfolded"),
        Figures("  the server's answer: the folder"),
    )
    context = bench.context(width=1400, height=900)
    context.add_init_script(HELP + TREE_SEEN)
    context.add_init_script("localStorage.setItem('newel:columns', '[\"files\"]')")
    page = bench.page(context)
    print(f"{'the tree, the first time':44} {page.evaluate('treeSeen'):6.0f}", flush=True)
    for number in range(sizes.runs):
        page.reload()
        shown.took.append(page.evaluate("treeSeen"))
        page.wait_for_timeout(300)
        row = f".tree-row:nth-child({number + 1})"
        unfolded.add(
            page, partial(page.evaluate, CLICKED, [row, f"{row}[aria-expanded=true] + [aria-level='2']"])
        )
        page.evaluate(f"document.querySelector(`{row}`).click()")
        fetched.took.append(ask(page, "GET", "tree?folder=")[0])
    for each in (shown, unfolded, fetched):
        each.tell()
    for name in ("the first search for a file by name", "the second"):
        print(f"{name:44} {ask(page, 'GET', 'find?query=package7module3')[0]:6.0f}", flush=True)


# -- heap ------------------------------------------------------------------------------------------


def measure_heap(bench: Workbench, sizes: Sizes) -> None:
    """A round is half a minute of a user's work."""
    paths = [f"src/module{number:03}.py" for number in range(12)]
    store_reviews(bench, (file_with_hunks(path, 2_000, 50) for path in paths))
    (bench.newel.project / "notes.md").write_text(NOTES)
    page = open_wide(bench, "files", "review")
    held: list[float] = []
    for number in range(sizes.rounds):
        path = paths[number % len(paths)]
        show(page, path)
        page.locator(".cm-line:visible").nth(3 + number % 9).click()
        page.keyboard.type(WORD)
        for way in ("accept", "reject"):
            page.evaluate(
                "(button) => document.querySelector(button)?.click()", in_file(path, f".hunk-{way}:enabled")
            )
            page.wait_for_timeout(200)
        for key in ("Control+z", "Control+z", "Control+Shift+z"):
            page.keyboard.press(key)
        page.evaluate(SHOWN, ["#/pending", ".pending-hunk"])
        if number % 10 == 9:
            page.evaluate(SHOWN, ["#/checkpoints", ".panel"])
            job = propose(page, JOB)
            none: list[str] = []
            body = {"session_id": job["session_id"], "job_id": job["id"], "accepted_hunk_ids": none}
            ask(page, "POST", "apply", body)
            page.evaluate(CLOSED)
            expect(page.get_by_role("tab")).to_have_count(0)
            held.append(heap(page))
    words = ", ".join(f"{each:.1f}" for each in held)
    print(f"{'heap after every ten rounds':44} {words} MiB", flush=True)


# -- main ------------------------------------------------------------------------------------------

PARTS: Final = {"file": measure_file, "list": measure_list, "tree": measure_tree, "heap": measure_heap}


def measure(browser: Browser, part: str, options: Sizes) -> None:
    script = proposal_scenarios((JOB, [replace_line("notes.md", 1, "# NOTES\n")]))
    with (
        tempfile.TemporaryDirectory(prefix="newel-bench-") as folder,
        open_workbench(Path(folder), browser, script) as bench,
    ):
        PARTS[part](bench, options)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS), help=f"which of {', '.join(PARTS)} (all)")
    parser.add_argument("--runs", type=int, default=15, help="of each thing (15)")
    parser.add_argument("--keys", type=int, default=240, help="that are typed (240)")
    parser.add_argument("--rounds", type=int, default=120, help="of what stands for an hour (120)")
    options = parser.parse_args()
    with launch_browser() as browser:
        for part in options.parts.split(","):
            measure(browser, part, Sizes(options.runs, options.keys, options.rounds))


if __name__ == "__main__":
    main()
