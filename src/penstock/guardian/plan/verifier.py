"""Checks a plan before anybody sees it: applies it to the model and computes all sums anew, rule by rule.

Written apart from the planner: it reads the plan's JSON, knows nothing of the search's state, and is plain numpy. In
turn: the form of the JSON (`form`); model, rules and seed by their digest; the moves, applied one by one, against what
Kafka is told (`applied`); every rule, before and after, against the violations that the plan admits; and each figure
(`recomputed`). A plan of our own with a fault is a fault of the planner, never of the user's model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from penstock.guardian.plan import rules as names
from penstock.guardian.plan.applied import Applied, Places, partition_name
from penstock.guardian.plan.form import Misfit, check_form
from penstock.guardian.plan.model import BYTES, CPU, DISK_READ, DISK_WRITE, NET_IN, NET_OUT, PEAK, Array, Model
from penstock.guardian.plan.recomputed import CAPACITIES, CLOSE, Figures, coming, standing_of, wrong_figures
from penstock.guardian.plan.rules import Rules

VERSION = 1
SHAPE = "shape"
"""A plan that does not fit together, or not to the model."""
FIGURES = "figures"
FEW_PLACES = 64
"""Racks or hosts up to which a table of partitions and places is the quickest way to count."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a plan: the rule, what it is about, and a sentence."""

    rule: str
    place: str
    text: str


def verify(model: Model, rules: Rules, plan: Any) -> list[Fault]:
    """All faults of a plan; none if it may be carried out. `plan` may be anything that JSON can say."""
    try:
        check_form(plan, CAPACITIES)
        check_origin(model, rules, plan)
        after = Applied(model, plan).places()
    except Misfit as error:
        return [Fault(SHAPE, error.args[0], error.args[1])]
    before = Places(model.broker, model.disk, model.leader)
    faults = list(touched(model, rules, before, after))
    faults += wrong_violations(model, rules, plan, before, after)
    leaves = off_place(model, rules, before) & ~np.isin(model.partition, list(flying(model, rules)))
    standing = standing_of(model, rules, leaves, coming(model, rules, flying(model, rules)))
    for when, places in (("before", before), ("after", after)):
        figures = Figures.of(model, rules, standing, load_of(model, places), places)
        for part, text in wrong_figures(model, figures, plan[when]):
            faults.append(Fault(FIGURES, f"{when}.{part}", text))
    return faults


def check_origin(model: Model, rules: Rules, plan: Mapping[str, Any]) -> None:
    """The plan is of the version that is known here, and was made for this model and these rules. Raises Misfit."""
    if plan["version"] != VERSION:
        raise Misfit("version", f"the plan has version {plan['version']}, only {VERSION} is known")
    if not identical(plan["rules"], rules.document()):
        raise Misfit("rules", "the plan was made for other rules")
    policy = "" if plan["policy"] is None else f" {plan['policy']['digest']}"
    due = "sha256:" + sha256(f"{model.digest()} {rules.text()} {plan['seed']}{policy}".encode()).hexdigest()
    if plan["digest"] != due:
        raise Misfit("digest", "the plan was made for another model, or with another seed")
    if plan["estimates"] != list(model.estimates):
        raise Misfit("estimates", "the plan says that something else was estimated")


def identical(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same, types and all: true is not 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(identical(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(identical, one, other))
    return bool(one == other)


def wrong_violations(
    model: Model, rules: Rules, plan: Mapping[str, Any], before: Places, after: Places
) -> Iterator[Fault]:
    """Rules that are broken and of which the plan does not say so, or that were not before; and what it says that is
    not so."""
    said = {(each["rule"], each["place"]) for each in plan["violations"]}
    if len(said) != len(plan["violations"]):
        yield Fault(SHAPE, "violations", "the plan says one of them twice")
    for each in plan["violations"]:
        conflict = each["conflict"]
        if conflict and (conflict[0] != each["rule"] or not set(conflict) <= {*names.FORBIDDERS, names.NO_COPY}):
            text = f"the conflict of {each['rule'][:80]!r} must be rules that there are, this one the first"
            yield Fault(SHAPE, "violations", text)
    old = {(each.rule, each.place): each for each in broken(model, rules, before)}
    losers = {
        f"{topic} on {fault.place.split(' on ')[1].split(',')[0]}"  # what must leave a broker may be what led there
        for fault in old.values()
        if fault.rule in (names.ALIVE, names.DRAINED, names.PINNED)
        for topic in rules.leaders_per_broker_min
    }
    now = list(broken(model, rules, after))
    for each in now:
        key = (each.rule, each.place)
        may_be_new = each.rule == names.LEADERS_MIN and each.place in losers
        if key not in said or not (key in old or may_be_new):
            yield each
    # a figure that is exactly at its limit may be beyond it for the planner, who adds in another order
    nearly = {(each.rule, each.place) for each in (*now, *over_capacity(model, rules, after, -CLOSE))}
    for rule, place in sorted(said - nearly):
        yield Fault(
            SHAPE, "violations", f"the plan says that {rule[:80]!r} stays broken for {place[:300]!r}, which is not so"
        )


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


def kept(model: Model, rules: Rules) -> list[int]:
    """The partitions that a policy keeps as they are."""
    names_kept = {(each.topic, each.partition) for each in rules.kept}
    if not names_kept:
        return []
    keys = zip((model.topics[t] for t in model.topic.tolist()), model.number.tolist(), strict=True)
    return [p for p, key in enumerate(keys) if key in names_kept]


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
    still = {*flying(model, rules), *excluded.tolist(), *lost(model), *kept(model, rules)}
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
    if not places.loads:
        load = model.following.copy()
        load[places.leader] = model.leading[places.leader]
        places.loads.append(load)
    return places.loads[0]


def over_capacity(model: Model, rules: Rules, places: Places, close: float = CLOSE) -> Iterator[Fault]:
    """Brokers and disks with more, at the 95th percentile, than the rules allow of them, and a little."""
    load = load_of(model, places)[:, PEAK:]
    brokers, disks, share = model.brokers, model.disks, rules.capacity
    count = len(brokers.ids)
    on_its_way = coming(model, rules, flying(model, rules))
    for rule, column, capacity, part in (
        (names.CPU_CAPACITY, CPU, brokers.cpu_capacity, share.cpu),
        (names.NET_IN_CAPACITY, NET_IN, brokers.net_in_capacity, share.net),
        (names.NET_OUT_CAPACITY, NET_OUT, brokers.net_out_capacity, share.net),
    ):
        used = np.bincount(places.broker, load[:, column], count) + on_its_way[:, column]
        for b in np.flatnonzero(used > capacity * part * (1 + close) + close):
            text = f"broker {brokers.ids[b]} has {used[b]:.6g}, {capacity[b] * part:.6g} is allowed"
            yield Fault(rule, f"broker {brokers.ids[b]}", text)
    rate = load[:, DISK_WRITE] + load[:, DISK_READ]
    more = on_its_way[disks.broker]
    for rule, each, extra, capacity, part in (
        (names.BYTES_CAPACITY, load[:, BYTES], more[:, BYTES], disks.bytes_capacity, share.bytes),
        (names.RATE_CAPACITY, rate, more[:, DISK_WRITE] + more[:, DISK_READ], disks.rate_capacity, share.disk_rate),
    ):
        used = np.bincount(places.disk, each, len(disks.broker)) + extra
        for d in np.flatnonzero(used > capacity * part * (1 + close) + close):
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
    dead = ~model.brokers.alive[places.broker] | ~model.disks.alive[places.disk]
    drained = np.isin(model.brokers.ids[places.broker], list(rules.drained))
    still = np.isin(model.partition, list(flying(model, rules)))
    for r in np.flatnonzero(off_place(model, rules, places) & ~still):
        rule = names.ALIVE if dead[r] else names.DRAINED if drained[r] else names.PINNED
        d = places.disk[r]
        where = f"broker {model.brokers.ids[model.disks.broker[d]]}, {model.disks.dirs[d]}"
        place = f"{partition_name(model, model.partition[r])} on {where}"
        yield Fault(rule, place, f"{place} may not be there")


def off_place(model: Model, rules: Rules, places: Places) -> Array:
    """Whether each replica lies where nothing may stay."""
    ids = model.brokers.ids[places.broker]
    found = ~model.brokers.alive[places.broker] | ~model.disks.alive[places.disk] | np.isin(ids, list(rules.drained))
    for topic, allowed in rules.pinned.items():
        mine = model.topic[model.partition] == model.topics.index(topic)
        found |= mine & ~np.isin(ids, list(allowed))
    return np.asarray(found)


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


def touched(model: Model, rules: Rules, before: Places, after: Places) -> Iterator[Fault]:
    """What was moved though it may not be, went where nothing may go, or made worse what was bad already."""
    moved = after.broker != model.broker
    changed = moved | (after.disk != model.disk)
    led = after.leader != model.leader
    hit = np.zeros(len(model.topic), np.bool_)
    hit[model.partition[changed]] = True
    hit |= led
    yield from disturbed(model, rules, hit)
    yield from hurried(model, rules, changed)
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
    yield from fuller(model, before, after, rules)


def disturbed(model: Model, rules: Rules, hit: Array) -> Iterator[Fault]:
    """Partitions that are changed though they are to be left alone, or cannot be copied."""
    for p in np.flatnonzero(hit & np.isin(model.topic, excluded_topics(model, rules))).tolist():
        yield Fault(names.EXCLUDED, partition_name(model, p), f"{partition_name(model, p)} is changed, it is excluded")
    for p in flying(model, rules):
        if hit[p]:
            text = f"{partition_name(model, p)} is changed while it is being moved"
            yield Fault(names.IN_FLIGHT, partition_name(model, p), text)
    for p in kept(model, rules):
        if hit[p]:
            text = f"{partition_name(model, p)} is changed, which a policy does not allow"
            yield Fault(names.POLICY, partition_name(model, p), text)
    for p in sorted(lost(model)):
        if hit[p]:
            text = f"{partition_name(model, p)} has no living replica that could be copied"
            yield Fault(names.ALIVE, partition_name(model, p), text)


def hurried(model: Model, rules: Rules, changed: Array) -> Iterator[Fault]:
    """Replicas that move again though they have moved lately and need not leave their places."""
    lately = {(each.topic, each.partition, each.broker) for each in rules.moved}
    if not lately:
        return
    free = changed & ~off_place(model, rules, Places(model.broker, model.disk, model.leader))
    for r in np.flatnonzero(free):
        p = model.partition[r]
        place = (model.topics[model.topic[p]], int(model.number[p]), int(model.brokers.ids[model.broker[r]]))
        if place in lately:
            text = f"{partition_name(model, p)} moves from broker {place[2]}, to which it has come lately"
            yield Fault(names.MOVED, partition_name(model, p), text)


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


def fuller(model: Model, before: Places, after: Places, rules: Rules) -> Iterator[Fault]:
    """Brokers and disks above a capacity that would have still more of it than before."""
    over = {(each.rule, each.place) for each in over_capacity(model, rules, after)}
    if not over:
        return
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
