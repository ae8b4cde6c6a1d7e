"""If these fail, a start asks a model server that the user does not use, or a switch between two models asks the wrong one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mock_llm_server import MockServer, running
from newel.agent.errors import ConfigError, ProviderError
from newel.agent.messages import UserMessage
from newel.agent.ports import AgentMode, ModelRequest
from newel.app.agent_factory import AgentOptions, open_agent
from newel.app.agent_models import AgentModels, open_models
from newel.app.agent_place import open_agent_place
from newel.app.web_server import open_workbench
from newel.concurrency import background_tasks
from newel.config.settings import Flags, Settings, load_settings
from newel.runs.models import Contract
from newel.workbench.tab_session import TabSession
from newel.workspace.local import LocalHost
from tests.support import bash, scenario

pytestmark = pytest.mark.anyio

SCRIPT = scenario("Hi", {"content": "Hello."})


class Pair:
    """Two model servers on this machine, one of which counts as the remote one, and the folders of a user."""

    def __init__(self, folder: Path, local: MockServer, remote: MockServer) -> None:
        self.local, self.remote = local, remote
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.configure(f'[local]\nbase_url = "{local.url}/v1"\nmodel = "small"\n')

    def configure(self, text: str) -> None:
        (self.home / "config.toml").write_text(text)

    def settings(self, mode: AgentMode, **environ: str) -> Settings:
        server = {"LLM_BASE_URL": f"{self.remote.url}/v1", "LLM_DEFAULT_MODEL": "large"}
        return load_settings(
            Flags(agent_mode=mode),
            cwd=self.project,
            environ={"NEWEL_HOME": str(self.home), "NEWEL_SANDBOX": "off", **server, **environ},
        )

    @asynccontextmanager
    async def models(self, mode: AgentMode, **environ: str) -> AsyncGenerator[AgentModels]:
        async with open_models(self.settings(mode, **environ), LocalHost(str(self.project))) as models:
            yield models

    @property
    def asked(self) -> tuple[list[str], list[str]]:
        """The models that were asked of the local and the remote server."""
        local, remote = (
            [each["body"]["model"] for each in server.requests if "chat" in each["path"]]
            for server in (self.local, self.remote)
        )
        return local, remote


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with running(SCRIPT) as local, running(SCRIPT) as remote:
        yield Pair(tmp_path, local, remote)


async def ask(models: AgentModels, mode: AgentMode) -> str:
    model = (await models.find(mode)).model
    request = ModelRequest(model, "", [UserMessage("Hi")], agent_mode=mode)
    return (await models.provider.complete(request, _ignore)).model


async def _ignore(_: object) -> None: ...


async def test_only_the_side_in_use_hears_of_the_start(pair: Pair) -> None:
    async with pair.models("remote") as models:
        await ask(models, "remote")
        assert pair.local.requests == []
        remote = len(pair.remote.requests)
        await ask(models, "local")
        assert len(pair.remote.requests) == remote
    async with pair.models("local") as models:
        await ask(models, "local")
        assert len(pair.remote.requests) == remote
    assert pair.asked == (["small", "small"], ["large"])


async def test_the_hybrid_mode_begins_with_the_local_model(pair: Pair) -> None:
    async with pair.models("remote") as models:
        hybrid = await models.find("hybrid_auto")
        assert (hybrid.name, hybrid.where) == ("large", "or first small on this machine")
        await ask(models, "hybrid_auto")
    assert pair.asked == (["small"], [])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            '[local]\nbase_url = "http://10.0.0.7/v1"\nmodel = "x"\n',
            "agent_mode is local, but http://10.0.0.7/v1",
        ),
        ('[local]\nbase_url = "http://127.0.0.1:9/v1"\n', "No connection to http://127.0.0.1:9/v1"),
    ],
)
async def test_a_local_model_that_is_not_available_leaves_the_other_one_as_it_is(
    pair: Pair, config: str, words: str
) -> None:
    pair.configure(config)
    async with pair.models("remote") as models:
        with pytest.raises((ConfigError, ProviderError), match=words):
            await models.find("local")
        assert await ask(models, "remote")
    assert pair.asked == ([], ["large"])


async def test_one_model_cannot_be_its_own_safety_net(pair: Pair) -> None:
    pair.configure("")
    async with pair.models("remote") as models:
        with pytest.raises(ConfigError, match="agent_mode is hybrid_auto, but both models are large"):
            await models.find("hybrid_auto")


async def test_a_local_server_is_connected_once_for_both_modes(pair: Pair) -> None:
    """A model file would be loaded twice."""
    pair.configure("")
    async with pair.models("remote") as models:
        assert (await models.find("remote")).server is (await models.find("local")).server


async def test_a_switch_in_a_session_moves_summaries_too(pair: Pair) -> None:
    """The small model for summaries is a remote one."""
    pair.configure(f'small_model = "summaries"\n[local]\nbase_url = "{pair.local.url}/v1"\nmodel = "small"\n')
    options = AgentOptions(flags=Flags(), cwd=pair.project, ephemeral=True)
    async with open_agent(pair.settings("remote"), options, None) as agent:
        await agent.prompt("Hi")
        await agent.prompt("Hi")
        assert pair.asked == ([], ["large", "large"])
        await agent.set_agent_mode("local")
        assert await agent.compact()
        await agent.prompt("Hi")
        assert pair.asked == (["small", "small"], ["large", "large"])
        agent.set_model("other")
        await agent.set_agent_mode("remote")
        await agent.set_agent_mode("hybrid_auto")
        assert (agent.state.model.id, agent.state.agent_mode) == ("large", "hybrid_auto")
        assert await agent.compact()
        assert pair.asked[0][2:] == ["small"]


async def settle(tab: TabSession) -> None:
    with anyio.fail_after(10):
        while tab.is_running:  # noqa: ASYNC110 — pages are told of changes
            await anyio.sleep(0.005)


@asynccontextmanager
async def workbench(pair: Pair, mode: AgentMode = "remote") -> AsyncGenerator[Any]:
    async with AsyncExitStack() as stack:
        opened = open_agent_place(pair.settings(mode), attended=True)
        place = await stack.enter_async_context(opened)
        bench = await open_workbench(place, stack, ephemeral=True)
        await stack.enter_async_context(background_tasks(bench.run))
        yield bench


async def test_chats_and_agents_of_one_page_work_in_modes_of_their_own(pair: Pair) -> None:
    async with workbench(pair) as bench:
        one, other = await bench.open_chat(), await bench.open_chat()
        await one.set_agent_mode("local")
        assert (one.state.agent_mode, one.state.model) == ("local", "small")
        for tab in (one, other):
            await tab.send(UserMessage("Hi"))
            await settle(tab)
        assert pair.asked == (["small"], ["large"])
        await one.set_agent_mode("remote")
        await one.send(UserMessage("Hi"))
        await settle(one)
        assert pair.asked == (["small"], ["large", "large"])
        agent = await bench.open_agent()
        await agent.start(Contract(text="Hi", agent_mode="local", max_turns=1))
        await settle(agent)
        assert pair.asked[1] == ["large", "large"]
        assert set(pair.asked[0]) == {"small"}


async def test_a_mode_that_is_not_available_leaves_the_chat_as_it_was(pair: Pair) -> None:
    pair.configure('[local]\nbase_url = "http://10.0.0.7/v1"\nmodel = "x"\n')
    async with workbench(pair) as bench:
        tab = await bench.open_chat()
        with pytest.raises(ConfigError, match="is not on this machine"):
            await tab.set_agent_mode("local")
        await tab.send(UserMessage("Hi"))
        await settle(tab)
        assert (tab.state.agent_mode, pair.asked[1]) == (None, ["large"])


async def test_local_work_refuses_a_server_elsewhere_that_the_page_names(pair: Pair) -> None:
    async with workbench(pair, "local") as bench:
        with pytest.raises(ConfigError, match=r"agent_mode is local, but https://models\.example/v1"):
            await bench.use_server("https://models.example/v1", None, "x")
        await bench.use_server(f"{pair.remote.url}/v1", None, "found later")
        tab = await bench.open_chat()
        await tab.send(UserMessage("Hi"))
        await settle(tab)
        assert pair.asked == ([], ["found later"])


async def test_a_switch_in_the_middle_of_a_run_takes_effect_with_its_next_request(pair: Pair) -> None:
    """A user who turns local in the middle of a run has a reason."""
    wait = bash("touch begun; until test -e go; do sleep 0.02; done")
    with (
        running(scenario("Wait", wait, {"content": "never"})) as remote,
        running(scenario("Wait", {"content": "no"}, {"content": "From here."})) as local,
    ):
        pair.remote, pair.local = remote, local
        pair.configure(f'[local]\nbase_url = "{local.url}/v1"\nmodel = "small"\n')
        async with workbench(pair) as bench:
            tab = await bench.open_chat()
            await tab.send(UserMessage("Wait"))
            with anyio.fail_after(10):
                while not (pair.project / "begun").exists():  # noqa: ASYNC110 — a command makes it
                    await anyio.sleep(0.005)
            await tab.set_agent_mode("local")
            (pair.project / "go").touch()
            await settle(tab)
            assert pair.asked == (["small"], ["large"])
            last = (await tab.messages())[-1]
            assert (last.text, last.model) == ("From here.", "small")
