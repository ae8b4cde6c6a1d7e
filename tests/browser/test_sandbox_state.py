"""If these fail, a user of the page does not see whether commands are confined."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.bench import Workbench, find_flaws
from tests.browser.expecting import expect
from tests.requirements import require_program

Make = Callable[..., Workbench]


@pytest.mark.parametrize("mode", ["workspace", "off"])
def test_the_header_names_the_mode_of_the_sandbox(workbench: Make, mode: str) -> None:
    require_program("bwrap", "bubblewrap")
    page = workbench(None, environ={"NEWEL_SANDBOX": mode}).page()
    expect(page.get_by_text(f"sandbox: {mode}", exact=True)).to_be_visible()
    assert find_flaws(page) == []
