"""If these fail, configured MCP servers are not found, or a project's file can misuse them."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import ConfigError
from newel.mcp.server_config import ServerConfig, expand, load_servers


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".vscode").mkdir(parents=True)
    return tmp_path / "project"


def write(path: Path, servers: Any, key: str = "mcpServers", **more: Any) -> None:
    path.write_text(json.dumps({key: servers, **more}))


def one(**fields: Any) -> ServerConfig:
    given: dict[str, Any] = {"name": "s", "origin": Path("f"), "level": "user", "command": "c", **fields}
    return ServerConfig(**given)


def test_servers_of_all_four_files_are_found(home: Path, cwd: Path) -> None:
    write(home / "mcp_config.json", {"a": {"command": "a", "args": ["1"], "env": {"N": 1}}})
    write(cwd / "mcp_config.json", {"b": {"command": "b", "autoApprove": ["x"]}})
    write(cwd / ".mcp.json", {"c": {"type": "http", "url": "https://c.example/mcp", "headers": {"A": "b"}}})
    write(cwd / ".vscode" / "mcp.json", {"d": {"command": "d", "disabled": True}}, key="servers")
    servers, problems = load_servers(home=home, cwd=cwd)
    assert problems == []
    assert [(each.name, each.level) for each in servers] == [
        ("a", "user"),
        ("b", "project"),
        ("c", "project"),
        ("d", "project"),
    ]
    assert servers[0].env == {"N": "1"}
    assert servers[2].url == "https://c.example/mcp"
    assert servers[3].disabled


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"mcpServers": []}', "{}", "\xff", "[" * 100_000, '{"mcpServers": {"x": 1}}']
)
def test_a_broken_file_is_one_message_and_the_other_files_count(home: Path, cwd: Path, content: str) -> None:
    write(home / "mcp_config.json", {"good": {"command": "x"}})
    (cwd / ".mcp.json").write_text(content, encoding="latin-1")
    servers, problems = load_servers(home=home, cwd=cwd)
    assert [each.name for each in servers] == ["good"]
    assert len(problems) == 1
    assert str(cwd / ".mcp.json") in problems[0]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "`command` or a `url`"),
        ({"command": "x", "url": "http://y"}, "`command` or a `url`"),
        ({"url": "file:///etc/passwd"}, "http://"),
        ({"url": "http://x/", "type": "sse"}, "deprecated"),
        ({"comand": "x"}, "needs a `command` or a `url`; it has only comand."),
        ({"command": "x", "args": "y"}, "'bad': `args`: expected a list, got a string."),
        ({"command": ["x", "y"]}, "'bad': `command`: expected a string, got a list."),
        ({"command": "x", "args": None}, "'bad': `args`: expected a list, got null."),
        ({"command": "", "url": ""}, "'bad' needs a `command` or a `url`, and not both."),
        ("x", "'bad': expected an object, got a string."),
        ({"command": "x\0y"}, "NUL"),
        ({"command": "x", "timeout": 0}, "seconds"),
    ],
)
def test_an_invalid_server_is_reported_and_the_others_count(
    home: Path, cwd: Path, entry: Any, words: str
) -> None:
    write(home / "mcp_config.json", {"bad": entry, "good": {"command": "x"}})
    servers, (problem,) = load_servers(home=home, cwd=cwd)
    assert [each.name for each in servers] == ["good"]
    assert words in problem


def test_a_mistake_in_the_json_is_named_with_its_line(home: Path, cwd: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "mcp_config.json").write_text(
        '{"mcpServers": {\n  "a": {"command": "x"}\n  "b": {"command": "y"}}}'
    )
    servers, (problem,) = load_servers(home=home, cwd=cwd)
    assert servers == []
    assert problem.startswith(f"{home / 'mcp_config.json'}, line 3: this is not valid JSON: ")


def test_a_project_cannot_take_the_name_of_a_users_server(home: Path, cwd: Path) -> None:
    write(home / "mcp_config.json", {"git": {"command": "mine"}})
    write(cwd / ".mcp.json", {"git": {"command": "theirs"}})
    (server,), (problem,) = load_servers(home=home, cwd=cwd)
    assert server.command == "mine"
    assert "Rename this one" in problem


def test_the_same_server_in_two_files_of_a_project_is_accepted(home: Path, cwd: Path) -> None:
    write(cwd / "mcp_config.json", {"git": {"command": "x"}})
    write(cwd / ".mcp.json", {"git": {"command": "x"}})
    servers, problems = load_servers(home=home, cwd=cwd)
    assert len(servers) == 1
    assert problems == []


def test_in_the_home_folder_the_users_file_is_the_users(home: Path) -> None:
    write(home / "mcp_config.json", {"a": {"command": "a"}})
    servers, problems = load_servers(home=home, cwd=home)
    assert [each.level for each in servers] == ["user"]
    assert problems == []


def test_editor_inputs_are_refused_with_a_message(home: Path, cwd: Path) -> None:
    servers = {"a": {"command": "a", "args": ["${input:key}"]}}
    write(cwd / ".vscode" / "mcp.json", servers, key="servers", inputs=[{"id": "key"}])
    (server,), (problem,) = load_servers(home=home, cwd=cwd)
    assert "`inputs` are not supported" in problem
    with pytest.raises(ConfigError, match="does not support inputs"):
        expand(server, {}, cwd)


def test_a_special_file_does_not_block(home: Path, cwd: Path) -> None:
    os.mkfifo(cwd / ".mcp.json")
    servers, (problem,) = load_servers(home=home, cwd=cwd)
    assert servers == []
    assert "not a regular file" in problem


def test_variables_are_expanded_in_every_field() -> None:
    server = one(
        command="${BIN}/run",
        args=(
            "${A:-one}",
            "${UNSET:-two}",
            "${env:A}",
            "${workspaceFolder}",
            "$A",
            "${EMPTY}",
            "${EMPTY:-e}",
        ),
        env={"K": "${A}"},
        cwd="${A}",
        headers={"H": "Bearer ${A}"},
    )
    ready = expand(server, {"BIN": "/bin", "A": "x", "EMPTY": ""}, Path("/w"))
    assert ready.command == "/bin/run"
    assert ready.args == ("x", "two", "x", "/w", "$A", "", "e")
    assert (ready.env, ready.cwd, ready.headers) == ({"K": "x"}, "x", {"H": "Bearer x"})


def test_an_invalid_header_is_refused_and_not_shown() -> None:
    server = one(command=None, url="http://h/", headers={"Authorization": "${KEY}"})
    assert expand(server, {"KEY": " secret\n"}, Path("/w")).headers == {"Authorization": "secret"}
    with pytest.raises(ConfigError, match="Authorization") as refused:
        expand(server, {"KEY": "sec\nret"}, Path("/w"))
    assert "ret" not in str(refused.value)


def test_an_unset_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="MISSING is not set"):
        expand(one(args=("${MISSING}",)), {}, Path("/w"))


def test_the_value_of_a_variable_is_not_expanded_again() -> None:
    ready = expand(one(args=("${A}",)), {"A": "${SECRET}", "SECRET": "s"}, Path("/w"))
    assert ready.args == ("${SECRET}",)


def test_the_trust_question_hides_nothing_and_reveals_no_variable() -> None:
    server = one(level="project", command="sh", args=("-c", "run ${TOKEN}", "--api-key", "abc"))
    assert server.target == "sh -c 'run ${TOKEN}' --api-key abc"


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (("--api-key", "abc", "x"), "c --api-key … x"),
        (("--token=abc",), "c '--token=…'"),
        (("--key-file", "x"), "c --key-file x"),
        (("--verbose", "abc"), "c --verbose abc"),
        (("postgres://me:abc@host/db",), "c postgres://…@host/db"),
        (("--url=https://me:abc@host/mcp", "x"), "c --url=https://…@host/mcp x"),
    ],
)
def test_secrets_in_the_users_own_commands_are_not_shown(args: tuple[str, ...], shown: str) -> None:
    assert one(args=args).target.replace("'", "") == shown.replace("'", "")


def test_secrets_in_a_url_are_not_shown() -> None:
    url = "https://user:pass@host.example/mcp?token=abc"
    assert one(command=None, url=url).target == "https://…@host.example/mcp?…"


def test_a_password_in_the_value_of_a_variable_is_not_shown() -> None:
    assert one(env={"DATABASE_URL": "postgres://me:abc@host/db"}).settings == [
        "DATABASE_URL = postgres://…@host/db"
    ]


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.text(max_size=5) | st.integers(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["command", "args", "env", "url", "timeout"]), inner, max_size=3
                )
            ),
        ),
        max_size=3,
    )
)
def test_each_server_of_any_file_is_valid_or_reported(servers: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "mcp_config.json", servers)
        found, problems = load_servers(home=Path(folder), cwd=Path(folder))
        assert len(found) + len(problems) == len(servers)


@pytest.mark.parametrize("path", [".", "..", "./data", "../other"])
def test_a_relative_path_never_opens_the_home_folder_by_mistake(path: str, tmp_path: Path) -> None:
    """The server of a user starts in the home folder, and `.` was meant for the project."""
    with pytest.raises(ConfigError, match=r"Its argument `.*` is relative .*\$\{workspaceFolder\}"):
        one(args=("-y", path)).check_arguments()
    one(args=("-y", path), cwd="${workspaceFolder}").check_arguments()
    one(args=("-y", path), sandbox=True).check_arguments()
    one(args=("-y", path), level="project").check_arguments()
    one(args=("-y", "...", ".hidden", "a/.."), env={"X": path}).check_arguments()
    expand(one(args=("${workspaceFolder}",)), {}, tmp_path).check_arguments()
