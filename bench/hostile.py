"""What a quiet client notices of hostile ones: its latency, the loop's turns, and the node's memory.

    python bench/hostile.py [--elements 200000] [--seconds 3] [--only FETCH,METADATA]

A node in a process of its own. For each API in its newest version, one connection sends as many requests as it may, one
behind the other, and another a request with as many elements as it may in each of its arrays; meanwhile a quiet client
asks for ApiVersions and Metadata, every few milliseconds. The verdict is the reader's: on a busy machine everything
takes longer, so the load is printed, and what the quiet client measures alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support import hostile
from support.hostile_node import HANDLERS, HostileNode, framed, hostile_node

from penstock.node.request import Handler
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest

MIB = 1 << 20
PAUSE_S = 0.005
PIPELINED = 1_000
BUCKET = "penstock_loop_turn_seconds_bucket"


class Quiet:
    """A client that asks for little; `took_ms` has how long it waited each time."""

    def __init__(self, node: HostileNode) -> None:
        self.took_ms: list[float] = []
        self._client = node.connect()
        plain = [(ApiVersionsRequest(), 0), (MetadataRequest(topics=[]), 8)]
        self._requests = [framed(HANDLERS[each.KEY], version, each, 1) for each, version in plain]  # type: ignore[index]
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Quiet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._client.socket.close()

    def _ask(self) -> None:
        while not self._ends.is_set():
            for request in self._requests:
                started_s = time.perf_counter()
                assert self._client.ask([request]), "the quiet client lost its connection"
                self.took_ms.append((time.perf_counter() - started_s) * 1000)
            time.sleep(PAUSE_S)


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of all stay below."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def turns(node: HostileNode) -> dict[float, float]:
    """How many turns took less, by bound in seconds."""
    found = node.metrics().items()
    return {float(name.split('le="')[1].rstrip('"}')): count for name, count in found if name.startswith(BUCKET)}


def turn_quantile_ms(before: dict[float, float], after: dict[float, float], share: float) -> float:
    """Of the turns in between: the bound of the bucket."""
    counts = sorted((bound, after[bound] - before.get(bound, 0)) for bound in after)
    total = counts[-1][1]
    return next((bound * 1000 for bound, count in counts if count >= share * total), 0.0)


def measure(node: HostileNode, name: str, attack: Callable[[], None]) -> None:
    """Prints what the quiet client noticed of an attack."""
    before = turns(node)
    with Quiet(node) as quiet:
        attack()
    turn_ms = turn_quantile_ms(before, turns(node), 0.999)
    times = f"{quantile(quiet.took_ms, 0.5):7.1f} {quantile(quiet.took_ms, 0.99):7.1f} {max(quiet.took_ms):7.1f}"
    memory = f"{node.process.memory_info().rss / MIB:6.0f} MiB"
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{name:44} {len(quiet.took_ms):6} {times} {turn_ms:9.1f}  {memory}  {load}", flush=True)


def flood(node: HostileNode, handler: Handler, seconds: float) -> None:
    """Pipelined requests, for so long."""
    name, version = handler.api.request_class.__name__, handler.max_version
    request = hostile.wide(name, version, (), 0)
    data = b"".join(framed(handler, version, request, number) for number in range(PIPELINED))
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        with node.connect(listener_of(handler)) as client:
            for _ in client.answers(data, PIPELINED):
                if time.monotonic() > ends_s:
                    return


def listener_of(handler: Handler) -> str:
    return "broker" if "broker" in handler.api.listeners else "controller"


def wide(node: HostileNode, handler: Handler, requests: list[bytes]) -> None:
    """Requests with huge arrays, each over a connection of its own."""
    for request in requests:
        with node.connect(listener_of(handler)) as client:
            client.ask([request])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--elements", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="", help="names of APIs, with commas")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    print(f"{'':44} {'asked':>6} {'p50 ms':>7} {'p99':>7} {'most':>7} {'callback p99.9':>9}")
    with tempfile.TemporaryDirectory() as directory, hostile_node(Path(directory) / "node") as node:
        measure(node, "nobody else", lambda: time.sleep(options.seconds))
        for key, handler in HANDLERS.items():
            if only is not None and key.name not in only:
                continue
            measure(node, f"{key.name} pipelined", lambda handler=handler: flood(node, handler, options.seconds))  # type: ignore[misc]
            name, version = handler.api.request_class.__name__, handler.max_version
            requests = [
                framed(handler, version, hostile.wide(name, version, path, options.elements), 1)
                for path in hostile.arrays(name, version)
            ]
            if requests:
                attack = f"{key.name}, {options.elements} elements"
                measure(node, attack, lambda handler=handler, requests=requests: wide(node, handler, requests))  # type: ignore[misc]
        print(f"most memory {node.most_resident_bytes / MIB:.0f} MiB; bugs {node.bugs() or 'none'}")


if __name__ == "__main__":
    main()
