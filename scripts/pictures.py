"""Take the screenshots of the workbench for the docs: real runs of a scripted model, in a real browser.

    python -m scripts.pictures

Writes docs/workbench.png and the others, each with a palette of its own to keep it small.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page

from tests.browser.bench import (
    Workbench,
    launch_browser,
    message_box,
    open_agent,
    open_chat,
    open_workbench,
    say,
)
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, call, scenarios, verdict
from tests.support import BIN, bash

DOCS = Path(__file__).resolve().parent.parent / "docs"
COLOURS = 256
SOURCE = """def main(orders, shop):
    for order in orders:
        shop.append(order)
    return len(orders)
"""
TEST = """from importer.cli import main


def test_a_dry_run_writes_nothing():
    shop = []
    assert main(["tea"], shop, dry_run=True) == 1
    assert shop == []
"""
OLD_TEST = """from importer.cli import main


def test_orders_are_written():
    shop = []
    assert main(["tea"], shop) == 1
    assert shop == ["tea"]
"""
CHAT = answering(
    "--dry-run",
    {
        "reasoning_content": "First the source, then the edit, then a test that shows what the flag does.",
        "content": "I look at the importer first.",
        **call("read", file_path="importer/cli.py"),
    },
    call(
        "edit",
        file_path="importer/cli.py",
        edits=[
            {"old_string": "orders, shop)", "new_string": "orders, shop, *, dry_run=False)"},
            {"old_string": "in orders:", "new_string": "in [] if dry_run else orders:"},
        ],
    ),
    call("write", file_path="tests/test_dry_run.py", content=TEST),
    bash("python -m pytest -q"),
    {
        "content": "The flag is in place: with `dry_run` the orders are counted and nothing is written.\n\n"
        "- `importer/cli.py`: `main` takes it, off unless asked for\n"
        "- `tests/test_dry_run.py`: one new test, which passes"
    },
)
JUDGES = [
    {
        "name": "first",
        "trigger_regex": "After 1 tool call",
        "steps": [
            {"response": verdict("The source is read; its tests are not.", satisfied=False, missing="tests/")}
        ],
    },
    {
        "name": "last",
        "trigger_regex": r"After \d+ tool call",
        "steps": [
            {
                "response": verdict(
                    "Both folders are reviewed and each finding names its line.", satisfied=True
                )
            }
        ],
    },
]
AGENT = answering(
    "Review importer/",
    {"content": "The sources first.", **bash("cat importer/*.py")},
    {
        "content": "One finding, and now the tests.\n\n"
        "1. `importer/cli.py:3` writes each order at once: a failure leaves the rest unwritten",
        **bash("grep -h assert tests/*.py"),
    },
)
BROKEN = "echo ModuleNotFoundError: No module named tracker >&2; exit 1"
QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider -p no:benchmark"}
"""Without the caches and the folder that the developers' plugins of pytest leave beside the work."""


def as_users_have_it(folder: Path) -> dict[str, str]:
    """The environment of a workbench in ``folder`` whose project is in the user's home, and whose commands run in the sandbox."""
    return {"HOME": str(folder), "NEWEL_HOME": str(folder / "home" / ".newel"), "NEWEL_SANDBOX": "workspace"}


def save(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.wait_for_timeout(200)
    picture = Image.open(io.BytesIO(page.screenshot()))
    path = DOCS / f"{name}.png"
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.stat().st_size / 1000:6.0f} kB  {path}")


def take_chat(bench: Workbench) -> None:
    for name, width, height in (("workbench", 1280, 800), ("workbench-narrow", 400, 800)):
        write_sources(bench)
        page = bench.page(width=width, height=height)
        open_chat(page)
        say(page, "Add a --dry-run flag to the importer, and test it.")
        expect(page.get_by_text("one new test, which passes")).to_be_visible()
        if width > height:
            page.get_by_role("button", name="edit importer/cli.py").click()
        message_box(page).focus()
        save(page, name)
        page.keyboard.press("Alt+w")
        expect(page.get_by_role("tab")).to_have_count(0)


def take_window(bench: Workbench) -> None:
    """The page in the size that ``newel desktop`` gives its window, without the frame."""
    write_sources(bench)
    page = bench.page(width=900, height=700, scheme="dark")
    open_chat(page)
    say(page, "Add a --dry-run flag to the importer, and test it.")
    expect(page.get_by_text("one new test, which passes")).to_be_visible()
    message_box(page).focus()
    save(page, "desktop")


def take_agent(bench: Workbench) -> None:
    write_sources(bench, OLD_TEST)
    page = bench.page(scheme="dark")
    open_agent(page, "Review importer/ and its tests.\nList each finding with its file and line.")
    page.get_by_label("Acceptance command").fill("python -m pytest -q")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".agent-bar .badge")).to_have_text("Completed")
    save(page, "workbench-dark")


def take_tools(bench: Workbench) -> None:
    page = bench.page()
    open_chat(page)
    page.keyboard.press("Alt+t")
    tools = page.get_by_role("region", name="MCP tools")
    expect(tools.get_by_text("(active)")).to_have_count(1)
    expect(tools.get_by_text("(broken)")).to_have_count(1, timeout=60_000)
    tools.get_by_text("2 tools").click()
    save(page, "workbench-tools")


def write_sources(bench: Workbench, tests: str = "") -> None:
    for name, text in (
        ("importer/cli.py", SOURCE),
        ("importer/__init__.py", ""),
        ("tests/test_cli.py", tests),
    ):
        path = bench.newel.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (bench.newel.project / "tests/test_dry_run.py").unlink(missing_ok=True)


def take(browser: Browser, shot: Callable[[Workbench], None], **servers: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="newel-") as folder:
        # MCP servers are not searched in Newel's own environment: link it elsewhere.
        programs = Path(folder) / "bin"
        programs.mkdir()
        (programs / "mcp-server-time").symlink_to(BIN / "mcp-server-time")
        environ = {
            "PATH": f"{programs}:{BIN}:{os.environ['PATH']}",
            **QUIET,
            **as_users_have_it(Path(folder)),
        }
        script = {**scenarios(*JUDGES, CHAT, AGENT), "models": ["qwen3-coder"]}
        with open_workbench(
            Path(folder), browser, script, "--model", "qwen3-coder", environ=environ, **servers
        ) as bench:
            shot(bench)


def main() -> int:
    with launch_browser() as browser:
        take(browser, take_chat)
        take(browser, take_window)
        take(browser, take_agent)
        take(
            browser,
            take_tools,
            own={
                "time": {"command": "mcp-server-time"},
                "tracker": {"command": "sh", "args": ["-c", BROKEN]},
                "notes": {"url": "http://127.0.0.1:9/mcp", "disabled": True},
            },
            servers={"git": {"command": "uvx", "args": ["mcp-server-git", "--repository", "."]}},
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
