"""Clients in Go, Rust and JavaScript as processes that take orders: JSON, one a line in, one a line out."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from interop.clients.drivers import Row
from interop.clients.ordered_process import OrderedProcess


class OrderError(Exception):
    """What a client said of an order that failed."""


class Process(OrderedProcess):
    """One client, bound to one broker; a context manager. It is a `Driver` of interop.clients.drivers."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        super().__init__([*command, bootstrap])

    def order(self, do: str, **details: object) -> Any:
        """Gives an order; raises OrderError with what the client says when it fails."""
        answer = json.loads(self.ask(json.dumps({"do": do, **details})))
        if "error" in answer:
            raise OrderError(answer["error"])
        return answer

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        self.order("create", topic=topic, partitions=partitions, configs=configs)

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row], *, idempotent: bool = True) -> None:
        self.order("produce", topic=topic, codec=codec, idempotent=idempotent, rows=[as_json(row) for row in rows])

    def read(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        return [as_row(each) for each in self.order("read", topic=topic, count=count)["rows"]]

    def offsets_for_times(self, bootstrap: str, topic: str, times_ms: Sequence[int]) -> list[int]:
        return list(self.order("times", topic=topic, times=list(times_ms))["offsets"])


def as_json(row: Row) -> dict[str, object]:
    headers = [{"name": name, "value": encoded(value)} for name, value in row.headers]
    return {
        "timestamp": row.timestamp_ms,
        "key": encoded(row.key),
        "value": encoded(row.value),
        "headers": headers,
    }


def as_row(told: dict[str, Any]) -> Row:
    headers = [(header["name"], decoded(header["value"]) or b"") for header in told["headers"]]
    return Row(told["timestamp"], decoded(told["key"]), decoded(told["value"]), headers)


def encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
