"""Why each move is made, in a sentence: from what was so before, and what will be."""

from __future__ import annotations

import numpy as np

from penstock.guardian.plan.columns import BROKER, DISK, DISK_SCALE, LEADER, NAMED, SCALE, TOPIC
from penstock.guardian.plan.model import DISK_RESOURCES, PEAK, RESOURCES, Array, Model
from penstock.guardian.plan.planner import Search
from penstock.guardian.plan.rules import Rules

WORDS = {
    "cpu": "CPU",
    "bytes": "bytes on disk",
    "disk_write": "disk writes",
    "disk_read": "disk reads",
    "net_in": "network in",
    "net_out": "network out",
}

Shares = tuple[Array, Array, Array]
"""What each broker or disk has before and after, in shares, and 1 / share."""


class Reasons:
    """Makes the sentences; what all of them need is computed at once, in arrays."""

    def __init__(self, model: Model, rules: Rules, search: Search) -> None:
        self._model = model
        self._rules = rules
        self._search = search
        self._evacuated = set(search.evacuated.tolist())
        self._widened = set(search.widened.tolist())
        self._ids = model.brokers.ids.tolist()
        self._new = model.brokers.new.tolist()

    def of_replicas(self, replicas: Array, partner: Array) -> list[str]:
        """Why replicas go to other brokers; `partner` has for each replica the one that comes in exchange, or -1."""
        model = self._model
        source, target = model.broker[replicas], self._search.state.replicas[replicas, BROKER]
        evening = self._between_brokers(source, target, self._load(replicas)[:, :PEAK])
        found = []
        for at, r in enumerate(replicas.tolist()):
            if r in self._evacuated:
                found.append(self._must(r))
            elif model.partition[r] in self._widened:
                found.append("its replicas are to be in more racks or on more hosts")
            elif partner[r] >= 0:
                p = model.partition[partner[r]]
                found.append(f"{evening[at]}; {model.topics[model.topic[p]]}-{model.number[p]} comes in exchange")
            else:
                found.append(evening[at])
        return found

    def of_disks(self, replicas: Array) -> list[str]:
        """Why replicas go to other disks of their brokers."""
        begin, state, model = self._search.begin, self._search.state, self._model
        source, target = model.disk[replicas], state.replicas[replicas, DISK]
        scale = begin.disk_loads[:, DISK_SCALE:]
        had, will = (each.disk_loads[:, : len(DISK_RESOURCES)] * scale for each in (begin, state))
        load = self._load(replicas)[:, DISK_RESOURCES]
        words = [WORDS[RESOURCES[k]] for k in DISK_RESOURCES]
        names = model.disks.dirs
        found = compared((had, will, scale), (source, target, load), words, list(names))
        return [self._must(r) if r in self._evacuated else found[at] for at, r in enumerate(replicas.tolist())]

    def of_leaders(self, partitions: Array) -> list[str]:
        """Why other replicas lead partitions."""
        model, state = self._model, self._search.state
        old, new = model.leader[partitions], state.partitions[partitions, LEADER]
        less = model.leading[old, :PEAK] - model.following[old, :PEAK]
        evening = self._between_brokers(model.broker[old], state.replicas[new, BROKER], less)
        named = state.topics[state.partitions[partitions, TOPIC], NAMED] >= 0
        found = []
        for at, p in enumerate(partitions.tolist()):
            topic = model.topics[model.topic[p]]
            if int(old[at]) in self._evacuated:
                found.append(self._must(int(old[at])))
            elif named[at]:
                least = self._rules.leaders_per_broker_min[topic]
                found.append(f"{evening[at]}; each broker is to lead {least} of {topic} at least")
            else:
                found.append(evening[at])
        return found

    def _load(self, replicas: Array) -> Array:
        """The loads of replicas in their roles before."""
        model = self._model
        leads = model.leader[model.partition[replicas]] == replicas
        return np.where(leads[:, None], model.leading[replicas], model.following[replicas])

    def _between_brokers(self, source: Array, target: Array, load: Array) -> list[str]:
        begin, state = self._search.begin, self._search.state
        scale = begin.broker_loads[:, SCALE : SCALE + PEAK]
        had, will = (each.broker_loads[:, :PEAK] * scale for each in (begin, state))
        names = [f"broker {each}{' (new)' if new else ''}" for each, new in zip(self._ids, self._new, strict=True)]
        return compared((had, will, scale), (source, target, load), [WORDS[each] for each in RESOURCES], names)

    def _must(self, r: int) -> str:
        """Why a replica may not stay where it is."""
        model = self._model
        b, d = model.broker[r], model.disk[r]
        if not model.brokers.alive[b]:
            return f"broker {self._ids[b]} is dead"
        if not model.disks.alive[d]:
            return f"{model.disks.dirs[d]} of broker {self._ids[b]} is dead"
        if self._ids[b] in self._rules.drained:
            return f"broker {self._ids[b]} is drained"
        topic = model.topics[model.topic[model.partition[r]]]
        return f"{topic} is pinned to brokers {', '.join(map(str, sorted(self._rules.pinned.get(topic, ()))))}"


def compared(shares: Shares, moves: tuple[Array, Array, Array], words: list[str], names: list[str]) -> list[str]:
    """For each move, what its source and target have and will have of the resource that it evens out most.

    Where it evens out none by itself, because others come and go as well, it is said what both will have.
    """
    (had, will, scale), (source, target, load) = shares, moves
    if not len(source):
        return []
    weight = load * scale[target]
    worth = (had[source] - had[target]) * weight
    evens = worth.max(axis=1) > 0
    k = np.where(evens, worth.argmax(axis=1), weight.argmax(axis=1))
    rows = zip(
        evens.tolist(), k.tolist(), source.tolist(), target.tolist(), had[source, k].tolist(),
        had[target, k].tolist(), will[source, k].tolist(), will[target, k].tolist(), strict=True,
    )  # fmt: skip
    return [
        f"{names[a]} has {a0:.2f} of its share of {words[k]} and {names[b]} {b0:.2f}; they will have "
        f"{a1:.2f} and {b1:.2f}"
        if even
        else f"with what else comes and goes, {names[a]} will have {a1:.2f} of its share of {words[k]} and {names[b]} "
        f"{b1:.2f}"
        for even, k, a, b, a0, b0, a1, b1 in rows
    ]
