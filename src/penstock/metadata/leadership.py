"""Changes of leaders and in-sync replicas when brokers come and go, and elections on request.

Fencing a broker may concern tens of thousands of partitions. `departure` is all of it in one list; `departure_steps` is
the same in steps of bounded size, for a node that has other things to do meanwhile: each step decides on the present
state, so requests in between do no harm (`duties` takes the steps).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.image import TopicImage
from penstock.metadata.indexes import partition_index, partition_key, topic_number
from penstock.metadata.limits import LEADERSHIP_CHANGES_PER_STEP
from penstock.metadata.partition_change import changed_partition
from penstock.metadata.result import OK, ApiError, Result
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

PREFERRED, UNCLEAN = 0, 1
"""Election types of the protocol."""
NOT_NEEDED = ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
NO_PREFERRED = ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
NO_ELIGIBLE = ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


def updated(
    controller: Controller,
    keys: Iterable[int],
    *,
    leaving: int | None = None,
    coming: int | None = None,
    unclean_shutdown: int | None = None,
    may_wait: bool = False,
) -> list[PartitionChangeRecord]:
    """The changes of some partitions, by their keys.

    Args:
        leaving: a broker that leaves the in-sync replicas and leads no more.
        coming: a broker that may lead although it is still fenced.
        unclean_shutdown: a broker that leaves the in-sync and the eligible replicas, since it may have lost records.
        may_wait: partitions that only unheard brokers could lead stay as they are, for now.
    """
    gone = (leaving, unclean_shutdown)
    active = controller.is_active

    def acceptable(broker_id: int) -> bool:
        return broker_id not in gone and (broker_id == coming or active(broker_id))

    topics = controller.image.topics_by_id.by_integer
    allowed: dict[str, bool] = {}
    records = []
    for key in keys:
        topic = topics[topic_number(key)]
        unclean = allowed.get(topic.name)
        if unclean is None:
            unclean = allowed[topic.name] = controller.unclean_election_allowed(topic.name)
        index = partition_index(key)
        isr = topic.partitions[index].isr
        if leaving in isr or unclean_shutdown in isr:
            isr = tuple(each for each in isr if each not in gone)
        record = changed_partition(
            controller,
            topic,
            index,
            acceptable=acceptable,
            isr=isr,
            unclean_shutdown=unclean_shutdown,
            unclean=unclean,
            may_wait=may_wait,
        )
        if record is not None:
            records.append(record)
    return records


def departure(controller: Controller, broker_id: int, *, may_wait: bool = True) -> list[PartitionChangeRecord]:
    """All changes that take a broker's leaderships and its places in the ISRs, where other replicas are in sync."""
    keys = list(controller.indexes.in_sync_on(broker_id))
    return updated(controller, keys, leaving=broker_id, may_wait=may_wait)


def departure_steps(
    controller: Controller, broker_id: int, limit: int = LEADERSHIP_CHANGES_PER_STEP
) -> Iterator[list[PartitionChangeRecord]]:
    """The same in steps of at most `limit` partitions, leaderships first. Append each before taking the next; there
    are steps without a change.

    The broker must be fenced (or shutting down) before the first step, so that nothing elects it meanwhile.
    """
    indexes = controller.indexes
    led = list(indexes.led_by(broker_id))
    led_set = set(led)
    keys = led + [key for key in indexes.in_sync_on(broker_id) if key not in led_set]
    for start in range(0, len(keys), limit):
        still = [key for key in keys[start : start + limit] if key in indexes.in_sync_on(broker_id)]
        yield updated(controller, still, leaving=broker_id, may_wait=True)


def arrival(controller: Controller, broker_id: int) -> list[PartitionChangeRecord]:
    """The changes when a broker may lead again: it gets the partitions without a leader that it is in sync with."""
    indexes = controller.indexes
    in_sync, eligible = indexes.in_sync_on(broker_id), indexes.eligible_on(broker_id)
    keys = []
    allowed: dict[str, bool] = {}
    for key in indexes.leaderless:
        if key in in_sync or key in eligible:
            keys.append(key)
            continue
        [(topic, index)] = partitions_of(controller, [key])
        if topic.name not in allowed:
            allowed[topic.name] = controller.unclean_election_allowed(topic.name)
        partition = topic.partitions[index]
        if broker_id in partition.replicas and (allowed[topic.name] or broker_id in partition.last_known_elr):
            keys.append(key)
    return updated(controller, keys, coming=broker_id)


def reconsider(controller: Controller, keys: Iterable[int]) -> Result[None]:
    """The changes to some partitions now that the controller has heard from more brokers."""
    present = [partition_key(topic.id, index) for topic, index in partitions_of(controller, keys)]
    return Result(None, updated(controller, present), atomic=False)


def unclean_shutdown(controller: Controller, broker_id: int) -> list[PartitionChangeRecord]:
    """The changes after a broker's unclean stop, with eligible leader replicas: its replicas may lack records."""
    indexes = controller.indexes
    keys = list(dict.fromkeys([*indexes.in_sync_on(broker_id), *indexes.eligible_on(broker_id)]))
    return updated(controller, keys, unclean_shutdown=broker_id)


def elect_leaders(
    controller: Controller,
    election_type: int,
    wanted: Iterable[tuple[str, Sequence[int]]] | None,
    *,
    everything: bool = False,
) -> Result[list[tuple[str, list[tuple[int, ApiError]]]]]:
    """Elects the preferred leaders, or any live replica where there is no leader (KIP-183, KIP-460).

    `wanted` names topics and partitions, None stands for all. Of all, or of a part of all (`everything`), those which
    need no election are not in the response. Raises RequestError INVALID_REQUEST.
    """
    if election_type not in (PREFERRED, UNCLEAN):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
    if wanted is None:
        wanted, everything = all_partitions(controller), True
    records: list[PartitionChangeRecord] = []
    answers = []
    for name, partitions in wanted:
        of_topic = []
        for index in partitions:
            error = elected(controller, name, index, election_type, records)
            if not everything or error is not NOT_NEEDED:
                of_topic.append((index, error))
        answers.append((name, of_topic))
    return Result(answers, records, atomic=False)


def all_partitions(controller: Controller) -> Iterator[tuple[str, Sequence[int]]]:
    """The topics as they are now, and their partitions."""
    topics = controller.image.topics_by_name
    return ((topic.name, range(len(topic.partitions))) for topic in topics.values())


def elected(
    controller: Controller, name: str, index: int, election_type: int, records: list[PartitionChangeRecord]
) -> ApiError:
    """Adds the record of one election."""
    topic = controller.image.topics_by_name.get(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    partition = topic.partitions[index]
    preferred = election_type == PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader >= 0:
        return NOT_NEEDED
    record = changed_partition(controller, topic, index, preferred=preferred, unclean=not preferred)
    if record is None:
        return NO_PREFERRED if preferred else NO_ELIGIBLE
    records.append(record)
    return OK


def balance(controller: Controller, keys: Iterable[int] | None = None) -> Result[None]:
    """Gives partitions back to their preferred leaders where those are in sync (`auto.leader.rebalance.enable`).

    `keys` are the partitions to look at, by default all that are led by others.
    """
    records: list[PartitionChangeRecord] = []
    for topic, index in partitions_of(controller, list(controller.indexes.imbalanced) if keys is None else keys):
        partition = topic.partitions[index]
        preferred = partition.replicas[0]
        if preferred != partition.leader and preferred in partition.isr and controller.is_active(preferred):
            record = changed_partition(controller, topic, index, preferred=True)
            if record is not None:
                records.append(record)
    return Result(None, records, atomic=False)


def elect_unclean(controller: Controller, keys: Iterable[int] | None = None) -> Result[None]:
    """Elects any live replica of partitions without a leader, if the topic allows it (`unclean.leader.election.enable`,
    also when that was switched on only after the leader was lost).

    `keys` are the partitions to look at, by default all without a leader.
    """
    records: list[PartitionChangeRecord] = []
    for topic, index in partitions_of(controller, list(controller.indexes.leaderless) if keys is None else keys):
        if topic.partitions[index].leader < 0 and controller.unclean_election_allowed(topic.name):
            record = changed_partition(controller, topic, index, unclean=True)
            if record is not None:
                records.append(record)
    return Result(None, records, atomic=False)


def partitions_of(controller: Controller, keys: Iterable[int]) -> Iterator[tuple[TopicImage, int]]:
    """Topics and indexes of partition keys; without those of topics that are gone."""
    topics = controller.image.topics_by_id.by_integer
    for key in keys:
        topic = topics.get(topic_number(key))
        if topic is not None:
            yield topic, partition_index(key)
