"""The project of the screenshots in docs/workbench-review.md, and the answers of its model."""

from __future__ import annotations

from typing import Any, Final

from tests.browser.proposals import add_file
from tests.browser.scenarios import answering, call, verdict
from tests.support import bash

INSTRUCTION: Final = "Add --dry-run: count the orders and write nothing. Test it, and say so in the README."
QUESTION: Final = "With --dry-run, shall each order be printed, or only how many there are?"
CLI: Final = "importer/cli.py"

FILES: Final = {
    "README.md": """# Importer

    python -m importer.cli orders.txt --shop shop.db

writes the orders of a file, one a line, into the shop.
""",
    "importer/__init__.py": "",
    CLI: '''"""Imports the orders of a day into the shop."""

import argparse
from pathlib import Path

from importer.orders import read_orders
from importer.shop import Shop


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="importer")
    parser.add_argument("file", type=Path, help="the orders, one a line")
    parser.add_argument("--shop", default="shop.db", help="where they go")
    options = parser.parse_args(arguments)

    shop = Shop(options.shop)
    count = 0
    for order in read_orders(options.file):
        shop.write(order)
        count += 1
    print(f"{count} orders imported")
    return 0


if __name__ == "__main__":
    main()
''',
    "importer/orders.py": """def read_orders(path):
    for line in path.read_text().splitlines():
        name, amount = line.rsplit(maxsplit=1)
        yield name, int(amount)
""",
    "importer/shop.py": """import sqlite3


class Shop:
    def __init__(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("CREATE TABLE IF NOT EXISTS orders (name, amount)")

    def write(self, order):
        self.connection.execute("INSERT INTO orders VALUES (?, ?)", order)

    def orders(self):
        return self.connection.execute("SELECT name, amount FROM orders").fetchall()
""",
    "tests/test_cli.py": """from importer.cli import main
from importer.shop import Shop


def test_orders_are_written(tmp_path):
    orders = tmp_path / "orders.txt"
    orders.write_text("tea 2\\n")
    main([str(orders), "--shop", str(tmp_path / "shop.db")])
    assert Shop(tmp_path / "shop.db").orders() == [("tea", 2)]
""",
}

FLAG = """    parser.add_argument("--dry-run", action="store_true", help="count the orders, write nothing")
"""
GUARD = """        if not options.dry_run:
            shop.write(order)
"""
WORDS = """    what = "would be imported" if options.dry_run else "imported"
    print(f"{count} orders {what}")
"""
TEST = """from importer.cli import main
from importer.shop import Shop


def test_a_dry_run_counts_and_writes_nothing(tmp_path, capsys):
    orders = tmp_path / "orders.txt"
    orders.write_text("tea 2\\ncups 6\\n")
    main([str(orders), "--shop", str(tmp_path / "shop.db"), "--dry-run"])
    assert capsys.readouterr().out == "2 orders would be imported\\n"
    assert Shop(tmp_path / "shop.db").orders() == []
"""
README = """
With `--dry-run` the orders are counted and nothing is written.
"""


def _edit(path: str, start: int, end: int | None, text: str) -> dict[str, Any]:
    """An edit of lines; with ``end`` None it inserts before line ``start``."""
    lines = {"operation": "insert"} if end is None else {"operation": "replace", "end_line": end}
    return {"file_path": path, "start_line": start, "new_text": text, **lines}


PROPOSAL = answering(
    "--dry-run",
    call("read_file", file_path=CLI),
    call("search_project", query="shop.write"),
    call("clarify_user", question=QUESTION),
    call(
        "propose_edits",
        edits=[
            _edit(CLI, 14, None, FLAG),
            _edit(CLI, 19, 19, GUARD),
            _edit(CLI, 21, 21, WORDS),
            _edit("README.md", 6, None, README),
            add_file("tests/test_dry_run.py", TEST),
        ],
    ),
    {"content": "`--dry-run` counts the orders and leaves the shop as it is. One test shows it."},
)
CHAT = answering(
    "Rename",
    {"content": "I look where the option is used.", **call("read", file_path=CLI)},
    call(
        "edit",
        file_path=CLI,
        edits=[
            {"old_string": '"--shop", default', "new_string": '"--database", default'},
            {"old_string": "Shop(options.shop)", "new_string": "Shop(options.database)"},
        ],
    ),
    bash("sed -i 's/--shop/--database/' README.md && grep -c database README.md"),
    {"content": "The option is `--database` now, in the README as well."},
)
DOCSTRINGS = [
    (
        CLI,
        "def main(arguments=None):\n",
        "Imports the orders that the arguments name; returns the exit code.",
    ),
    ("importer/orders.py", "def read_orders(path):\n", "The orders of a file: name and amount of each."),
]
AGENT = answering(
    "docstring",
    {
        "content": "Two functions have none.",
        "tool_calls": [
            tool_call
            for path, line, words in DOCSTRINGS
            for tool_call in call(
                "edit", file_path=path, old_string=line, new_string=f'{line}    """{words}"""\n'
            )["tool_calls"]
        ],
    },
    {"content": "Each public function says what it does."},
)
JUDGE = {
    "name": "judge",
    "trigger_regex": r"After \d+ tool call",
    "steps": [{"response": verdict("Each function has a docstring.", satisfied=True)}],
}
