"""If these fail, a newcomer's first tool, provider or front end from the documentation does not work."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from newel.agent.agent import Agent, ProviderTransport
from newel.agent.messages import AssistantMessage, ToolCall, ToolResultMessage
from newel.agent.ports import Model, RunConfig
from newel.agent.transform import Transformer
from newel.workspace.local import LocalWorkspace
from tests.scripted_provider import ScriptedProvider

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    code = "\n".join(BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text()))
    (tmp_path / "guide_examples.py").write_text(code)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return importlib.import_module("guide_examples")


@pytest.mark.anyio
async def test_the_tool_the_provider_and_the_front_end_of_the_guide_work_together(
    examples: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    tool = examples.CountTool(LocalWorkspace(str(tmp_path)))
    call = AssistantMessage(content=[ToolCall("1", "count", {"file_path": "a.txt"})])

    class Both:
        async def complete(self, request: Any, on_delta: Any, /) -> AssistantMessage:
            if len(request.messages) == 1:
                return await ScriptedProvider([call]).complete(request, on_delta)
            return await examples.Parrot().complete(request, on_delta)

    config = RunConfig(model=Model("m"), transform=Transformer(), tools=(tool,))
    agent = Agent(ProviderTransport(Both()), config)
    screen = examples.Whisper(agent)
    await agent.prompt("Count")
    result = agent.state.messages[2]
    assert isinstance(result, ToolResultMessage)
    assert result.output == "2 lines"
    assert screen.shown.startswith("[count]")


# -- links --------------------------------------------------------------------------------------------

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub generates for a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_in_the_documentation_works(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text()):
        target = (page.parent / path) if path else page
        assert target.exists(), path
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_installs_newel_by_its_name(page: Path) -> None:
    """If this fails, a reader installs what a stranger has put into an index under Newel's name."""
    assert not re.findall(r"\b(?:install|add|--with) '?newel(?:\[.*|[ `'\n])", page.read_text())
