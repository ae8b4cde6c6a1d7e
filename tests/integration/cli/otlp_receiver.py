"""A collector: receives OTLP over HTTP as protobuf, and keeps what it gets."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class ReceivedSpan:
    """A span as it came over the wire."""

    def __init__(self, span: Any) -> None:
        self.name: str = span.name
        self.id: bytes = span.span_id
        self.parent: bytes = span.parent_span_id
        self.trace: bytes = span.trace_id
        self.kind: int = span.kind
        self.failed: bool = span.status.code == 2
        self.events: list[str] = [event.name for event in span.events]
        self.attributes: dict[str, Any] = attributes_of(span.attributes)
        self.nanoseconds: int = span.end_time_unix_nano - span.start_time_unix_nano


def attributes_of(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


class Receiver:
    """``spans`` and ``metrics`` are what has come so far; ``headers`` those of the requests, ``resource`` the sender's facts."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.metrics: dict[str, list[tuple[dict[str, Any], int, float]]] = {}
        self.headers: list[dict[str, str]] = []
        self.resource: dict[str, Any] = {}
        self.raw = b""
        self.url = ""

    def receive(self, path: str, body: bytes) -> None:
        self.raw += body
        if path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                self.resource = attributes_of(resource.resource.attributes)
                self.spans += [ReceivedSpan(span) for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            measured = ExportMetricsServiceRequest.FromString(body)
            for resource in measured.resource_metrics:
                for metric in (each for scope in resource.scope_metrics for each in scope.metrics):
                    self.metrics[metric.name] = [
                        (attributes_of(point.attributes), point.count, point.sum)
                        for point in metric.histogram.data_points
                    ]

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def only(self, name: str) -> ReceivedSpan:
        (span,) = self.named(name)
        return span


@contextmanager
def open_receiver(status: int = 200, location: str = "") -> Generator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            receiver.receive(self.path, body)
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
