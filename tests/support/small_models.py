"""Small models, written out by hand: a partition is `topic: (brokers, the leader first)`, its load a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.guardian.plan.model import CPU, LOAD_COLUMNS, PEAK, Brokers, Disks, Model

CAPACITY = 1_000.0


def model_of(
    partitions: Sequence[tuple[Sequence[int], float]],
    racks: Sequence[int],
    *,
    hosts: Sequence[int] | None = None,
    disks: int = 1,
    dead: Sequence[int] = (),
    dead_disks: Sequence[int] = (),
    new: Sequence[int] = (),
    topics: Mapping[int, str] | None = None,
    capacity: float = CAPACITY,
) -> Model:
    """A model with brokers 0, 1, ... in these racks. Each partition: its brokers, and what each replica costs of every
    resource; a leader costs twice as much CPU. The replica with index i is on disk i % disks of its broker."""
    count = len(racks)
    named = sorted(((topics or {}).get(at, "t"), at) for at in range(len(partitions)))
    names = sorted({name for name, _ in named})
    sizes = [len(partitions[at][0]) for _, at in named]
    first = np.concatenate([[0], np.cumsum(sizes)])
    broker = np.array([each for _, at in named for each in partitions[at][0]], np.int64)
    cost = np.repeat([partitions[at][1] for _, at in named], sizes)
    following = np.repeat(cost[:, None], LOAD_COLUMNS, axis=1)
    leading = following.copy()
    leading[:, [CPU, PEAK + CPU]] *= 2
    topic = np.array([names.index(name) for name, _ in named], np.int64)
    numbers = np.arange(len(named)) - np.searchsorted(topic, topic)
    each, every = np.full(count, capacity), np.full(count * disks, capacity * 2)
    alive, living = np.ones(count, np.bool_), np.ones(count * disks, np.bool_)
    alive[list(dead)], living[list(dead_disks)] = False, False
    fresh = np.zeros(count, np.bool_)
    fresh[list(new)] = True
    return Model(
        Brokers(np.arange(count), np.array(racks), np.arange(count) if hosts is None else np.array(hosts), alive, fresh,
                each, each, each, tuple(f"r{rack}" for rack in range(max(racks) + 1))),
        Disks(np.repeat(np.arange(count), disks), np.arange(count + 1) * disks,
              tuple(f"/d{disk}" for _ in range(count) for disk in range(disks)), every / disks, every / disks, living),
        tuple(names), topic, numbers, first, np.repeat(np.arange(len(named)), sizes), broker,
        broker * disks + np.arange(len(broker)) % disks, first[:-1].copy(), leading, following,
    )  # fmt: skip
