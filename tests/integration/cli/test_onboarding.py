"""If these fail, a newcomer without a model does not learn what to type next."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import BIN, Newel, scenario

Make = Callable[..., Newel]

UNSET = dict.fromkeys(("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"), "")


def remedy(newel: Newel) -> str:
    """The lines that Newel tells a newcomer to type, with values in place of the capitals."""
    refused = newel("hi", **UNSET)
    assert refused.returncode == 1
    assert max(map(len, refused.stderr.split("\n"))) <= 80
    lines = [line.strip() for line in refused.stderr.split("\n") if line.startswith("  export LLM_")]
    filled = "\n".join(lines).replace("https://HOST/v1", f"{newel.server.url}/v1")
    return filled.replace("=KEY", "=sk-mine").replace("=NAME", "=mock-model")


def test_the_suggested_remedy_for_no_model_works_as_typed(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    typed = remedy(newel)
    ran = newel("-c", f"{typed}\nnewel hi", command="/bin/sh", **UNSET)
    assert ran.stdout == "Done.\n", ran.stderr
    assert newel.server.requests[-1]["body"]["model"] == "mock-model"


def test_a_key_without_a_server_is_named(with_model: Make) -> None:
    ran = with_model()("hi", **UNSET | {"LLM_AUTH_TOKEN": "sk-mine"})
    assert "LLM_AUTH_TOKEN is set, but LLM_BASE_URL is not." in ran.stderr
    assert "sk-mine" not in ran.stderr


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {"LLM_BASE_URL": "api.example/v1"},
            "The base URL 'api.example/v1' (environment: LLM_*) must begin with",
        ),
        ({"LLM_AUTH_TOKEN": "…"}, "Check the API key."),
        (
            {"LLM_BASE_URL": "http://127.0.0.1:9/v1"},
            "nothing listens there. Start the server, or correct the base URL.",
        ),
    ],
)
def test_an_incomplete_setting_names_the_missing_one(
    with_model: Make, environ: dict[str, str], words: str
) -> None:
    ran = with_model()("hi", **environ)
    assert ran.returncode == 1
    assert words in ran.stderr


def test_doctor_does_not_question_the_address_of_a_server_that_answered(with_model: Make) -> None:
    busy = {"response": {"content": "x"}, "fault": {"kind": "status", "status": 529}}
    ran = with_model(scenario("", busy))("doctor")
    assert "is overloaded (529)" in ran.stdout
    assert "Check that the server is running" not in ran.stdout


def test_the_doctor_finds_a_disk_on_which_nothing_can_be_written(with_model: Any) -> None:
    """A file can be created there, so a check that only creates one finds nothing."""
    newel = with_model(scenario("work", {"content": "Done."}))
    full = subprocess.run(
        ["bash", "-c", f"ulimit -f 0; exec {BIN / 'newel'} doctor"],
        cwd=newel.project,
        env=newel.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert full.returncode == 1, full.stdout
    assert "Set NEWEL_HOME to a writable folder" in full.stdout
    assert not list((newel.home / ".newel").glob(".doctor*"))
