"""If these fail, a client can break the socket that serves all tabs of a page."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import anyio
import msgspec
import pytest
import websockets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.agent.errors import RequestRejected
from newel.agent.events import TextDelta
from newel.agent.messages import AssistantMessage, ToolCall
from newel.agent.ports import ModelRequest, OnDelta
from newel.jobs.engine import Engine
from newel.web.protocol import ClientMessage, ServerMessage, SocketRequest
from newel.workbench.tab_reader import take_snapshot
from tests.integration.web.page import page
from tests.integration.web.page_login import sign_in
from tests.integration.web.served_workbench import TOKEN, Echo, says, serve_workbench
from tests.properties import examples
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio


STATE = {"questions", "queue", "totals"}
"""Of a tab: what no event of its run tells."""


class Long:
    """A model with a very long answer."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        message = says("x" * 2_000_000)
        await on_delta(TextDelta(message.text))
        return message


def waiting(answer: Any) -> tuple[anyio.Event, Callable[[object], Any]]:
    """An answer that the model gives once the event is set."""
    go_on = anyio.Event()

    async def slowly(_: object) -> Any:
        await go_on.wait()
        return answer

    return go_on, slowly


def test_every_request_of_the_protocol_has_a_handler() -> None:
    assert set(get_args(ClientMessage)) == set(SocketRequest.__subclasses__())


async def test_the_welcome_message_has_all_that_the_page_shows_first(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        await server.board.open_agent()
        async with page(server) as one, page(server) as two:
            welcome = one.heard[0]
            assert (welcome["version"], welcome["newel"], welcome["project"]) == (1, "0.1.0", "/home/me/shop")
            assert [tab["title"] for tab in welcome["tabs"]] == ["Agent-1"]
            assert welcome["server"] == two.heard[0]["server"] != ""


async def test_a_turn_is_sent_completely_and_in_order(tmp_path: Path) -> None:
    call = ToolCall("c1", "bash", {"command": "echo hello"})
    script = ScriptedProvider([says("Let me see.", call), says("It says hello.")])
    async with serve_workbench(tmp_path, script) as server, page(server) as one:
        tab = await one.open_chat()
        reply = await one.ask("send", tab=tab, messageId="m1", text="Run it")
        assert (reply["type"], reply["tab"]) == ("reply", tab)
        await one.event("agent_end")
        lasting = one.lasting(tab)
        assert [seq for seq, _ in lasting] == list(range(1, len(lasting) + 1))
        assert [kind for _, kind in lasting].count("message_end") == 4
        said = [each["event"] for each in one.heard if each["type"] == "event"]
        ended = next(each for each in said if each["type"] == "tool_execution_end")
        assert "hello" in ended["result"]
        kinds: list[Any] = ServerMessage.__subclasses__()
        for message in one.heard:
            msgspec.convert(message, functools.reduce(lambda one, other: one | other, kinds))


async def test_a_reconnecting_page_reads_on_without_gaps_or_repetitions(tmp_path: Path) -> None:
    go_on, slowly = waiting(says("Here it is."))
    call = ToolCall("c1", "bash", {"command": "echo hello"})
    async with serve_workbench(tmp_path, ScriptedProvider([says("", call), slowly])) as server:
        async with page(server) as one:
            tab = await one.open_chat()
            run = (await one.ask("send", tab=tab, messageId="m1", text="Run it"))["run"]
            await one.event("tool_execution_end")
            before = one.lasting(tab)
        async with page(server) as two:
            await two.ask("watch", tab=tab, run=run, after=before[-1][0])
            go_on.set()
            await two.event("agent_end")
            assert "snapshot" not in {message["type"] for message in two.heard}
            seqs = [seq for seq, _ in before + two.lasting(tab)]
            assert seqs == list(range(1, len(seqs) + 1))


async def test_a_reconnecting_page_learns_what_waits_now(tmp_path: Path) -> None:
    """Otherwise it shows a message that another window has withdrawn as queued for ever."""
    go_on, slowly = waiting(says("Here it is."))
    async with serve_workbench(tmp_path, ScriptedProvider([slowly])) as server, page(server) as other:
        async with page(server) as one:
            tab = await one.open_chat()
            run = (await one.ask("send", tab=tab, messageId="m1", text="Run it"))["run"]
            await one.ask("send", tab=tab, messageId="m2", text="And then")
            after = (await one.event("message_end"))["seq"]
        await other.ask("withdraw", tab=tab, messageId="m2")
        async with page(server) as two:
            await two.ask("watch", tab=tab, run=run, after=after)
            while not (told := {each["type"]: each for each in two.heard}).keys() >= STATE:
                await two.next()
            assert told["questions"]["questions"] == told["queue"]["messages"] == []
            assert "snapshot" not in told
            go_on.set()


class SecondReading:
    """The engine, on a disk that is slow once a journal was read to its end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._was_read = False
        self.begun, self.go_on = anyio.Event(), anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def read(self, job: str, after: int, **how: Any) -> Any:
        if self._was_read:
            self.begun.set()
            await self.go_on.wait()
        found = await self._engine.read(job, after, **how)
        self._was_read |= not found
        return found


async def test_a_question_asked_while_a_snapshot_is_read_is_shown(tmp_path: Path) -> None:
    """Otherwise the run waits for an answer that this window never asks for."""
    go_on, slowly = waiting(says("", ToolCall("c1", "bash", {"command": "echo hello"})))
    script = ScriptedProvider([slowly, says("Done.")])
    async with (
        serve_workbench(tmp_path, script, approve="ask") as server,
        page(server) as one,
        page(server) as two,
    ):
        tab = await one.open_chat()
        await one.ask("send", tab=tab, messageId="m1", text="Run it")
        await one.event("message_end")
        session = server.board.tab(tab)
        disk = SecondReading(session.services.engine)
        session.services = session.services._replace(engine=cast("Engine", disk))
        await two.send("watch", tab=tab)
        with anyio.fail_after(10):
            await disk.begun.wait()
        go_on.set()
        asked = (await one.until("questions", tab=tab))["questions"]
        assert (await two.until("questions", tab=tab))["questions"] == asked
        disk.go_on.set()
        assert "questions" not in (await two.until("snapshot", tab=tab))["snapshot"]
        assert (await two.until("questions", tab=tab))["questions"] == asked


async def test_text_streams_and_a_late_reader_gets_it_so_far(tmp_path: Path) -> None:
    halfway, go_on = anyio.Event(), anyio.Event()

    class Halting:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            await on_delta(TextDelta("Once upon "))
            halfway.set()
            await go_on.wait()
            await on_delta(TextDelta("a time"))
            return says("Once upon a time")

    async with serve_workbench(tmp_path, Halting()) as server, page(server) as one, page(server) as two:
        tab = await one.open_chat()
        await one.ask("send", tab=tab, messageId="m1", text="Tell me a story")
        await halfway.wait()
        await two.ask("watch", tab=tab)
        so_far = await two.until("soFar", tab=tab)
        assert so_far["soFar"]["message"]["content"] == [{"type": "text", "text": "Once upon "}]
        go_on.set()
        for each in (one, two):
            update = await each.event("message_update")
            while update["event"]["assistantMessageEvent"]["delta"] != "a time":
                update = await each.event("message_update")
            await each.event("agent_end")


async def test_two_pages_see_the_same_events(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one, page(server) as two:
        tab = await one.open_chat()
        await two.until("tabs")
        await two.ask("watch", tab=tab)
        await two.until("snapshot", tab=tab)  # one that is made later has the first events in it
        await one.ask("send", tab=tab, messageId="m1", text="Hello")
        for each in (one, two):
            await each.event("agent_end")
        assert one.lasting(tab) == two.lasting(tab) != []


async def test_a_message_sent_twice_counts_once(tmp_path: Path) -> None:
    """A page that lost the reply must be able to ask again."""
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one:
        tab = await one.open_chat()
        runs = {(await one.ask("send", tab=tab, messageId="m1", text="Hello"))["run"] for _ in range(3)}
        await one.until("tabs")
        snapshot = await take_snapshot(server.board.tab(tab))
        assert len(runs) == 1
        assert len([each for each in snapshot.messages if each.id == "m1"]) <= 1


async def test_stop_works_while_the_model_thinks(tmp_path: Path) -> None:
    _, slowly = waiting(says("Too late."))
    async with serve_workbench(tmp_path, ScriptedProvider([slowly])) as server, page(server) as one:
        tab = await one.open_chat()
        await one.ask("send", tab=tab, messageId="m1", text="Hello")
        await one.event("turn_start")
        assert (await one.ask("stop", tab=tab, now=True))["type"] == "reply"
        end = await one.event("agent_end")
        assert end["event"]["reason"] == "aborted"


async def test_a_failed_run_can_be_retried(tmp_path: Path) -> None:
    async with (
        serve_workbench(tmp_path, ScriptedProvider([RequestRejected("No."), says("Yes.")])) as server,
        page(server) as one,
    ):
        tab = await one.open_chat()
        await one.ask("send", tab=tab, messageId="m1", text="Hello")
        await one.event("agent_end")
        while (await one.until("tabs"))["tabs"][0]["status"] != "idle":
            pass
        assert (await one.ask("retry", tab=tab))["type"] == "reply"
        end = await one.event("agent_end")
        assert end["event"]["reason"] == "done"


async def test_a_question_is_shown_and_its_answer_continues_the_run(tmp_path: Path) -> None:
    call = ToolCall("c1", "bash", {"command": "echo hello"})
    script = ScriptedProvider([says("", call), says("Done.")])
    async with serve_workbench(tmp_path, script, approve="ask") as server, page(server) as one:
        tab = await one.open_chat()
        await one.send("send", tab=tab, messageId="m1", text="Run it")
        asked = (await one.until("questions", tab=tab))["questions"][0]
        assert "echo hello" in asked["preview"]
        await one.ask("answer", tab=tab, question=asked["id"], answer={"decision": "once"})
        assert (await one.event("tool_execution_end"))["event"]["isError"] is False
        again = await one.ask("answer", tab=tab, question=asked["id"], answer={"decision": "no"})
        assert again["type"] == "error"


async def test_tabs_are_opened_named_changed_and_closed(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one, page(server) as two:
        chat = (await one.ask("openChat", model="another"))["tab"]
        agent = (await one.ask("openAgent"))["tab"]
        await one.ask("renameTab", tab=chat, title="The bug")
        await one.ask("setModel", tab=chat, model="scripted")
        await one.ask("closeTab", tab=agent)
        while len(tabs := (await two.until("tabs"))["tabs"]) != 1 or tabs[0]["title"] != "The bug":
            pass
        assert (tabs[0]["id"], tabs[0]["model"]) == (chat, "scripted")


async def test_a_chats_mode_is_stored_and_an_unknown_one_refused(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one, page(server) as two:
        assert one.heard[0]["agentMode"] == "remote"
        chat = (await one.ask("openChat"))["tab"]
        refused = await one.ask("setAgentMode", tab=chat, mode="cloud")
        assert (refused["type"], refused["code"]) == ("error", "bad_request")
        assert "It is one of local, remote, hybrid_auto." in refused["message"]
        assert (await one.ask("setAgentMode", tab=chat, mode="local"))["type"] == "reply"
        while (tabs := (await two.until("tabs"))["tabs"])[0].get("agentMode") is None:
            pass
        assert (tabs[0]["agentMode"], tabs[0]["model"]) == ("local", "scripted")
        agent = (await one.ask("openAgent"))["tab"]
        refused = await one.ask("start", tab=agent, contract={"text": "x", "agentMode": "cloud"})
        assert "It is one of local, remote, hybrid_auto." in refused["message"]
        refused = await one.ask("setAgentMode", tab=agent, mode="local")
        assert refused["message"] == "An agent's mode is part of its contract."


async def test_lists_are_sent_only_to_the_page_that_asks(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one:
        tab = await one.open_chat()
        for n in range(3):
            await one.ask("send", tab=tab, messageId=f"m{n}", text=f"Message {n}")
            await one.event("agent_end")
        models = (await one.ask("getModels"))["models"]
        assert [(model["name"], model["inputPrice"]) for model in models] == [("scripted", 3), ("another", 3)]
        session = (await one.ask("getSessions"))["sessions"][0]
        assert (session["title"], session["messages"]) == ("Message 0", 6)
        history = await one.ask("getHistory", tab=tab, before="m2", limit=3)
        assert history["more"] is True
        assert history["messages"][1]["id"] == "m1"
        await server.until(lambda: server.board.tab(tab).state.status == "idle")
        await one.ask("send", tab=tab, messageId="e1", text="Edited", before="m1")
        with anyio.fail_after(10):  # the end may be in the new snapshot, not in an event
            while (await one.ask("getSessions"))["sessions"][0]["messages"] != 4:  # noqa: ASYNC110 — a file is asked
                await anyio.sleep(0.02)
        assert (await one.ask("ping"))["type"] == "reply"


# -- what must not break it ---------------------------------------------------------------------------

NONSENSE: list[str | bytes] = [
    "",
    "{",
    "null",
    "[]",
    "{}",
    '{"type": "watch"}',
    '{"type": "nothing", "id": "1"}',
    '{"type": "ping", "id": 1}',
    '{"type": "ping", "id": ""}',
    '{"type": "ping", "id": "1", "extra": true}',
    '{"type": "getHistory", "id": "1", "tab": "t", "before": "m", "limit": 0}',
    '{"type": "answer", "id": "1", "tab": "t", "question": "q", "answer": ' + "[" * 50_000,
    '{"type": "answer", "id": "1", "tab": "t", "question": "q", "answer": {"a": '
    + "[" * 50_000
    + "]" * 50_000
    + "}}",
    b"\xff\xfe\x00",
    b"",
]


async def test_invalid_messages_are_answered_and_the_socket_stays_open(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one:
        for message in NONSENSE:
            await one.socket.send(message)
            answer = await one.next()
            assert (answer["type"], answer["code"]) == ("error", "malformed_message"), message[:100]
            assert answer["message"]
        await one.socket.send('{"type": "ping", "id": "page-7", "extra": true}')
        assert (await one.next())["re"] == "page-7"
        assert (await one.ask("ping"))["type"] == "reply"


async def test_a_chat_opens_with_its_settings_or_not_at_all(tmp_path: Path) -> None:
    """Otherwise the first message of a chat goes to a model, or runs in a mode, that the user did not choose."""
    async with serve_workbench(tmp_path, Echo(), approve="ask") as server, page(server) as one:
        chosen = {"agentMode": "local", "approve": "plan", "thinking": "high"}
        reply = await one.ask("openChat", **chosen)
        tab = next(each for each in server.board.tabs if each.id == reply["tab"])
        assert (tab.agent_mode, tab.model) == ("local", "scripted")
        assert (tab.approve, tab.thinking) == ("plan", "high")
        server.board.factory.sandbox_problem = "No sandbox works here."  # pyright: ignore[reportAttributeAccessIssue]
        refused = await one.ask("openChat", approve="auto")
        assert (refused["type"], "No sandbox works here." in refused["message"]) == ("error", True)
        assert len(server.board.tabs) == 1


async def test_a_binary_message_with_valid_json_is_accepted(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one:
        await one.socket.send(b'{"type": "ping", "id": "p"}')
        assert (await one.next())["re"] == "p"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("watch", {}),
        ("send", {"messageId": "m", "text": "Hi"}),
        ("retry", {}),
        ("stop", {}),
        ("closeTab", {}),
        ("renameTab", {"title": "x"}),
        ("setModel", {"model": "x"}),
        ("setAgentMode", {"mode": "local"}),
        ("start", {"contract": {"text": "x"}}),
        ("getHistory", {"before": "m"}),
        ("answer", {"question": "q", "answer": {}}),
    ],
)
async def test_a_request_for_a_closed_tab_is_refused_with_a_message(
    kind: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one:
        answer = await one.ask(kind, tab="gone", **fields)
        assert (answer["type"], answer["code"]) == ("error", "board_error")
        assert answer["message"] == "This tab was closed."


async def test_numbers_beyond_the_last_event_are_harmless(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one:
        tab = await one.open_chat()
        run = (await one.ask("send", tab=tab, messageId="m1", text="Hi"))["run"]
        await one.event("agent_end")
        for after, answer in (
            (2**31, "reply"),
            (2**53, "reply"),
            (-1, "error"),
            (2**63, "error"),
            (2**70, "error"),
        ):
            assert (await one.ask("watch", tab=tab, run=run, after=after))["type"] == answer
        assert (await one.ask("ping"))["type"] == "reply"
        assert "internal_error" not in {message.get("code") for message in one.heard}


@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_mixture_of_requests_closes_the_socket(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever a page sends, each request gets exactly one reply and the socket stays open."""
    kinds = st.sampled_from(
        ["watch", "unwatch", "closeTab", "retry", "stop", "openAgent", "ping", "getModels"]
    )
    wanted = data.draw(st.lists(st.tuples(kinds, st.sampled_from([0, 1])), min_size=5, max_size=60))

    async def talk() -> None:
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        async with serve_workbench(folder, Echo()) as server:
            tabs = [((await server.board.open_chat()).state).id, ((await server.board.open_agent()).state).id]
            async with page(server) as one:
                sent = [
                    await one.send(
                        kind, **({"tab": tabs[n]} if kind not in {"openAgent", "ping", "getModels"} else {})
                    )
                    for kind, n in wanted
                ]
                last = await one.send("ping")
                answered: list[str] = []
                while last not in answered or len(answered) <= len(sent):
                    message = await one.next()
                    if "re" in message:
                        answered.append(message["re"])
                assert sorted(answered) == sorted([*sent, last])
                assert "internal_error" not in {message.get("code") for message in one.heard}

    anyio.run(talk)


async def test_an_oversized_message_closes_only_its_own_socket(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, page(server) as one, page(server) as two:
        with contextlib.suppress(websockets.ConnectionClosed):  # it may close before all of it is sent
            await one.socket.send("x" * (8 * 2**20 + 1))
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await one.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
        assert (await two.ask("ping"))["type"] == "reply"


async def test_without_the_token_no_socket_opens(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        proof = (await sign_in(server))["Newel-Page-Proof"]
        offered = ("newel", f"newel-page-proof.{proof}")
        for subprotocols, headers, status in (
            ((), {"X-Nothing": "1"}, 401),
            ((), {"Authorization": "Bearer wrong"}, 401),
            ((), {"Cookie": f"newel-{server.door.port}={TOKEN}", "Origin": server.url}, 401),
            (("newel", f"newel-page-proof.{TOKEN}"), {"Origin": server.url}, 401),
            (offered, {}, 403),
            (offered, {"Origin": "http://evil.example"}, 403),
        ):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await server.socket(*subprotocols, **headers)
            assert refused.value.response.status_code == status
        async with page(server, *offered, Origin=server.url) as one:
            assert one.socket.subprotocol == "newel"
            assert (await one.ask("ping"))["type"] == "reply"


async def test_a_page_that_vanishes_ends_nothing(tmp_path: Path) -> None:
    go_on, slowly = waiting(says("Done."))
    async with serve_workbench(tmp_path, ScriptedProvider([slowly])) as server:
        async with page(server) as one:
            tab = await one.open_chat()
            await one.ask("send", tab=tab, messageId="m1", text="Hello")
            one.socket.transport.abort()
        go_on.set()
        async with page(server) as two:
            await two.ask("watch", tab=tab)
            await server.until(lambda: server.board.tab(tab).state.status == "idle")
        messages = (await take_snapshot(server.board.tab(tab))).messages
        assert [getattr(message, "text", "") for message in messages] == ["Hello", "Done."]


@pytest.mark.slow  # a second of a core
async def test_a_reader_that_does_not_read_is_dropped_and_the_others_continue(tmp_path: Path) -> None:
    """Otherwise one page in a sleeping laptop keeps all later events in memory."""
    async with serve_workbench(tmp_path, Long(), send_timeout=0.5) as server, page(server) as good:
        tab = await good.open_chat()
        async with server.socket() as stuck:
            stuck.transport.pause_reading()
            await stuck.send(msgspec.json.encode({"type": "watch", "id": "1", "tab": tab}).decode())
            for n in range(12):
                await good.ask("send", tab=tab, messageId=f"m{n}", text="More")
                await good.event("agent_end")
            await server.until(lambda: server.board.watchers == 1)
            stuck.transport.abort()
        assert (await good.ask("ping"))["type"] == "reply"
