"""``[otel]`` of the user's settings, and the standard variables that decide about the export of telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

Signal = Literal["traces", "metrics"]

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class OtelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``endpoint`` is the base address of a collector that speaks OTLP over HTTP. ``content`` also exports prompts, answers, and
    arguments and results of calls. Variables of the environment precede.
    """

    enabled: bool = False
    endpoint: Annotated[str, msgspec.Meta(pattern="^https?://[^/]")] | None = None
    headers: dict[str, str] = {}
    content: bool = False

    def signals(self, environ: Mapping[str, str]) -> frozenset[Signal]:
        """What is exported. An address in the environment alone exports nothing: it may be there for other programs."""
        if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return frozenset()
        chosen: set[Signal] = set()
        signals: tuple[Signal, ...] = ("traces", "metrics")
        for signal in signals:
            exporters = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp" if self.enabled else "none")
            if "otlp" in {name.strip().lower() for name in exporters.split(",")}:
                chosen.add(signal)
        return frozenset(chosen)

    def captures_content(self, environ: Mapping[str, str]) -> bool:
        variable = environ.get(CAPTURE, "").strip().lower()
        return variable in {"true", "span_only", "span_and_event"} if variable else self.content
