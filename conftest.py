"""What every test has: one event loop backend, no way out to a paid API, and no clock to race against."""

import gc
import itertools
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import cast

import pytest
from hypothesis import settings

from tests.forked import prepare
from tests.properties import examples
from tests.requirements import summary
from tests.sshd import Sshd, served

# What the tests themselves are told.
KEPT = {
    "NEWEL_TESTS_NEED_ALL",
    "NEWEL_TESTS_THOROUGH",
    "NEWEL_TESTS_SANDBOX",
    "NEWEL_TESTS_HARBOR",
    "NEWEL_CHROMIUM",
}
for name in [
    name for name in os.environ if name.startswith(("LLM_", "OPENAI_", "NEWEL_", "ANTHROPIC_", "GEMINI_"))
]:
    if name not in KEPT:
        del os.environ[name]
# Most tests look at what a command does outside the project, at its number, or at its servers; those of the sandbox remove this.
# To see which tests hold in the sandbox, too: NEWEL_TESTS_SANDBOX=workspace.
os.environ["NEWEL_SANDBOX"] = os.environ.get("NEWEL_TESTS_SANDBOX", "off")
# What pyenv puts in place of ``python3`` starts twenty processes before the first one of Python, and commands of tests start
# hundreds of Pythons: those of the tests' own version are found before it.
PATH = os.environ["PATH"].split(os.pathsep)
PYTHONS = str(Path(sys.base_prefix, "bin"))
if PYTHONS not in PATH and (shims := [each for each in PATH if Path(each).name == "shims"]):
    PATH.insert(PATH.index(shims[0]), PYTHONS)
    os.environ["PATH"] = os.pathsep.join(PATH)


def _pass(_: int, __: FrameType | None) -> None:
    """Handle a signal by doing nothing."""


# Under nohup, or in the background, signals are ignored, and every program that the tests start would inherit that. A
# handler that does nothing is not inherited; the tests themselves, and xdist's workers, go on ignoring them.
UNHEARD = "PYTEST_UNHEARD_SIGNALS"
unheard = {each for each in signal.valid_signals() if signal.getsignal(each) is signal.SIG_IGN}
unheard -= {signal.SIGPIPE, signal.SIGXFSZ}  # Python ignores these, but not in its children
unheard |= {signal.Signals(int(each)) for each in os.environ.get(UNHEARD, "").split()}
for each in unheard:
    signal.signal(each, _pass)
if unheard:
    os.environ[UNHEARD] = " ".join(str(int(each)) for each in unheard)

# How fast an example is says how busy the machine is, not whether the code is right.
settings.register_profile("newel", deadline=None, max_examples=examples(60))
settings.load_profile("newel")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is collected stays: to look for garbage in it, meanwhile and later, is half of the work of collecting.
    Meanwhile the process that is forked for commands does its imports.
    """
    wait = prepare() if hasattr(session.config, "workerinput") else None
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        if wait is not None:
            wait()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker begins to collect elsewhere: in a fresh checkout each compiles a part of the modules, and finds those of
    the others compiled. Otherwise all would compile all of them at the same time.
    """
    report = yield
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    if isinstance(collector, pytest.Directory) and report.result:
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        first = len(report.result) * int(worker) // workers
        report.result = [*report.result[first:], *report.result[:first]]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = cast("list[pytest.TestReport]", terminalreporter.stats.get("skipped", []))
    if line := summary(cast("tuple[str, int, str]", report.longrepr)[2] for report in reports):
        terminalreporter.write_line(line, yellow=True)


WAITING = ("tests/faults/", "tests/integration/", "tests/unit/workspace/ssh/", "packages/")
"""Where tests wait for most of their time: for processes, hosts and servers."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers get equal parts of the list, and take from each other's ends when they are idle. Some begin with the browser,
    which wants more than a core, and some with what waits: at once, all would get in each other's way and then be idle. Each
    begins with its tests of a long time limit: at the end, they would keep one worker busy and the others waiting.
    """
    if not hasattr(config, "workerinput"):
        return
    items.sort(key=lambda item: item.path)  # see pytest_make_collect_report
    waiting = [item for item in items if item.nodeid.startswith(WAITING)]
    working = [item for item in items if not item.nodeid.startswith(WAITING)]
    half = len(items) // 2
    items[:] = [*working[:half], *waiting, *working[half:]]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ends = [len(items) * number // workers for number in range(workers + 1)]
    for begin, end in itertools.pairwise(ends):
        items[begin:end] = sorted(items[begin:end], key=_time_limit, reverse=True)


def _time_limit(item: pytest.Item) -> float:
    """In seconds; 0 for the usual one."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark and mark.args else 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """A test that runs as root can replace the null device for the whole machine. This names it, or one that ran beside it."""
    result = yield
    if not Path(os.devnull).is_char_device():
        remedy = f"rm -f {os.devnull}; mknod -m 666 {os.devnull} c 1 3"
        pytest.fail(f"{os.devnull} is not a device any more. As root: `{remedy}`.")
    return result


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def sshd() -> Generator[Sshd]:
    """A host to log in to. What a test changes in its users' home, it takes away again."""
    with served() as server:
        yield server
