"""Speed of a model file through Newel, beside that of the bare library.

    ./run python -m benchmarks.local                    the tests' model (tests/real_model.py)
    ./run python -m benchmarks.local FILE -n 128 --runs 5

Both read the same prompt with the same number of threads and write up to ``-n`` tokens with the library's own sampling, as Newel
asks for no other; they take turns, so that a busy machine slows down both. *tokens/s* counts from the first piece of the answer to the
last, as its reader sees it. *first token* is the time until the first piece: of a new prompt, and of one that continues the last
conversation, whose beginning the server knows.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import msgspec

from newel.agent.messages import AssistantMessage, Message, UserMessage
from newel.agent.ports import Model, ModelRequest
from newel.providers.llamacpp.client import LlamaCpp
from newel.providers.llamacpp.server_main import ServerOptions, parameters_for
from newel.text.json import as_dict, as_list, as_str
from tests.real_model import MODEL

CONTEXT = 4_096
WORDS = "red green blue yellow "


class Timing(msgspec.Struct, frozen=True):
    """Seconds until the first piece, and tokens a second after it."""

    first: float
    rate: float


class Stopwatch:
    """Times the pieces of one answer."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._times: list[float] = []

    def tick(self) -> None:
        self._times.append(time.perf_counter())

    def timing(self) -> Timing:
        first, last = self._times[0], self._times[-1]
        return Timing(first - self._began, (len(self._times) - 1) / max(last - first, 1e-9))


class Bare:
    """The library in this process, with the parameters of Newel's server."""

    def __init__(self, path: Path, threads: int, tokens: int) -> None:
        xllamacpp: Any = import_module("xllamacpp")
        options = ServerOptions(str(path), path.name, "key", CONTEXT, 0, threads)
        self._server = xllamacpp.Server(parameters_for(xllamacpp, options))
        self._tokens = tokens

    def ask(self, messages: list[dict[str, str]]) -> tuple[Timing, str]:
        watch = Stopwatch()
        text: list[str] = []

        def take(chunk: Any) -> None:
            for each in as_list(chunk) or [chunk]:
                for choice in as_list(as_dict(each).get("choices")):
                    if piece := as_str(as_dict(as_dict(choice).get("delta")).get("content")):
                        watch.tick()
                        text.append(piece)

        payload = {"messages": messages, "max_tokens": self._tokens, "stream": True}
        self._server.handle_chat_completions(payload, take)
        return watch.timing(), "".join(text)


async def ask_newel(
    server: LlamaCpp, messages: list[Message], tokens: int
) -> tuple[Timing, AssistantMessage]:
    watch = Stopwatch()

    async def on_delta(_: object) -> None:
        watch.tick()

    model = Model(server.path.name, context_window=CONTEXT, max_output=tokens)
    message = await server.complete(ModelRequest(model, "", messages), on_delta)
    return watch.timing(), message


def prompt(number: int) -> str:
    """A prompt of about 220 tokens that begins like no other."""
    return f"Story {number}: {WORDS * 50}. Now count to a thousand."


FOLLOW_UP = "Go on."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?", default=MODEL)
    parser.add_argument("-n", type=int, default=64, help="tokens to write")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    anyio.run(compare, options.file, options.n, options.runs)


async def compare(path: Path, tokens: int, runs: int) -> None:
    server = LlamaCpp(path, context=CONTEXT)
    began = time.perf_counter()
    await ask_newel(server, [UserMessage("Hi")], 1)
    print(f"until the first answer, with loading: {time.perf_counter() - began:.2f} s")
    assert server.process is not None
    bare = Bare(path, server.process.options.threads, tokens)
    rows: dict[str, list[Timing]] = {
        name: [] for name in ("bare, new", "bare, follow-up", "newel, new", "newel, follow-up")
    }
    for number in range(runs):
        asked = {"role": "user", "content": prompt(number)}
        timing, text = bare.ask([asked])
        rows["bare, new"].append(timing)
        answered = [asked, {"role": "assistant", "content": text}, {"role": "user", "content": FOLLOW_UP}]
        rows["bare, follow-up"].append(bare.ask(answered)[0])
        first: Message = UserMessage(prompt(number))
        timing, message = await ask_newel(server, [first], tokens)
        rows["newel, new"].append(timing)
        timing, _ = await ask_newel(server, [first, message, UserMessage(FOLLOW_UP)], tokens)
        rows["newel, follow-up"].append(timing)
    print(f"{'':18}{'first token s':>14}{'tokens/s':>10}")
    for name, timings in rows.items():
        print(
            f"{name:18}{median(timings, lambda each: each.first):>14.2f}{median(timings, lambda each: each.rate):>10.1f}"
        )
    ratios = [mine.rate / bare.rate for mine, bare in zip(rows["newel, new"], rows["bare, new"], strict=True)]
    print(f"newel / bare, tokens/s: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    await server.aclose()


def median(timings: list[Timing], value: Callable[[Timing], float]) -> float:
    return statistics.median(map(value, timings))


if __name__ == "__main__":
    main()
