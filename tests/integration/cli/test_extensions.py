"""If these fail, a Python extension does not do what its author wrote, or a broken one takes Newel down or loosens its protection."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hook_scripts import results, write
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "extensions.md").read_text()
DONE = {"content": "Done."}


def extension(newel: Newel, name: str, source: str) -> Path:
    folder = newel.home / ".newel" / "extensions"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(source))
    return path


def from_page(newel: Newel, name: str) -> None:
    """An example of the page, as it is printed there."""
    found = re.search(rf"```python\n(# ~/\.newel/extensions/{name}\n.*?)```", PAGE, re.DOTALL)
    assert found, name
    extension(newel, name, found[1])


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return write(arguments, tool)


def offered(newel: Newel, request: int = 0) -> list[str]:
    return [tool["function"]["name"] for tool in newel.requests[request].get("tools", [])]


FAILS = """\
    from newel.extensions import ExtensionAPI


    def register(newel: ExtensionAPI) -> None:
        @newel.tool(read_only=True)
        def fail(how: str) -> str:
            "Fail."
            if how == "exit":
                raise SystemExit(7)
            if how == "number":
                return 5 / 0
            return "x" * 3_000_000
"""


# -- the page -------------------------------------------------------------------------------------------


def test_the_tool_of_the_page_is_called_and_has_a_schema(with_model: Make) -> None:
    newel = with_model(scenario("roll", call("roll_dice", sides=1), DONE))
    from_page(newel, "dice.py")
    done = newel("roll", "--approve", "read-only")
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
    assert results(newel) == ["1"]
    spec = next(tool for tool in newel.requests[0]["tools"] if tool["function"]["name"] == "roll_dice")
    assert spec["function"]["description"] == "Roll a die and return the number."
    assert spec["function"]["parameters"]["properties"] == {"sides": {"type": "integer"}}


def test_what_the_tool_of_the_page_writes_is_a_hunk_and_is_undone(with_model: Make) -> None:
    newel = with_model(scenario("note", call("add_note", text="buy milk"), DONE))
    from_page(newel, "notes.py")
    notes = newel.project / "NOTES.md"
    notes.write_text("first\n")
    done = newel("note")
    assert done.returncode == 0, done.stderr
    assert results(newel) == ["Added to NOTES.md."]
    assert notes.read_text() == "first\nbuy milk\n"
    assert "NOTES.md" in newel("review").stdout
    assert newel("undo", "--yes").returncode == 0
    assert notes.read_text() == "first\n"


def test_the_hooks_of_the_page_forbid_a_call_and_add_context(with_model: Make) -> None:
    newel = with_model(scenario("release", bash("git push --force"), bash("echo fine"), DONE))
    from_page(newel, "guard.py")
    done = newel("push")
    assert done.returncode == 0, done.stderr
    refused, ran = results(newel)
    assert "a hook forbids this call" in refused
    assert "guard.py, line " in refused
    assert refused.endswith("Push without --force.")
    assert "fine" in ran
    told = json.dumps(newel.requests[0]["messages"])
    assert "The release is on Friday." in told


def test_the_hooks_of_the_page_are_in_the_conversations_list(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "done"}))
    from_page(newel, "guard.py")
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel")], newel.project, environ, columns=240) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("/hooks", "Enter")
        terminal.wait_for("has not run yet", times=2)
        assert "no_force" in terminal.text
        terminal.type("go", "Enter")
        terminal.wait_for(" context · ")
        terminal.type("/hooks", "Enter")
        terminal.wait_for("last: ok")


def test_the_command_of_the_page_writes_the_prompt(with_model: Make) -> None:
    newel = with_model(scenario("Summarize these commits", {"content": "Nothing happened."}))
    from_page(newel, "standup.py")
    done = newel("-p", "/standup 3")
    assert done.stdout == "Nothing happened.\n", done.stderr
    prompt = newel.requests[0]["messages"][-1]["content"]
    assert prompt == "Summarize these commits for a stand-up:\n\n(none)"


def test_the_provider_of_the_page_answers(with_model: Make) -> None:
    newel = with_model()
    from_page(newel, "parrot.py")
    done = newel("--base-url", "extension:parrot", "-m", "grey", "Polly!")
    assert (done.stdout, done.returncode) == ("Polly!\n", 0), done.stderr
    assert newel.requests == []
    environ = {"LLM_BASE_URL": "extension:parrot", "LLM_DEFAULT_MODEL": ""}
    assert newel("Hello", **environ).stdout == "Hello\n"
    assert "grey" in newel("models", **environ).stdout


# -- entry points ---------------------------------------------------------------------------------------


def test_a_provider_that_fails_in_a_task_or_at_its_end_does_not_end_newel(with_model: Make) -> None:
    newel = with_model()
    path = extension(
        newel,
        "fails.py",
        """\
        import asyncio
        from newel.agent.messages import AssistantMessage, TextContent

        async def divide():
            1 / 0

        class Fails:
            async def complete(self, request, on_delta, /):
                if request.messages[-1].text == "cancelled":
                    task = asyncio.ensure_future(asyncio.sleep(600))
                    task.cancel()
                    await task
                if request.messages[-1].text == "group":
                    async with asyncio.TaskGroup() as group:
                        group.create_task(divide())
                return AssistantMessage([TextContent("Hello.")])

            async def aclose(self):
                await divide()

        def register(newel):
            newel.provider("fails", models=["one"])(lambda key: Fails())
        """,
    )
    words = ("--base-url", "extension:fails", "--model", "one")
    cancelled, group, hello = [newel(*words, each) for each in ("cancelled", "group", "hello")]
    assert f"RuntimeError: a task that it awaited was cancelled ({path}, line 12)" in cancelled.stderr
    assert f"ZeroDivisionError: division by zero ({path}, line 5)" in group.stderr
    assert (hello.returncode, hello.stdout) == (0, "Hello.\n")
    assert "Traceback" not in cancelled.stderr + group.stderr + hello.stderr
    assert (
        f"The provider fails cannot be closed. ZeroDivisionError: division by zero ({path}, line 5)"
        in hello.stderr
    )


def test_a_package_registers_by_its_entry_points(with_model: Make) -> None:
    newel = with_model(scenario("go", call("shout", text="hi"), DONE))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = newel.home / ".local" / "lib" / version / "site-packages"
    metadata = site / "newel_shout-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: newel-shout\nVersion: 1.0\n")
    points = "[newel.tools]\nshout = newel_shout:register\n\n[newel.hooks]\nagain = newel_shout:register\n"
    (metadata / "entry_points.txt").write_text(points)
    (site / "newel_shout.py").write_text(
        "def register(newel):\n    @newel.tool(read_only=True)\n"
        "    def shout(text: str) -> str:\n        'Shout.'\n        return text.upper()\n"
    )
    program = (
        "import site, sys\n"
        "site.ENABLE_USER_SITE = True\n"
        "sys.path.append(site.getusersitepackages())\n"
        "from newel.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    start = newel.home / "start.py"
    start.write_text(program)
    done = newel(str(start), "go", command="python")
    assert done.returncode == 0, done.stderr
    assert results(newel) == ["HI"]
    listed = newel(str(start), "extensions", command="python").stdout
    assert listed.count("newel_shout-1.0 (newel.tools: shout)") == 1
    assert "again" not in listed


def test_a_project_brings_no_extensions(with_model: Make) -> None:
    """Neither in its folder, nor as a package that Python would import from there."""
    newel = with_model(scenario("go", DONE))
    loud = "raise SystemExit('planted')"
    (newel.project / ".newel" / "extensions").mkdir(parents=True)
    (newel.project / ".newel" / "extensions" / "x.py").write_text(loud)
    (newel.project / "planted.py").write_text(loud)
    metadata = newel.project / "planted-1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text("[newel.tools]\nplanted = planted:register\n")
    done = newel("-m", "newel", "go", command="python", PYTHONPATH=str(newel.project))
    assert done.stdout == "Done.\n", done.stderr
    assert "planted" not in done.stderr


# -- what goes wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("x = 1\nraise ValueError('boom')\n", 2, "ValueError: boom."),
        ("def register(newel)\n", 1, "SyntaxError: "),
        ("\nimport no_such_module\n", 2, "Install the package of `no_such_module` for Newel's Python"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3."),
        ("def other(): ...\n", 1, "There is no function `register(newel)`."),
        (
            "def register(newel):\n    newel.tool(name='bash')(lambda: '')\n",
            2,
            "The tool bash has no description",
        ),
        ("def register(newel):\n    newel.on('BeforeTool')(print)\n", 2, "There is no event 'BeforeTool'"),
        (
            "def register(newel):\n    @newel.tool\n    def f(x):\n        'Doc.'\n",
            2,
            "The parameter x of the tool f has no type",
        ),
        (
            "def register(newel):\n    @newel.tool\n    def read(x: int):\n        'Doc.'\n",
            1,
            "Newel has a tool named read already",
        ),
        (
            "def register(newel):\n    newel.on('PreToolUse', matcher='(')(print)\n",
            2,
            "The matcher '(' is not a regular expression (missing ), unterminated subpattern at position 0)",
        ),
        (
            "async def register(newel):\n    pass\n",
            1,
            "`register` is `async`, and has to be a plain function.",
        ),
        (
            "def register(newel):\n    @newel.command\n    def f(text):\n        return text\n",
            2,
            'A command needs a name: `@newel.command("NAME")`.',
        ),
        (
            "def register(newel):\n    @newel.on\n    def f(call): ...\n",
            2,
            'A hook needs an event: `@newel.on("EVENT")`.',
        ),
    ],
)
def test_a_broken_one_is_named_once_and_left_out(with_model: Make, source: str, line: int, says: str) -> None:
    newel = with_model(scenario("roll", call("roll_dice", sides=1), DONE))
    broken = extension(newel, "broken.py", source)
    from_page(newel, "dice.py")
    done = newel("roll")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert results(newel) == ["1"]
    assert done.stderr.startswith(f"newel: The extension broken is left out. {broken}:{line}: ")
    assert done.stderr.count("left out") == 1
    assert says in done.stderr
    checked = newel("extensions", "check")
    assert checked.returncode == 1
    assert checked.stdout.startswith(f"{broken}:{line}: ")
    assert says in checked.stdout
    assert "left out" in newel("extensions").stdout


def test_nothing_of_a_broken_one_is_used(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo fine"), DONE))
    extension(
        newel,
        "half.py",
        """\
        def register(newel):
            @newel.tool
            def first(x: int) -> str:
                "First."
            newel.on("PreToolUse")(lambda call: "context")
            raise ValueError("half")
        """,
    )
    newel("go")
    assert "first" not in offered(newel)
    assert "context" not in json.dumps(newel.requests[-1]["messages"])


def test_a_tool_that_fails_is_an_error_result(with_model: Make) -> None:
    steps = [call("fail", how=how) for how in ("number", "exit", "long")]
    newel = with_model(scenario("go", *steps, DONE))
    path = extension(newel, "fails.py", FAILS)
    done = newel("go")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    number, exits, long = results(newel)
    assert number == f"ZeroDivisionError: division by zero ({path}, line 11)"
    assert exits == f"SystemExit: 7 ({path}, line 9)"
    assert len(long) < 60_000


def test_tasks_of_an_extension_that_fail_do_not_end_newel(with_model: Make) -> None:
    """A cancellation that they bring about themselves is theirs alone, and the model learns what failed in a group."""
    steps = [call("fail", how=how) for how in ("cancelled", "group", "late")]
    newel = with_model(scenario("go", *steps, DONE))
    path = extension(
        newel,
        "tasks.py",
        """\
        import asyncio

        async def await_cancelled():
            task = asyncio.ensure_future(asyncio.sleep(600))
            task.cancel()
            await task

        async def divide():
            1 / 0

        def register(newel):
            @newel.tool(read_only=True)
            async def fail(how: str) -> str:
                "Fail."
                if how == "cancelled":
                    await await_cancelled()
                if how == "group":
                    async with asyncio.TaskGroup() as group:
                        group.create_task(divide())
                async with asyncio.timeout(0):
                    await asyncio.sleep(600)

            @newel.on("PreToolUse")
            async def hook(call):
                await await_cancelled()
        """,
    )
    done = newel("go")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert results(newel) == [
        f"RuntimeError: a task that it awaited was cancelled ({path}, line 6)",
        f"ZeroDivisionError: division by zero ({path}, line 9)",
        f"TimeoutError ({path}, line 20)",
    ]
    assert f"line 23: RuntimeError: a task that it awaited was cancelled ({path}, line 6)" in done.stderr


def test_hooks_that_fail_or_hang_are_named_and_decide_nothing(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("echo fine"), DONE))
    path = extension(
        newel,
        "hooks.py",
        """\
        import time
        import anyio
        from newel.extensions import HookReply

        def register(newel):
            @newel.on("PreToolUse")
            def fails(call):
                raise KeyError("oops")

            @newel.on("PreToolUse", timeout=0.2)
            def blocks(call):
                time.sleep(600)

            @newel.on("PreToolUse", timeout=0.2)
            async def waits(call):
                await anyio.sleep(600)

            @newel.on("PostToolUse")
            def says(call):
                return {"decision": "deny"}

            @newel.on("PostToolUse")
            def mistypes(call):
                return HookReply(decision="block", reason="Not this one.")
        """,
    )
    done = newel("go")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "fine" in results(newel)[0]
    told = newel("--json", "go").stdout
    notices = [json.loads(line) for line in told.splitlines()]
    messages = [each["message"] for each in notices if each.get("type") == "error"]
    assert [each.partition(": ")[0] for each in messages] == [
        f"The PreToolUse hook of {path}, line {line}" for line in (6, 10, 14)
    ] + [f"The PostToolUse hook of {path}, line {line}" for line in (18, 22)]
    assert f"KeyError: 'oops' ({path}, line 8)" in messages[0]
    assert "it did not finish within 0.2 s" in messages[1]
    assert "it did not finish within 0.2 s" in messages[2]
    assert "it returned dict" in messages[3]
    assert "Invalid enum value 'block' - at `$.decision`" in messages[4]


@pytest.mark.slow  # seconds of waiting
def test_an_async_function_that_blocks_is_named(with_model: Make) -> None:
    """Meanwhile no key is read and no other conversation goes on; the author learns which function it was."""
    newel = with_model(scenario("go", call("crunch"), call("wait"), DONE))
    path = extension(
        newel,
        "slow.py",
        """\
        import time

        import anyio


        def register(newel):
            @newel.tool(read_only=True)
            async def crunch() -> str:
                "Crunch."
                await anyio.sleep(0)
                time.sleep(1.2)
                await anyio.sleep(0)
                return "crunched"

            @newel.tool(read_only=True)
            async def wait() -> str:
                "Wait."
                await anyio.sleep(1.2)
                return "waited"

            @newel.on("Stop")
            async def think(call):
                time.sleep(1.1)
        """,
    )
    done = newel("--json", "go")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    of_tool, of_hook = [each for each in lines if each.get("type") == "error"]
    assert of_tool["code"] == "extension"
    assert re.match(rf"The tool crunch of {path} blocked all of Newel for 1\.\d s\. ", of_tool["message"])
    assert "Leave out `async`" in of_tool["message"]
    assert re.match(
        rf"The Stop hook of {path}, line 21: it blocked all of Newel for 1\.\d s\. ", of_hook["message"]
    )
    assert results(newel)[0] == "crunched", "the model has nothing to do with it"


def test_a_command_that_fails_sends_no_prompt(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    extension(
        newel,
        "command.py",
        "def register(newel):\n    @newel.command('boom')\n    def boom(text):\n        raise ValueError(text)\n",
    )
    done = newel("-p", "/boom loud")
    assert done.returncode == 1
    assert "/boom failed. ValueError: loud" in done.stderr
    assert newel.requests == []


def test_what_extensions_print_does_not_break_json(with_model: Make) -> None:
    newel = with_model(scenario("go", call("talk"), DONE))
    extension(
        newel,
        "talk.py",
        """\
        import sys
        print("at import")
        sys.stdout.write("straight to stdout\\n")


        def register(newel):
            print("at register")

            @newel.tool
            def talk() -> None:
                "Talk."
                print("in a call")
        """,
    )
    done = newel("--json", "go")
    for line in done.stdout.splitlines():
        json.loads(line)
    assert results(newel) == ["(no output)"]
    for said in ("at import", "straight to stdout", "at register", "in a call"):
        assert said in done.stderr


# -- protection -----------------------------------------------------------------------------------------


def test_a_tool_that_may_change_something_needs_approval(with_model: Make) -> None:
    newel = with_model(scenario("note", call("add_note", text="x"), DONE))
    from_page(newel, "notes.py")
    for mode in ("ask", "plan", "read-only"):
        newel("note", "--approve", mode)
        assert results(newel)[0].startswith("Not run: ")
    assert not (newel.project / "NOTES.md").exists()


def test_rules_hold_for_tools_of_extensions(with_model: Make) -> None:
    newel = with_model(scenario("note", call("add_note", text="x"), DONE))
    from_page(newel, "notes.py")
    (newel.home / ".newel" / "config.toml").write_text('[permissions]\ndeny = ["extension:add_*"]\n')
    newel("note")
    assert "the user's rule `deny extension:add_*` forbids it" in results(newel)[0]
    assert not (newel.project / "NOTES.md").exists()


def test_a_rule_for_extensions_leaves_newels_own_tools_alone(with_model: Make) -> None:
    steps = (
        call("todo", items=[{"content": "Note it", "status": "pending"}]),
        call("add_note", text="x"),
        DONE,
    )
    newel = with_model(scenario("note", *steps))
    from_page(newel, "notes.py")
    (newel.home / ".newel" / "config.toml").write_text('[permissions]\ndeny = ["extension:*"]\n')
    newel("note", "--tools", "todo,add_note")
    own, added = results(newel)
    assert "forbids" not in own
    assert "the user's rule `deny extension:*` forbids it" in added


def test_an_agent_cannot_write_an_extension(with_model: Make) -> None:
    """In the home folder, too: it would run outside of the sandbox at the next start."""
    path = {"file_path": ".newel/extensions/evil.py", "content": "x = 1\n"}
    newel = with_model(scenario("go", write(path), DONE))
    from_page(newel, "dice.py")
    newel("go", "--cwd", str(newel.home))
    assert "was not read: it holds secrets" in results(newel)[0]
    assert not (newel.home / ".newel" / "extensions" / "evil.py").exists()


# -- starts ---------------------------------------------------------------------------------------------


def test_the_user_can_start_without_them(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    extension(newel, "broken.py", "raise ValueError('boom')\n")
    from_page(newel, "dice.py")
    done = newel("--no-extensions", "go")
    assert done.stdout == "Done.\n"
    assert "broken" not in done.stderr
    assert "roll_dice" not in offered(newel)
    (newel.home / ".newel" / "config.toml").write_text("[extensions]\ndisabled = true\n")
    assert "broken" not in newel("go").stderr
    assert "None is loaded" in newel("extensions").stdout


def test_they_are_selected_by_name(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    from_page(newel, "dice.py")
    for names, expected in (("read,roll_dice", {"read", "roll_dice"}), ("roll_*", {"roll_dice"})):
        assert newel("--tools", names, "go").returncode == 0
        assert set(offered(newel, -1)) == expected
    assert "there is no tool rol_dice. Did you mean roll_dice?" in newel("--tools", "rol_dice", "go").stderr


def test_a_start_without_extensions_loads_nothing_of_them(with_model: Make) -> None:
    newel = with_model(scenario("hi", {"content": "Hello."}))
    done = newel("--approve", "plan", "hi", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "newel.app.extensions" in loaded
    assert not {name for name in loaded if name.startswith(("newel.extensions", "newel.hooks."))}


def test_a_pipe_in_place_of_a_file_does_not_hold_up_the_start(with_model: Make) -> None:
    import os

    newel = with_model(scenario("go", DONE))
    path = extension(newel, "dice.py", "")
    path.unlink()
    os.mkfifo(path)
    done = newel("go")
    assert done.stdout == "Done.\n"
    assert "dice.py:1: It is not a file." in done.stderr


def test_the_list_says_what_each_adds(with_model: Make) -> None:
    newel = with_model()
    for name in ("dice.py", "guard.py", "standup.py", "parrot.py"):
        from_page(newel, name)
    rows = {row["name"]: row for row in json.loads(newel("extensions", "list", "--json").stdout)}
    assert rows["dice"]["tools"] == ["roll_dice"]
    assert rows["guard"]["hooks"] == ["PreToolUse Bash", "UserPromptSubmit"]
    assert rows["standup"]["commands"] == ["/standup"]
    assert rows["parrot"]["providers"] == ["extension:parrot"]
    assert {row["state"] for row in rows.values()} == {"loaded"}
    assert newel("extensions", "check").stdout == "4 checked, no problems.\n"
