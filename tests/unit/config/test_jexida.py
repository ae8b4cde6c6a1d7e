"""If these fail, a mistake in the settings leads to the wrong host, or prevents the start."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.config.jexida import (
    ConnectionSettings,
    HistorySettings,
    ModelChoice,
    RemoteSettings,
    RoutineEntry,
    load_remote,
)
from tests.properties import examples

WHOLE = """\
[connection]
host = "server.example"
user = "ada"

[model]
name = "llama3.2"
through = "run"

[history]
turns = 6

[routines]
disk = { description = "Free space", cmd = "df -h" }
"what is up" = { cmd = "uptime" }
"""


def test_without_a_file_the_defaults_apply(tmp_path: Path) -> None:
    loaded = load_remote(tmp_path / "config.toml")
    assert loaded.settings == RemoteSettings(
        connection=ConnectionSettings(host=None, user="jexida"),
        model=ModelChoice(name="phi3"),
        routines={},
        history=HistorySettings(turns=10),
    )
    assert loaded.warnings == []


def test_every_setting_of_a_file_is_used(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(WHOLE)
    loaded = load_remote(path)
    assert loaded.warnings == []
    assert loaded.settings == RemoteSettings(
        connection=ConnectionSettings(host="server.example", user="ada"),
        model=ModelChoice(name="llama3.2", through="run"),
        routines={
            "disk": RoutineEntry(cmd="df -h", description="Free space"),
            "what is up": RoutineEntry(cmd="uptime"),
        },
        history=HistorySettings(turns=6),
    )


def test_a_routine_with_invalid_variables_is_skipped_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[routines]\nlogs = { cmd = "docker logs -n {lines} {name}", variables = ["name", "lines=100"] }\n'
        "quoted = { cmd = \"echo '{name}'\", variables = ['name'] }\n"
        "[routines.unused]\ncmd = 'echo'\nvariables = ['name']\n"
    )
    loaded = load_remote(path)
    assert list(loaded.settings.routines) == ["logs"]
    filled = loaded.settings.routines["logs"].template().fill({"name": "web"})
    assert filled == "docker logs -n '100' 'web'"
    quoted, unused = loaded.warnings
    assert quoted == (
        f"{path}, line 3: routines.quoted: {{name}} is inside quotes, where a value cannot be quoted safely. "
        "It is ignored."
    )
    assert unused.startswith(f"{path}, line 4: routines.unused: the variable name is not used")


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b'[connection]\nhost = "a', 2, "nterminated|Expected|Illegal"),
        (b"[connection]\n\nuser = \xff\n", 3, "byte 0xff is not UTF-8 text"),
        (b"[model]\n[model]\n", 2, "twice"),
        (b"\n\nrubbish\n", 3, "Expected"),
    ],
)
def test_a_file_that_is_not_toml_is_reported_with_its_line_and_the_defaults_apply(
    tmp_path: Path, content: bytes, line: int, words: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    loaded = load_remote(path)
    assert loaded.settings == RemoteSettings()
    (warning,) = loaded.warnings
    assert warning.startswith(f"{path}, line {line}: ")
    assert any(word in warning for word in words.split("|"))
    assert warning.endswith("The defaults are used.")


def test_one_invalid_value_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[connection]\nhost = "server.example"\nuser = 7\nprot = 22\n'
        '[model]\nname = ""\nthrough = "air"\n[routines]\nls = "ls"\ndf = { cmd = "df", often = true }\nok = { cmd = "id" }\n'
    )
    loaded = load_remote(path)
    assert loaded.settings == RemoteSettings(
        connection=ConnectionSettings(host="server.example"), routines={"ok": RoutineEntry(cmd="id")}
    )
    told = [warning.removeprefix(f"{path}, ") for warning in loaded.warnings]
    assert [words[: words.index(":", 8)] for words in told] == [
        "line 3: connection.user",
        "line 4: connection.prot",
        "line 6: model.name",
        "line 7: model.through",
        "line 9: routines.ls",
        "line 10: routines.df",
    ]


def test_a_special_or_huge_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"#" * (1024 * 1024 + 1))
    for path in (tmp_path, tmp_path / "long"):
        assert "cannot be read: it " in load_remote(path).warnings[0]


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.binary(max_size=80), st.text(max_size=80).map(lambda text: f"[routines]\n{text}".encode()))
)
def test_the_program_starts_with_any_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    loaded = load_remote(path)
    assert loaded.settings.connection == ConnectionSettings()
