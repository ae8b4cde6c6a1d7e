"""The way of telemetry to a collector: queues, threads and the end of the process.

Everything slow happens in threads of the SDK. What cannot be exported is lost, and said once: no run waits for it, and the end of
the process waits at most ``FLUSH_S``.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import msgspec

from newel.text.format import one_line
from newel.text.sanitize import redact_url
from newel.version import install_with

if TYPE_CHECKING:
    import requests
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Tracer

    from newel.config.otel import Signal

FLUSH_S: Final = 2.0
EXPORT_EVERY_MS: Final = 1_000
"""Of spans. With the SDK's five seconds, few users would learn in their first run that nothing arrives."""
NAME: Final = "newel"
DEFAULT_ENDPOINT: Final = "http://localhost:4318"
"""The standard's own."""

NOT_INSTALLED: Final = (
    "Telemetry is on, but the extra `otel` is not installed, so nothing is exported. "
    f"Turn telemetry off, or install Newel with it: {install_with('otel')}."
)
_OF_THE_SYSTEM: Final = re.compile(r"\[Errno -?\d+\] ([^\"'()\[\]<>]+)")
_PROTOCOL: Final = "http/protobuf"


class Complaint(logging.Handler):
    """Keeps the first problem of its settings and the first of exporting that the SDK logs, to be said once: its own lines would appear in
    the midst of the screen. ``changed`` is set by a problem of exporting, or at the end.
    """

    def __init__(self, endpoint: str) -> None:
        super().__init__(logging.WARNING)
        self._endpoint = endpoint
        self._setting = ""
        self._problem = ""
        self._is_setting_said = False
        self._is_said = False
        self.is_connected = False
        self.changed = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if self.is_connected:
            self.note(message)
        else:  # it goes on, with another value
            self._setting = self._setting or one_line(message, 300)

    def note(self, problem: str) -> None:
        """The SDK's messages have the system's in them, and everything around it."""
        found = _OF_THE_SYSTEM.search(problem)
        self._problem = self._problem or one_line(found[1] if found else problem, 300)
        self.changed.set()

    def take(self) -> str:
        """The next message; empty if there is none, or once all were taken."""
        if self._setting and not self._is_setting_said:
            self._is_setting_said = True
            return f"Telemetry: {self._setting}"
        if not self._problem or self._is_said:
            return ""
        self._is_said = True
        return f"Telemetry is not exported to {redact_url(self._endpoint)}: {self._problem}"


class Pipeline(msgspec.Struct, frozen=True):
    """``tracer`` and ``meter`` are None for a signal that is not exported."""

    complaint: Complaint
    tracer: Tracer | None = None
    meter: Meter | None = None


@cache
def open_pipeline(
    endpoint: str | None, headers: tuple[tuple[str, str], ...], signals: frozenset[Signal]
) -> Pipeline | None:
    """The pipeline of this process, which ends with it; None, and a message, if the extra is not installed. ``headers`` go to ``endpoint``
    only, not to one of the environment. Never raises: what fails is a complaint.
    """
    shown = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or endpoint or DEFAULT_ENDPOINT
    complaint = Complaint(shown)
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(complaint)
    logger.propagate = False
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or _PROTOCOL
    try:
        if protocol != _PROTOCOL:
            raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, and Newel exports {_PROTOCOL}")  # noqa: TRY301 — like what the SDK raises
        pipeline = _connect(endpoint, dict(headers), signals, complaint)
    except ImportError:
        _say(NOT_INSTALLED)
        return None
    except Exception as error:  # noqa: BLE001 — telemetry must not keep an agent from its work
        complaint.note(str(error))
        pipeline = Pipeline(complaint)
    complaint.is_connected = True
    return pipeline


def _connect(
    endpoint: str | None, headers: dict[str, str], signals: frozenset[Signal], complaint: Complaint
) -> Pipeline:
    """Local providers, not those of the process: no library's own telemetry gets into them."""
    resource = _resource()
    tracer: Tracer | None = None
    meter: Meter | None = None
    ends: list[Callable[[], None]] = []
    if "traces" in signals:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        address, own_headers = _address(endpoint, headers, "traces")
        spans = OTLPSpanExporter(address, headers=own_headers, session=_session("traces"))
        delay = None if "OTEL_BSP_SCHEDULE_DELAY" in os.environ else EXPORT_EVERY_MS
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(spans, schedule_delay_millis=delay))
        tracer = tracers.get_tracer(NAME, version(NAME))
        ends.append(tracers.shutdown)
    if "metrics" in signals:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        address, own_headers = _address(endpoint, headers, "metrics")
        measures = OTLPMetricExporter(address, headers=own_headers, session=_session("metrics"))
        reader = PeriodicExportingMetricReader(measures)
        meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter = meters.get_meter(NAME, version(NAME))
        ends.append(meters.shutdown)
    atexit.register(_end, ends, complaint)
    return Pipeline(complaint, tracer, meter)


def _session(signal: Signal) -> requests.Session | None:
    """A session to which a redirect is an error: the SDK takes it for success, and all is lost. None if the environment names a session."""
    import requests

    def refuse(response: requests.Response, **_: object) -> None:
        if response.is_redirect:
            place = redact_url(response.headers["location"])
            raise requests.RequestException(f"it redirects, by HTTP {response.status_code} to {place}")

    names = ("OTEL_PYTHON_EXPORTER_OTLP_HTTP", f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{signal.upper()}")
    if any(os.environ.get(f"{name}_CREDENTIAL_PROVIDER") for name in names):
        return None
    session = requests.Session()
    session.hooks["response"].append(refuse)
    return session


def _resource() -> Resource:
    """What the environment says of the service, and Newel's name where it says none."""
    from opentelemetry.sdk.resources import Resource

    found = Resource.create({"service.version": version(NAME)})
    is_named = not str(found.attributes.get("service.name", "")).startswith("unknown_service")
    return found if is_named else found.merge(Resource({"service.name": NAME}))


def _address(
    endpoint: str | None, headers: dict[str, str], signal: Signal
) -> tuple[str | None, dict[str, str] | None]:
    """Where an exporter sends, and the headers; None for what the environment says."""
    variables = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    if endpoint is None or any(os.environ.get(name) for name in variables):
        return None, None
    return f"{endpoint.rstrip('/')}/v1/{signal}", headers or None


def _end(ends: list[Callable[[], None]], complaint: Complaint) -> None:
    """Export what waits, unless a collector does not take it at once."""

    def flush() -> None:
        for end in ends:
            end()
        complaint.changed.set()

    threading.Thread(target=flush, daemon=True).start()
    if not complaint.changed.wait(FLUSH_S):
        complaint.note("it did not answer in time")
    while message := complaint.take():
        _say(message)


def _say(message: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(f"newel: {message}", file=sys.stderr)  # noqa: T201 — for the user
