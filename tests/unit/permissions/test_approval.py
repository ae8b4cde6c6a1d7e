"""If these fail, a call changes something that nobody allowed, or a user is asked what they have answered."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import pytest

from newel.agent.errors import ToolError
from newel.agent.messages import ToolCall
from newel.agent.ports import OnOutput, Planned, Policy, ToolResult, ToolSpec, Touch, Verdict
from newel.permissions.approval import Approval, ApprovalMode, ApprovalRequest, approval_policy
from newel.permissions.secret_paths import SecretPaths

pytestmark = pytest.mark.anyio

policy = partial(approval_policy, folder="/src", places=SecretPaths("/src", home="/home/ada"))


class Look:
    """A tool that only reads."""

    spec = ToolSpec("look", "Looks.", {"type": "object"})
    label = "Look"
    read_only = True

    def parse(self, arguments: dict[str, Any], /) -> Any:
        return arguments

    async def serial_key(self, arguments: Any, /) -> str | None:
        return arguments.get("key")

    async def plan(self, arguments: Any, /) -> Planned:
        return Planned(partial(self.preview, arguments), partial(self.execute, arguments))

    async def preview(self, arguments: Any) -> str:
        return f"look {arguments}"

    async def execute(self, arguments: Any, on_output: OnOutput) -> ToolResult:
        await on_output("looking")
        return ToolResult(f"seen {arguments}")


class Change(Look):
    """A tool that changes something; without ``what`` it has no preview."""

    spec = ToolSpec("change", "Changes.", {"type": "object"})
    label = "Change it"
    read_only = False

    async def preview(self, arguments: Any) -> str:
        if "what" not in arguments:
            raise ToolError("nothing there to change")
        return f"change {arguments['what']}"


class Other(Change):
    """A tool whose change cannot be reviewed."""

    spec = ToolSpec("other", "Changes elsewhere.", {"type": "object"})


class Person:
    """Gives the answers in order and records the questions."""

    def __init__(self, *answers: Approval) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request)
        return self.answers.pop(0)


async def ignore(_: str) -> None:
    """Output that nobody reads."""


async def decide(rules: Policy, tool: Look, **arguments: object) -> Verdict:
    return await rules.decide(ToolCall("1", tool.spec.name, dict(arguments)), tool, arguments)


@pytest.mark.parametrize("mode", get_args(ApprovalMode))
async def test_reading_never_needs_approval(mode: ApprovalMode) -> None:
    assert (await decide(policy(mode, ask=None), Look())).allow


async def test_auto_runs_everything() -> None:
    assert (await decide(policy("auto", ask=None), Change(), what="it")).allow


async def test_read_only_denies_every_change() -> None:
    person = Person()
    verdict = await decide(policy("read-only", ask=person), Change(), what="it")
    assert not verdict.allow
    assert "read-only" in verdict.reason
    assert "'change'" in verdict.reason
    assert person.asked == []


@pytest.mark.parametrize("mode", ["ask", "review"])
async def test_the_question_shows_the_exact_effect_and_its_place(mode: ApprovalMode) -> None:
    person = Person(Approval("once"))
    assert (await decide(policy(mode, ask=person), Change(), what="it")).allow
    [request] = person.asked
    assert (request.label, request.preview, request.folder) == ("Change it", "change it", "/src")
    assert request.call.arguments == {"what": "it"}


class CommandTool(Change):
    """A tool that runs a command."""

    spec = ToolSpec("bash", "Runs a command.", {"type": "object"})

    async def preview(self, arguments: Any) -> str:
        return arguments["command"]


async def test_an_edited_command_is_the_one_that_runs_and_the_model_is_told() -> None:
    rules = policy("ask", ask=Person(Approval("once", command="ls -l")))
    verdict = await decide(rules, CommandTool(), command="rm -rf .", timeout=5)
    assert verdict.allow
    assert verdict.arguments == {"command": "ls -l", "timeout": 5}
    assert verdict.planned is not None
    ran = await verdict.planned.execute(ignore)
    assert ran.output.startswith("The user edited this command before it ran. It ran as:\n\nls -l\n\n")
    assert ran.output.endswith("seen {'command': 'ls -l', 'timeout': 5}")


async def test_an_edit_allows_nothing_but_itself() -> None:
    person = Person(Approval("once", command="ls -l"), Approval("no"), Approval("no"))
    rules = policy("ask", ask=person)
    await decide(rules, CommandTool(), command="rm -rf .")
    assert not (await decide(rules, CommandTool(), command="rm -rf .")).allow
    assert not (await decide(rules, CommandTool(), command="ls -l")).allow


async def test_a_command_does_not_take_the_place_of_another_tools_arguments() -> None:
    verdict = await decide(policy("ask", ask=Person(Approval("once", command="ls"))), Change(), what="it")
    assert verdict.arguments is None


async def test_once_is_once_and_always_is_exactly_this_call() -> None:
    person = Person(Approval("once"), Approval("always"), Approval("no"), Approval("no"))
    rules = policy("ask", ask=person)
    assert (await decide(rules, Change(), what="a", n=1)).allow
    assert (await decide(rules, Change(), what="a", n=1)).allow
    assert len(person.asked) == 2
    assert (await decide(rules, Change(), n=1, what="a")).allow
    assert len(person.asked) == 2
    assert not (await decide(rules, Change(), what="a", n=2)).allow
    assert not (await decide(rules, Change(), what="a", n=True)).allow
    assert len(person.asked) == 4


class Shifting(Change):
    """A tool whose change differs the first ``times`` times that it is previewed."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    async def preview(self, arguments: Any) -> str:
        self.calls += 1
        return f"change {min(self.calls, self.times)}"


@pytest.mark.parametrize(("times", "is_allowed"), [(3, True), (4, False)])
async def test_every_answer_counts_for_a_call_whose_files_keep_changing(times: int, is_allowed: bool) -> None:
    person = Person(*[Approval("once")] * 4)
    verdict = await decide(policy("ask", ask=person), Shifting(times), what="it")
    assert (verdict.allow, len(person.asked)) == (is_allowed, 3)


async def test_always_is_limited_to_its_policy() -> None:
    await decide(policy("ask", ask=Person(Approval("always"))), Change(), what="a")
    assert not (await decide(policy("ask", ask=None), Change(), what="a")).allow


async def test_a_refusal_reaches_the_model_with_the_users_reason() -> None:
    rules = policy("ask", ask=Person(Approval("no", " use the other file "), Approval("no")))
    assert (await decide(rules, Change(), what="a")).reason.endswith(
        "declined this call and said: use the other file"
    )
    assert "declined" in (await decide(rules, Change(), what="a")).reason


async def test_without_a_user_the_call_is_denied_with_a_remedy() -> None:
    verdict = await decide(policy("ask", ask=None), Change(), what="it")
    assert not verdict.allow
    assert "--approve auto" in verdict.reason


async def test_a_call_without_a_preview_does_not_run() -> None:
    """It could succeed a moment later, after an earlier call of the same message."""
    person = Person()
    verdict = await decide(policy("ask", ask=person), Change())
    assert (verdict.allow, verdict.reason) == (False, "Not run: nothing there to change")
    assert person.asked == []


async def test_arguments_that_no_file_could_have_can_be_decided() -> None:
    rules = policy("ask", ask=Person(Approval("always")))
    assert (await decide(rules, Change(), what="\ud800")).allow
    assert (await decide(rules, Change(), what="\ud800")).allow


async def test_under_review_reviewable_calls_run_and_others_need_approval() -> None:
    person = Person(Approval("no"))
    rules = policy("review", ask=person, reviewed=["change"])
    assert (await decide(rules, Change(), what="it")).allow
    assert person.asked == []
    assert not (await decide(rules, Other(), what="it")).allow
    assert len(person.asked) == 1


async def test_only_review_lets_reviewable_calls_run() -> None:
    modes: tuple[ApprovalMode, ...] = ("ask", "read-only")
    for mode in modes:
        rules = policy(mode, ask=None, reviewed=["change"])
        assert not (await decide(rules, Change(), what="it")).allow


class Opens(Look):
    """Reads the given file."""

    async def plan(self, arguments: Any, /) -> Planned:
        touch = Touch(arguments["path"], arguments["named"])
        return Planned(partial(self.preview, arguments), partial(self.execute, arguments), [touch])

    async def preview(self, arguments: Any) -> str:
        return arguments["named"]


@pytest.mark.parametrize("mode", ["ask", "review", "read-only"])
async def test_a_file_name_cannot_forge_lines_of_the_question(mode: ApprovalMode) -> None:
    person = Person(Approval("no"))
    rules = policy(mode, ask=person)
    named = "x\nREADME.md"
    assert not (await decide(rules, Opens(), path="/etc/motd", named=named)).allow
    assert person.asked[0].preview == "x␊README.md → /etc/motd  (outside the project)"


async def test_always_for_a_read_file_applies_under_any_name() -> None:
    person = Person(Approval("always"), Approval("no"))
    rules = policy("ask", ask=person)
    assert (await decide(rules, Opens(), path="/etc/motd", named="/etc/motd", offset=1)).allow
    assert (await decide(rules, Opens(), path="/etc/motd", named="motd", offset=9)).allow
    assert len(person.asked) == 1
    assert not (await decide(rules, Opens(), path="/etc/issue", named="/etc/motd", offset=1)).allow


@pytest.mark.parametrize("mode", ["ask", "review", "read-only"])
async def test_secret_places_are_refused_without_a_question(mode: ApprovalMode) -> None:
    person = Person()
    rules = policy(mode, ask=person)
    verdict = await decide(rules, Opens(), path="/home/ada/.ssh/config", named="notes")
    assert "holds secrets" in verdict.reason
    assert person.asked == []
