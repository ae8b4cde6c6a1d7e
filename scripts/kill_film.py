"""Film docs/kill.webp: the workbench survives ``kill -9`` while the agent works and a message is half typed.

    python -m scripts.kill_film

The page, the server, its death and its restart are real, in a real browser; only the model is scripted. Below the page a strip shows
what is typed in a terminal meanwhile. Frames are held as long as a reader needs, so the film has the same length on every machine.
"""

from __future__ import annotations

import html
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Browser, Page
from scripts.pictures import OLD_TEST, SOURCE, as_users_have_it

from tests.browser.bench import Workbench, launch_browser, message_box, open_chat, open_workbench, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, call, scenarios
from tests.support import bash

FILM: Final = Path(__file__).resolve().parent.parent / "docs" / "kill.webp"
WIDTH, HEIGHT, STRIP_HEIGHT = 900, 520, 60
LETTERS: Final = 3
"""Typed between two frames."""
STRIP: Final = """<body style="margin: 0; background: #101214; color: #e6e6e3; font: 15px/22px ui-monospace, 'DejaVu Sans Mono', monospace">
<pre style="margin: 8px 16px; font: inherit">{}</pre></body>"""
PROMPT: Final = "Add a --dry-run flag to the importer, and test it."
NEXT: Final = "Then say so in the README."
TESTS: Final = "cat go; python -B -m pytest -q -p no:cacheprovider -p no:benchmark\n"
"""Waits for ``go``, a named pipe, which is no file that changes could be recorded of."""
EDITS: Final = [
    {"old_string": "orders, shop)", "new_string": "orders, shop, *, dry_run=False)"},
    {"old_string": "in orders:", "new_string": "in [] if dry_run else orders:"},
]
WORK = answering(
    "--dry-run flag to",
    {"content": "I look at the importer first.", **call("read", file_path="importer/cli.py")},
    call("edit", file_path="importer/cli.py", edits=EDITS),
    bash("sh test.sh"),
    {"content": "The tests were interrupted, so I run them again.", **bash("sh test.sh")},
    {"content": "The flag is in place: with `dry_run` orders are counted, and nothing is written."},
)
README = answering(
    NEXT,
    call(
        "write",
        file_path="README.md",
        content="# Importer\n\n`--dry-run` counts orders, and writes nothing.\n",
    ),
    {"content": "`README.md` says what `--dry-run` does."},
)


class Film:
    """Frames of a page above a strip of a terminal."""

    def __init__(self, page: Page, terminal: Page) -> None:
        self.page = page
        self._terminal = terminal
        self._frames: list[Image.Image] = []
        self._durations: list[int] = []

    def show(self, *lines: str) -> None:
        """Set the lines of the terminal."""
        self._terminal.set_content(STRIP.format(html.escape("\n".join(lines))))

    def take(self, milliseconds: int) -> None:
        frame = Image.new("RGB", (WIDTH, HEIGHT + STRIP_HEIGHT))
        for page, top in ((self.page, 0), (self._terminal, HEIGHT)):
            frame.paste(Image.open(io.BytesIO(page.screenshot())), (0, top))
        if self._frames and self._frames[-1].tobytes() == frame.tobytes():
            self._durations[-1] += milliseconds
        else:
            self._frames.append(frame)
            self._durations.append(milliseconds)

    def type(self, text: str) -> None:
        for start in range(0, len(text), LETTERS):
            self.page.keyboard.type(text[start : start + LETTERS])
            self.take(60 * LETTERS)

    def command(self, before: str, text: str) -> None:
        for end in range(0, len(text) + 1, LETTERS):
            self.show(before, f"$ {text[:end]}█")
            self.take(60 * LETTERS)
        self.show(before, f"$ {text}")

    def save(self) -> None:
        first, *others = self._frames
        first.save(
            FILM,
            save_all=True,
            append_images=others,
            duration=self._durations,
            loop=0,
            lossless=True,
            method=4,
        )
        seconds = sum(self._durations) / 1000
        print(f"{FILM.stat().st_size / 1000:6.0f} kB  {seconds:.0f} s  {len(self._frames)} frames  {FILM}")


def act(bench: Workbench, film: Film) -> None:
    page = film.page
    open_chat(page)
    server = bench.process
    film.show("$ newel web", "http://127.0.0.1:8101/#token=…")
    film.take(800)
    film.type(PROMPT)
    say(page, PROMPT)
    expect(page.get_by_role("button", name="sh test.sh")).to_be_visible()
    film.take(1500)
    message_box(page).focus()
    film.type(NEXT[:16])  # the server dies amid a sentence
    film.command("", f"kill -9 {server.pid if server else 0}")
    bench.kill()
    expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible()
    film.show("", "Killed")
    film.take(1500)
    message_box(page).focus()
    film.type(NEXT[16:])
    page.keyboard.press("Enter")
    film.take(1200)
    film.command("Killed", "newel web")
    bench.start()
    (bench.newel.project / "go").write_text("")  # once the tests wait again
    expect(page.get_by_text("run them again")).to_be_visible(timeout=20_000)
    film.show("$ newel web", "http://127.0.0.1:8101/#token=…")
    film.take(1500)
    expect(page.get_by_text("says what")).to_be_visible(timeout=20_000)
    film.take(4000)


def record(browser: Browser) -> None:
    with tempfile.TemporaryDirectory(prefix="newel-") as folder:
        script = {**scenarios(WORK, README), "models": ["qwen3-coder"]}
        environ = as_users_have_it(Path(folder))
        with open_workbench(
            Path(folder), browser, script, "--model", "qwen3-coder", environ=environ
        ) as bench:
            files = {
                "importer/cli.py": SOURCE,
                "importer/__init__.py": "",
                "tests/test_cli.py": OLD_TEST,
                "test.sh": TESTS,
            }
            for name, text in files.items():
                path = bench.newel.project / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            os.mkfifo(bench.newel.project / "go")
            terminal = browser.new_page(viewport={"width": WIDTH, "height": STRIP_HEIGHT})
            film = Film(bench.page(width=WIDTH, height=HEIGHT), terminal)
            act(bench, film)
            film.save()


def main() -> int:
    with launch_browser() as browser:
        record(browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
