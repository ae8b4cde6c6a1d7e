"""Exports what agents do as OpenTelemetry, if the user wants that. Without, nothing of it is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from newel.agent.events import ErrorEvent

if TYPE_CHECKING:
    from newel.agent.agent import Subscriber
    from newel.agent.events import AgentEvent
    from newel.agent.ports import Model
    from newel.app.telemetry.pipeline import Pipeline
    from newel.config.otel import Signal
    from newel.config.settings import Settings
    from newel.session.coding_agent import CodingAgent

REVIEW_JOB: Final = "review"
"""The name of the agent of a review job."""


def attend_telemetry(agent: CodingAgent, settings: Settings, signals: frozenset[Signal]) -> None:
    """Export these signals of the agent's runs from now on. A failure costs telemetry, never a run."""
    pipeline = _open(settings, signals)
    if pipeline is None:
        return

    def conversation() -> str:
        return agent.session.get_id()  # it may change to another session

    async def report() -> None:
        while message := pipeline.complaint.take():
            await agent.emit(ErrorEvent(code="telemetry", message=message, level="info"))

    agent.subscribe(
        _subscriber(
            pipeline,
            settings,
            "newel",
            model=lambda: agent.state.model,
            conversation=conversation,
            secrets=agent.secrets(),
        )
    )
    agent.on_finish(report)


def review_telemetry(
    settings: Settings, signals: frozenset[Signal], secrets: Callable[[], Sequence[str]]
) -> Callable[[str, Model], Subscriber] | None:
    """What makes a subscriber for one run of a review job, of its session and model. None if nothing can be exported."""
    pipeline = _open(settings, signals)
    if pipeline is None:
        return None

    def follow(session: str, model: Model) -> Subscriber:
        return _subscriber(
            pipeline,
            settings,
            REVIEW_JOB,
            model=lambda: model,
            conversation=lambda: session,
            secrets=secrets(),
        )

    return follow


def _open(settings: Settings, signals: frozenset[Signal]) -> Pipeline | None:
    from newel.app.telemetry.pipeline import open_pipeline

    return open_pipeline(settings.otel.endpoint, tuple(settings.otel.headers.items()), signals)


def _subscriber(
    pipeline: Pipeline,
    settings: Settings,
    agent: str,
    *,
    model: Callable[[], Model],
    conversation: Callable[[], str],
    secrets: Sequence[str],
) -> Subscriber:
    from opentelemetry.trace import NoOpTracer

    from newel.app.telemetry.attributes import CapturedText, server_attributes
    from newel.app.telemetry.instruments import Instruments
    from newel.app.telemetry.spans import RunFacts, SpanRecorder

    recorder = SpanRecorder(
        pipeline.tracer or NoOpTracer(),
        Instruments(pipeline.meter) if pipeline.meter is not None else None,
        RunFacts(
            agent=agent,
            model=model,
            conversation=conversation,
            server=server_attributes(settings.endpoint.base_url if settings.endpoint else None),
            content=CapturedText(secrets) if settings.otel.captures_content(os.environ) else None,
        ),
    )

    def on_event(event: AgentEvent) -> None:
        try:
            recorder.handle(event)
        except Exception as error:  # noqa: BLE001 — an exception would end the run
            pipeline.complaint.note(f"{type(error).__name__}: {error}")

    return on_event
