"""Has coordinators confirm that a transaction is under way before its first batch is appended (KIP-890).

    node.verifier.verify(
        "my-id", 17, 3, {"orders": [0, 4]}, operation=Operation.of_produce(12), done=verified, now_ms=now_ms
    )

    def verified(errors, now_ms):        # {("orders", 4): ErrorCode.INVALID_TXN_STATE}; empty: all are part of it

A coordinator is asked with AddPartitionsToTxn 4 or 5, this node's own without frames (`node/own_calls.py`). At most one
request is under way to each; what comes meanwhile goes together with the next one. So a busy coordinator gets few large
requests.

A request names a transactional id once. Records and offsets of one transaction may wait for the same coordinator: they
have their turns one after the other. A verification with a newer epoch fences those that wait with an older one. One
with the same epoch ends only what it repeats, a verification of some of the same partitions: there Kafka ends any
other, whose client then has to come again. As in Kafka the errors are the coordinator's, except that a producer knows
INVALID_PRODUCER_EPOCH and not PRODUCER_FENCED, and one that is too old for TRANSACTION_ABORTABLE gets
INVALID_TXN_STATE. How a response says it, and whether CONCURRENT_TRANSACTIONS is tried again, is for the callers.
Source: AddPartitionsToTxnManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.node.coordinator_topic import partition_for
from penstock.node.limits import VERIFICATIONS_PER_REQUEST_MAX, VERIFICATIONS_WAITING_MAX
from penstock.node.metrics import COUNTER, SUMMARY, RequestCounters, Sample
from penstock.node.outgoing import NotServed, Peer
from penstock.node.own_calls import OwnCalls
from penstock.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from penstock.node.scheduler import Scheduler
    from penstock.node.state import NodeState
    from penstock.protocol.message import Message

TRANSACTION_TOPIC = "__transaction_state"
CHANNEL = "transaction verification"

TopicPartition = tuple[str, int]
Errors = Mapping[TopicPartition, ErrorCode]
"""The partitions that may not be written to, and why."""
Verified = Callable[[Errors, int], None]
"""`done(errors, now_ms)`."""


class Operation(Enum):
    """What the version of a client's request allows (Kafka's TransactionSupportedOperation)."""

    DEFAULT_ERROR = "verify, for a client that does not know TRANSACTION_ABORTABLE"
    GENERIC_ERROR_SUPPORTED = "verify"
    ADD_PARTITION = "add the partitions to the transaction"

    @classmethod
    def of_produce(cls, version: int) -> Operation:
        """For a version of Produce."""
        return cls._of(version, knows_abortable_from=11)

    @classmethod
    def of_txn_offset_commit(cls, version: int) -> Operation:
        """For a version of TxnOffsetCommit."""
        return cls._of(version, knows_abortable_from=4)

    @classmethod
    def _of(cls, version: int, knows_abortable_from: int) -> Operation:
        if version > knows_abortable_from:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version == knows_abortable_from else cls.DEFAULT_ERROR


@dataclass(slots=True, eq=False)
class Verification:
    """One transaction that is to be verified."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Mapping[str, Sequence[int]]
    operation: Operation
    done: Verified
    begun_ms: int

    def all_failed(self, code: ErrorCode) -> Errors:
        """The same error for all its partitions."""
        return {(topic, index): code for topic, indexes in self.partitions.items() for index in indexes}

    def shares_partitions_with(self, other: Verification) -> bool:
        """Whether both name the same partition."""
        own = self.partitions
        return any(
            not set(indexes).isdisjoint(own[topic]) for topic, indexes in other.partitions.items() if topic in own
        )

    def in_request(self) -> AddPartitionsToTxnTransaction:
        """The transaction as the request to the coordinator has it."""
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            verify_only=self.operation is not Operation.ADD_PARTITION,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=list(indexes))
                for name, indexes in self.partitions.items()
            ],
        )

    def for_client(self, code: int) -> ErrorCode:
        """A coordinator's error as producers know it."""
        if code == ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code == ErrorCode.TRANSACTION_ABORTABLE and self.operation is Operation.DEFAULT_ERROR:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.of_peer(code)


class Line:
    """What waits for one coordinator, by transactional id. Those of one id have their turns in the order they came."""

    __slots__ = ("_by_id", "_count")

    def __init__(self) -> None:
        self._by_id: dict[str, list[Verification]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, transactional_id: str) -> list[Verification]:
        """What waits for one transactional id."""
        return list(self._by_id.get(transactional_id, ()))

    def add(self, verification: Verification) -> None:
        self._by_id.setdefault(verification.transactional_id, []).append(verification)
        self._count += 1

    def remove(self, verification: Verification) -> None:
        of_id = self._by_id[verification.transactional_id]
        of_id.remove(verification)
        self._count -= 1
        if not of_id:
            del self._by_id[verification.transactional_id]

    def take(self, count: int) -> list[Verification]:
        """Takes out the next ones, of each transactional id one."""
        taken = []
        for transactional_id in list(islice(self._by_id, count)):
            of_id = self._by_id.pop(transactional_id)
            taken.append(of_id.pop(0))
            if of_id:
                self._by_id[transactional_id] = of_id
        self._count -= len(taken)
        return taken


class Verifier:
    """All verifications of one node. See the module's head.

    Attributes:
        failures: partitions that could not be verified. times: how long verifications took, and how many there were.
    """

    def __init__(self, state: NodeState, scheduler: Scheduler, outgoing: OwnCalls) -> None:
        self._state = state
        self._scheduler = scheduler
        self._outgoing = outgoing
        self._waiting: dict[int, Line] = {}
        self._asked: set[int] = set()
        self.failures = 0
        self.times = RequestCounters("VerificationTimeMs")

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Mapping[str, Sequence[int]],
        *,
        operation: Operation,
        done: Verified,
        now_ms: int,
    ) -> None:
        """Has the coordinator verify that these partitions (topic -> indexes) are part of the transaction of this
        epoch, or add them. `done` is called once, never before this returns, with the errors.

        Take the guards (`ProducerState.guard`) before. Errors: those of the coordinator for a partition;
        COORDINATOR_NOT_AVAILABLE if there is none or too many wait for it; NETWORK_EXCEPTION if it does not answer in
        time (request.timeout.ms) or the client repeated its request; INVALID_PRODUCER_EPOCH if there is a newer epoch.
        """
        new = Verification(transactional_id, producer_id, producer_epoch, partitions, operation, done, now_ms)
        broker_id = self.coordinator_of(transactional_id)
        if broker_id is None:
            self._end_soon(new, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
            return
        line = self._waiting.setdefault(broker_id, Line())
        for old in line.of(transactional_id):
            if old.producer_id != producer_id:
                continue  # which of them is the newer one only the coordinator knows
            if old.producer_epoch > producer_epoch:
                self._end_soon(new, ErrorCode.INVALID_PRODUCER_EPOCH, now_ms)
                return
            if old.producer_epoch < producer_epoch:
                line.remove(old)
                self._end_soon(old, ErrorCode.INVALID_PRODUCER_EPOCH, now_ms)
            elif new.shares_partitions_with(old):
                line.remove(old)
                self._end_soon(old, ErrorCode.NETWORK_EXCEPTION, now_ms)
        if len(line) >= VERIFICATIONS_WAITING_MAX:
            self._end_soon(new, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
            return
        line.add(new)
        if broker_id not in self._asked:
            self._ask(broker_id, now_ms)

    def coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that coordinates a transactional id; None if there is none at present."""
        image = self._state.image
        topic = image.topics_by_name.get(TRANSACTION_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        broker = image.brokers.get(leader)
        return None if broker is None or broker.fenced or self._state.peer(leader) is None else leader

    def _ask(self, broker_id: int, now_ms: int) -> None:
        """Sends verifications that wait for a coordinator, as many as one request takes; or ends them all, if it cannot
        be asked.
        """
        line = self._waiting[broker_id]
        peer = self._state.peer(broker_id)
        while line and broker_id not in self._asked:
            chosen = line.take(VERIFICATIONS_PER_REQUEST_MAX)
            code = ErrorCode.NETWORK_EXCEPTION
            try:
                if peer is not None:
                    self._call(broker_id, peer, chosen, now_ms)
                    continue
            except Exception as error:
                self._scheduler.bug("call", "a request to verify transactions", error)
                code = ErrorCode.UNKNOWN_SERVER_ERROR
            for each in chosen:
                self._end_soon(each, code, now_ms)
        if not line:
            del self._waiting[broker_id]

    def _call(self, broker_id: int, peer: Peer, chosen: Sequence[Verification], now_ms: int) -> None:
        self._outgoing.call(
            peer,
            AddPartitionsToTxnRequest(transactions=[each.in_request() for each in chosen]),
            timeout_ms=self._state.settings.request_timeout_ms,
            done=partial(self._answered, broker_id, chosen),
            now_ms=now_ms,
            channel=CHANNEL,
        )
        self._asked.add(broker_id)

    def _answered(
        self, broker_id: int, asked: Sequence[Verification], answer: Message | None, reason: str | None, now_ms: int
    ) -> None:
        """Passes on the answer for each transaction, and asks for those that have come meanwhile."""
        self._asked.discard(broker_id)
        if broker_id in self._waiting:
            self._ask(broker_id, now_ms)
        try:
            found = errors_by_transaction(asked, answer, reason)
        except Exception as error:
            self._scheduler.bug("call", "an answer about transactions", error)
            found = {}
        for each in asked:
            errors = found.get(each.transactional_id)
            if errors is None:
                errors = each.all_failed(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._end(each, errors, now_ms)

    def _end_soon(self, verification: Verification, code: ErrorCode, now_ms: int) -> None:
        """Ends one with an error, after the present call has returned."""
        errors = verification.all_failed(code)
        self._count(verification, errors, now_ms)
        self._scheduler.timers.at(now_ms, partial(verification.done, errors))

    def _end(self, verification: Verification, errors: Errors, now_ms: int) -> None:
        guarded, what = self._scheduler.guarded, "what waits for a transaction to be verified"
        guarded("call", what, verification.done, errors, now_ms)
        guarded("call", "a transaction that was verified", self._count, verification, errors, now_ms)

    def _count(self, verification: Verification, errors: Errors, now_ms: int) -> None:
        self.failures += len(errors)
        self.times.add(now_ms - verification.begun_ms)

    def samples(self) -> Iterator[Sample]:
        """The metrics, under Kafka's names."""
        name = "kafka_server_addpartitionstotxnmanager_verificationfailurerate_count"
        yield Sample(name, COUNTER, "Partitions whose transaction could not be verified.", self.failures)
        name = "kafka_server_addpartitionstotxnmanager_verificationtimems"
        text = "Time until a transaction was verified by its coordinator; quantiles of the last minutes, rounded up."
        for share, time_ms in self.times.quantiles_ms(self._scheduler.now_ms):
            yield Sample(name, SUMMARY, text, time_ms, {"quantile": f"{share:g}"})
        yield Sample(f"{name}_sum", SUMMARY, text, self.times.total_time_ms)
        yield Sample(f"{name}_count", SUMMARY, text, self.times.requests)


def errors_by_transaction(
    asked: Iterable[Verification], answer: Message | None, reason: str | None
) -> dict[str, Errors]:
    """The errors of each transaction by its id; those that the coordinator has left out of its answer are missing.

    `answer`, `reason`: as a call has ended (`Outgoing.call`).
    """
    by_id = {each.transactional_id: each for each in asked}
    if isinstance(reason, NotServed):  # as in Kafka: a coordinator that verifies nothing
        return {name: {} for name in by_id}
    assert answer is None or isinstance(answer, AddPartitionsToTxnResponse)
    if answer is None or answer.error_code:
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode.of_peer(answer.error_code)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # ours to mend, not the client's
            code = ErrorCode.INVALID_TXN_STATE
        return {name: each.all_failed(code) for name, each in by_id.items()}
    found: dict[str, Errors] = {}
    for result in answer.results_by_transaction:
        verification = by_id.get(result.transactional_id)
        if verification is None:
            continue
        found[result.transactional_id] = {
            (topic.name, each.partition_index): verification.for_client(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
            if each.partition_error_code
        }
    return found
