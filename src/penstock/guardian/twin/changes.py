"""What may happen to a cluster: brokers die, others come, a topic grows. Each gives the model as it is after that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.guardian.plan.model import Array, Brokers, Disks, Model


def kill(model: Model, ids: Sequence[int]) -> Model:
    """Brokers die; the first living replica of each partition that they led leads it, where there is one."""
    alive = model.brokers.alive & ~np.isin(model.brokers.ids, list(ids))
    lives = alive[model.broker] & model.disks.alive[model.disk]
    leader = model.leader.copy()
    for p in np.flatnonzero(~lives[leader]):
        mine = np.arange(model.first[p], model.first[p + 1])
        if lives[mine].any():
            leader[p] = mine[lives[mine]][0]
    return replace(model, brokers=replace(model.brokers, alive=alive), leader=leader)


def grow(model: Model, topic: str, factor: float) -> Model:
    """All that a topic costs is so many times as much, its bytes too, as they are with the same retention."""
    mine = (model.topic == model.topics.index(topic))[model.partition]
    times = np.where(mine, factor, 1.0)[:, None]
    return replace(model, leading=model.leading * times, following=model.following * times)


def add(model: Model, count: int) -> Model:
    """Empty brokers come, with ids above all others: as large as the median, one after the other in the racks that
    have fewest, with as many disks as the broker in the middle, on hosts of their own."""
    brokers, disks = model.brokers, model.disks
    new = np.arange(count)
    sizes = np.bincount(brokers.rack, minlength=len(brokers.rack_names))
    racks = []
    for _ in range(count):
        racks.append(int(np.argmin(sizes)))
        sizes[racks[-1]] += 1
    each = np.diff(disks.first)
    pattern = int(np.argsort(each, kind="stable")[len(each) // 2])
    dirs = disks.dirs[disks.first[pattern] : disks.first[pattern + 1]]
    yes = np.ones(count, np.bool_)

    def more(old: Array, value: Array | float) -> Array:
        return np.concatenate([old, np.full(count, value)])

    after = Brokers(
        np.concatenate([brokers.ids, brokers.ids.max() + 1 + new]),
        np.concatenate([brokers.rack, np.array(racks, np.int64)]),
        np.concatenate([brokers.host, brokers.host.max() + 1 + new]),
        np.concatenate([brokers.alive, yes]),
        np.concatenate([brokers.new, yes]),
        more(brokers.cpu_capacity, np.median(brokers.cpu_capacity)),
        more(brokers.net_in_capacity, np.median(brokers.net_in_capacity)),
        more(brokers.net_out_capacity, np.median(brokers.net_out_capacity)),
        brokers.rack_names,
    )
    total = count * len(dirs)
    after_disks = Disks(
        np.concatenate([disks.broker, np.repeat(len(brokers.ids) + new, len(dirs))]),
        np.concatenate([disks.first, disks.first[-1] + len(dirs) * (new + 1)]),
        (*disks.dirs, *(dirs * count)),
        np.concatenate([disks.bytes_capacity, np.full(total, np.median(disks.bytes_capacity))]),
        np.concatenate([disks.rate_capacity, np.full(total, np.median(disks.rate_capacity))]),
        np.concatenate([disks.alive, np.ones(total, np.bool_)]),
    )
    return replace(model, brokers=after, disks=after_disks)
