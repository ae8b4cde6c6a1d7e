"""Options, fixtures and the table of the campaign: `./run campaign --kills 500`."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from tests.campaign.tally import KEY, CampaignRow, CampaignTally, as_markdown

DEFAULT_KILLS = 25
SECONDS = 3600
found: list[CampaignRow] = []
"""The rows of all tests that have ended."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Only `pytest tests/campaign` reads these: a run of all tests does not load this file soon enough."""
    group = parser.getgroup("campaign")
    group.addoption("--kills", type=int, default=DEFAULT_KILLS, help="how many processes are killed in all")
    group.addoption("--seed", type=int, default=today(), help="of the random moments (default: today's date)")
    group.addoption("--table", type=Path, default=None, help="also write the table to this file, as Markdown")


def today() -> int:
    return int(time.strftime("%Y%m%d"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/campaign/"):
            item.add_marker(pytest.mark.campaign)
            item.add_marker(pytest.mark.timeout(SECONDS))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """With several processes, reports arrive here from all of them."""
    if report.when == "teardown":
        found.extend(
            msgspec.json.decode(str(value), type=CampaignRow)
            for name, value in report.user_properties
            if name == KEY
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not found:
        return
    table = as_markdown(sorted(found, key=lambda row: row.what))
    terminalreporter.write_line(f"\nThe campaign, seed {config.getoption('--seed', today())}:\n\n{table}")
    if path := config.getoption("--table", None):
        path.write_text(table)


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Generator[CampaignTally]:
    """Counts, and fails the test at its end if something went wrong."""
    counted = CampaignTally()
    yield counted
    request.node.user_properties += [(KEY, msgspec.json.encode(row).decode()) for row in counted.rows]
    if counted.problems:
        pytest.fail("\n".join(counted.problems), pytrace=False)


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that depend on the seed and the test alone."""
    return random.Random(f"{request.config.getoption('--seed', today())} {request.node.name}")  # noqa: S311


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many processes are killed in all."""
    return int(request.config.getoption("--kills", DEFAULT_KILLS) or DEFAULT_KILLS)
