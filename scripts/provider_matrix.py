"""Write docs/providers.md: what each provider can do, from the results of the contract tests.

python scripts/provider_matrix.py            run the tests and write it
python scripts/provider_matrix.py --check    exit 1 if the file is out of date; collects the tests without running them
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

if TYPE_CHECKING:
    from tests.integration.providers.contract import ContractProvider

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/integration/providers/test_contract.py"
TARGET = ROOT / "docs" / "providers.md"
HEAD = f"""# Providers: what each can do

Each row is a test of [`test_contract.py`](../{TESTS}), which runs for every provider against the
[mock server](../packages/mock-llm-server/README.md) in strict mode. `./run python scripts/provider_matrix.py` writes this page from the
results: "yes" if the test passed, "no" if the API has no such feature, or most of its servers refuse it.

"""


class Cell(msgspec.Struct, frozen=True):
    """A test or fault, and a provider that it runs for."""

    feature: str
    provider: str


class Matrix:
    """A plugin of pytest that notes the contract tests and their results."""

    def __init__(self) -> None:
        self.providers: tuple[ContractProvider, ...] = ()
        self.meanings: dict[str, str] = {}
        """The features, in the order of their tests."""
        self.failed: set[Cell] = set()
        self._cells: dict[str, list[Cell]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        from tests.integration.providers.contract import PROVIDERS, ContractProvider

        self.providers = PROVIDERS
        names = {provider.name for provider in PROVIDERS}
        for item in items:
            feature = item.originalname.removeprefix("test_").replace("_", " ")
            variant = [part for part in item.callspec.id.split("-") if part not in names]
            label = ": ".join([feature, *variant]).replace("_", " ")
            self.meanings[label] = inspect.getdoc(item.obj) or ""
            params = item.callspec.params.values()
            self._cells[item.nodeid] = [
                Cell(label, each.name) for each in params if isinstance(each, ContractProvider)
            ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.update(self._cells[report.nodeid])

    def page(self) -> str:
        columns = ["feature", *(provider.name for provider in self.providers), "meaning"]
        rows = [columns, ["---"] * len(columns)]
        for feature, meaning in self.meanings.items():
            marks = [self._mark(feature, provider) for provider in self.providers]
            rows.append([feature, *marks, meaning])
        return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def unknown_features(self) -> list[str]:
        """The names that providers lack although no test has them."""
        return sorted({name for provider in self.providers for name in provider.lacks} - self.meanings.keys())

    def _mark(self, feature: str, provider: ContractProvider) -> str:
        if Cell(feature, provider.name) in self.failed:
            return "**fails**"
        return "yes" if provider.has(feature) else "no"


def main(arguments: list[str]) -> int:
    check = arguments == ["--check"]
    matrix = Matrix()
    options = ["--collect-only", "-qq"] if check else ["-q"]
    status = pytest.main([str(ROOT / TESTS), f"--rootdir={ROOT}", *options], plugins=[matrix])
    if not matrix.meanings:
        return int(status) or 1
    if unknown := matrix.unknown_features():
        sys.stderr.write(
            f"No contract test is named {', '.join(unknown)}: correct `lacks` of the providers.\n"
        )
        return 1
    page = matrix.page()
    if not check:
        TARGET.write_text(page)
        return int(status)
    if TARGET.read_text() == page:
        return 0
    sys.stderr.write(f"{TARGET} is out of date. Run ./run python scripts/provider_matrix.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
