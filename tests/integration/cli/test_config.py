"""If these fail, a setting needs an editor and the manual, or a slip in one stops Newel."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]

COMMENTED = """\
# Mine, with a comment.
approve = "ask"  # at work

[limits]
maxTurns = 50
"""


@pytest.fixture
def newel(with_model: Make) -> Newel:
    newel = with_model()
    newel.environ.pop("NEWEL_SANDBOX", None)
    return newel


def config(newel: Newel) -> Path:
    return newel.home / ".newel" / "config.toml"


def write(newel: Newel, text: str) -> Path:
    path = config(newel)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_set_changes_one_value_and_keeps_the_rest(newel: Newel) -> None:
    path = write(newel, COMMENTED)
    ran = newel("config", "set", "limits.maxCost", "0.5")
    assert ran.returncode == 0, ran.stderr
    assert path.read_text() == COMMENTED + "maxCost = 0.5\n"
    assert newel("config", "set", "approve", "auto").returncode == 0
    assert path.read_text() == COMMENTED.replace('"ask"', '"auto"') + "maxCost = 0.5\n"


def test_a_new_file_is_private(newel: Newel) -> None:
    assert newel("config", "set", 'models."a.b".context_window', "1000").returncode == 0
    assert config(newel).read_text() == '[models."a.b"]\ncontext_window = 1000\n'
    assert stat.S_IMODE(config(newel).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("approve", "never", "approve: invalid value 'never'; valid values are auto, ask, review"),
        ("limits.maxTurns", "0", "limits.maxTurns: expected a whole number of at least 1."),
        (
            "sandbox.domains",
            "pypi.org",
            'sandbox.domains: expected a list, got a string; write ["pypi.org"].',
        ),
        ("terminal.notify", "say 'it is done'", 'got a string; write ["say", "it is done"].'),
        ("terminal.theme", "dakr", "terminal.theme: there is no theme `dakr` (did you mean `dark`?)."),
        ("base_url", "api.example/v1", "must begin with http://"),
        ("permissions.allow", '["bash("]', "permissions"),
        ("aprove", "ask", "There is no setting aprove. Did you mean `approve`?"),
        ("limits", "1", "limits is a table"),
        ("terminal.theme", "d\udcff", "is not valid Unicode"),
    ],
)
def test_a_bad_value_leaves_the_file_as_it_is(newel: Newel, name: str, value: str, words: str) -> None:
    path = write(newel, COMMENTED)
    ran = newel("config", "set", name, value)
    assert ran.returncode in {1, 2}
    assert words in ran.stderr
    assert path.read_text() == COMMENTED


def test_get_tells_what_applies_and_why(newel: Newel) -> None:
    path = write(newel, COMMENTED)
    assert newel("config", "get", "approve").stdout == f"ask   ({path}, line 2)\n"
    assert newel("config", "get", "model").stdout == "mock-model   (environment: LLM_*)\n"
    assert newel("config", "get", "thinking").stdout == "off   (default)\n"
    ran = newel("config", "set", "model", "other")
    assert "environment: LLM_* has precedence" in ran.stderr


def test_lists_are_shown_as_they_are_written(newel: Newel) -> None:
    ran = newel("config", "set", "terminal.keys.input.suspend", "[]")
    assert ran.stdout == f"terminal.keys.input.suspend = []   ({config(newel)}, line 2)\n"
    shown = newel("config", "get", "terminal.keys.input").stdout
    assert re.search(r'new_line +\["alt\+enter", "ctrl\+j"\]   \(default\)', shown), shown
    assert newel("config", "get", "replicas").stdout == "not set   (default)\n"


def test_keys_are_never_shown(newel: Newel) -> None:
    write(
        newel,
        'base_url = "http://127.0.0.1:9/v1"\napi_key = "sk-secret-0123456789"\n[local]\napi_key = "sk-also-secret-456"\n',
    )
    shown = (
        newel("config").stdout
        + newel("config", "get", "api_key").stdout
        + newel("config", "get", "local").stdout
    )
    assert "sk-…ef" in shown
    assert "sk-test-0123" not in shown
    assert "secret" not in shown


def test_unset_restores_the_default(newel: Newel) -> None:
    path = write(newel, COMMENTED)
    assert newel("config", "unset", "approve").returncode == 0
    assert path.read_text() == COMMENTED.replace('approve = "ask"  # at work\n', "")
    assert newel("config", "get", "approve").stdout == "auto   (default)\n"
    assert "not set" in newel("config", "unset", "approve").stderr


def test_path_prints_the_file(newel: Newel) -> None:
    assert newel("config", "path").stdout == f"{config(newel)}\n"


def test_edit_saves_what_is_valid_and_names_the_line_of_a_slip(newel: Newel) -> None:
    path = write(newel, COMMENTED)
    ran = newel("config", "edit", VISUAL="sed -i s/50/60/")
    assert (ran.returncode, path.read_text()) == (0, COMMENTED.replace("50", "60")), ran.stderr
    before = path.read_text()
    ran = newel("config", "edit", VISUAL="sed -i s/60/many/")
    assert ran.returncode == 1
    assert f"{path}, line 5:" in ran.stderr
    assert path.read_text() == before
    draft = Path(ran.stderr.rstrip().rstrip(".").rpartition("Your text is in ")[2])
    assert "maxTurns = many" in draft.read_text()


def test_edit_without_an_editor_says_what_to_set(newel: Newel) -> None:
    ran = newel("config", "edit", EDITOR="/nowhere/ed", VISUAL="")
    assert "Set $VISUAL or $EDITOR" in ran.stderr
    assert list(config(newel).parent.glob("config-*")) == []


def test_an_agent_cannot_change_the_settings(with_model: Make) -> None:
    newel = with_model(scenario("", bash(f"{BIN}/newel config set approve auto"), {"content": "Done."}))
    newel("--approve", "auto", "hi")
    assert not config(newel).exists()
    assert "is a decision of the user" in str(newel.requests[-1])
