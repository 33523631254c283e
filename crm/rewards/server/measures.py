"""What a server counts, for Prometheus. In: requests that are answered, batches that are read. Out: ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Measures:
    """Of one server; texts and keys are in none of them."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter("crm_requests", "Requests answered", ["route", "status"], registry=registry)
        self._seconds = Histogram("crm_request_seconds", "From the header to the answer", ["route"], registry=registry)
        self._rows = Histogram("crm_batch_rows", "Readings made together", buckets=ROWS, registry=registry)
        self._reading = Histogram("crm_batch_seconds", "Reading one batch", registry=registry)
        self._waiting = Gauge("crm_waiting_rows", "Readings that wait", registry=registry)

    def watch(self, waiting: Callable[[], int]) -> None:
        """Where to look for the readings that wait."""
        self._waiting.set_function(waiting)

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, rows: int, seconds: float) -> None:
        """A batch was read."""
        self._rows.observe(rows)
        self._reading.observe(seconds)

    def text(self) -> bytes:
        """All of them as Prometheus reads them."""
        return generate_latest(self.registry)
