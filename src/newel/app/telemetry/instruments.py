"""The metrics of the conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from newel.agent.messages import Usage
from newel.app.telemetry.attributes import Attributes

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter

TOKEN_BUCKETS: Final = tuple(4**power for power in range(14))
SECOND_BUCKETS: Final = tuple(round(0.01 * 2**power, 2) for power in range(14))


class Instruments:
    """Records tokens, and how long requests, calls and runs took."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str) -> Histogram:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=SECOND_BUCKETS
            )

        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        )
        self._requests = seconds("gen_ai.client.operation.duration", "GenAI operation duration.")
        self._runs = seconds("gen_ai.invoke_agent.duration", "Duration of an agent's run.")
        self._calls = seconds("gen_ai.execute_tool.duration", "Duration of a tool call.")

    def record_request(self, about: Attributes, usage: Usage, milliseconds: int, error: str) -> None:
        self._requests.record(milliseconds / 1000, _with_error(about, error))
        if usage.total:
            self._tokens.record(usage.input, {**about, "gen_ai.token.type": "input"})
            self._tokens.record(usage.output, {**about, "gen_ai.token.type": "output"})

    def record_run(self, about: Attributes, seconds: float, error: str) -> None:
        self._runs.record(seconds, _with_error(about, error))

    def record_call(self, tool: str, milliseconds: int, error: str) -> None:
        about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        self._calls.record(milliseconds / 1000, _with_error(about, error))


def _with_error(about: Attributes, error: str) -> Attributes:
    return {**about, "error.type": error} if error else about
