"""The broker's own request activity, as a stream: what its clients do, from its /metrics endpoint.

Each event is a flat JSON object: the API, how many requests of it since the last reading, and how long they took in
the mean; or a topic with its records and bytes in and out.
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

Event = dict[str, Any]
Readings = dict[tuple[str, str], float]

SAMPLE = re.compile(r'^(?P<name>[a-z_0-9]+)\{(?:request|topic)="(?P<label>[^"]+)"\} (?P<value>\S+)$', re.MULTILINE)
REQUESTS = "kafka_network_requestmetrics_requests_total"
REQUEST_TIME = "kafka_network_requestmetrics_totaltimems_sum"
TOPIC_FIGURES = {
    "records_in": "kafka_server_brokertopicmetrics_messagesin_total",
    "bytes_in": "kafka_server_brokertopicmetrics_bytesin_total",
    "bytes_out": "kafka_server_brokertopicmetrics_bytesout_total",
}
TIMEOUT_S = 5


class Activity:
    """Reads the broker's counters and tells what happened since the last time."""

    def __init__(self, metrics_url: str) -> None:
        self._url = metrics_url
        self._last: Readings = {}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is on this machine

    def read(self) -> list[Event]:
        """The events since the last reading; none at the first one."""
        with self._opener.open(self._url, timeout=TIMEOUT_S) as answer:
            now = parse(answer.read().decode())
        last, self._last = self._last, now
        time_ms = int(time.time() * 1000)
        return [{"time_ms": time_ms, **event} for event in differences(last, now)] if last else []

    def key(self, event: Event) -> str:
        """The subject of an event: `request Fetch`, `topic operations`."""
        return f"{event['kind']} {event.get('api') or event.get('topic')}"


def parse(text: str) -> Readings:
    """The labelled samples of a Prometheus page by name and label."""
    return {(found["name"], found["label"]): float(found["value"]) for found in SAMPLE.finditer(text)}


def differences(last: Readings, now: Readings) -> Iterator[Event]:
    """An event for each API and topic with anything new."""
    for (name, label), total in now.items():
        count = total - last.get((name, label), 0)
        if name == REQUESTS and count:
            spent = now.get((REQUEST_TIME, label), 0) - last.get((REQUEST_TIME, label), 0)
            yield {"kind": "request", "api": label, "requests": int(count), "mean_ms": spent / count}
    for topic in sorted({label for name, label in now if name in TOPIC_FIGURES.values()}):
        figures = {
            field: int(now.get((name, topic), 0) - last.get((name, topic), 0)) for field, name in TOPIC_FIGURES.items()
        }
        if any(figures.values()):
            yield {"kind": "topic", "topic": topic, **figures}
