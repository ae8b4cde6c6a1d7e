"""If these fail, the documentation's tables miss or invent options, settings, events or fields."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from newel.agent.events import AgentEnd, AgentEvent, Retry
from newel.agent.messages import (
    AssistantMessage,
    Attachment,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.app.hosts import SSH_CONFIG
from newel.cli import MODULES
from newel.cli.local_models import MODELS_URL
from newel.cli.main import agent_parser
from newel.config.fleet import ENGINE, STORE
from newel.config.settings import ConfigFile, Flags, Limits, ModelFacts, load_settings
from newel.config.variables import AGENT_MODE, SANDBOX
from newel.context.built_in_prompts import BUILT_IN
from newel.providers.families import FAMILIES
from newel.terminal.repl.slash_commands import COMMANDS
from newel.terminal.rpc.protocol import ApprovalAsked
from newel.terminal.rpc.requests import AnyRequest
from newel.terminal.run_result import ModelUse, PromptResult, ServerSummary, SessionStarted
from newel.terminal.stream_json.lines import compact_line, init_line, result_line, retry_line
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
OPTION = re.compile(r"--[a-z][a-z-]+")
JSON_MODE = (ROOT / "docs" / "json-mode.md").read_text()


def paragraph(text: str, begin: str) -> str:
    """The paragraph with this beginning."""
    match = re.search(rf"^{re.escape(begin)}.*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"no paragraph begins with {begin!r}"
    return match[0]


def section(text: str, heading: str) -> str:
    """The text below a heading, up to the next one of the same level."""
    match = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"no section {heading!r}"
    return match[1]


def names(kind: Any, *without: str) -> set[str]:
    """A struct's fields under their wire names."""
    return {field.encode_name for field in msgspec.structs.fields(kind)} - set(without)


def tag(kind: Any) -> str:
    return str(kind.__struct_config__.tag)


# -- command line and settings --------------------------------------------------------------------------


def test_every_option_is_documented_and_every_documented_one_exists() -> None:
    known = set(OPTION.findall(agent_parser("newel").format_help().partition("commands:")[0]))
    rows = section(COMMAND_LINE, "Options of the agent")
    told = {
        option
        for row in re.findall(r"^\| ((?:\\.|[^|])*)", rows, re.MULTILINE)
        for option in OPTION.findall(row)
    }
    assert told == known


@pytest.mark.parametrize(
    ("option", "choices"),
    [
        ("--thinking", "off|minimal|low|medium|high"),
        ("--approve", "auto|ask|review|plan|read-only"),
        ("--renderer", "rich|console|json"),
        ("--output-format", "text|json|stream-json"),
        ("--input-format", "text|stream-json"),
    ],
)
def test_the_choices_of_an_option_are_documented(option: str, choices: str) -> None:
    escaped = choices.replace("|", r"\|")
    assert f"`{option} {escaped}`" in COMMAND_LINE
    assert f"{option} {{{choices.replace('|', ',')}}}" in agent_parser("newel").format_help()


def test_every_command_of_a_conversation_is_documented_as_its_help_describes_it() -> None:
    rows = re.findall(r"^\| `/([a-z-]+)((?: [^`]+)?)` \| (.*) \|$", COMMAND_LINE, re.MULTILINE)
    told = {name: (usage.replace("\\|", "|").strip(), about) for name, usage, about in rows}
    known = {each.name: (each.arguments, each.help) for each in COMMANDS}
    known |= {each.name: (each.hint, each.description) for each in BUILT_IN}
    assert told.keys() == known.keys()
    for name, (usage, about) in told.items():
        assert (name, usage) == (name, known[name][0])
        assert about.startswith(known[name][1]), name


def test_every_command_is_documented_and_every_documented_one_exists() -> None:
    told = set(re.findall(r"^\| `newel ([a-z]+)", section(COMMAND_LINE, "Commands"), re.MULTILINE))
    assert told == MODULES.keys()


def test_the_names_of_buttons_and_fields_are_those_of_the_page() -> None:
    """Otherwise a reader looks for *own worktree* in a form that has *Separate git worktree*."""
    scripts = "".join(path.read_text() for path in sorted((ROOT / "web" / "src").rglob("*.js")))
    shown = "\n".join(double or back for double, back in re.findall(r'"([^"\n]*)"|`([^`]*)`', scripts))
    told = {
        label
        for page in ("workbench", "workbench-review", "fleet", "mcp", "hosts")
        for label in re.findall(
            r"(?<![*\w])\*([A-Z][\w …:']+)\*(?![*\w])", (ROOT / f"docs/{page}.md").read_text()
        )
    }
    assert len(told) > 30
    assert [each for each in sorted(told - {"Elicitation", "Roots", "Sampling"}) if each not in shown] == []
    fields = re.findall(
        r"^\| `--[a-z-]+[^|]*\| ([^|]+) \|", (ROOT / "docs/agents.md").read_text(), re.MULTILINE
    )
    assert len(fields) == 8
    assert [each for each in fields if f'"{each}"' not in scripts] == []


def test_every_command_that_the_readme_shows_exists() -> None:
    """The first word after `newel` in its blocks of shell commands, unless it is an option or a prompt."""
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL))
    told = set(re.findall(r"^(?:\./run )?newel ([a-z]+)", blocks, re.MULTILINE))
    assert len(told) > 3
    assert told <= MODULES.keys()


def test_every_environment_variable_and_key_of_the_settings_is_documented() -> None:
    rows = "".join(re.findall(r"^\| setting \|.*?\n\n", SETTINGS, re.MULTILINE | re.DOTALL))
    told = set(re.findall(r"`([A-Z_]+)`", rows))
    known = {name for family in FAMILIES for name in family.variables.values()}
    assert known <= told <= known | {"NEWEL_HOME", AGENT_MODE, SANDBOX, MODELS_URL, SSH_CONFIG, ENGINE, STORE}
    for key in names(ConfigFile, "limits", "models") | names(ModelFacts):
        assert key in rows, key
    for key in names(Limits):
        assert key in rows, key


def test_the_default_timeout_of_a_command_is_30_seconds(tmp_path: Path) -> None:
    """A specification, the documentation, the settings and the model all have this number."""
    bash = next(tool for tool in coding_tools(LocalWorkspace(str(tmp_path))) if tool.spec.name == "bash")
    assert "stopped after 30 seconds" in bash.spec.description
    settings = load_settings(Flags(), cwd=tmp_path, environ={"NEWEL_HOME": str(tmp_path)})
    assert settings.bash_timeout == 30
    assert "| `bash_timeout` | 30 |" in SETTINGS


# -- JSON mode ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", get_args(AnyRequest), ids=tag)
def test_every_request_is_documented_with_its_fields(kind: Any) -> None:
    row = re.search(rf'^\| `\{{"type":"{tag(kind)}".*$', JSON_MODE, re.MULTILINE)
    assert row is not None
    assert set(re.findall(r'"(\w+)":', row[0])) == names(kind) | {"type"}


@pytest.mark.parametrize(
    "kind", [*get_args(AgentEvent), ApprovalAsked, SessionStarted, PromptResult], ids=tag
)
def test_every_event_is_documented_with_its_fields(kind: Any) -> None:
    events = JSON_MODE.partition("## Out")[2]
    row = re.search(rf"^\|[^|\n]*`{tag(kind)}`[^|\n]*\|(.*)\|$", events, re.MULTILINE)
    assert row is not None
    told = set(re.findall(r"`(\w+)`", row[1]))
    wanted = names(kind, "timestamp")
    assert wanted <= told
    explains_more = kind in {AgentEnd, SessionStarted, PromptResult} or "assistantMessageEvent" in wanted
    assert not (told - wanted) or explains_more


@pytest.mark.parametrize("kind", [UserMessage, AssistantMessage, ToolResultMessage, CustomMessage], ids=tag)
def test_every_message_is_documented_with_its_fields(kind: Any) -> None:
    row = next(line for line in JSON_MODE.split("\n") if line.startswith(f"| `{tag(kind)}` | `id`"))
    assert names(kind, "timestamp") <= set(re.findall(r"`(\w+)`", row))


def test_every_field_of_an_attachment_is_documented() -> None:
    told = set(re.findall(r"\w+", paragraph(JSON_MODE, "An attachment is")))
    assert names(Attachment, "id", "preview") <= told


# -- stream-json --------------------------------------------------------------------------------------


def test_every_field_of_the_lines_for_scripts_is_documented() -> None:
    """If this fails, a script's author has to guess what a field means here."""
    session = SessionStarted(
        session_id="s",
        file=None,
        cwd="/",
        model="m",
        provider="p",
        approve="auto",
        version="0",
        tools=[],
        commands=[],
        mcp_servers=[ServerSummary("time", "active")],
    )
    result = PromptResult(
        text="t",
        reason="max_turns",
        exit_code=1,
        message="why",
        turns=1,
        duration=1,
        model_duration=1,
        usage=Usage(),
        cost=None,
        stop_reason="stop",
        denied=[ToolCall("c", "bash", {})],
        models={"m": ModelUse(Usage(), None)},
        structured_output={},
    )
    lines = [
        init_line(session, key_source="none"),
        result_line(result),
        retry_line(Retry(attempt=1, max_attempts=2, delay=1.0, reason="r")),
        compact_line(1),
    ]
    told = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "stream-json.md").read_text()))
    nested = [
        *lines,
        *lines[0]["mcp_servers"],
        *lines[1]["modelUsage"].values(),
        *lines[1]["permission_denials"],
    ]
    nested += [lines[1]["usage"], lines[3]["compact_metadata"]]
    assert {name for line in nested for name in line} - {"type"} <= told
