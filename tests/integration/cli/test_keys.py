"""If these fail, a stored key is lost, shown, readable by others, or sent to a server that it is not for."""

from __future__ import annotations

import stat
from collections.abc import Callable

import pytest

from tests.support import Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def newel(with_model: Make) -> Newel:
    """A user whose server is configured without a key."""
    made = with_model(scenario("hello", {"content": "Hello back."}))
    del made.environ["LLM_AUTH_TOKEN"]
    return made


def authorizations(newel: Newel) -> list[bool]:
    """For each request to the model, whether it had a key."""
    chats = [each for each in newel.server.requests if each["path"].endswith("/chat/completions")]
    return ["authorization" in each["headers"] for each in chats]


def test_a_stored_key_goes_to_its_server_only(newel: Newel) -> None:
    newel("keys", "set", "https://other.example/v1", stdin="sk-other-0123456789\n").check_returncode()
    newel("hello").check_returncode()
    assert authorizations(newel) == [False]
    newel("keys", "set", f"{newel.server.url}/v1/", stdin=f"{KEY}\n").check_returncode()
    newel("hello").check_returncode()
    assert authorizations(newel)[-1]
    newel("keys", "remove", f"{newel.server.url}/v1").check_returncode()
    newel("hello").check_returncode()
    assert not authorizations(newel)[-1]


def test_keys_are_private_and_never_shown(newel: Newel) -> None:
    done = newel("keys", "set", "anthropic", stdin=KEY)
    assert (
        done.stdout
        == "Stored the key for anthropic (https://api.anthropic.com) in keys.json in Newel's folder.\n"
    )
    path = newel.home / ".newel" / "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    listed = newel("keys")
    assert listed.stdout.startswith("anthropic  sk-…ef  since 20")
    assert KEY not in listed.stdout + listed.stderr + done.stderr


def test_an_export_masks_stored_keys(newel: Newel) -> None:
    plain = "correct-horse-battery-staple"  # that no pattern of keys recognizes
    newel("keys", "set", "anthropic", stdin=plain).check_returncode()
    newel(f"hello, my key is {plain}").check_returncode()
    exported = newel("export", str(newel.sessions[0]))
    assert "hello, my key is" in exported.stdout
    assert plain not in exported.stdout


def test_a_vendors_stored_key_selects_its_server_if_nothing_else_does(newel: Newel) -> None:
    newel("keys", "set", "gemini", stdin=KEY).check_returncode()
    del newel.environ["LLM_BASE_URL"]
    shown = newel("doctor").stdout
    assert "https://generativelanguage.googleapis.com   (newel keys: gemini)" in shown
    assert KEY not in shown


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (
            ["set", "antropic"],
            KEY,
            "'antropic' is neither a vendor (openai, anthropic, gemini) nor an address like",
        ),
        (["set", "anthropic"], "", "This is not an API key"),
        (["set", "anthropic"], "käse", "This is not an API key"),
        (["set", "http://"], KEY, "'http://' is not a valid base URL"),
        (["remove", "openai"], "", "No key is stored for openai. `newel keys` lists all."),
    ],
)
def test_bad_input_is_explained(newel: Newel, words: list[str], stdin: str, message: str) -> None:
    done = newel("keys", *words, stdin=stdin)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_file_holds_no_key(newel: Newel) -> None:
    path = newel.home / ".newel" / "keys.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b'{"keys": [{"name": 3}]}\xff')
    newel("hello").check_returncode()
    assert newel("keys").stdout.startswith("No keys are stored.")
    newel("keys", "set", "openai", stdin=KEY).check_returncode()
    assert newel("keys").stdout.startswith("openai")


def test_a_key_is_typed_unseen(newel: Newel) -> None:
    with Tmux(["newel", "keys", "set", "openai"], newel.project, newel.environ) as screen:
        screen.wait_for("Key for openai (https://api.openai.com/v1) (hidden):")
        screen.type(KEY, "Enter")
        screen.wait_for("Stored the key for openai")
        assert KEY not in screen.text
    assert KEY in (newel.home / ".newel" / "keys.json").read_text()
