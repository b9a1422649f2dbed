"""Registration, fencing, directories and producer ids."""

from __future__ import annotations

from uuid import UUID

import pytest
from unit.metadata.controller_state import State, directory_of

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import brokers, directories, topics
from penstock.metadata.brokers import Registration
from penstock.metadata.image import Endpoint
from penstock.metadata.producer_ids import ProducerIdBlock, allocate_producer_ids
from penstock.protocol.messages.create_topics_request import CreatableTopic


def create(state: State, partitions: int, replicas: int) -> None:
    wanted = CreatableTopic(name="a", num_partitions=partitions, replication_factor=replicas)
    state.replay(topics.create_topics(state.controller, [wanted]).records)


def registration(**changes: object) -> Registration:
    fields: dict[str, object] = {
        "broker_id": 2,
        "incarnation_id": UUID(int=9),
        "endpoints": [Endpoint("PLAINTEXT", "h", 1)],
        "log_dirs": [directory_of(2)],
    }
    return Registration(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_epoch_of_a_broker_is_the_offset_of_its_registration() -> None:
    state = State(broker_ids=())
    offset = state.last_offset + 1
    assert state.register(1) == offset
    broker = state.controller.image.brokers[1]
    assert (broker.epoch, broker.fenced) == (offset, True)


def test_a_new_incarnation_gets_a_new_epoch_and_the_same_one_keeps_its_own() -> None:
    state = State()
    first = state.epoch_of(1)
    assert state.register(1) == first
    assert not state.controller.image.brokers[1].fenced, "an amended registration stays unfenced"
    second = state.register(1, incarnation=2)
    assert second > first
    assert state.controller.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"log_dirs": []}, "No directories specified in request"),
        ({"log_dirs": [UUID(int=1)]}, "Reserved directory ID in request"),
        ({"log_dirs": [directory_of(2)] * 2}, "Duplicate directory ID in request"),
        ({"log_dirs": [directory_of(1)]}, f"Broker 1 is already registered with directory {directory_of(1)}"),
    ],
)
def test_directories_that_cannot_be(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence) as raised:
        brokers.register_broker(State().controller, registration(**changes), 9)
    assert raised.value.code is ErrorCode.INVALID_REGISTRATION


def test_a_broker_that_lacks_a_finalized_level_is_refused() -> None:
    old = registration(features={"metadata.version": (7, 29)})
    with pytest.raises(RequestError, match="does not support finalized version 30 of metadata") as raised:
        brokers.register_broker(State().controller, old, 9)
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_stale_or_unknown_broker_is_told_so() -> None:
    state = State()
    with pytest.raises(RequestError) as raised:
        brokers.unfence_broker(state.controller, 1, 0)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(RequestError) as raised:
        brokers.unfence_broker(state.controller, 9, 0)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_unfencing_and_fencing_twice_changes_nothing() -> None:
    state = State()
    assert not brokers.unfence_broker(state.controller, 1, state.epoch_of(1)).records
    state.fence(1)
    assert not brokers.fence_broker(state.controller, 1, state.epoch_of(1)).records


def test_a_controlled_shutdown_marks_the_broker_and_moves_its_leaderships() -> None:
    state = State(broker_ids=(1, 2))
    create(state, 4, 2)
    result = brokers.begin_controlled_shutdown(state.controller, 1, state.epoch_of(1))
    state.replay(result.records)
    assert state.controller.image.brokers[1].in_controlled_shutdown
    assert not state.controller.image.brokers[1].fenced
    assert {each.leader for each in state.controller.image.topics_by_name["a"].partitions} == {2}
    assert not brokers.begin_controlled_shutdown(state.controller, 1, state.epoch_of(1)).records


def test_a_broker_tells_where_its_replicas_lie() -> None:
    state = State()
    create(state, 1, 1)
    topic = state.controller.image.topics_by_name["a"]
    elsewhere, unknown = UUID(int=0xBAD), UUID(int=0xABCDEF)
    result = directories.assign_directories(
        state.controller,
        1,
        state.epoch_of(1),
        {
            (topic.id, 0): directory_of(1),
            (topic.id, 5): directory_of(1),
            (unknown, 0): directory_of(1),
        },
    )
    assert result.response == {
        (topic.id, 0): ErrorCode.NONE,
        (topic.id, 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (unknown, 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert not result.records, "it lies there already"
    lost = directories.assign_directories(state.controller, 1, state.epoch_of(1), {(topic.id, 0): elsewhere})
    assert lost.response == {(topic.id, 0): ErrorCode.NONE}
    state.replay(lost.records)
    partition = state.controller.image.topics_by_name["a"].partitions[0]
    assert (partition.directory(1), partition.leader) == (elsewhere, -1), "a directory that is not online leads nothing"


def test_a_broker_with_several_directories_chooses_and_tells() -> None:
    state = State(broker_ids=())
    both = [directory_of(1), directory_of(7)]
    state.replay(brokers.register_broker(state.controller, registration(broker_id=1, log_dirs=both), 1).records)
    state.unfence(1)
    create(state, 1, 1)
    topic = state.controller.image.topics_by_name["a"]
    assert topic.partitions[0].directory(1) == UUID(int=0)
    state.replay(
        directories.assign_directories(state.controller, 1, state.epoch_of(1), {(topic.id, 0): directory_of(7)}).records
    )
    assert state.controller.image.topics_by_name["a"].partitions[0].directory(1) == directory_of(7)


def test_blocks_of_producer_ids_never_overlap() -> None:
    state = State()
    first = allocate_producer_ids(state.controller, 1, state.epoch_of(1))
    state.replay(first.records)
    second = allocate_producer_ids(state.controller, 1, state.epoch_of(1))
    assert (first.response, second.response) == (ProducerIdBlock(0, 1000), ProducerIdBlock(1000, 1000))
    with pytest.raises(RequestError):
        allocate_producer_ids(state.controller, 1, -1)
