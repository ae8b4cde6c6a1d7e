"""The APIs that model servers speak, and the vendors with environment variables of their own.

A family is a set of variables that belong together: an address, its key, a model. A vendor's key is sent to addresses of its own
family only, and to its own address.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

Api = Literal["chat", "responses", "anthropic", "gemini"]
"""Chat completions, OpenAI's Responses, Anthropic's Messages, Google's generateContent. Ollama has addresses of its own."""


class Family(msgspec.Struct, frozen=True):
    """``variables`` maps settings to environment variables. ``base_url`` is the vendor's address, used if only its key is set;
    empty for the family of any server. ``api`` is what its addresses speak; None if that depends on the address. ``models`` is
    a regular expression for the names of its models.
    """

    name: str
    variables: dict[str, str]
    base_url: str = ""
    api: Api | None = None
    models: str = ""

    def has_model(self, model: str) -> bool:
        return bool(self.models) and re.match(self.models, model) is not None


OPENAI_URL: Final = "https://api.openai.com/v1"

FAMILIES: Final = (
    Family(
        "LLM",
        {
            "base_url": "LLM_BASE_URL",
            "api_key": "LLM_AUTH_TOKEN",
            "model": "LLM_DEFAULT_MODEL",
            "small_model": "LLM_SMALL_FAST_MODEL",
            "api": "LLM_API",
        },
    ),
    Family(
        "OPENAI",
        {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY", "model": "OPENAI_MODEL"},
        OPENAI_URL,
        models=r"(?:gpt|chatgpt|codex|o\d)\b",
    ),
    Family(
        "ANTHROPIC",
        {"base_url": "ANTHROPIC_BASE_URL", "api_key": "ANTHROPIC_API_KEY", "model": "ANTHROPIC_MODEL"},
        "https://api.anthropic.com",
        "anthropic",
        r"(?:claude|opus|sonnet|haiku)\b",
    ),
    Family(
        "GEMINI",
        {"base_url": "GEMINI_BASE_URL", "api_key": "GEMINI_API_KEY", "model": "GEMINI_MODEL"},
        "https://generativelanguage.googleapis.com",
        "gemini",
        r"(?:models/)?(?:gemini|gemma|flash)\b",
    ),
)
"""Highest precedence first."""

_PATHS: Final[tuple[tuple[str, Api], ...]] = (
    ("/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/messages", "anthropic"),
    ("/anthropic", "anthropic"),
    ("/anthropic/v1", "anthropic"),
    ("/v1beta", "gemini"),
)


def find_api(base_url: str) -> Api | None:
    """The API that an address itself tells: by its host, or by how its path ends. None if it does not."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    for end, api in _PATHS:
        if path.endswith(end):
            return api
    if is_address_of("OPENAI", base_url):
        return "responses"
    # Vendors offer chat completions below paths of their own, as in /v1beta/openai.
    at_root = path in {"", "/v1"}
    return next((family.api for family in FAMILIES if at_root and is_address_of(family.name, base_url)), None)


def speaks_chat(base_url: str, api: Api | None) -> bool:
    """Whether a server may be asked by chat completions: OpenAI has both of its APIs at one address."""
    return (api or find_api(base_url) or "chat") in ("chat", "responses")


def key_variable(base_url: str) -> str:
    """The environment variable for the key of an address."""
    names = (family for family in FAMILIES if is_address_of(family.name, base_url))
    return next(names, FAMILIES[0]).variables["api_key"]


def is_address_of(name: str, base_url: str) -> bool:
    """Whether an address is that of a vendor, over TLS."""
    family = next(family for family in FAMILIES if family.name == name)
    own, parts = urlsplit(family.base_url), urlsplit(base_url)
    return bool(own.hostname) and (parts.scheme, parts.hostname) == (own.scheme, own.hostname)
