"""Finds hanging transactions: open in a partition that this node leads, while no coordinator knows that they are.

Such a transaction holds back every reader with read_committed, and nothing will ever end it. It comes from a log that
was imported, from a broker without verification (KIP-890), or from an unclean election that lost a marker. As Kafka's
`kafka-transactions find-hanging` does (KIP-664), all leaders of `__transaction_state` are asked for the producer ids
(ListTransactions), then the one that knows an id for its partitions (DescribeTransactions). The difference is that
nobody has to ask: a transaction is asked about LOOK_INTERVAL_MS after it was first seen, and at each look from then on
while it is open. It hangs if two looks in a row find that no coordinator counts the partition among those of its
transaction: one alone may have come between a marker and the next transaction. So it is told within a minute.

A coordinator that does not answer, or is loading, may know any producer id: then nothing is said.

Partitions without open transactions cost nothing here. A log that is not open, as nobody has asked for it since the
start, is not opened for this: who is held back by its transaction opens it. Nothing is ended: that needs somebody who
knows whether the records count (`penstock transactions abort`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.errors import ErrorCode
from penstock.events import events
from penstock.node.limits import OPEN_TRANSACTIONS_ASKED_MAX, OPEN_TRANSACTIONS_SEEN_MAX, PARTITIONS_PER_STEP
from penstock.node.metrics import GAUGE, Sample
from penstock.node.outgoing import Outgoing
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest
from penstock.protocol.messages.list_transactions_response import ListTransactionsResponse
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas

CHANNEL = "hanging transactions"
STATE_TOPIC = "__transaction_state"
LOOK_INTERVAL_MS = 15_000
ASK_TIMEOUT_MS = 10_000
LOOKS_UNTIL_SURE = 2
VERSION = 0
"""Of both requests; it says all that is needed, and every broker with transactions serves it."""

Then = Callable[["Look", int, Any, int], None]
"""`then(look, broker_id, answer, now_ms)`."""

logger = events("node.hanging")


class OpenTransaction(NamedTuple):
    """A transaction in one partition, from its first record on."""

    topic: str
    partition: int
    producer_id: int
    first_offset: int


@dataclass(slots=True)
class Seen:
    """What is known of an open transaction: since when, and how many looks in a row have found nobody who knows it."""

    since_ms: int
    unknown: int = 0
    told: bool = False


@dataclass(slots=True, eq=False)
class Look:
    """One round of questions.

    Attributes:
        asked: what it is about. left: answers that are still to come. complete: every coordinator has answered.
        known: (transactional id, coordinator) by producer id. parts: of a producer id, the partitions that its
            coordinator counts among its transaction's.
    """

    asked: list[OpenTransaction]
    left: int = 0
    complete: bool = True
    known: dict[int, tuple[str, int]] = field(default_factory=dict)
    parts: dict[int, set[tuple[str, int]]] = field(default_factory=dict)


class HangingTransactions:
    """See the module's head. `replicas` gives those of this node."""

    def __init__(
        self, state: NodeState, scheduler: Scheduler, outgoing: Outgoing, replicas: Callable[[], Replicas]
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._outgoing = outgoing
        self._replicas = replicas
        self._partitions: dict[Partition, None] = {}
        self._seen: dict[OpenTransaction, Seen] = {}
        self._waiting = False

    def noticed(self, partition: Partition, now_ms: int) -> None:
        """A partition that this node leads has an open transaction."""
        self._partitions[partition] = None
        self._look_later(now_ms)

    def _look_later(self, now_ms: int) -> None:
        if self._partitions and not self._waiting:
            self._waiting = True
            self._scheduler.timers.at(now_ms + LOOK_INTERVAL_MS, self._look)

    def hanging(self) -> list[OpenTransaction]:
        """The transactions that hang, as far as is known."""
        return [each for each, seen in self._seen.items() if seen.told]

    def samples(self) -> Iterator[Sample]:
        """How many hang, in how many partitions that this node leads."""
        found = self.hanging()
        text = "Open transactions here that no coordinator knows: they hold back read_committed until they are aborted."
        yield Sample("penstock_hanging_transactions", GAUGE, text, len(found))
        text = "Partitions led here that have one."
        partitions = len({(each.topic, each.partition) for each in found})
        yield Sample("penstock_partitions_with_hanging_transactions", GAUGE, text, partitions)

    # A look

    def _look(self, now_ms: int) -> None:
        self._waiting = False
        self._look_later(now_ms)
        self._scheduler.do(self._look_in_steps(now_ms))

    def _look_in_steps(self, now_ms: int) -> Iterator[None]:
        """Notes what is open; asks about what was so at the last look, those first that were not asked for longest."""
        found: dict[OpenTransaction, None] = {}
        for count, partition in enumerate(list(self._partitions), 1):
            ongoing = partition.log.producers.ongoing
            if not ongoing or self._replicas().in_use(partition.topic, partition.index) is not partition:
                self._partitions.pop(partition, None)
            for first_offset, producer_id in ongoing.items() if partition in self._partitions else ():
                found[OpenTransaction(partition.topic, partition.index, producer_id, first_offset)] = None
            if not count % PARTITIONS_PER_STEP:
                yield
        self._seen = {each: seen for each, seen in self._seen.items() if each in found}
        for each in found:
            if len(self._seen) >= OPEN_TRANSACTIONS_SEEN_MAX:
                break
            self._seen.setdefault(each, Seen(now_ms))
        asked = [each for each, seen in self._seen.items() if now_ms - seen.since_ms >= LOOK_INTERVAL_MS]
        del asked[OPEN_TRANSACTIONS_ASKED_MAX:]
        for each in asked:
            self._seen[each] = self._seen.pop(each)
        if asked:
            self._ask(Look(asked), now_ms)

    def _ask(self, look: Look, now_ms: int) -> None:
        """Asks the leaders of the coordinators' partitions who knows the producer ids."""
        topic = self._state.image.topics_by_name.get(STATE_TOPIC)
        leaders = sorted({each.leader for each in topic.partitions}) if topic is not None else []
        producer_ids = sorted({each.producer_id for each in look.asked})
        look.left = 1  # ourselves, so that nothing ends before all were asked
        for leader in leaders:
            request = ListTransactionsRequest(state_filters=[], producer_id_filters=producer_ids)
            self._call(look, leader, request, self._listed, now_ms)
        self._answered(look, now_ms)

    def _call(self, look: Look, broker_id: int, request: Message, then: Then, now_ms: int) -> None:
        peer = self._state.peer(broker_id)
        if peer is None:
            look.complete = False
            return
        look.left += 1

        def done(answer: Message | None, reason: str | None, at_ms: int) -> None:
            if answer is None:
                look.complete = False
            else:
                then(look, broker_id, answer, at_ms)
            self._answered(look, at_ms)

        self._outgoing.call(
            peer, request, version=VERSION, timeout_ms=ASK_TIMEOUT_MS, done=done, now_ms=now_ms, channel=CHANNEL
        )

    def _listed(self, look: Look, broker_id: int, answer: ListTransactionsResponse, now_ms: int) -> None:
        if answer.error_code != ErrorCode.NONE:
            look.complete = False
            return
        ids = []
        for each in answer.transaction_states:
            look.known[each.producer_id] = each.transactional_id, broker_id
            ids.append(each.transactional_id)
        if ids:
            self._call(look, broker_id, DescribeTransactionsRequest(transactional_ids=ids), self._described, now_ms)

    def _described(self, look: Look, broker_id: int, answer: DescribeTransactionsResponse, now_ms: int) -> None:
        for each in answer.transaction_states:
            if each.error_code == ErrorCode.NONE:
                parts = look.parts.setdefault(each.producer_id, set())
                parts.update((topic.topic, index) for topic in each.topics for index in topic.partitions)
            elif each.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                look.complete = False

    def _answered(self, look: Look, now_ms: int) -> None:
        look.left -= 1
        if not look.left and look.complete:
            for each in look.asked:
                self._judge(look, each, now_ms)

    def _judge(self, look: Look, transaction: OpenTransaction, now_ms: int) -> None:
        seen = self._seen.get(transaction)
        if seen is None:
            return
        if (transaction.topic, transaction.partition) in look.parts.get(transaction.producer_id, ()):
            seen.unknown, seen.told = 0, False
            return
        seen.unknown += 1
        if seen.unknown >= LOOKS_UNTIL_SURE and not seen.told:
            seen.told = True
            self._tell(look, transaction, now_ms - seen.since_ms)

    def _tell(self, look: Look, transaction: OpenTransaction, open_ms: int) -> None:
        name, _ = look.known.get(transaction.producer_id, (None, -1))
        logger.warning(
            "hanging transaction: no coordinator knows it, and read_committed stops before it until it is aborted",
            partition=f"{transaction.topic}-{transaction.partition}",
            offset=transaction.first_offset,
            producer_id=transaction.producer_id,
            transactional_id=name,
            seen_for_ms=open_ms,
            abort=f"penstock transactions abort --topic {transaction.topic} --partition {transaction.partition} "
            f"--start-offset {transaction.first_offset}",
        )
