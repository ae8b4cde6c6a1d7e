"""Exports what agents do as OpenTelemetry, if the user wants that. Without, nothing of it is loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from newel.agent.events import ErrorEvent

if TYPE_CHECKING:
    from newel.agent.events import AgentEvent
    from newel.config.otel import Signal
    from newel.config.settings import Settings
    from newel.session.coding_agent import CodingAgent


def attend_telemetry(agent: CodingAgent, settings: Settings, signals: frozenset[Signal]) -> None:
    """Export these signals of the agent's runs from now on. A failure costs telemetry, never a run."""
    otel = settings.otel
    from newel.app.telemetry.pipeline import open_pipeline

    pipeline = open_pipeline(otel.endpoint, tuple(otel.headers.items()), signals)
    if pipeline is None:
        return
    from opentelemetry.trace import NoOpTracer

    from newel.app.telemetry.attributes import CapturedText, server_attributes
    from newel.app.telemetry.instruments import Instruments
    from newel.app.telemetry.spans import RunFacts, SpanRecorder

    def conversation() -> str:
        return agent.session.get_id()  # it may change to another session

    recorder = SpanRecorder(
        pipeline.tracer or NoOpTracer(),
        Instruments(pipeline.meter) if pipeline.meter is not None else None,
        RunFacts(
            agent="newel",
            model=lambda: agent.state.model,
            conversation=conversation,
            server=server_attributes(settings.endpoint.base_url if settings.endpoint else None),
            content=CapturedText(agent.secrets()) if otel.captures_content(os.environ) else None,
        ),
    )

    def on_event(event: AgentEvent) -> None:
        try:
            recorder.handle(event)
        except Exception as error:  # noqa: BLE001 — an exception would end the run
            pipeline.complaint.note(f"{type(error).__name__}: {error}")

    async def report() -> None:
        if message := pipeline.complaint.take():
            await agent.emit(ErrorEvent(code="telemetry", message=message))

    agent.subscribe(on_event)
    agent.on_finish(report)
