"""Checks a plan before anybody sees it: applies it to the model and computes all sums anew, rule by rule.

Written apart from the planner: it reads the plan's JSON, knows nothing of the search's state, and is plain numpy. What
it finds is a fault of the planner, never of the user's model: a rule that is broken, which was not before and is not
said in the plan; two parts of the plan that say different things; a figure that is not what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.guardian.plan import rules as names
from penstock.guardian.plan.model import BYTES, CPU, DISK_READ, DISK_WRITE, NET_IN, NET_OUT, PEAK, Array, Model
from penstock.guardian.plan.rules import Rules

SHAPE = "shape"
"""A plan that does not fit together, or not to the model."""
FIGURES = "figures"
FEW_PLACES = 64
"""Racks or hosts up to which a table of partitions and places is the quickest way to count."""
CLOSE = 1e-6
"""The relative difference that sums may have because they were added in another order."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a plan: the rule, what it is about, and a sentence."""

    rule: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where replicas and leaders are: broker and disk of each replica, the leading replica of each partition."""

    broker: Array
    disk: Array
    leader: Array


def verify(model: Model, rules: Rules, plan: Mapping[str, Any]) -> list[Fault]:
    """All faults of a plan; none if it may be carried out."""
    try:
        after = Applied(model, plan).places()
    except Misfit as error:
        return [Fault(SHAPE, error.args[0], error.args[1])]
    before = Places(model.broker, model.disk, model.leader)
    said = {(each["rule"], each["place"]) for each in plan["violations"]}
    old = {(each.rule, each.place): each for each in broken(model, rules, before)}
    losers = {
        f"{topic} on {fault.place.split(' on ')[1].split(',')[0]}"  # what must leave a broker may be what led there
        for fault in old.values()
        if fault.rule in (names.ALIVE, names.DRAINED, names.PINNED)
        for topic in rules.leaders_per_broker_min
    }
    faults = list(touched(model, rules, after))
    for each in broken(model, rules, after):
        key = (each.rule, each.place)
        may_be_new = each.rule == names.LEADERS_MIN and each.place in losers
        if key not in said or not (key in old or may_be_new):
            faults.append(each)
    return faults + list(wrong_figures(model, after, plan))


class Misfit(Exception):
    """A plan that cannot be applied: what it is about, and why."""


class Applied:
    """The plan, applied to the model move by move, and held against its other parts."""

    def __init__(self, model: Model, plan: Mapping[str, Any]) -> None:
        self._model = model
        self._plan = plan
        names = zip((model.topics[t] for t in model.topic.tolist()), model.number.tolist(), strict=True)
        self._partition = {name: p for p, name in enumerate(names)}
        self._first = model.first.tolist()
        ids = model.brokers.ids[model.disks.broker].tolist()
        self._disk = {name: d for d, name in enumerate(zip(ids, model.disks.dirs, strict=True))}
        self._broker_of_disk = model.disks.broker.tolist()
        self._disks = model.disk.tolist()

    def places(self) -> Places:
        """Where everything is after the moves. Raises Misfit."""
        model = self._model
        targets: dict[int, int] = {}
        for move in self._plan["moves"]:
            if move["kind"] != "leader":
                r, target = self.move(move)
                if r in targets:
                    raise Misfit(name_of(move), f"move {move['id']}: the replica moves twice")
                targets[r] = target
        disk, leader = model.disk.copy(), model.leader.copy()
        disk[list(targets)] = list(targets.values())
        broker = model.disks.broker[disk]
        ids = model.brokers.ids[broker].tolist()
        led: set[int] = set()
        for move in self._plan["moves"]:
            if move["kind"] == "leader":
                p = self.known(self._partition, (move["topic"], move["partition"]), move)
                if p in led:
                    raise Misfit(name_of(move), f"move {move['id']}: the leader changes twice")
                if self._model.brokers.ids[self._model.broker[self._model.leader[p]]] != move["from"]["broker"]:
                    raise Misfit(name_of(move), f"move {move['id']}: another broker leads the partition")
                led.add(p)
                found = [r for r in self.replicas(p) if ids[r] == move["to"]["broker"]]
                if len(found) != 1:
                    raise Misfit(name_of(move), f"move {move['id']}: the new leader has no replica")
                leader[p] = found[0]
        after = Places(broker, disk, leader)
        self.compare(after)
        return after

    def replicas(self, p: int) -> range:
        return range(self._first[p], self._first[p + 1])

    def move(self, move: Mapping[str, Any]) -> tuple[int, int]:
        """The replica that a move is about, and the disk to which it goes."""
        p = self.known(self._partition, (move["topic"], move["partition"]), move)
        source = self.known(self._disk, (move["from"]["broker"], move["from"]["dir"]), move)
        target = self.known(self._disk, (move["to"]["broker"], move["to"]["dir"]), move)
        found = [r for r in self.replicas(p) if self._disks[r] == source]
        if len(found) != 1:
            raise Misfit(name_of(move), f"move {move['id']}: the partition has no replica where it is said to be")
        r = found[0]
        size = self._model.leading if self._model.leader[p] == r else self._model.following
        if move["bytes"] != int(size[r, BYTES]):
            raise Misfit(name_of(move), f"move {move['id']}: the replica has {int(size[r, BYTES])} bytes")
        kinds = ("disk",) if self._broker_of_disk[source] == self._broker_of_disk[target] else ("replica", "swap")
        if move["kind"] not in kinds:
            raise Misfit(name_of(move), f"move {move['id']}: it is not of the kind {move['kind']}")
        return r, target

    def known(self, table: Mapping[Any, int], key: Any, move: Mapping[str, Any]) -> int:
        if key not in table:
            raise Misfit(name_of(move), f"the model has no {key}")
        return table[key]

    def compare(self, after: Places) -> None:
        """Holds what Kafka is told against what the moves come to. Raises Misfit."""
        model, brokers = self._model, self._model.brokers.ids
        differs = (after.disk != model.disk) | (after.broker != model.broker)
        expected = set(np.unique(model.partition[differs]).tolist())
        expected |= set(np.flatnonzero(after.leader != model.leader).tolist())
        ids, disks, changed = brokers[after.broker].tolist(), after.disk.tolist(), differs.tolist()
        told: set[int] = set()
        for entry in self._plan["partitions"]:
            p = self.known(self._partition, (entry["topic"], entry["partition"]), entry)
            if p in told or p not in expected:
                raise Misfit(name_of(entry), "Kafka is told twice" if p in told else "it does not change")
            told.add(p)
            where = {ids[r]: r for r in self.replicas(p)}
            if sorted(where) != sorted(entry["replicas"]) or len(where) != len(self.replicas(p)):
                raise Misfit(name_of(entry), "its replicas are not where the moves lead")
            if entry["replicas"][0] != ids[after.leader[p]]:
                raise Misfit(name_of(entry), "the leader's broker is not the first")
            for broker, name in zip(entry["replicas"], entry["log_dirs"], strict=True):
                r = where[broker]
                if name != (model.disks.dirs[disks[r]] if changed[r] else "any"):
                    raise Misfit(name_of(entry), f"{name} is not the log dir to which the moves lead")
        if expected != told:
            raise Misfit(partition_name(model, min(expected - told)), "it changes, and Kafka is not told")
        self.compare_leaders(after)

    def compare_leaders(self, after: Places) -> None:
        model, brokers = self._model, self._model.brokers.ids
        old, new = brokers[model.broker[model.leader]], brokers[after.broker[after.leader]]
        told = {(each["topic"], each["partition"]): each["broker"] for each in self._plan["leaders"]}
        due = {(model.topics[model.topic[p]], int(model.number[p])): int(new[p]) for p in np.flatnonzero(old != new)}
        if told != due or len(told) != len(self._plan["leaders"]):
            raise Misfit("leaders", "they are not those to which the moves lead")


def name_of(entry: Mapping[str, Any]) -> str:
    return f"{entry['topic']}-{entry['partition']}"


def partition_name(model: Model, p: int) -> str:
    return f"{model.topics[model.topic[p]]}-{model.number[p]}"


def broken(model: Model, rules: Rules, places: Places) -> Iterator[Fault]:
    """All rules that are broken where things are so."""
    yield from doubled(model, places)
    if rules.racks:
        yield from too_narrow(model, rules, places, names.RACKS, model.brokers.rack)
    if rules.hosts:
        yield from too_narrow(model, rules, places, names.HOSTS, model.brokers.host)
    yield from over_capacity(model, rules, places)
    yield from misplaced(model, rules, places)
    yield from few_leaders(model, rules, places)


def flying(model: Model, rules: Rules) -> dict[int, Any]:
    """The partitions that are being moved."""
    at = {(each.topic, each.partition): each for each in rules.in_flight}
    if not at:
        return {}
    keys = ((model.topics[t], int(n)) for t, n in zip(model.topic, model.number, strict=True))
    return {p: at[key] for p, key in enumerate(keys) if key in at}


def doubled(model: Model, places: Places) -> Iterator[Fault]:
    """Two replicas of a partition on one broker."""
    key = np.sort(model.partition * len(model.brokers.ids) + places.broker)
    for each in np.unique(key[1:][key[1:] == key[:-1]]):
        p, b = divmod(int(each), len(model.brokers.ids))
        text = f"{partition_name(model, p)} has two replicas on broker {model.brokers.ids[b]}"
        yield Fault(names.SAME_BROKER, partition_name(model, p), text)


def too_narrow(model: Model, rules: Rules, places: Places, rule: str, domain: Array) -> Iterator[Fault]:
    """Partitions in fewer racks or hosts than they were in, or could be in."""
    if of_their_own(domain):
        return
    living = model.brokers.alive & ~np.isin(model.brokers.ids, list(rules.drained))
    possible = np.minimum(np.diff(model.first), len(set(domain[living].tolist())))
    excluded = np.flatnonzero(np.isin(model.topic, excluded_topics(model, rules)))
    still = {*flying(model, rules), *excluded.tolist(), *lost(model)}
    after = spread(model, domain[places.broker])
    for p in np.flatnonzero(after < possible).tolist():
        if int(p) not in still:
            text = f"{partition_name(model, p)} is in {after[p]} {rule}, it can be in {possible[p]}"
            yield Fault(rule, partition_name(model, p), text)


def lost(model: Model) -> set[int]:
    """Partitions without a living replica."""
    living = model.brokers.alive[model.broker] & model.disks.alive[model.disk]
    return set(range(len(model.topic))) - set(model.partition[living].tolist()) if not living.all() else set()


def of_their_own(domain: Array) -> bool:
    """Whether each broker has a rack or host of its own: then two replicas share one only if they share a broker."""
    return len(np.unique(domain)) == len(domain)


def excluded_topics(model: Model, rules: Rules) -> list[int]:
    return [model.topics.index(each) for each in rules.excluded_topics]


def spread(model: Model, where: Array) -> Array:
    """In how many different places each partition is."""
    count = int(where.max(initial=0)) + 1
    if count <= FEW_PLACES:
        there = np.zeros((len(model.topic), count), np.bool_)
        there[model.partition, where] = True
        return there.sum(axis=1)
    return np.bincount(np.unique(model.partition * count + where) // count, minlength=len(model.topic))


def load_of(model: Model, places: Places) -> Array:
    """The load of each replica in the role that it has then."""
    load = model.following.copy()
    load[places.leader] = model.leading[places.leader]
    return load


def over_capacity(model: Model, rules: Rules, places: Places) -> Iterator[Fault]:
    """Brokers and disks with more, at the 95th percentile, than the rules allow of them."""
    load = load_of(model, places)[:, PEAK:]
    brokers, disks, share = model.brokers, model.disks, rules.capacity
    count = len(brokers.ids)
    coming = np.zeros((count, PEAK))
    for p, flight in flying(model, rules).items():
        mine = slice(model.first[p], model.first[p + 1])
        here = set(brokers.ids[model.broker[mine]].tolist())
        for b in np.flatnonzero(np.isin(brokers.ids, [each for each in flight.replicas if each not in here])):
            coming[b] += model.leading[mine, PEAK:].max(axis=0)
    for rule, column, capacity, part in (
        (names.CPU_CAPACITY, CPU, brokers.cpu_capacity, share.cpu),
        (names.NET_IN_CAPACITY, NET_IN, brokers.net_in_capacity, share.net),
        (names.NET_OUT_CAPACITY, NET_OUT, brokers.net_out_capacity, share.net),
    ):
        used = np.bincount(places.broker, load[:, column], count) + coming[:, column]
        for b in np.flatnonzero(used > capacity * part * (1 + CLOSE) + CLOSE):
            text = f"broker {brokers.ids[b]} has {used[b]:.6g}, {capacity[b] * part:.6g} is allowed"
            yield Fault(rule, f"broker {brokers.ids[b]}", text)
    rate = load[:, DISK_WRITE] + load[:, DISK_READ]
    more = coming[disks.broker]
    for rule, each, extra, capacity, part in (
        (names.BYTES_CAPACITY, load[:, BYTES], more[:, BYTES], disks.bytes_capacity, share.bytes),
        (names.RATE_CAPACITY, rate, more[:, DISK_WRITE] + more[:, DISK_READ], disks.rate_capacity, share.disk_rate),
    ):
        used = np.bincount(places.disk, each, len(disks.broker)) + extra
        for d in np.flatnonzero(used > capacity * part * (1 + CLOSE) + CLOSE):
            place = f"broker {brokers.ids[disks.broker[d]]}, {disks.dirs[d]}"
            yield Fault(rule, place, f"{place} has {used[d]:.6g}, {capacity[d] * part:.6g} is allowed")
    if rules.replicas_per_broker_max is not None:
        held = np.bincount(places.broker, minlength=count)
        for flight, p in ((each, at) for at, each in flying(model, rules).items()):
            mine = slice(model.first[p], model.first[p + 1])
            here = set(brokers.ids[model.broker[mine]].tolist())
            held += np.isin(brokers.ids, [each for each in flight.replicas if each not in here])
        for b in np.flatnonzero(held > rules.replicas_per_broker_max):
            text = f"broker {brokers.ids[b]} has {held[b]} replicas, {rules.replicas_per_broker_max} are allowed"
            yield Fault(names.REPLICAS_MAX, f"broker {brokers.ids[b]}", text)


def misplaced(model: Model, rules: Rules, places: Places) -> Iterator[Fault]:
    """Replicas where none may be: on what is dead, on drained brokers, off the brokers to which they are pinned."""
    ids = model.brokers.ids[places.broker]
    dead = ~model.brokers.alive[places.broker] | ~model.disks.alive[places.disk]
    drained = np.isin(ids, list(rules.drained))
    off = np.zeros(model.replicas, np.bool_)
    for topic, allowed in rules.pinned.items():
        mine = model.topic[model.partition] == model.topics.index(topic)
        off |= mine & ~np.isin(ids, list(allowed))
    still = np.isin(model.partition, list(flying(model, rules)))
    for r in np.flatnonzero((dead | drained | off) & ~still):
        rule = names.ALIVE if dead[r] else names.DRAINED if drained[r] else names.PINNED
        d = places.disk[r]
        where = f"broker {model.brokers.ids[model.disks.broker[d]]}, {model.disks.dirs[d]}"
        place = f"{partition_name(model, model.partition[r])} on {where}"
        yield Fault(rule, place, f"{place} may not be there")


def few_leaders(model: Model, rules: Rules, places: Places) -> Iterator[Fault]:
    """Brokers that lead too few partitions of a named topic."""
    brokers = model.brokers
    may = brokers.alive & ~np.isin(brokers.ids, [*rules.drained, *rules.excluded_brokers])
    for topic, least in rules.leaders_per_broker_min.items():
        mine = model.topic == model.topics.index(topic)
        leads = np.bincount(places.broker[places.leader[mine]], minlength=len(brokers.ids))
        for b in np.flatnonzero(may & (leads < least)):
            text = f"broker {brokers.ids[b]} leads {leads[b]} of {topic}, it is to lead {least} at least"
            yield Fault(names.LEADERS_MIN, f"{topic} on broker {brokers.ids[b]}", text)


def touched(model: Model, rules: Rules, after: Places) -> Iterator[Fault]:
    """What was moved though it may not be, went where nothing may go, or made worse what was bad already."""
    moved = after.broker != model.broker
    changed = moved | (after.disk != model.disk)
    led = after.leader != model.leader
    hit = np.zeros(len(model.topic), np.bool_)
    hit[model.partition[changed]] = True
    hit |= led
    for p in np.flatnonzero(hit & np.isin(model.topic, excluded_topics(model, rules))).tolist():
        yield Fault(names.EXCLUDED, partition_name(model, p), f"{partition_name(model, p)} is changed, it is excluded")
    for p in flying(model, rules):
        if hit[p]:
            text = f"{partition_name(model, p)} is changed while it is being moved"
            yield Fault(names.IN_FLIGHT, partition_name(model, p), text)
    for p in sorted(lost(model)):
        if hit[p]:
            text = f"{partition_name(model, p)} has no living replica that could be copied"
            yield Fault(names.ALIVE, partition_name(model, p), text)
    ids = model.brokers.ids
    closed = dict.fromkeys(rules.cordoned, names.CORDONED) | dict.fromkeys(rules.excluded_brokers, names.EXCLUDED)
    for r in np.flatnonzero(changed) if closed else ():
        source, target = int(ids[model.broker[r]]), int(ids[after.broker[r]])
        rule = closed.get(target) or (names.EXCLUDED if source in rules.excluded_brokers else None)
        if rule is not None:
            name = partition_name(model, model.partition[r])
            yield Fault(rule, name, f"{name} goes from broker {source} to broker {target}")
    for rule, domain in ((names.RACKS, model.brokers.rack), (names.HOSTS, model.brokers.host)):
        if getattr(rules, rule):
            yield from narrowed(model, rules, after, rule, domain)
    yield from fuller(model, after, rules)


def narrowed(model: Model, rules: Rules, after: Places, rule: str, domain: Array) -> Iterator[Fault]:
    """Partitions that are in fewer racks or hosts than before, though they need not be."""
    if of_their_own(domain):
        return
    living = model.brokers.alive & ~np.isin(model.brokers.ids, list(rules.drained))
    possible = len(set(domain[living].tolist()))
    was, now = spread(model, domain[model.broker]), spread(model, domain[after.broker])
    for p in np.flatnonzero(now < np.minimum(was, possible)).tolist():
        text = f"{partition_name(model, p)} was in {was[p]} {rule} and would be in {now[p]}"
        yield Fault(rule, partition_name(model, p), text)


def fuller(model: Model, after: Places, rules: Rules) -> Iterator[Fault]:
    """Brokers and disks above a capacity that would have still more of it than before."""
    over = {(each.rule, each.place) for each in over_capacity(model, rules, after)}
    before = Places(model.broker, model.disk, model.leader)
    was, now = load_of(model, before)[:, PEAK:], load_of(model, after)[:, PEAK:]
    ids = model.brokers.ids.tolist()
    of_disk = [f"broker {ids[b]}, {name}" for b, name in zip(model.disks.broker, model.disks.dirs, strict=True)]
    of_broker = [f"broker {each}" for each in ids]
    for rule, columns, places, old_at, new_at in (
        (names.CPU_CAPACITY, [CPU], of_broker, model.broker, after.broker),
        (names.NET_IN_CAPACITY, [NET_IN], of_broker, model.broker, after.broker),
        (names.NET_OUT_CAPACITY, [NET_OUT], of_broker, model.broker, after.broker),
        (names.BYTES_CAPACITY, [BYTES], of_disk, model.disk, after.disk),
        (names.RATE_CAPACITY, [DISK_WRITE, DISK_READ], of_disk, model.disk, after.disk),
    ):
        if not any(each == rule for each, _ in over):
            continue
        old = np.bincount(old_at, was[:, columns].sum(axis=1), len(places))
        new = np.bincount(new_at, now[:, columns].sum(axis=1), len(places))
        for each in np.flatnonzero(new > old * (1 + CLOSE) + CLOSE):
            if (rule, places[each]) in over:
                text = f"{places[each]} has {old[each]:.6g} and would have {new[each]:.6g}"
                yield Fault(rule, places[each], text)


def wrong_figures(model: Model, after: Places, plan: Mapping[str, Any]) -> Iterator[Fault]:
    """Figures of the plan that are not what comes out, in the columns that need no share: replicas, and ratios."""
    held = np.bincount(after.broker, minlength=len(model.brokers.ids))
    load = load_of(model, after)
    was = load_of(model, Places(model.broker, model.disk, model.leader))
    columns = {"cpu": CPU, "bytes": BYTES, "disk_write": DISK_WRITE, "net_in": NET_IN, "net_out": NET_OUT}
    old = {name: np.bincount(model.broker, was[:, k], len(held)) for name, k in columns.items()}
    new = {name: np.bincount(after.broker, load[:, k], len(held)) for name, k in columns.items()}
    for b, (before, then) in enumerate(zip(plan["before"]["brokers"], plan["after"]["brokers"], strict=True)):
        place = f"broker {model.brokers.ids[b]}"
        if then["replicas"] != held[b]:
            yield Fault(FIGURES, place, f"{place} will have {held[b]} replicas, the plan says {then['replicas']}")
        for name in columns:
            if before[name] is None or then[name] is None:
                continue
            # both are in shares, and the share is the same: so their ratio is that of what is used
            if abs(before[name] * new[name][b] - then[name] * old[name][b]) > 2e-4 * (new[name][b] + old[name][b]):
                yield Fault(FIGURES, place, f"{name} of {place} is not what the plan says it will be")
