"""Client quotas: what they cost, how well they hold, and what a quiet tenant notices; beside Apache Kafka 4.3.1.

Both brokers run at the same time and are measured in turns, plain, with one partition and acks=1. Tenants are processes
of their own (quota_clients.py) that ignore `throttle_time_ms`, so it is the broker that holds them. Four parts:

    cost       the broker's CPU for produce and fetch, with quotas that nobody reaches, and with none
    rate       bytes a second over 33 s, once the first burst is over, against the limit: 1 and 100 connections
    windows    windows of 1 s and of 30 s, each in a broker of its own: most bytes in a second, longest silence
    tenants    p99 of 500 records a second (Java's ProducerPerformance, linger 0): alone, and beside a greedy one that
               produces, asks for Metadata, or floods with acks=0, each with a quota and without
    ids        100,000 client ids in a minute: memory of the broker before, at most, and after its windows, and the p99
               of the quiet tenant meanwhile

    python bench/quotas.py                      # three rounds
    python bench/quotas.py --quick              # one short round, whose figures say little
    python bench/quotas.py --only cost,rate
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

from peers import Peer, print_table, producer_performance, python_build, running
from quota_clients import Load, Passed, Tenant, run_many_ids, set_quotas, tenant

KIB = 1024
Figures = dict[str, dict[str, list[float]]]
LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
NEVER_REACHED: dict[str, float | None] = dict.fromkeys(LIMITS, 1e12)
NONE: dict[str, float | None] = dict.fromkeys(LIMITS)
WINDOW_S = 11
"""The default windows, all together."""

COSTS = {
    # name: (requests, what each of four connections does)
    "produce 100 B": (60_000, Load("produce", "cost", connections=4, size_bytes=100, in_flight=4)),
    "produce 16 KB": (30_000, Load("produce", "cost", connections=4, size_bytes=16 * KIB, in_flight=4)),
    "fetch 16 KB": (60_000, Load("fetch", "cost", connections=4, size_bytes=16 * KIB, in_flight=1)),
}
RATE_BYTES = 1_000_000
RATES = {
    f"{kind}, {count} connections": Load(kind, "rate", connections=count, size_bytes=10_000)
    for kind in ("produce", "fetch")
    for count in (1, 100)
}
WINDOW_RATE_BYTES = 100_000
WINDOWS = {"30 x 1 s": (30, 1), "10 x 30 s": (10, 30)}
QUIET_PER_S, QUIET_RECORDS = 500, 5_000
GREEDY = {
    "produces": Load("produce", "greedy", connections=8, size_bytes=100_000, in_flight=5),
    "asks for Metadata": Load("metadata", connections=8, in_flight=10),
    "floods": Load("flood", "greedy", connections=8, size_bytes=10_000),
}
GREEDY_QUOTA: dict[str, float | None] = {"producer_byte_rate": 1_000_000, "request_percentage": 10}
IDS, IDS_S = 100_000, 60.0


class Scale:
    """How much of everything: all, or what shows that it runs."""

    def __init__(self, *, quick: bool) -> None:
        self.requests = 0.05 if quick else 1.0
        self.rate_s = 3.0 if quick else 3.0 * WINDOW_S  # what passes comes round with the windows
        self.before_rate_s = 3.0 if quick else 2.0 * WINDOW_S
        self.windows_s = 10.0 if quick else 180.0
        self.quiet_records = QUIET_RECORDS // 5 if quick else QUIET_RECORDS
        self.ids = IDS // 50 if quick else IDS
        self.ids_s = IDS_S / 10 if quick else IDS_S


def cost(peer: Peer, scale: Scale, number: int) -> dict[str, float]:
    """CPU microseconds a request, without quotas and with, in turns of which the first changes."""
    found: dict[str, float] = {}
    for name, (requests, load) in COSTS.items():
        spent = {}
        for quotas in (NONE, NEVER_REACHED) if number % 2 == 0 else (NEVER_REACHED, NONE):
            set_quotas(peer.bootstrap, None, quotas)
            count = max(500, int(requests * scale.requests))
            cpu = peer.cpu_seconds()
            Tenant(peer.bootstrap, load._replace(requests=count)).wait()
            spent[quotas is NONE] = (peer.cpu_seconds() - cpu) / count * 1e6
        set_quotas(peer.bootstrap, None, NONE)
        found[f"cost: {name}, CPU us a request"] = spent[True]
        found[f"cost: {name}, with quotas / without"] = spent[False] / max(spent[True], 1e-9)
    return found


def passed_between(passed: list[Passed], since_s: float, until_s: float) -> int:
    return sum(size for at_s, size in passed if since_s <= at_s < until_s)


def rate(peer: Peer, scale: Scale, number: int) -> dict[str, float]:
    """The rate in percent of the limit, once the first burst is over and no window remembers it."""
    found = {}
    for name, load in RATES.items():
        client_id = f"rate-{number}-{name}"
        limit = "producer_byte_rate" if load.kind == "produce" else "consumer_byte_rate"
        set_quotas(peer.bootstrap, client_id, {limit: RATE_BYTES})
        with tenant(peer.bootstrap, load._replace(client_id=client_id)) as one:
            began_s = time.monotonic() + scale.before_rate_s
            time.sleep(scale.before_rate_s + scale.rate_s)
        size = passed_between(one.passed, began_s, began_s + scale.rate_s)
        found[f"rate: {name}, % of the limit"] = size / scale.rate_s / RATE_BYTES * 100
        set_quotas(peer.bootstrap, client_id, {limit: None})
    return found


def windows(name: str, scale: Scale) -> dict[str, float]:
    """Bursts and silences of one greedy producer, for each kind of windows, on fresh brokers."""
    found = {}
    for shape, (count, width_s) in WINDOWS.items():
        extra = f"quota.window.num={count}\nquota.window.size.seconds={width_s}\n"
        with running(name, extra=extra) as peer:
            peer.create_topic("rate")
            set_quotas(peer.bootstrap, "greedy", {"producer_byte_rate": WINDOW_RATE_BYTES})
            began_s = time.monotonic()
            with tenant(peer.bootstrap, Load("produce", "rate", connections=4, size_bytes=10_000, in_flight=1)) as one:
                time.sleep(scale.windows_s)
            until_s = time.monotonic()
        times_s = [began_s, *(at_s for at_s, _ in one.passed), until_s]
        silences = [later - before for before, later in pairwise(times_s)]
        by_second: dict[int, int] = defaultdict(int)
        for at_s, size in one.passed:
            by_second[int(at_s - began_s)] += size
        found[f"windows: {shape}, most in a second, times the limit"] = max(by_second.values()) / WINDOW_RATE_BYTES
        found[f"windows: {shape}, longest silence, s"] = max(silences)
        found[f"windows: {shape}, passed in all, % of the limit"] = (
            sum(size for _, size in one.passed) / (until_s - began_s) / WINDOW_RATE_BYTES * 100
        )
    return found


def quiet_p99_ms(peer: Peer, scale: Scale) -> float:
    """What the quiet tenant sees."""
    return producer_performance(
        *(peer.bootstrap, "quiet"),
        records=scale.quiet_records,
        record_bytes=100,
        throughput=QUIET_PER_S,
        acks="1",
        linger_ms="0",
        client_id="quiet",
    )["p99"]


def tenants(peer: Peer, scale: Scale, number: int) -> dict[str, float]:
    """The quiet tenant's p99, alone and beside the greedy one."""
    found = {"tenants: alone, p99 ms": quiet_p99_ms(peer, scale)}
    for what, load in GREEDY.items():
        for with_quota in (True, False) if number % 2 == 0 else (False, True):
            limits = GREEDY_QUOTA if with_quota else dict.fromkeys(GREEDY_QUOTA)
            set_quotas(peer.bootstrap, "greedy", limits)
            with tenant(peer.bootstrap, load):
                p99_ms = quiet_p99_ms(peer, scale)
            found[f"tenants: greedy {what}, {'quota' if with_quota else 'none'}, p99 ms"] = p99_ms
            print(f"  {peer.name}, greedy {what}, {'quota' if with_quota else 'none'}: {p99_ms:g} ms", flush=True)
        set_quotas(peer.bootstrap, "greedy", dict.fromkeys(GREEDY_QUOTA))
    return dict(sorted(found.items(), key=lambda each: "alone" not in each[0]))


def ids(peer: Peer, scale: Scale, number: int) -> dict[str, float]:
    """Memory beside many client ids, each with a measure of its own, and the quiet tenant's p99."""
    limit = {"producer_byte_rate": 1e9}
    set_quotas(peer.bootstrap, None, dict(limit))
    load = Load("produce", "ids", connections=20, size_bytes=10)
    before, most, over = peer.resident_bytes(), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            most[0] = max(most[0], peer.resident_bytes())

    p99_ms: list[float] = []
    watcher = threading.Thread(target=watch)
    quiet = threading.Thread(target=lambda: p99_ms.append(quiet_p99_ms(peer, scale)))
    watcher.start()
    quiet.start()
    try:
        took_s = run_many_ids(peer.bootstrap, load, scale.ids, scale.ids_s)
    finally:
        quiet.join()
        over.set()
        watcher.join()
    time.sleep(2 * WINDOW_S + 1)
    after = peer.resident_bytes()
    set_quotas(peer.bootstrap, None, dict.fromkeys(limit))
    return {
        f"ids: seconds for {scale.ids:,}": took_s,
        "ids: memory before, MB": before / 1e6,
        "ids: bytes for each at the peak": (most[0] - before) / scale.ids,
        "ids: memory after the windows, MB": after / 1e6,
        "ids: quiet tenant's p99 ms": p99_ms[0],
    }


PARTS: dict[str, Callable[[Peer, Scale, int], dict[str, float]]] = {
    "cost": cost,
    "rate": rate,
    "tenants": tenants,
    "ids": ids,
}
NAMES = ("kafka", "penstock")


def prepared(peer: Peer) -> None:
    """Topics of their own for all parts, with something to fetch, and a broker that has done all of it before."""
    for topic in ("cost", "rate", "greedy", "quiet", "ids"):
        peer.create_topic(topic)
    for topic in ("cost", "rate"):
        Tenant(peer.bootstrap, Load("produce", topic, size_bytes=9_000, requests=500)).wait()


def warm_up(peer: Peer, scale: Scale) -> None:
    """A JVM compiles what it runs often."""
    for requests, load in COSTS.values():
        Tenant(peer.bootstrap, load._replace(requests=max(500, int(requests * scale.requests)))).wait()
    quiet_p99_ms(peer, scale)


def main() -> None:
    """Runs the rounds and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of both brokers (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", default="cost,rate,windows,tenants,ids", help="parts, with commas (default: all)")
    options = parser.parse_args()
    only = options.only.split(",")
    if unknown := set(only) - {*PARTS, "windows"}:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    scale, rounds = Scale(quick=options.quick), 1 if options.quick else options.rounds
    print(f"{python_build()}; load {os.getloadavg()[0]:.1f}")
    figures: Figures = defaultdict(lambda: defaultdict(list))
    parts = [name for name in PARTS if name in only]
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(running(name)) for name in (NAMES if parts else ())]
        for peer in peers:
            prepared(peer)
            warm_up(peer, scale)
        for number in range(rounds):
            for part in parts:
                for peer in peers if number % 2 == 0 else reversed(peers):
                    for key, value in PARTS[part](peer, scale, number).items():
                        figures[key][peer.name].append(value)
                print(f"round {number + 1}: {part} done, load {os.getloadavg()[0]:.1f}", flush=True)
    if "windows" in only:
        for name in NAMES:
            for key, value in windows(name, scale).items():
                figures[key][name].append(value)
    print_table(figures)


if __name__ == "__main__":
    main()
