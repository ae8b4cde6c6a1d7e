"""If these fail, an agent stops too early, too late, or says that it is done when it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from newel.agent.errors import ContextOverflow, RequestRejected
from newel.agent.events import AgentEnd, AgentStart, ErrorEvent, Interrupted, MessageEnd, ToolExecutionStart
from newel.agent.messages import AssistantMessage, Usage, UserMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.contracts.judge import NO_VERDICT
from newel.contracts.progress import (
    MAX_IDLE,
    MAX_NO_VERDICT,
    MAX_REPEATED,
    MAX_SAME_FAILURE,
    ContractProgress,
)
from newel.runs.models import Contract
from newel.runs.run_events import AcceptanceEnd, AcceptanceStart, ContractState, Evaluation, RunEvent
from tests.scripted_provider import Answer, ScriptedProvider
from tests.unit.contracts.parts import MODEL, SMALL, VERDICT, WORK, Work, calls, is_question, says, verdict

pytestmark = pytest.mark.anyio

TODO = Contract(text="Make a file named a.")
YES = verdict(satisfied=True)
NO = verdict(satisfied=False, missing="the file is empty")


def told(work: Work) -> list[str]:
    """The messages of Newel to the model."""
    messages = [event.message for event in work.told(MessageEnd)]
    return [message.text for message in messages if isinstance(message, UserMessage)]


# -- until it is fulfilled ----------------------------------------------------------------------------


async def test_a_contract_is_completed_when_the_model_is_satisfied(work: Work) -> None:
    state = await work(TODO, [calls("touch a"), NO, calls("echo x > a"), YES])
    assert state.state == "completed"
    assert work.journal[-1] == state
    assert (work.folder / "a").read_text() == "x\n"
    assert [each.satisfied for each in work.told(Evaluation)] == [False, True]


async def test_the_session_contains_the_work_and_no_verdicts(work: Work) -> None:
    await work(TODO, [calls("touch a"), NO, says("Done."), YES])
    kinds = [type(message).__name__ for message in work.agent.get_messages()]
    assert kinds == ["UserMessage", "AssistantMessage", "ToolResultMessage", "AssistantMessage"]
    assert len(work.told(MessageEnd)) == 4


async def test_a_run_is_one_run_for_its_readers(work: Work) -> None:
    await work(TODO, [calls("true"), NO, calls("touch a"), YES])
    assert len(work.told(AgentStart)) == 1
    [end] = work.told(AgentEnd)
    assert end.reason == "done"
    assert end.usage == Usage(input=300, output=30)


async def test_the_judge_gets_the_whole_conversation_and_the_number_of_turns(work: Work) -> None:
    provider = ScriptedProvider([calls("touch a"), NO, calls("echo x > a"), YES])
    await work(TODO, provider, judge=SMALL)
    work_request, question = provider.requests[0], provider.requests[3]
    assert question.model == SMALL
    assert question.system_prompt == work_request.system_prompt
    assert question.messages[: len(work_request.messages)] == work_request.messages
    assert len(question.messages) == 6
    last = question.messages[-1]
    assert isinstance(last, UserMessage)
    assert last.text.startswith("After 2 tool calls: ")
    assert provider.requests[2].messages[-1] != last


async def test_a_model_that_is_not_done_is_told_what_is_missing(work: Work) -> None:
    state = await work(TODO, [says("Done."), NO, calls("touch a"), YES])
    assert state.state == "completed"
    assert told(work)[1:] == ["Not yet: the file is empty"]


async def test_a_working_model_is_not_interrupted_by_its_judge(work: Work) -> None:
    await work(TODO, [calls("true"), NO, calls("touch a"), YES])
    assert len(told(work)) == 1


async def test_a_message_is_answered_before_the_next_verdict(work: Work) -> None:
    async def interrupt(_: ModelRequest) -> AssistantMessage:
        await work.agent.queue_message(UserMessage("Name it b."))
        return calls("touch a")

    state = await work(TODO, [interrupt, calls("mv a b"), YES])
    assert state.state == "completed"
    assert told(work)[1:] == ["Name it b."]
    assert len(work.told(Evaluation)) == 1


# -- the acceptance command ---------------------------------------------------------------------------


async def test_a_failing_acceptance_command_outweighs_the_verdict(work: Work) -> None:
    contract = Contract(text="Make a file.", accept="cat a")
    state = await work(contract, [says("Done."), YES, calls("echo x > a"), YES])
    assert state.state == "completed"
    assert [each.passed for each in work.told(AcceptanceEnd)] == [False, True]
    assert "No such file" in told(work)[1]
    assert "cat a" in told(work)[1]


async def test_the_acceptance_command_runs_only_after_a_positive_verdict(work: Work) -> None:
    contract = Contract(text="Make a file.", accept="echo run >> runs")
    await work(contract, [calls("true"), NO, calls("touch a"), YES])
    assert (work.folder / "runs").read_text() == "run\n"


# -- what ends it otherwise ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        (Contract(text="x", max_turns=2), "limit of 2 turns. 2 tool calls"),
        (Contract(text="x", max_tokens=270), "limit of 270 tokens. 2 tool calls"),
        (Contract(text="x", max_cost=0.5), "limit of 0.5 US dollars. 2 tool calls"),
        (Contract(text="x", max_minutes=0.005), "limit of 0.005 minutes. 1 tool call had run"),
    ],
)
async def test_each_limit_stops_the_run_with_its_reason(work: Work, contract: Contract, words: str) -> None:
    first = msgspec.structs.replace(NO, cost=0.3)
    slow = "sleep 0.4" if contract.max_minutes < 1 else "true"
    state = await work(contract, [calls(slow), first, calls("echo"), first, calls("pwd"), NO])
    assert state.state == "stopped"
    assert words in state.reason


async def test_a_limit_of_cost_is_refused_where_the_price_is_unknown(work: Work) -> None:
    """The limit would never be reached. Without one, the model may be used."""
    work.is_priced = False
    state = await work(Contract(text="x", max_cost=0.5), [calls("true"), YES])
    assert (state.state, state.reason) == ("failed", "The price is unknown.")
    assert (await work(Contract(text="x"), [calls("true"), YES])).state == "completed"


@pytest.mark.parametrize("contract", [Contract(text="x", max_cost=0.5), Contract(text="x", max_tokens=900)])
async def test_a_server_that_reports_no_usage_is_not_used_without_limit(
    work: Work, contract: Contract
) -> None:
    """Nobody watches, and the budget would never be reached."""
    uncounted = msgspec.structs.replace(calls("true"), usage=Usage())
    state = await work(contract, [uncounted, NO, uncounted, NO])
    assert state.state == "stopped"
    assert "does not report token usage" in state.reason


def test_the_time_between_two_processes_does_not_count() -> None:
    """Otherwise a contract that is resumed the next day ends at its limit of time at once."""
    times = ["01T08:00:00", "01T08:01:00", "02T08:00:00", "02T08:02:00"]
    states: list[RunEvent] = [ContractState(state="running", timestamp=f"2026-12-{at}Z") for at in times]
    states[1::2] = [AcceptanceStart(command="true", timestamp=event.timestamp) for event in states[1::2]]
    assert ContractProgress(TODO, states).seconds == 180


async def never(_: ModelRequest) -> AssistantMessage:
    await anyio.sleep(30)
    raise AssertionError


@pytest.mark.parametrize("script", [[calls("sleep 20; touch b"), YES], [never], [calls("true"), never]])
async def test_the_limit_of_time_cuts_off_what_is_running(work: Work, script: list[Answer]) -> None:
    """A server that answers for ever, or a command that hangs, would hold up a run that nobody watches."""
    with anyio.fail_after(10):
        state = await work(Contract(text="x", max_minutes=0.01), script)
    assert state.state == "stopped"
    assert state.reason.startswith("Stopped at the limit of 0.01 minutes.")
    assert not (work.folder / "b").exists()
    assert len(work.told(Interrupted)) == 1


async def test_the_last_allowed_turn_is_still_judged(work: Work) -> None:
    state = await work(Contract(text="x", max_turns=1), [calls("touch a"), YES])
    assert state.state == "completed"


async def test_a_persistent_server_error_is_a_failure_with_its_message(work: Work) -> None:
    state = await work(TODO, [calls("touch a"), NO, RequestRejected("no such model")])
    assert (state.state, state.reason) == ("failed", "no such model")
    assert work.told(AgentEnd)[0].reason == "error"


async def test_a_persistent_judge_error_is_a_failure_with_its_message(work: Work) -> None:
    state = await work(TODO, [calls("touch a"), RequestRejected("no such model")])
    assert (state.state, state.reason) == ("failed", "no such model")
    assert [error.message for error in work.told(ErrorEvent)] == ["no such model"]


async def test_a_model_that_calls_no_tools_is_ended(work: Work) -> None:
    state = await work(TODO, [says("Done."), NO] * 9)
    assert state.state == "failed"
    assert f"no tool was called in {MAX_IDLE} turns" in state.reason


async def test_a_model_that_repeats_itself_is_warned_and_then_ended(work: Work) -> None:
    state = await work(TODO, [step for _ in range(9) for step in (calls("echo same"), NO)])
    assert state.state == "failed"
    assert f"{MAX_REPEATED} turns made the same calls" in state.reason
    assert "try something else" in told(work)[1]


async def test_a_call_that_is_repeated_with_other_results_is_work(work: Work) -> None:
    """Such as a test that fails at another place each time, or a look at a log that grows."""
    again = [step for _ in range(MAX_REPEATED) for step in (calls("echo >> a; wc -l a"), NO)]
    assert (await work(TODO, [*again, calls("true"), YES])).state == "completed"


async def test_a_check_that_keeps_failing_in_the_same_way_ends_the_run(work: Work) -> None:
    contract = Contract(text="x", accept="echo failed in $RANDOM.$RANDOM s; exit 1")
    script = [step for n in range(9) for step in (calls(f"echo {n}"), YES)]
    state = await work(contract, script)
    assert state.state == "failed"
    assert len(work.told(AcceptanceEnd)) == MAX_SAME_FAILURE


async def test_the_verdict_uses_the_servers_prompt_cache(work: Work) -> None:
    """With other tools or another prompt, a long conversation is paid twice at every turn."""
    provider = ScriptedProvider([calls("touch a"), says('{"satisfied": true, "why": "seen", "missing": ""}')])
    assert (await work(TODO, provider)).state == "completed"
    at_work, judging = provider.requests
    assert (judging.system_prompt, judging.tools) == (at_work.system_prompt, at_work.tools)
    assert judging.messages[: len(at_work.messages)] == at_work.messages


async def test_a_judge_that_keeps_working_gets_a_verdict_tool(
    work: Work,
) -> None:
    provider = ScriptedProvider([calls("touch a"), calls("touch b"), YES])
    assert (await work(TODO, provider)).state == "completed"
    assert [tool.name for tool in provider.requests[2].tools] == ["verdict"]
    assert not (work.folder / "b").exists()
    verdict = work.told(Evaluation)[0]
    assert verdict.usage == WORK + VERDICT


async def test_a_judge_without_a_verdict_is_ended(work: Work) -> None:
    parrot = says("I am only a parrot.")
    script = [step for n in range(9) for step in (calls(f"echo {n}"), parrot, parrot)]
    state = await work(TODO, script)
    assert state.state == "failed"
    assert [each.why for each in work.told(Evaluation)] == [NO_VERDICT] * MAX_NO_VERDICT


async def test_a_conversation_too_long_for_the_small_model_is_judged_by_the_large_one(work: Work) -> None:
    script: list[Answer] = [calls("touch a"), ContextOverflow("too long"), YES]
    provider = ScriptedProvider(script)
    assert (await work(TODO, provider, judge=SMALL)).state == "completed"
    assert [request.model for request in provider.requests[1:]] == [SMALL, MODEL]


async def test_a_conversation_too_long_for_any_judge_is_compacted(work: Work) -> None:
    too_long = ContextOverflow("too long")
    script: list[Answer] = [calls("touch a"), too_long, too_long, calls("true"), YES]
    assert (await work(TODO, script)).state == "completed"


# -- stop and abort -----------------------------------------------------------------------------------


def stopped_during(work: Work, answer: AssistantMessage) -> Callable[[ModelRequest], AssistantMessage]:
    """A request during which Stop arrives, and which is answered nevertheless."""

    def make(_: ModelRequest) -> AssistantMessage:
        work.agent.stop()
        return answer

    return make


async def test_stop_lets_the_request_and_its_tools_finish_and_makes_no_other(work: Work) -> None:
    script = [stopped_during(work, calls("touch a"))]
    state = await work(TODO, script)
    assert (state.state, state.reason) == ("stopped", "Stopped before the next request. 1 tool call had run.")
    assert (work.folder / "a").exists()
    assert not work.told(Evaluation)


async def test_stop_during_a_verdict_keeps_it_and_makes_no_other_request(work: Work) -> None:
    script = [calls("touch a"), stopped_during(work, NO)]
    state = await work(TODO, script)
    assert state.state == "stopped"
    assert len(work.told(Evaluation)) == 1


async def test_a_contract_that_was_just_fulfilled_is_not_reported_as_stopped(work: Work) -> None:
    state = await work(TODO, [calls("touch a"), stopped_during(work, YES)])
    assert state.state == "completed"


@pytest.mark.parametrize("place", ["request", "tool", "judge", "accept"])
async def test_abort_ends_a_run_at_once_at_any_point(work: Work, place: str) -> None:
    class Waits:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            judges = is_question(request)
            if place == ("judge" if judges else "request"):
                work.reached.set()
                await anyio.sleep_forever()
            return YES if judges else calls("sleep 60" if place == "tool" else "touch a")

    async def abort() -> None:
        await work.reached.wait()
        work.agent.abort()

    work.awaited = {"tool": ToolExecutionStart, "accept": AcceptanceStart}.get(place)
    async with anyio.create_task_group() as group:
        group.start_soon(abort)
        state = await work(Contract(text="x", accept="sleep 60"), Waits())
        assert state.state == "stopped"
        assert state.reason.startswith("Stopped at once.")
    assert [type(event).__name__ for event in work.journal[-3:]] == [
        "Interrupted",
        "AgentEnd",
        "ContractState",
    ]
    assert len(work.told(Interrupted)) == 1
    assert len(work.told(AcceptanceStart)) == len(work.told(AcceptanceEnd))


# -- after a crash ------------------------------------------------------------------------------------


class Diligent:
    """A model that makes two calls, answers by the conversation alone, and counts its requests."""

    def __init__(self) -> None:
        self.questions: list[int] = []

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        results = sum(message.__class__.__name__ == "ToolResultMessage" for message in request.messages)
        if is_question(request):
            self.questions.append(len(request.messages))
            return verdict(satisfied=results >= 2, missing="more")
        assert not isinstance(request.messages[-1], AssistantMessage), "it had spoken last"
        last = request.messages[-1]
        if isinstance(last, UserMessage) and "command" in last.text and results:
            return calls("echo mended >> done")  # an interrupted call that had no effect
        if results >= 2:
            return says("Done.")
        return calls(f"echo {results} >> done")


CHECKED = Contract(text="Do two things.", accept="echo check >> checks; test $(wc -l < done) -ge 2")


async def test_a_run_resumes_from_any_event_of_its_journal_and_repeats_nothing(
    work: Work, tmp_path: Path
) -> None:
    await work(CHECKED, Diligent())
    whole = list(work.journal)
    assert whole[-1].__class__ is ContractState
    questions = len(work.told(Evaluation))
    for length in range(len(whole)):
        (tmp_path / str(length)).mkdir()
        again, model = Work(tmp_path / str(length)), Diligent()
        earlier: list[RunEvent] = whole[:length]
        # The effects of the dead process on disk: a call whose start it recorded may have run.
        ran = [event for event in earlier if isinstance(event, ToolExecutionStart)]
        (again.folder / "done").write_text("".join(f"{n}\n" for n in range(len(ran))))
        state = await again(CHECKED, model, earlier=earlier)
        assert state.state == "completed", length
        assert sum("Do two things." in text for text in told(again)) == 1, length
        done = (again.folder / "done").read_text().split("\n")
        assert len(done) == len(set(done)), length
        starts = [event.tool_call_id for event in again.told(ToolExecutionStart)]
        assert len(starts) == len(set(starts)), length
        assert again.journal[:length] == earlier
        judged = sum(isinstance(event, Evaluation) for event in earlier)
        assert judged + len(model.questions) == len(again.told(Evaluation)) <= questions + 1, length
        assert [each.passed for each in again.told(AcceptanceEnd)][-1], length


class Strict(Diligent):
    """Refuses a conversation with a call without a result, as servers do."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        called = {
            call.id
            for message in request.messages
            if isinstance(message, AssistantMessage)
            for call in message.tool_calls
        }
        answered = {getattr(message, "tool_call_id", "") for message in request.messages}
        if called - answered:
            raise RequestRejected("Each call must be followed by its result.")
        return await super().complete(request, on_delta)


async def test_a_resumed_run_that_dies_again_resumes_from_any_event(work: Work, tmp_path: Path) -> None:
    await work(CHECKED, Strict())
    first = next(n for n, event in enumerate(work.journal) if isinstance(event, ToolExecutionStart)) + 1
    (tmp_path / "second").mkdir()
    second = Work(tmp_path / "second")
    await second(CHECKED, Strict(), earlier=work.journal[:first])
    for length in range(first, len(second.journal)):
        (tmp_path / str(length)).mkdir()
        third = Work(tmp_path / str(length))
        earlier = second.journal[:length]
        ran = [event for event in earlier if isinstance(event, ToolExecutionStart)]
        (third.folder / "done").write_text("".join(f"{n}\n" for n in range(len(ran))))
        state = await third(CHECKED, Strict(), earlier=earlier)
        assert state.state == "completed", (length, state.reason)


async def test_limits_count_the_usage_of_earlier_processes(work: Work) -> None:
    await work(
        Contract(text="x", max_turns=9), [calls("touch a"), NO, calls("touch b"), NO, RequestRejected("gone")]
    )
    earlier = [
        event for event in work.journal if not isinstance(event, ContractState | AgentEnd | ErrorEvent)
    ]
    again = await work(Contract(text="x", max_turns=3), [calls("touch c"), NO], earlier=earlier)
    assert "limit of 3 turns. 3 tool calls" in again.reason


async def test_an_ended_run_stays_ended(work: Work) -> None:
    state = await work(TODO, [calls("touch a"), YES])
    whole = list(work.journal)
    assert await work(TODO, [], earlier=whole) == state
    assert work.journal == whole


async def test_an_acknowledged_stop_survives_a_crash(work: Work) -> None:
    await work(TODO, [stopped_during(work, calls("touch a"))])
    state = await work(TODO, [], earlier=work.journal[:-1])
    assert state.state == "stopped"
    assert work.journal[-1] == state
