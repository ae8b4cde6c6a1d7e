"""If these fail, Newel gives up on an overloaded server too early, or waits without a notice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.support import Newel, scenario

Make = Callable[..., Newel]


def busy(times: int | None, after: str = "0.01", status: int = 429) -> dict[str, Any]:
    fault = {"kind": "status", "status": status, "headers": {"Retry-After": after}}
    return {"response": {"content": "At last."}, "fault": fault | ({"times": times} if times else {})}


def settings(newel: Newel, text: str) -> None:
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(text)


def test_nine_rate_limits_do_not_end_a_run(with_model: Make) -> None:
    newel = with_model(scenario("work", busy(9)))
    ran = newel("work")
    assert ran.returncode == 0, ran.stdout
    assert "At last." in ran.stdout
    assert len(newel.requests) == 10


def test_the_number_of_attempts_can_be_configured(with_model: Make) -> None:
    newel = with_model(scenario("work", busy(None)))
    settings(newel, "[retry]\nattempts = 3\n")
    ran = newel("work")
    assert ran.returncode == 1
    assert len(newel.requests) == 3
    assert "Too many requests to " in ran.stdout + ran.stderr
    assert "Gave up after 3 attempts." in ran.stdout + ran.stderr


def test_a_retry_after_beyond_the_limit_is_reported_at_once(with_model: Make) -> None:
    newel = with_model(scenario("work", busy(None, after="7200")))
    settings(newel, "[retry]\nmax_wait = 90\n")
    began = time.monotonic()
    ran = newel("work")
    assert time.monotonic() - began < 15
    assert ran.returncode == 1
    assert len(newel.requests) == 1
    assert (
        "asks for a pause of 7,200 seconds; [retry] max_wait in config.toml allows 90"
        in ran.stdout + ran.stderr
    )


def test_an_unattended_agent_waits_longer(with_model: Make) -> None:
    judged = {"response": {"content": '{"fulfilled": true, "why": "done"}'}}
    newel = with_model(scenario("work", busy(20, status=503), judged))
    ran = newel("agent", "work")
    assert len(newel.requests) > 20, ran.stdout + ran.stderr
