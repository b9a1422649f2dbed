"""Consumer groups: Penstock against Apache Kafka 4.3.1, in alternating rounds on this machine, with Kafka's defaults.

- rebalance: 10 librdkafka members of a topic with 900 partitions; seconds until every partition has one owner and all
  members have their share: after the start, and after a join and a leave, both soon after that and after a calm.
- classic-heartbeats, consumer-heartbeats: 1,000 groups of 10 members, each on a connection of its own, every 3 s
  (classic) or when the broker says (KIP-848); cores that the broker uses, and memory a member beyond that of its
  connection.
- commits: offset commits from 20 connections, each waiting for its answer; a second, and the broker's CPU.
- load: a million offsets of different keys; a restarted broker, until it answers for every group.

Heartbeats and commits are measured on two brokers that keep running; their first round is not counted, since it warms
up the JVM. The other parts have new brokers in each round.

    python bench/groups.py                            # all of it, about forty minutes
    python bench/groups.py --only load,commits --peers penstock
    python bench/groups.py --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from group_members import PROTOCOLS, MemberGroup
from group_swarm import ClassicSwarm, ConsumerSwarm, Swarm
from peers import Peer, print_table, python_build, running
from vs_kafka import commit, settle
from wire import Wire, check, connect_many, wait_for_coordinator

from penstock.errors import ErrorCode
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

MEMBERS, PARTITIONS, CALM_S, SOON_S = 10, 900, 20.0, 2.0
COMMITTERS, COMMITS = 20, 20_000
LOADED_PARTITIONS = 1_000
LOADED_GROUPS = 1_000
PATIENCE_S = 120.0

_labels = count()

Figures = dict[str, float]


def rebalance(peer: Peer, _: argparse.Namespace) -> Figures:
    """See the module's head. All protocols share a calm."""
    peer.create_topic("many", PARTITIONS)
    asyncio.run(wait_for_coordinator(peer.bootstrap))
    figures: Figures = {}
    groups = {name: MemberGroup(peer.bootstrap, f"g {name}", "many", PARTITIONS, name) for name in PROTOCOLS}
    for name, group in groups.items():
        figures[f"{name}: start, s"] = group.join(MEMBERS)
        for what, change in (("join", group.join), ("leave", group.leave)):
            time.sleep(SOON_S)
            figures[f"{name}: {what} soon after, s"] = change()
    for what in ("join", "leave"):
        time.sleep(CALM_S)
        for name, group in groups.items():
            figures[f"{name}: {what} after a calm, s"] = group.join() if what == "join" else group.leave()
    for group in groups.values():
        group.close()
    return figures


def heartbeats(peer: Peer, options: argparse.Namespace, *, name: str, swarm: type[Swarm]) -> Figures:
    """See the module's head."""
    create_once(peer, "one", 10)
    return {f"{name}: {what}": value for what, value in asyncio.run(beat(peer, swarm, options)).items()}


def create_once(peer: Peer, topic: str, partitions: int) -> None:
    """Creates a topic in the first round."""
    if topic not in peer.topics:
        peer.create_topic(topic, partitions)


async def beat(peer: Peer, kind: type[Swarm], options: argparse.Namespace) -> Figures:
    """One swarm: it joins, settles and beats."""
    await wait_for_coordinator(peer.bootstrap)
    wires = await connect_many(peer.bootstrap, options.groups * MEMBERS)
    swarm = kind("one", options.groups, wires, label=f"{next(_labels)}-")
    settle(peer)
    before, cpu, began = live_bytes(peer), peer.cpu_seconds(), time.perf_counter()
    await swarm.join()
    joined_s, joined_cpu_s = time.perf_counter() - began, peer.cpu_seconds() - cpu
    await swarm.beat(options.settle_s)
    cpu, beats, began = peer.cpu_seconds(), swarm.beats, time.perf_counter()
    await swarm.beat(options.beat_s)
    seconds = time.perf_counter() - began
    figures = {
        f"{options.groups:,} groups join, s": joined_s,
        f"{options.groups:,} groups join, CPU-s": joined_cpu_s,
        "heartbeats/s": (swarm.beats - beats) / seconds,
        "heartbeats, cores": (peer.cpu_seconds() - cpu) / seconds,
        "heartbeat, CPU us": (peer.cpu_seconds() - cpu) / (swarm.beats - beats) * 1e6,
        "memory a member, bytes": (live_bytes(peer) - before) / len(wires),
    }
    await swarm.leave_all()
    for wire in wires:
        wire.close()
    return figures


def live_bytes(peer: Peer) -> float:
    """What the broker holds: resident memory, or the live heap of a JVM, whose resident memory says nothing."""
    if peer.name != "kafka":
        return peer.resident_bytes()
    told = subprocess.run(["jcmd", str(peer.pid), "GC.class_histogram"], capture_output=True, text=True, check=True)
    return float(told.stdout.strip().splitlines()[-1].split()[2])


def commits(peer: Peer, _: argparse.Namespace) -> Figures:
    """See the module's head."""
    create_once(peer, "committed", 10)
    figures: Figures = {}
    for partitions in (1, 10):
        settle(peer)
        cpu, began = peer.cpu_seconds(), time.perf_counter()
        asyncio.run(commit_many(peer, partitions, COMMITS))
        seconds = time.perf_counter() - began
        settle(peer)
        figures[f"commits of {partitions} partitions, requests/s"] = COMMITS / seconds
        figures[f"commits of {partitions} partitions, CPU us a request"] = (peer.cpu_seconds() - cpu) / COMMITS * 1e6
    return figures


async def commit_many(peer: Peer, partitions: int, count: int) -> None:
    """Commits of COMMITTERS groups."""
    await wait_for_coordinator(peer.bootstrap)
    wires = await connect_many(peer.bootstrap, COMMITTERS)

    async def go_on(number: int, wire: Wire) -> None:
        for offset in range(count // COMMITTERS):
            await commit_offsets(wire, f"committer-{number}", "committed", partitions, offset)

    await asyncio.gather(*(go_on(*each) for each in enumerate(wires)))
    for wire in wires:
        wire.close()


async def commit_offsets(wire: Wire, group_id: str, topic: str, partitions: int, offset: int) -> None:
    """One commit of a simple consumer, again while the coordinator comes."""
    wanted = [OffsetCommitRequestPartition(partition_index=each, committed_offset=offset) for each in range(partitions)]
    request = OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=wanted)])
    coming = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    while True:
        answer = await wire.ask(ApiKey.OFFSET_COMMIT, request)
        if not any(check(each.error_code, *coming) for each in answer.topics[0].partitions):
            return
        await asyncio.sleep(0.05)


def load(peer: Peer, _: argparse.Namespace) -> Figures:
    """See the module's head."""
    peer.create_topic("loaded", LOADED_PARTITIONS)
    restart(peer)
    asyncio.run(answered(peer, 0))
    settle(peer)
    empty_cpu = peer.cpu_seconds()
    peer.create_topic("committed", 10)
    asyncio.run(commit_many(peer, 10, COMMITS))  # warms up what writes offsets
    settle(peer)
    cpu, began = peer.cpu_seconds(), time.perf_counter()
    asyncio.run(write_offsets(peer))
    figures = {"a million offsets written, s": time.perf_counter() - began}
    settle(peer)
    figures["a million offsets written, CPU-s"] = peer.cpu_seconds() - cpu
    restart(peer)
    asyncio.run(answered(peer, LOADED_GROUPS))
    figures["restart until all are answered for, s"] = time.perf_counter() - peer.started_at
    settle(peer)
    figures["the same, CPU-s"] = peer.cpu_seconds()
    figures["the same without offsets, CPU-s"] = empty_cpu
    figures["memory with a million offsets, MB"] = live_bytes(peer) / 1e6
    return figures


def restart(peer: Peer) -> None:
    """A clean stop and a start."""
    peer.stop()
    peer.start()


async def write_offsets(peer: Peer) -> None:
    """LOADED_GROUPS commits of LOADED_PARTITIONS partitions."""
    await wait_for_coordinator(peer.bootstrap)
    wires = await connect_many(peer.bootstrap, 4)

    async def go_on(first: int) -> None:
        for number in range(first, LOADED_GROUPS, len(wires)):
            await commit_offsets(wires[first], f"loaded-{number}", "loaded", LOADED_PARTITIONS, 7)

    await asyncio.gather(*map(go_on, range(len(wires))))
    for wire in wires:
        wire.close()


async def answered(peer: Peer, groups: int) -> None:
    """Waits until the broker is there, and gives an offset for each of so many groups."""
    topic = OffsetFetchRequestTopics(name="loaded", partition_indexes=[LOADED_PARTITIONS - 1])
    missing = [f"loaded-{number}" for number in range(groups)] or [""]
    deadline = time.perf_counter() + PATIENCE_S
    while missing and time.perf_counter() < deadline:
        with contextlib.suppress(ConnectionError):
            (wire,) = await connect_many(peer.bootstrap, 1)
            while missing and groups:
                wanted = [OffsetFetchRequestGroup(group_id=each, topics=[topic]) for each in missing[:50]]
                answer = await wire.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=wanted))
                there = [
                    each.group_id
                    for each in answer.groups
                    if not each.error_code and each.topics[0].partitions[0].committed_offset == 7
                ]
                missing = [each for each in missing if each not in there]
                await asyncio.sleep(0 if there else 0.02)
            wire.close()
            return
        await asyncio.sleep(0.02)
    raise RuntimeError(f"{len(missing)} groups are not answered for")


PARTS: dict[str, Callable[[Peer, argparse.Namespace], Figures]] = {
    "rebalance": rebalance,
    "classic-heartbeats": partial(heartbeats, name="classic", swarm=ClassicSwarm),
    "consumer-heartbeats": partial(heartbeats, name="KIP-848", swarm=ConsumerSwarm),
    "commits": commits,
    "load": load,
}
FRESH = ("rebalance", "load")
"""Parts that have a new broker in each round."""


class Found:
    """What the rounds have given: {figure: {broker: values}}."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, list[float]]] = {}

    def note(self, peer: Peer, figures: Figures) -> None:
        """Keeps and prints the figures of one round."""
        self.note_of(peer.name, figures)

    def note_of(self, name: str, figures: Figures) -> None:
        """The same, by the name of the broker or cluster."""
        for key, value in figures.items():
            self.figures.setdefault(key, {}).setdefault(name, []).append(value)
            print(f"{name}: {key}: {value:,.5g}", flush=True)


def rounds_of(names: list[str], rounds: range) -> Iterator[tuple[int, str]]:
    """Alternately one broker first and the other."""
    for number in rounds:
        for name in names if number % 2 == 0 else reversed(names):
            yield number, name


def main() -> None:
    """Runs the parts on both and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, of " + ",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--groups", type=int, default=1_000, help="groups that heartbeat")
    parser.add_argument("--settle-s", type=float, default=20.0, help="how long these settle before they are measured")
    parser.add_argument("--beat-s", type=float, default=20.0, help="how long they are measured")
    parser.add_argument("--peers", default="kafka,penstock")
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    names, parts, found = options.peers.split(","), options.only.split(","), Found()
    for part in (each for each in parts if each in FRESH):
        for _, name in rounds_of(names, range(options.rounds)):
            with running(name) as peer:
                found.note(peer, PARTS[part](peer, options))
    with contextlib.ExitStack() as stack:
        peers = {name: stack.enter_context(running(name)) for name in names}
        for part in (each for each in parts if each not in FRESH):
            for number, name in rounds_of(names, range(-1, options.rounds)):
                figures = PARTS[part](peers[name], options)
                if number >= 0:
                    found.note(peers[name], figures)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"commit": commit(), "figures": found.figures}, file, indent=1)
    print(f"\ncommit {commit()}, {python_build()}; medians of {options.rounds} rounds, ratio Penstock / Kafka\n")
    print_table(found.figures)


if __name__ == "__main__":
    main()
