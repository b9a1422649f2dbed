"""What is at /metrics of a broker in this process."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from typing import NamedTuple

from support.processes import wait_until

from penstock.testing.broker import LocalBroker

LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
TIMEOUT_S = 30.0


class Series(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def scrape(address: str) -> list[Series]:
    """All series at that address."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    found = [LINE.fullmatch(line) for line in lines if not line.startswith("#")]
    assert None not in found, "each line is a series"
    return [Series(each[1], dict(LABEL.findall(each[2] or "")), float(each[3])) for each in found if each is not None]


def address_of(broker: LocalBroker) -> str:
    assert broker._embedded is not None
    assert broker._embedded.server is not None
    address = broker._embedded.server.http_address
    assert address is not None
    return address


def until(address: str, wanted: Callable[[list[Series]], list[Series]], what: str) -> list[Series]:
    """The series that are wanted, once there are any."""
    found: list[Series] = []

    def are_there() -> bool:
        found[:] = wanted(scrape(address))
        return bool(found)

    wait_until(are_there, what, TIMEOUT_S)
    return found
