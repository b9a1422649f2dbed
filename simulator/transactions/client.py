"""A client process with a transactional id: how it speaks with its coordinator, writes, and ends a transaction.

An *old* process speaks as clients do of before KIP-890: it adds partitions before it writes, and its epoch stays the
same from one transaction to the next. Where it does not know whether something that it has asked for is still to come,
it has its epoch bumped before it goes on (KIP-360), since nothing else would tell the late request from those of its
next transaction. A *new* one writes at once, where the cluster's transaction.version allows that, and has another
epoch after each end.

Requests are sent once more, by another connection, and late. Of an old process that is said of those that do no harm:
what ends its transaction, or brings offsets into it, it sends twice at the same time, and waits for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder
from simulator.cluster.client import ClusterClient
from simulator.cluster.load import AGAIN, RETRY_MS
from simulator.transactions.history import NO_CAUSE, Identity, LedgerHistory, Place, Transaction
from simulator.transactions.load import BY_EPOCHS, TRANSACTION_VERSION, TransactionLoad
from simulator.transactions.process import TIMEOUT_MS, Operation, Process, Resume, Steps
from simulator.world.checks import check
from simulator.world.network import Address

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""
FIND_VERSION, VERSIONS_VERSION = 4, 3
INIT_VERSIONS, ADD_VERSION, END_VERSIONS, PRODUCE_VERSIONS = (4, 5), 3, (4, 5), (11, 12)
"""Two: of an old process, and of a new one."""
PRODUCE_TIMEOUT_MS = 2_000
PATIENCE_MS = (1_500, 5_000)
"""Bounds of the time for which a process tries to write something."""
END_GIVEN_UP_PROBABILITY = 0.15
"""Of an end whose outcome is not known: the process dies without asking again."""
VERSION_ASKED_PROBABILITY = 0.3

MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
WAIT = AGAIN - MOVED | {ErrorCode.CONCURRENT_TRANSACTIONS}
FENCING = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
"""Somebody else goes on under this id, or the transaction has timed out."""
ABORTING = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
"""The transaction cannot go on, its producer can."""
NO_ANSWER = "no answer"


class Fenced(Exception):
    """The process is told that it is not the one of its id any more."""


class Aborts(Exception):
    """The transaction under way cannot go on."""


class Codes:
    """How the error of an answer is found: the first that there is."""

    @staticmethod
    def own(response: Any) -> ErrorCode:
        return ErrorCode(response.error_code)

    @staticmethod
    def added(response: Any) -> ErrorCode:
        topics = response.results_by_topic_v3_and_below
        codes = [each.partition_error_code for topic in topics for each in topic.results_by_partition]
        return first_of(codes)

    @staticmethod
    def committed(response: Any) -> ErrorCode:
        return first_of(each.error_code for topic in response.topics for each in topic.partitions)


def first_of(numbers: Iterable[int]) -> ErrorCode:
    """The first error of these; OPERATION_NOT_ATTEMPTED says that another is to blame."""
    codes = [ErrorCode(number) for number in numbers if number]
    real = [code for code in codes if code is not ErrorCode.OPERATION_NOT_ATTEMPTED]
    return next(iter(real or codes), ErrorCode.NONE)


class TransactionalClient(Process):
    """See the module's head.

    Attributes:
        transactional_id: shared by the processes of a slot, one after the other.
        identity: producer id and epoch. old: it never speaks the newer protocol. new: it does so now.
        transaction: the one under way. fenced: it was told that another has its place. ended: transactions it ended.
    """

    def __init__(self, load: TransactionLoad, transactional_id: str, name: str) -> None:
        super().__init__(load.clients, transactional_id, name)
        self.load = load
        self.transactional_id = transactional_id
        self.identity: Identity = (-1, -1)
        self.old = self.random.random() < load.old_probability
        self.new = False
        self.timeout_ms = self.random.choice(load.timeouts_ms)
        self.transaction: Transaction | None = None
        self.fenced = False
        self.ended = 0
        self._again = ClusterClient(
            self.simulation, load.clients.network, transactional_id, load.clients.brokers, client_id=f"{name} again"
        )
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._sequences: dict[Place, int] = {}
        self._number = 0
        self._bump = False
        self._anew = False
        self._repeats = False
        self._asked = 0
        self._begun_ms = 0

    def trace(self, text: str) -> None:
        """Says what happens to it."""
        self.simulation.trace(f"{self.name}: {text}")

    # Coordinators

    def _find(self, kind: int, key: str) -> Steps[Address]:
        """Looks for a coordinator until there is one."""
        while True:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            response = yield self.ask(self.client.any_broker(), request, FIND_VERSION)
            if response is not None:
                (found,) = response.coordinators
                code = ErrorCode(found.error_code)
                check(code in AGAIN or not code, "a coordinator is found", f"{self.name}: {code.name}")
                if not code:
                    self._coordinators[kind, key] = address = (found.host, found.port)
                    return address
            yield self.sleep(RETRY_MS)

    def coordinator(self, kind: int, key: str) -> Steps[Address]:
        """Where a coordinator is, as far as this process knows."""
        known = self._coordinators.get((kind, key))
        if known is None:
            known = yield from self._find(kind, key)
        return known

    def asked(
        self,
        message: Message,
        version: int,
        code_of: Callable[[Any], ErrorCode],
        *,
        kind: int = TRANSACTION,
        key: str | None = None,
        until_ms: int | None = None,
        twice: bool = False,
    ) -> Steps[tuple[ErrorCode, Any]]:
        """Asks a coordinator until it gives an answer that counts, or until a time; NETWORK_EXCEPTION then.

        Args:
            twice: the request is sent twice at once, and both are waited for.
        """
        where = (kind, self.transactional_id if key is None else key)
        while True:
            address = yield from self.coordinator(*where)
            response = yield from self._ask_once(address, message, version, twice=twice)
            code = ErrorCode.NETWORK_EXCEPTION if response is None else code_of(response)
            if response is not None and code not in MOVED and code not in WAIT:
                return code, response
            self._note_unsure(code)
            if response is None or code in MOVED:
                self._coordinators.pop(where, None)
            if until_ms is not None and self.load.now_ms >= until_ms and not self.load.patient:
                return ErrorCode.NETWORK_EXCEPTION, None
            yield self.sleep(self.random.randrange(10, RETRY_MS))

    def _ask_once(self, address: Address, message: Message, version: int, *, twice: bool) -> Steps[Any]:
        if not twice or self.random.random() >= 2 * self.load.repeat_probability:
            return (yield self.ask(address, message, version))
        self.load.count(f"twice {message.NAME}")
        second: Operation = partial(self._ask_again, address, message, version)
        delay_ms = self.random.randrange(20)
        first, other = yield self.together([self.ask(address, message, version), self.after(delay_ms, second)])
        if first is None or other is None:
            self._bump = True
        return first

    def _ask_again(self, address: Address, message: Message, version: int, resume: Resume) -> None:
        self._again.ask(address, message, version, resume, timeout_ms=TIMEOUT_MS)

    def _note_unsure(self, code: ErrorCode) -> None:
        """Something that was asked for may come to pass later."""
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            self._bump = True

    def repeat(self, address: Address, message: Message, version: int) -> bool:
        """A request that was sent is perhaps sent once more, later, by another connection; whether it is."""
        if self.load.patient or self.random.random() >= self.load.repeat_probability:
            return False
        self.load.count(f"repeated {message.NAME}")
        self.load.later(lambda: self._ask_again(address, message, version, lambda response: None))
        return True

    # Producer ids

    def initialise(self) -> Steps[None]:
        """Asks for a producer id, and learns what the cluster speaks."""
        yield from self.learn_version(always=True)
        known = self.load.history.newest(self.transactional_id)
        self.load.history.asks(self.transactional_id)
        self._asked = self.load.history.asked[self.transactional_id]
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms, producer_id=-1
        )
        request.producer_epoch = -1
        code, response = yield from self.asked(request, INIT_VERSIONS[self.new], Codes.own)
        self._check_fenced(code, "an id is given")
        check(not code, "an id is given", f"{self.name}: {code.name}")
        self.identity = (response.producer_id, response.producer_epoch)
        self.load.history.given(self.transactional_id, self.identity, self.name, known)
        self._bump = False
        self.trace(f"is producer {self.identity}, {'new' if self.new else 'old'}")

    def reinitialise(self) -> Steps[None]:
        """Has its epoch bumped, so that nothing that is still to come is taken for its own (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.identity[0],
        )
        request.producer_epoch = self.identity[1]
        code, response = yield from self.asked(request, INIT_VERSIONS[self.new], Codes.own)
        self._check_fenced(code, "an epoch is bumped")
        check(not code, "an epoch is bumped", f"{self.name}: {code.name}")
        self._goes_on((response.producer_id, response.producer_epoch))
        self._bump = False

    def _goes_on(self, identity: Identity) -> None:
        self.load.history.given(self.transactional_id, identity, self.name, self.identity)
        self.identity = identity
        self._sequences.clear()

    def learn_version(self, *, always: bool = False) -> Steps[None]:
        """Asks a broker, every now and then, whether the cluster speaks the newer protocol."""
        if self.old or (not always and self.random.random() >= VERSION_ASKED_PROBABILITY):
            return
        request = ApiVersionsRequest(client_software_name="simulator", client_software_version="1")
        response = yield self.ask(self.client.any_broker(), request, VERSIONS_VERSION)
        if response is not None and not response.error_code:
            levels = {each.name: each.max_version_level for each in response.finalized_features}
            new = levels.get(TRANSACTION_VERSION, 0) >= BY_EPOCHS
            self._anew |= new != self.new and not always
            self.new = new

    def _check_fenced(self, code: ErrorCode, what: str) -> None:
        if code in FENCING:
            raise Fenced(f"{what}: {code.name}")

    # A transaction

    def begin(self) -> Steps[Transaction]:
        """A new transaction, with an epoch of its own where the last one is not surely over."""
        yield from self.learn_version()
        if self._anew or (self._bump and not self.new):
            yield from self.reinitialise()
        self._bump = self._anew = False
        self._number += 1
        self._begun_ms = self.load.now_ms
        self.transaction = self.load.history.begin(f"{self.name}/{self._number}", self.identity, self._begun_ms)
        return self.transaction

    def patience_ms(self) -> int:
        """Until when something is tried."""
        return self.load.now_ms + self.random.randint(*PATIENCE_MS)

    def add(self, transaction: Transaction, places: Iterable[Place]) -> Steps[None]:
        """An old process adds partitions before it writes to them."""
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(places):
            by_topic.setdefault(topic, []).append(index)
            transaction.touched.add((topic, index))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in by_topic.items()
            ],
        )
        code, _ = yield from self.asked(request, ADD_VERSION, Codes.added, until_ms=self.patience_ms())
        address = yield from self.coordinator(TRANSACTION, self.transactional_id)
        self.repeat(address, request, ADD_VERSION)
        self._expect(code, "partitions are added")

    def _expect(self, code: ErrorCode, what: str) -> None:
        """Goes on after success; what else may be answered ends the transaction, or the process."""
        self._check_fenced(code, what)
        if code in ABORTING or code is ErrorCode.NETWORK_EXCEPTION:
            raise Aborts(f"{what}: {code.name}")
        check(not code, "a transaction is served or refused for a reason", f"{self.name}, {what}: {code.name}")

    def batch(self, place: Place, values: Iterable[bytes]) -> tuple[ProduceRequest, int]:
        """The request that writes these values next, and how many there are."""
        builder = BatchBuilder(
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=self._sequences.get(place, 0),
            is_transactional=True,
        )
        for value in values:
            builder.append(self.load.now_ms, value.partition(b" .")[0], value)
        count = builder.record_count
        data = PartitionProduceData(index=place[1], records=builder.build())
        topic = TopicProduceData(name=place[0], partition_data=[data])
        return (
            ProduceRequest(
                transactional_id=self.transactional_id, acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic]
            ),
            count,
        )

    def leader(self, place: Place) -> Steps[Address]:
        """Looks for a leader until there is one."""
        while place not in self.client.leaders:
            yield lambda resume: self.client.find_leaders(place[0], lambda: resume(None))
            if place not in self.client.leaders:
                yield self.sleep(RETRY_MS)
        return self.client.leaders[place]

    def produce(self, transaction: Transaction, place: Place, values: list[bytes]) -> Steps[None]:
        """Writes a batch, and sends it again until it is acknowledged."""
        ledger, until_ms = self.load.ledgers[place], self.patience_ms()
        sent_at_end = ledger.end
        ledger.sent.update(values)
        request, count = self.batch(place, values)
        version = PRODUCE_VERSIONS[self.new]
        while True:
            address = yield from self.leader(place)
            response = yield self.ask(address, request, version)
            answer: Any = None if response is None else response.responses[0].partition_responses[0]
            code = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
            if not code:
                break
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._out_of_order(address, ledger, transaction)
            elif code not in AGAIN and code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                self._bump = True
                self._check_fenced(code, f"a write to {place}")
                self._expect(code, f"a write to {place}")
            self.client.leaders.pop(place, None)
            self._bump |= code is not ErrorCode.CONCURRENT_TRANSACTIONS
            if self.load.now_ms >= until_ms and not self.load.patient:
                raise Aborts(f"a write to {place}: {code.name}")
            yield self.sleep(self.random.randrange(10, RETRY_MS))
        self._sequences[place] = self._sequences.get(place, 0) + count
        for number, value in enumerate(values):
            ledger.acknowledge(answer.base_offset + number, value, sent_at_end)
        self._repeats |= self.repeat(address, request, version)

    def _out_of_order(self, address: Address, ledger: LedgerHistory, transaction: Transaction) -> None:
        """Right from a leader that has been deposed. As in Kafka also where an earlier batch has come once more while
        no transaction was open there, and waits to be verified: none may overtake it."""
        if self.load.clients.really_leads(address, ledger):
            detail = f"{self.name}: {ledger.name} refuses {transaction}"
            check(self._repeats, "a producer's state survives", detail)
            self.load.count("out of order")
            self._anew = True
            raise Aborts("a write is out of order")

    def end(self, transaction: Transaction, *, commit: bool) -> Steps[bool]:
        """Ends the transaction; whether it is committed, as far as that is known.

        Raises Fenced when the process is to end too, with whatever came of the transaction.
        """
        if commit:
            transaction.ask_commit()
        request, version = self.end_request(commit=commit), END_VERSIONS[self.new]
        sent_before = False
        while True:
            address = yield from self.coordinator(TRANSACTION, self.transactional_id)
            response = yield from self._ask_once(address, request, version, twice=not self.new)
            if self.new:
                self.repeat(address, request, version)
            code = ErrorCode.NETWORK_EXCEPTION if response is None else Codes.own(response)
            if response is not None and code not in MOVED and code not in WAIT:
                break
            if code in UNSURE_ENDS:
                sent_before = True
                self._bump = True
                if not self.load.patient and self.random.random() < END_GIVEN_UP_PROBABILITY:
                    self.load.count("ends given up")
                    self.trace(f"gives up, and does not know what became of {transaction}")
                    raise Fenced(NO_ANSWER)
            if response is None or code in MOVED:
                self._coordinators.pop((TRANSACTION, self.transactional_id), None)
            yield self.sleep(self.random.randrange(10, RETRY_MS))
        return self._ended(transaction, code, response, commit=commit, sent_before=sent_before)

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        """What ends the transaction under way."""
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            committed=commit,
        )

    def _ended(
        self, transaction: Transaction, code: ErrorCode, response: Any, *, commit: bool, sent_before: bool
    ) -> bool:
        self.transaction = None
        self.ended += 1
        if not code:
            transaction.settle(commit, f"its producer was told so by {'EndTxn'}")
            self.load.count("commits" if commit else "aborts")
            if self.new:
                self._goes_on((response.producer_id, response.producer_epoch))
            return commit
        known = code in FENCING or code in ABORTING
        check(known, "a transaction is served or refused for a reason", f"{self.name}, its end: {code.name}")
        if not sent_before:
            transaction.settle(False, f"its end was refused: {code.name}")
        self.load.count(f"end {code.name}")
        self._anew = True
        if code in FENCING:
            raise Fenced(f"the end of {transaction}: {code.name}")
        if sent_before:
            raise Fenced(f"the end of {transaction} is not known: {code.name}")
        return False

    def known_coordinator(self) -> Steps[Address]:
        """Where its own coordinator is."""
        return (yield from self.coordinator(TRANSACTION, self.transactional_id))

    def forget_epoch(self) -> None:
        """What was written in this epoch is not known: an old process needs another one."""
        self._bump = True

    def is_fenced(self, why: str) -> None:
        """The process has come to its end, by an error; if it is somebody else's, there is a cause."""
        self.trace(f"ends: {why}")
        self.fenced = True
        if why == NO_ANSWER:
            return
        self.load.count("fenced")
        replaced = self.load.history.asked[self.transactional_id] > self._asked
        late = self.load.now_ms - self._begun_ms >= self.timeout_ms
        cause = replaced or late or not self.load.calm
        check(cause, NO_CAUSE, f"{self.name}: {why}")


UNSURE_ENDS = AGAIN
"""After these a transaction may be ended nevertheless."""
