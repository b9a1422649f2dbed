"""What the transaction coordinator answers and writes, by the rules of Kafka's TransactionCoordinator."""

from __future__ import annotations

import pytest
from unit.coordinator.one_partition import START_MS
from unit.coordinator.transaction.transaction_world import TIMEOUT_MS, T, World, by_topic

from penstock.coordinator.limits import TRANSACTIONAL_IDS_PER_STEP
from penstock.coordinator.transaction.transaction import Producer, Transaction, TransactionState
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.timeline import TimelineMap

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = map(int, list(TransactionState)[:6])
A, B = ("a", 0), ("b", 1)
LAST = 2**15 - 2
"""The last epoch that a client may have."""


@pytest.fixture
def world() -> World:
    return World()


def exhausted(world: World, epoch: int = LAST) -> Producer:
    """A producer with such an epoch."""
    world.begin()
    transaction = world.transaction()
    world.state.ids[T] = transaction._replace(epoch=epoch)
    return Producer(transaction.producer_id, epoch)


# InitProducerId


def test_a_new_id_gets_a_producer_id_with_epoch_0(world: World) -> None:
    assert world.begin() == Producer(1000, 0)
    assert world.states() == [EMPTY]


def test_each_producer_that_begins_raises_the_epoch_and_fences_the_one_before(world: World) -> None:
    first, second = world.begin(), world.begin()
    assert second == Producer(first.id, 1)
    assert world.add(first, A).code is ErrorCode.PRODUCER_FENCED
    assert world.end(first).code is ErrorCode.PRODUCER_FENCED
    assert world.add(second, A).code is ErrorCode.NONE


def test_an_answer_waits_for_the_commit_and_others_wait_for_it(world: World) -> None:
    world.commits = False
    first = world.init()
    assert not first.done
    assert world.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.add(Producer(1000, 0), A).code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end(Producer(1000, 0)).code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.commit()
    assert first.value == Producer(1000, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_illegal_timeouts_are_refused(world: World, timeout_ms: int) -> None:
    assert world.init(timeout_ms=timeout_ms).code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_the_empty_id_is_refused_everywhere(world: World) -> None:
    producer = Producer(1, 0)
    assert world.init("").code is ErrorCode.INVALID_REQUEST
    assert world.add(producer, A, of="").code is ErrorCode.INVALID_REQUEST
    assert world.verify(producer, A, of="") is ErrorCode.INVALID_REQUEST
    assert world.end(producer, of="").code is ErrorCode.INVALID_REQUEST
    assert world.end(producer, of="", version=0).code is ErrorCode.INVALID_REQUEST
    with pytest.raises(RequestError) as refused:
        world.describe("")
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_open_transaction_is_aborted_before_a_producer_begins(version: int) -> None:
    world = World(version=version)
    old = world.begin()
    world.add(old, A, version=version)
    assert world.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.states() == [EMPTY, ONGOING, PREPARE_ABORT, COMPLETE_ABORT]
    assert world.endings[0].transaction.epoch == old.epoch + 1
    assert world.begin() == Producer(old.id, old.epoch + 2)
    assert world.end(old, version=version).code is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_names_its_epoch_goes_on(world: World) -> None:
    old = world.begin()
    new = world.begin(expected=old)
    assert new == Producer(old.id, 1)
    assert world.begin(expected=old) == new, "a repeated request gets the same answer"
    assert world.init(expected=Producer(old.id, 7)).code is ErrorCode.PRODUCER_FENCED
    assert world.init(expected=Producer(old.id + 1, 1)).code is ErrorCode.PRODUCER_FENCED
    newest = world.begin()
    assert world.init(expected=new).code is ErrorCode.PRODUCER_FENCED
    assert world.begin(expected=newest).epoch == newest.epoch + 1


def test_a_new_id_takes_any_producer_that_names_its_epoch(world: World) -> None:
    assert world.begin(expected=Producer(77, 12)) == Producer(1000, 0)


def test_exhausted_epochs_bring_a_new_producer_id(world: World) -> None:
    old = exhausted(world)
    new = world.begin(expected=old)
    assert new == Producer(1001, 0)
    assert world.transaction().last_epoch == LAST
    assert world.begin(expected=old) == new, "a repeated request"


def test_without_a_next_epoch_a_repeated_request_is_an_error_as_in_kafka(world: World) -> None:
    old = exhausted(world)
    assert world.init(expected=Producer(old.id, 5)).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_without_producer_ids_the_client_comes_again(world: World) -> None:
    world.producer_ids = 0
    assert world.init().code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.producer_ids = 1
    assert world.begin() == Producer(1000, 0)


# Partitions


def test_partitions_open_a_transaction_and_are_added_to_it(world: World) -> None:
    producer = world.begin()
    assert world.add(producer, A).code is ErrorCode.NONE
    world.advance(1_000)
    assert world.add(producer, B).code is ErrorCode.NONE
    assert world.states() == [EMPTY, ONGOING, ONGOING]
    transaction = world.transaction()
    assert transaction.partitions == {"a": {0}, "b": {1}}
    assert (transaction.start_ms, transaction.updated_ms) == (START_MS, START_MS + 1_000)
    assert world.add(producer, A, B).code is ErrorCode.NONE
    assert len(world.states()) == 3, "what is there already is not written again"


def test_wrong_producers_add_nothing(world: World) -> None:
    producer = world.begin()
    assert world.add(producer, A, of="unknown").code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add(Producer(producer.id + 1, 0), A).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add(Producer(producer.id, 1), A).code is ErrorCode.PRODUCER_FENCED


def test_leaders_verify_what_is_committed(world: World) -> None:
    producer = world.begin()
    world.add(producer, A)
    assert world.verify(producer, A, B) == by_topic(B)
    world.commits = False
    world.add(producer, B)
    assert world.verify(producer, B) == by_topic(B)
    world.commit()
    assert world.verify(producer, B) == {}
    assert world.verify(producer, A, of="unknown") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.verify(Producer(producer.id + 1, 0), A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.verify(Producer(producer.id, 1), A) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_is_being_ended_cannot_be_verified(world: World) -> None:
    world.marks = False
    producer = world.begin()
    world.add(producer, A)
    world.end(producer, version=0)
    assert world.verify(producer, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.mark(world.endings[0])
    assert world.verify(producer, A) == by_topic(A)


# EndTxn


@pytest.mark.parametrize(("commit", "prepared", "completed"), [(True, 2, 4), (False, 3, 5)])
def test_version_2_raises_the_epoch_with_each_end(world: World, commit: bool, prepared: int, completed: int) -> None:
    world.marks = False
    producer = world.begin()
    world.add(producer, A, B)
    next_producer = Producer(producer.id, 1)
    assert world.end(producer, commit=commit).value == next_producer
    assert world.states() == [EMPTY, ONGOING, prepared]
    (ending,) = world.endings
    assert (ending.transaction.epoch, ending.remaining) == (1, {"a": {0}, "b": {1}})
    assert world.end(producer, commit=commit).code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.add(next_producer, A).code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.mark(ending)
    assert ending.over
    assert world.states()[-1] == completed
    assert world.end(producer, commit=commit).value == next_producer, "a repeated end"
    assert world.end(producer, commit=not commit).code is ErrorCode.INVALID_TXN_STATE
    assert world.add(producer, A).code is ErrorCode.PRODUCER_FENCED
    assert world.add(next_producer, A).code is ErrorCode.NONE


def test_version_1_keeps_the_epoch(world: World) -> None:
    world.marks = False
    producer = world.begin()
    world.add(producer, A, version=0)
    assert world.end(producer, version=0).value == Producer(-1, -1)
    (ending,) = world.endings
    assert (ending.transaction.epoch, ending.transaction.client_version) == (0, 0)
    assert world.end(producer, version=0).code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.mark(ending)
    assert world.end(producer, version=0).value == Producer(-1, -1), "a repeated end"
    assert world.end(producer, version=0, commit=False).code is ErrorCode.INVALID_TXN_STATE
    assert world.add(producer, B, version=0).code is ErrorCode.NONE


def test_version_1_ends_nothing_that_is_not_open(world: World) -> None:
    producer = world.begin()
    for commit in (True, False):
        assert world.end(producer, commit=commit, version=0).code is ErrorCode.INVALID_TXN_STATE
    assert world.end(producer, version=0, of="unknown").code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end(Producer(1, 0), version=0).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end(Producer(producer.id, 1), version=0).code is ErrorCode.PRODUCER_FENCED


def test_version_2_aborts_also_where_no_transaction_is_open(world: World) -> None:
    producer = world.begin()
    assert world.end(producer).code is ErrorCode.INVALID_TXN_STATE
    world.advance(5)
    for epoch in (1, 2):
        assert world.end(producer, commit=False).value == Producer(producer.id, epoch)
        producer = Producer(producer.id, epoch)
    assert world.states() == [EMPTY, PREPARE_ABORT, COMPLETE_ABORT, PREPARE_ABORT, COMPLETE_ABORT]
    assert world.transaction().start_ms == START_MS + 5
    assert world.end(producer).code is ErrorCode.INVALID_TXN_STATE
    world.add(producer, A)
    world.end(producer)
    producer = Producer(producer.id, 3)
    assert world.end(producer, commit=False).value == Producer(producer.id, 4)


def test_a_repeated_end_of_an_empty_id_is_fenced(world: World) -> None:
    old = world.begin()
    world.begin()
    for commit in (True, False):
        assert world.end(old, commit=commit).code is ErrorCode.PRODUCER_FENCED


def test_the_last_epoch_ends_in_a_new_producer_id(world: World) -> None:
    world.marks = False
    old = exhausted(world)
    world.add(old, A)
    new = Producer(1001, 0)
    assert world.end(old).value == new
    (ending,) = world.endings
    assert (ending.transaction.producer_id, ending.transaction.epoch) == (old.id, LAST + 1)
    assert world.transaction().next_producer_id == new.id
    assert world.add(new, A).code is ErrorCode.CONCURRENT_TRANSACTIONS
    world.mark(ending)
    assert world.end(old).value == new, "a repeated end"
    assert world.end(old, commit=False).code is ErrorCode.INVALID_TXN_STATE
    assert world.add(old, A).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add(new, A).code is ErrorCode.NONE
    assert world.end(old).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# Time-outs


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_open_transaction_is_aborted_when_its_time_is_over(version: int) -> None:
    world = World(version=version)
    producer = world.begin()
    world.add(producer, A, version=version)
    world.advance(TIMEOUT_MS)
    assert world.states()[-1] == ONGOING
    world.advance(10_000)
    assert world.states()[-2:] == [PREPARE_ABORT, COMPLETE_ABORT]
    assert world.transaction().epoch == producer.epoch + 1
    assert world.end(producer, version=0).code is ErrorCode.PRODUCER_FENCED
    assert world.begin().epoch == producer.epoch + 2


def test_an_end_in_time_stays(world: World) -> None:
    producer = world.begin()
    world.add(producer, A)
    world.advance(TIMEOUT_MS)
    world.end(producer)
    world.advance(10 * TIMEOUT_MS)
    assert world.states()[-1] == COMPLETE_COMMIT


def test_a_two_phase_transaction_has_no_time_out(world: World) -> None:
    world.settings.transaction_max_timeout_ms = 2**31 - 1
    producer = world.begin(timeout_ms=2**31 - 1)
    world.add(producer, A)
    world.advance(2**31)
    assert world.states()[-1] == ONGOING


def test_a_time_out_goes_on_after_a_fail_over(world: World) -> None:
    world.add(world.begin(), A)
    world.advance(TIMEOUT_MS // 2)
    world.fail_over()
    world.advance(TIMEOUT_MS // 2)
    assert world.states()[-1] == ONGOING
    world.advance(10_000)
    assert world.states()[-1] == COMPLETE_ABORT


def test_a_clock_that_was_set_does_not_end_transactions(world: World) -> None:
    world.add(world.begin(), A)
    world.wall.ahead_ms = 86_400_000
    world.advance(TIMEOUT_MS - 1)
    assert world.states()[-1] == ONGOING
    world.wall.ahead_ms = -86_400_000
    world.fail_over()
    world.advance(TIMEOUT_MS + 10_000)
    assert world.states()[-1] == COMPLETE_ABORT


# Failures


def test_a_refused_transition_leaves_what_was_before(world: World) -> None:
    producer = world.begin()
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.add(producer, A).code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.transaction().state == EMPTY
    world.log.refuses = None
    world.add(producer, A)
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.end(producer).code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert not world.endings
    assert world.transaction().epoch == producer.epoch
    world.log.refuses = None
    assert world.end(producer).value == Producer(producer.id, 1)


def test_a_time_out_that_is_refused_is_tried_again(world: World) -> None:
    world.add(world.begin(), A)
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(2 * TIMEOUT_MS)
    assert world.states()[-1] == ONGOING
    world.log.refuses = None
    world.advance(10_000)
    assert world.states()[-1] == COMPLETE_ABORT


def test_a_completion_that_is_refused_is_tried_again(world: World) -> None:
    world.marks = False
    producer = world.begin()
    world.add(producer, A)
    world.end(producer)
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    world.mark(world.endings[0])
    world.advance(2_000)
    assert not world.endings[0].over
    world.log.refuses = None
    world.advance(1_000)
    assert world.endings[0].over
    assert world.states()[-1] == COMPLETE_COMMIT


def test_an_end_that_commits_late_goes_on_nevertheless(world: World) -> None:
    producer = world.begin()
    world.add(producer, A)
    world.commits = False
    answer = world.end(producer)
    world.advance(5_000)
    assert answer.code is ErrorCode.REQUEST_TIMED_OUT
    assert not world.endings, "it is not decided"
    world.advance(20_000)
    world.commits = True
    world.commit()
    world.advance(1_000)
    assert world.states()[-1] == COMPLETE_COMMIT


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_end_goes_on_after_a_fail_over(world: World, commit: bool) -> None:
    world.marks = False
    producer = world.begin()
    world.add(producer, A, B)
    world.end(producer, commit=commit)
    world.fail_over()
    first, second = world.endings
    assert first.over
    assert not second.over
    assert second.remaining == {"a": {0}, "b": {1}}
    world.mark(first)
    assert world.states()[-1] == (PREPARE_COMMIT if commit else PREPARE_ABORT), "nothing is done for an old term"
    world.mark(second)
    assert world.states()[-1] == (COMPLETE_COMMIT if commit else COMPLETE_ABORT)


def test_a_prepared_end_that_was_not_committed_is_decided_by_the_next_leader(world: World) -> None:
    producer = world.begin()
    world.add(producer, A)
    world.commits = False
    answer = world.end(producer)
    world.fail_over(keep_uncommitted=True)
    assert answer.code is ErrorCode.NOT_COORDINATOR
    assert not world.endings, "not before it is committed"
    world.commits = True
    world.commit()
    world.advance(1_000)
    assert world.states()[-1] == COMPLETE_COMMIT


def test_the_epoch_of_a_repeated_request_is_not_in_the_log_as_in_kafka(world: World) -> None:
    old = world.begin()
    world.begin(expected=old)
    world.fail_over()
    assert world.init(expected=old).code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(("version", "value_version"), [(0, 0), (1, 1), (2, 1)])
def test_the_version_of_records_is_that_of_the_cluster(version: int, value_version: int) -> None:
    world = World(version=version)
    producer = world.begin()
    world.add(producer, A)
    world.end(producer, version=0)
    assert [each for _, _, each in world.written()] == [value_version] * 4


# Expiry


def test_unused_ids_expire(world: World) -> None:
    world.begin("unused")
    producer = world.begin("open", timeout_ms=900_000)
    world.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms = 2**40
    world.add(producer, A, of="open")
    world.advance(world.settings.transactional_id_expiration_ms - 1)
    world.begin("used")
    world.advance(3_600_000)
    assert list(world.state.ids) == ["open", "used"]
    assert world.states("unused") == [EMPTY, -1]
    world.fail_over()
    assert list(world.state.ids) == ["open", "used"]
    assert world.begin("unused").id != producer.id


# Describe


def test_a_transaction_is_described_without_the_partitions_that_are_marked(world: World) -> None:
    world.marks = False
    producer = world.begin()
    assert world.describe().transaction_state == "Empty"
    world.add(producer, A, B)
    described = world.describe()
    assert (described.transaction_state, described.transaction_start_time_ms) == ("Ongoing", START_MS)
    assert [(each.topic, each.partitions) for each in described.topics] == [("a", [0]), ("b", [1])]
    world.end(producer)
    world.endings[0].is_marked(*A)
    described = world.describe()
    assert described.transaction_state == "PrepareCommit"
    assert [(each.topic, each.partitions) for each in described.topics] == [("b", [1])]
    world.mark(world.endings[0])
    assert (world.describe().transaction_state, world.describe().topics) == ("CompleteCommit", [])
    with pytest.raises(RequestError) as refused:
        world.describe("unknown")
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# A load


def test_after_a_load_no_turn_looks_at_all_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.marks = False
    opened, prepared = 1_200, 200
    for number in range(opened + prepared):
        name = f"id-{number}"
        producer = world.begin(name)
        world.add(producer, A, of=name)
        if number >= opened:
            world.end(producer, of=name)
    looked_at: list[int] = []
    get = TimelineMap.get

    def counted(self: TimelineMap[str, Transaction], key: str, *, at: int | None = None) -> Transaction | None:
        looked_at[-1] += 1
        return get(self, key, at=at)

    world.runtime.resigned(world.PARTITION, world.now_ms)
    world.log.new_leader()
    world.elect()
    assert len(world.state.found) == opened + prepared
    monkeypatch.setattr(TimelineMap, "get", counted)
    world.endings.clear()
    while (deadline_ms := world.runtime.next_deadline_ms()) is not None and deadline_ms <= world.now_ms:
        looked_at.append(0)
        world.runtime.tick(world.now_ms)
    assert len(world.endings) == prepared
    assert len(world.state.timers._timers) == opened + 1, "and the next look for expired ids"
    assert max(looked_at) <= 3 * TRANSACTIONAL_IDS_PER_STEP, "some looks for each of those of a step"
    assert len(looked_at) > 5


def test_expired_ids_are_looked_for_in_steps() -> None:
    world = World(transactional_id_expiration_ms=1_000)
    for number in range(3 * TRANSACTIONAL_IDS_PER_STEP):
        world.begin(f"id-{number}")
    world.now_ms += world.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    left = [len(world.state.ids)]
    while (deadline_ms := world.runtime.next_deadline_ms()) is not None and deadline_ms <= world.now_ms:
        world.runtime.tick(world.now_ms)
        left.append(len(world.state.ids))
    assert left[:4] == [1_500, 1_000, 500, 0]
