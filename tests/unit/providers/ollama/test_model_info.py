"""If these fail, Ollama truncates conversations silently, or a context size exhausts the host's memory."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import ContextOverflow
from newel.agent.messages import UserMessage
from newel.agent.ports import Model, ModelRequest
from newel.providers.ollama.model_info import (
    BYTES_PER_TOKEN,
    DEFAULT_MAX_CONTEXT,
    OUTPUT_RESERVE,
    ModelProfile,
    full_name,
    parse_profile,
)

SIZES = st.integers(1, 500_000)


def request(window: int | None = None, max_output: int | None = None) -> ModelRequest:
    return ModelRequest(Model("m", context_window=window, max_output=max_output), "", [UserMessage("Hi")])


@settings(max_examples=80)
@given(st.lists(SIZES, min_size=1, max_size=5), SIZES | st.none(), SIZES | st.none(), st.integers(0, 200_000))
def test_a_context_grows_with_the_conversation_up_to_its_limit(
    bodies: list[int], trained: int | None, window: int | None, loaded: int
) -> None:
    profile = ModelProfile(trained=trained, num_ctx=loaded)
    limit = profile.limit(window)
    asked = request(window)
    sizes: list[int] = []
    for body in bodies:
        profile = profile.with_room_for(body, asked)
        sizes.append(profile.num_ctx)
        assert profile.num_ctx == limit or profile.num_ctx >= body // BYTES_PER_TOKEN + OUTPUT_RESERVE
    assert sizes == sorted(sizes)
    assert max(sizes) <= limit <= max(window or DEFAULT_MAX_CONTEXT, loaded)
    assert trained is None or limit <= trained


def test_growth_after_a_refusal_ends() -> None:
    profile, sizes = ModelProfile(trained=20_000).with_room_for(10, request()), [8_192]
    while change := profile.adapted_to(ContextOverflow("too long"), request()):
        profile = change[0]
        sizes.append(profile.num_ctx)
    assert sizes == [8_192, 16_384, 20_000]


def test_any_server_response_is_handled() -> None:
    strange: list[dict[str, Any]] = [
        {},
        {"model_info": [], "parameters": 3, "capabilities": "tools"},
        {"capabilities": [1]},
        {"models": {"name": 1}},
        {"models": [None, {"name": "m:latest", "context_length": "x"}]},
    ]
    for shown in strange:
        for running in strange:
            assert parse_profile(shown, running, "m").num_ctx == 0


def test_names_are_compared_with_their_tags() -> None:
    assert [full_name(name) for name in ("phi3", "qwen3:8b", "hf.co:80/a/b")] == [
        "phi3:latest",
        "qwen3:8b",
        "hf.co:80/a/b:latest",
    ]
