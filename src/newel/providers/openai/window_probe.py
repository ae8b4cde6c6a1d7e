"""The context with which a server on this machine has loaded a model, by the programs' own APIs beside chat completions.

A list of models has the largest context of a model, if any. These programs load a model with less, and some drop the beginning of a
longer conversation without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio

from newel.agent.errors import ProviderError
from newel.providers.http.client import HttpClient
from newel.text.json import as_count, as_dict, as_list, parse

TIMEOUT_S: Final = 2.0
MAX_BYTES: Final = 8 * 2**20


async def probe_window(base_url: str, model: str, headers: Mapping[str, str]) -> int | None:
    """Return the context in tokens of a model that is loaded; None if no API tells. ``base_url`` may end in ``/v1``."""
    http = HttpClient(base_url.rstrip("/").removesuffix("/v1"), headers=headers, timeout=TIMEOUT_S)
    try:
        for path, read in PROBES.items():
            if size := read(await _get(http, path), model):
                return size
    finally:
        await http.aclose()
    return None


async def _get(http: HttpClient, path: str) -> dict[str, Any]:
    """The JSON object at a path; an empty one if there is none."""
    try:
        with anyio.fail_after(TIMEOUT_S):
            async with http.request("GET", path) as response:
                return as_dict(parse(await response.read(MAX_BYTES))) if response.ok else {}
    except (ProviderError, TimeoutError, ValueError):
        return {}


def _llama_cpp(fields: dict[str, Any], _: str) -> int:
    """A server has one model."""
    return as_count(as_dict(fields.get("default_generation_settings")).get("n_ctx"))


def _lm_studio(fields: dict[str, Any], model: str) -> int:
    return _of_model(as_list(fields.get("data")), "id", model, "loaded_context_length")


def _ollama(fields: dict[str, Any], model: str) -> int:
    return _of_model(as_list(fields.get("models")), "name", model, "context_length")


def _of_model(entries: list[Any], key: str, model: str, size: str) -> int:
    names = {model, f"{model}:latest"}
    sizes = [entry.get(size) for each in entries if (entry := as_dict(each)).get(key) in names]
    return as_count(sizes[0]) if sizes else 0


PROBES: Final[dict[str, Callable[[dict[str, Any], str], int]]] = {
    "/props": _llama_cpp,
    "/api/v0/models": _lm_studio,
    "/api/ps": _ollama,
}
"""What llama.cpp, LM Studio and Ollama tell, by the paths of their APIs."""
