"""A producer of transactions: one after the other, over several partitions; some it commits, some it aborts.

Some it has aborted while the first write to a partition is under way, and some take as long as their timeout.
"""

from __future__ import annotations

from simulator.cluster.producers import FILLER_BYTES_MAX
from simulator.transactions.client import END_VERSIONS, PRODUCE_VERSIONS, Aborts, Fenced, TransactionalClient
from simulator.transactions.history import Place, Transaction
from simulator.transactions.load import INBOX, TransactionLoad
from simulator.transactions.process import Steps

COMMIT_PROBABILITY = 0.7
HASTY_MS = 20
SLOW_PROBABILITY = 0.06
ROUNDS_MAX, RECORDS_MAX = 2, 3
ABOUT_MS = 350


class TransactionProducer(TransactionalClient):
    """See the module's head."""

    def __init__(self, load: TransactionLoad, transactional_id: str, name: str) -> None:
        super().__init__(load, transactional_id, name)
        self.written = 0

    def run(self) -> Steps[None]:
        try:
            yield from self.initialise()
            while self.load.clients.going_on:
                transaction = yield from self.begin()
                yield from self.one(transaction)
                yield self.sleep(self.load.clients.think())
        except Fenced as fenced:
            self.is_fenced(str(fenced))

    def one(self, transaction: Transaction) -> Steps[None]:
        """One transaction, from its first record to its end."""
        places = sorted(place for place in self.load.ledgers if place[0] == INBOX)
        places = self.random.sample(places, self.random.randint(1, len(places)))
        commit = self.random.random() < COMMIT_PROBABILITY
        try:
            if not self.new:
                yield from self.add(transaction, places)
            if self.random.random() < self.load.hasty_probability:
                yield from self.hasty(transaction, places[0])
                return
            for _ in range(self.random.randint(1, ROUNDS_MAX)):
                for place in places:
                    yield from self.produce(transaction, place, self.values(transaction, place))
            if self.random.random() < SLOW_PROBABILITY:
                late_ms = self.random.randint(-ABOUT_MS, ABOUT_MS)
                left_ms = transaction.begun_ms + self.timeout_ms + late_ms - self.load.now_ms
                yield self.sleep(max(0, left_ms))
        except Aborts as why:
            self.trace(f"aborts {transaction}: {why}")
            commit = False
        yield from self.end(transaction, commit=commit)

    def values(self, transaction: Transaction, place: Place) -> list[bytes]:
        """Records that nobody has written before."""
        values = []
        for _ in range(self.random.randint(1, RECORDS_MAX)):
            self.written += 1
            value = f"{self.name} {self.written} ".encode() + b"." * self.random.randrange(FILLER_BYTES_MAX)
            self.load.history.write(transaction, place, value)
            values.append(value)
        return values

    def hasty(self, transaction: Transaction, place: Place) -> Steps[None]:
        """The transaction is aborted while its first record is on its way, or before that comes."""
        self.load.count("hasty ends")
        values = self.values(transaction, place)
        self.load.ledgers[place].sent.update(values)
        request, _ = self.batch(place, values)
        leader = yield from self.leader(place)
        coordinator = yield from self.known_coordinator()
        write = self.ask(leader, request, PRODUCE_VERSIONS[self.new])
        end = self.ask(coordinator, self.end_request(commit=False), END_VERSIONS[self.new])
        one, other = self.random.sample([write, end], 2)
        self.load.hasty.add(self.transactional_id)
        yield self.together([one, self.after(self.random.randint(0, HASTY_MS), other)])
        self.load.hasty.discard(self.transactional_id)
        yield from self.end(transaction, commit=False)
        self.forget_epoch()
