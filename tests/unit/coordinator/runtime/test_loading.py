"""A coordinator that takes over reads what the one before it has left."""

from __future__ import annotations

import pytest
from support.legacy import GZIP, NONE, Kept, message_set
from unit.coordinator.fake_log import FakeLog
from unit.coordinator.runtime.counters import Desk, P, number

from penstock.coordinator.limits import (
    COORDINATOR_LOAD_ATTEMPTS,
    COORDINATOR_LOAD_RETRY_MAX_MS,
    COORDINATOR_LOAD_RETRY_MS,
    COORDINATOR_RECORDS_PER_STEP,
)
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.shard import ShardState, encode
from penstock.errors import ErrorCode, RequestError
from penstock.records.batch import entries
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.control import ControlType, control_key


def batch_of(*numbers: tuple[str, int | None], **attributes: object) -> bytearray:
    """A batch as somebody else wrote it."""
    builder = BatchBuilder(**attributes)  # type: ignore[arg-type]
    for name, value in numbers:
        builder.append(0, *encode(number(name, value)))
    return builder.build()


def test_a_new_coordinator_has_what_was_committed() -> None:
    desk = Desk()
    desk.put("a", 1)
    desk.put("b", 2)
    desk.flush()
    desk.commit()
    desk.write(Result("c", [number("a", None)]))
    desk.flush()
    desk.commit()
    heir = Desk(log=desk.log)
    assert heir.numbers() == heir.committed() == {"b": 2}
    assert heir.machine.told == ["loaded"]


def test_of_many_records_of_a_key_the_last_one_is_replayed() -> None:
    log = FakeLog()
    for value in range(5):
        log.write(batch_of(("a", value), ("b", -value)))
    assert Desk(log=log).machine.replayed == [("a", 4), ("b", -4)]


def test_what_is_between_them_has_its_turn() -> None:
    log = FakeLog()
    log.write(batch_of(("a", 1), ("a", 2), ("b", None), ("a", 3)))
    log.write(batch_of(("a", 4), producer_id=5, producer_epoch=1, base_sequence=0, is_transactional=True))
    log.write(batch_of(("a", 5)))
    log.append(batch_of(("a", 6)), 0)
    log.append(batch_of(("a", 7)), 0)
    desk = Desk(log=log)
    assert desk.machine.replayed == [("a", 2), ("b", None), ("a", 3), ("a", 4), ("a", 5), ("a", 7)]
    assert desk.committed() == {"a": 5}
    assert desk.numbers() == {"a": 7}


def test_requests_are_told_to_wait_while_it_loads() -> None:
    log = FakeLog()
    log.write(batch_of(("a", 1)))
    desk = Desk(log=log, load=False)
    desk.runtime.elected(P, log, desk.now_ms)
    desk.put("b", 1)
    assert desk.answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    with pytest.raises(RequestError, match="reading its log"):
        desk.committed()
    desk.load()
    assert desk.committed() == {"a": 1}


def test_nobody_asks_who_does_not_lead() -> None:
    desk = Desk(load=False)
    desk.put("a", 1)
    assert desk.answers == [ErrorCode.NOT_COORDINATOR]


def test_what_is_not_committed_yet_is_there_and_not_shown() -> None:
    log = FakeLog()
    log.write(batch_of(("a", 1)))
    log.append(batch_of(("a", 2)), 0)
    log.append(batch_of(("b", 3)), 0)
    desk = Desk(log=log)
    assert desk.numbers() == {"a": 2, "b": 3}
    assert desk.committed() == {"a": 1}
    desk.write(Result("waits"))
    assert desk.answers == []
    desk.commit()
    assert desk.committed() == {"a": 2, "b": 3}
    assert desk.answers == ["waits"]


def test_it_reads_in_pieces_and_stops_for_others_between_them() -> None:
    log = FakeLog()
    for index in range(3):
        log.write(batch_of(*((f"{index}-{each}", each) for each in range(COORDINATOR_RECORDS_PER_STEP))))
    log.read_bytes = 1
    desk = Desk(log=log, load=False)
    desk.runtime.elected(P, log, desk.now_ms)
    turns = 0
    while log.give_reads(desk.now_ms):
        for _ in desk.work.pop(0):
            turns += 1
    assert turns == 3 + 3  # while it reads, and while it replays what it has found
    assert len(desk.numbers()) == 3 * COORDINATOR_RECORDS_PER_STEP


def test_compressed_batches_and_those_of_transactions_are_read() -> None:
    log = FakeLog()
    log.write(batch_of(("a", 1), codec=Codec.GZIP))
    log.write(batch_of(("b", 2), producer_id=5, producer_epoch=1, base_sequence=0, is_transactional=True))
    marker = BatchBuilder(producer_id=5, producer_epoch=1, is_transactional=True, is_control=True)
    marker.append(0, control_key(ControlType.COMMIT), b"\0\0\0\0\0\0")
    log.write(marker.build())
    desk = Desk(log=log)
    assert desk.machine.producers == [(-1, -1), (5, 1)]
    assert desk.machine.markers == [((5, 1), True)]


def test_records_of_a_later_release_are_passed_over() -> None:
    log = FakeLog()
    builder = BatchBuilder()
    builder.append(0, b"\x03\xe7anything", b"")
    builder.append(0, *encode(number("a", 1)))
    log.write(builder.build())
    assert Desk(log=log).numbers() == {"a": 1}


@pytest.mark.parametrize("damage", ["checksum", "no key", "broken key", "unknown version", "bug"])
def test_a_log_that_cannot_be_trusted_is_not_served(damage: str) -> None:
    log = FakeLog()
    batch = batch_of(("a", 1))
    builder = BatchBuilder()
    if damage == "checksum":
        batch[-1] ^= 1
    elif damage == "no key":
        builder.append(0, None, b"x")
        batch = builder.build()
    elif damage == "broken key":
        builder.append(0, b"\0\1\x7f", b"x")
        batch = builder.build()
    elif damage == "unknown version":
        builder.append(0, encode(number("a", 1))[0], b"\0\x63")
        batch = builder.build()
    elif damage == "bug":
        batch = batch_of(("broken", 1))
    log.write(batch)
    desk = Desk(log=log)
    desk.put("b", 1)
    assert desk.answers == [ErrorCode.NOT_COORDINATOR]
    assert len(desk.bugs) == (damage == "bug")


def retry(desk: Desk) -> int:
    """Waits until the log is to be read again, and reads it; for how long, in ms."""
    deadline_ms = desk.runtime.next_deadline_ms()
    assert deadline_ms is not None
    waited_ms, desk.now_ms = deadline_ms - desk.now_ms, deadline_ms
    desk.runtime.tick(desk.now_ms)
    desk.load()
    return waited_ms


def test_a_log_that_cannot_be_read_once_is_read_again_a_little_later() -> None:
    log = FakeLog()
    log.write(batch_of(("a", 1)))
    log.unreadable = 1
    desk = Desk(log=log)
    desk.put("b", 1)
    assert desk.answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    desk.runtime.tick(desk.now_ms + COORDINATOR_LOAD_RETRY_MS - 1)
    assert not log.give_reads(desk.now_ms), "not before its time"
    assert retry(desk) == COORDINATOR_LOAD_RETRY_MS
    assert desk.committed() == {"a": 1}
    assert desk.runtime.next_deadline_ms() is None
    assert desk.machine.replayed == [("a", 1)]


def test_what_is_still_being_written_is_waited_for() -> None:
    """By the shard before, which was told of a batch of another's: it is the leader of the same log as before."""
    log = FakeLog()
    log.write(batch_of(("a", 1)))
    log.append(batch_of(("b", 2)), 0)
    log.written_offset = 1
    desk = Desk(log=log)
    for _ in range(3):
        retry(desk)
    assert desk.shard.state is ShardState.LOADING
    log.written_offset = None
    retry(desk)
    assert desk.machine.replayed == [("a", 1), ("b", 2)]
    assert desk.committed() == {"a": 1}


def test_it_waits_longer_and_longer_and_not_for_ever() -> None:
    log = FakeLog()
    log.write(batch_of(("a", 1)))
    log.unreadable = COORDINATOR_LOAD_ATTEMPTS
    desk = Desk(log=log)
    waits = []
    while desk.shard.state is ShardState.LOADING:
        waits.append(retry(desk))
    assert len(waits) == COORDINATOR_LOAD_ATTEMPTS - 1
    assert waits[:3] == [COORDINATOR_LOAD_RETRY_MS, 2 * COORDINATOR_LOAD_RETRY_MS, 4 * COORDINATOR_LOAD_RETRY_MS]
    assert waits[-1] == max(waits) == COORDINATOR_LOAD_RETRY_MAX_MS
    assert desk.runtime.next_deadline_ms() is None
    desk.put("b", 1)
    assert desk.answers == [ErrorCode.NOT_COORDINATOR]
    desk.elect()
    assert desk.committed() == {"a": 1}, "until it is led anew"


def test_what_was_read_begins_the_count_anew() -> None:
    log = FakeLog()
    for index in range(COORDINATOR_LOAD_ATTEMPTS):
        log.write(batch_of((f"{index}", index)))
    log.read_bytes = 1
    desk = Desk(log=log, load=False)
    log.unreadable = 1
    desk.elect()
    while desk.shard.state is ShardState.LOADING:
        log.unreadable = 0
        waited_ms = desk.runtime.next_deadline_ms()
        assert waited_ms == desk.now_ms + COORDINATOR_LOAD_RETRY_MS
        desk.now_ms = waited_ms
        desk.runtime.tick(desk.now_ms)
        log.give_reads(desk.now_ms)  # one piece of the log; the read of the next fails
        log.unreadable = 1
        desk.load()
    assert len(desk.committed()) == COORDINATOR_LOAD_ATTEMPTS


@pytest.mark.parametrize("elected", [False, True], ids=["resigned", "elected anew"])
def test_who_does_not_lead_any_more_does_not_read_again(*, elected: bool) -> None:
    log = FakeLog()
    log.write(batch_of(("a", 1)))
    log.unreadable = 1
    desk = Desk(log=log)
    if elected:
        desk.elect()
    else:
        desk.runtime.resigned(P, desk.now_ms)
    assert desk.runtime.next_deadline_ms() is None
    desk.now_ms += COORDINATOR_LOAD_RETRY_MAX_MS
    desk.runtime.tick(desk.now_ms)
    desk.load()
    assert [shard.machine.replayed for shard in desk.runtime.shards.values()] == [[("a", 1)]] * elected


def test_loading_ends_when_the_leadership_does() -> None:
    log = FakeLog()
    log.write(batch_of(("a", 1)))
    desk = Desk(log=log, load=False)
    desk.runtime.elected(P, log, desk.now_ms)
    machine = desk.machine
    desk.runtime.resigned(P, desk.now_ms)
    desk.load()
    assert machine.told == []
    assert not desk.runtime.shards


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_records_that_a_broker_of_before_kafka_0_11_wrote_are_replayed(magic: int, codec: int) -> None:
    pairs = [encode(number(name, value)) for name, value in (("a", 1), ("b", 2), ("a", 3))]
    some = [Kept(offset, -1, key, value) for offset, (key, value) in enumerate(pairs)]
    log = FakeLog()
    data = message_set("aiokafka", magic, codec, some, absolute=not magic)
    log.batches += [data[position : position + header.size_bytes] for position, header in entries(data)]
    log.end_offset = log.high_watermark = len(some)
    log.write(batch_of(("b", 4)))
    desk = Desk(log=log)
    assert desk.committed() == {"a": 3, "b": 4}
    log.batches[0] = log.batches[0][:-1] + b"?"
    desk = Desk(log=log)
    desk.put("b", 1)
    assert desk.answers == [ErrorCode.NOT_COORDINATOR]
