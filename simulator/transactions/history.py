"""What the clients know of transactions, and what may therefore never be seen.

A transaction has records in partitions, and offsets of a group. Its producer knows what it has asked for and what was
answered; where no answer came, either may be the case. So a transaction is *settled* by the first that shows what has
become of it: an answer, a record that a reader of committed records was given or was not given though it has passed it,
an offset that a group has. Whatever is seen afterwards must say the same: all of it is there, or nothing.

Nobody sees a record or an offset of a transaction as committed whose producer has not asked for that, and what it asks
for counts for its epoch alone: a producer id never comes back to an epoch that it has left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.cluster.history import SURVIVES, WRITTEN, PartitionHistory
from simulator.world.checks import check

Place = tuple[str, int]
"""Topic and partition index."""
Identity = tuple[int, int]
"""Producer id and epoch."""

ONLY_COMMITTED = "a reader of committed records is given no open or aborted one"
ALL_OR_NOTHING = "of a transaction all is there or nothing"
PENDING = "an offset of a transaction counts when that is committed"
EPOCHS = "producer epochs go on only"
COUNT = "a chain takes each record once"
ORDER = "records are read in the order in which they lie"
NO_CAUSE = "nobody is fenced without a cause"


@dataclass(eq=False)
class Transaction:
    """See the module's head.

    Attributes:
        name: of its producer's process, and a number. identity: under which it was begun. begun_ms: when.
        values: by place, the values that were sent. touched: places that were to be added to it.
        offset, source: what its group is to have committed, if anything, and of which partition.
        asked_commit: its producer has asked for a commit. committed: None as long as nobody has seen what became of it.
        why: what settled it.
    """

    name: str
    identity: Identity
    begun_ms: int
    values: dict[Place, list[bytes]] = field(default_factory=dict)
    touched: set[Place] = field(default_factory=set)
    offset: int | None = None
    source: Place | None = None
    asked_commit: bool = False
    committed: bool | None = None
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} of producer {self.identity[0]} in epoch {self.identity[1]}"

    def ask_commit(self) -> None:
        """Its producer is about to ask for the commit."""
        self.asked_commit = True

    def settle(self, committed: bool, why: str) -> None:
        """Somebody has seen what became of it."""
        check(self.asked_commit or not committed, ONLY_COMMITTED, f"{self}, which nobody has asked to commit: {why}")
        if self.committed is None:
            self.committed, self.why = committed, why
        same = self.committed is committed
        ends = {True: "committed", False: "aborted"}
        detail = f"{self} was {ends[self.committed]} ({self.why}), and is {ends[committed]}: {why}"
        check(same, ALL_OR_NOTHING, detail)


class TransactionHistory:
    """All transactions of a run.

    Attributes:
        transactions: all, by name. owners: by value, the transaction that it belongs to.
        takers: by record that a chain reads, the transaction that has taken it for good.
        asked: by transactional id, how often a process has asked for an epoch of its own.
    """

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.owners: dict[bytes, Transaction] = {}
        self.takers: dict[bytes, Transaction] = {}
        self.asked: dict[str, int] = {}
        self._sources: dict[bytes, bytes] = {}
        self._identities: dict[str, Identity] = {}
        self._given: dict[Identity, str] = {}

    def begin(self, name: str, identity: Identity, now_ms: int) -> Transaction:
        """A producer begins one."""
        assert name not in self.transactions, "names are given once"
        transaction = self.transactions[name] = Transaction(name, identity, now_ms)
        return transaction

    def write(self, transaction: Transaction, place: Place, value: bytes, source: bytes | None = None) -> None:
        """A producer is about to send a record; `source` is the one that a chain has made it of."""
        self.owners[value] = transaction
        transaction.values.setdefault(place, []).append(value)
        transaction.touched.add(place)
        if source is not None:
            self._sources[value] = source

    def saw_committed(self, value: bytes, where: str) -> None:
        """A reader of committed records was given one."""
        transaction = self.owners.get(value)
        if transaction is None:
            return
        transaction.settle(True, f"{value[:40]!r} is read, {where}")
        source = self._sources.get(value)
        if source is not None:
            taker = self.takers.setdefault(source, transaction)
            detail = f"{source[:40]!r} was taken by {taker} and by {transaction}"
            check(taker is transaction, COUNT, detail)

    def passed(self, value: bytes, where: str) -> None:
        """A reader of committed records has passed one that was acknowledged, and was not given it."""
        transaction = self.owners.get(value)
        check(transaction is not None, SURVIVES, f"{where}: {value[:40]!r} is passed over")
        assert transaction is not None
        transaction.settle(False, f"{value[:40]!r} is passed over, {where}")

    def saw_offset(self, group_id: str, offset: int, metadata: str) -> None:
        """A group has a committed offset; its metadata is the name of the transaction that brought it."""
        transaction = self.transactions.get(metadata)
        check(transaction is not None, WRITTEN, f"{group_id} has {offset}, {metadata!r}")
        assert transaction is not None
        detail = f"{group_id} has {offset} of {transaction}, which"
        check(transaction.offset == offset, WRITTEN, f"{detail} has {transaction.offset}")
        check(transaction.asked_commit, PENDING, f"{detail} nobody has asked to commit")
        transaction.settle(True, f"{group_id} has its offset {offset}")

    # Producers

    def asks(self, transactional_id: str) -> None:
        """A process asks for an epoch of its own, and may get it, and so end those before it, at any time from now."""
        self.asked[transactional_id] = self.asked.get(transactional_id, 0) + 1

    def given(self, transactional_id: str, identity: Identity, process: str, before: Identity | None) -> None:
        """A process was given a producer id and epoch.

        Args:
            before: the newest of the same transactional id that it, or anybody, knew of when it asked.
        """
        owner = self._given.setdefault(identity, process)
        check(owner == process, EPOCHS, f"{transactional_id}: {owner} and {process} were given {identity}")
        if before is not None:
            check(is_later(identity, before), EPOCHS, f"{transactional_id}: {identity} after {before}")
        newest = self._identities.get(transactional_id)
        if newest is None or is_later(identity, newest):
            self._identities[transactional_id] = identity

    def newest(self, transactional_id: str) -> Identity | None:
        """The newest that any process of an id was given."""
        return self._identities.get(transactional_id)


def is_later(identity: Identity, before: Identity) -> bool:
    """Whether a producer id and epoch may come after others: a used up id is followed by any other."""
    return identity[0] != before[0] or identity[1] > before[1]


class LedgerHistory(PartitionHistory):
    """The model of one partition with transactions: what it has at an offset, aborted or not, stays there.

    Attributes:
        committed_to: readers of committed records have passed everything below. cleaned: its log is compacted.
    """

    def __init__(self, topic: str, index: int, transactions: TransactionHistory, *, cleaned: bool = False) -> None:
        super().__init__(topic, index)
        self.transactions = transactions
        self.cleaned = cleaned
        self.committed_to = 0
        self.given: dict[int, bytes] = {}

    @property
    def place(self) -> Place:
        return self.topic, self.index

    def acknowledge(self, offset: int, value: bytes, sent_at_end: int) -> None:
        where = f"{self.name} at {offset}"
        check(value in self.sent, "only what was sent is acknowledged", where)
        check(offset >= sent_at_end, "later writes come later", f"{where}, sent when the end was {sent_at_end}")
        self._place(offset, value)
        if offset < self.read_to and not self.cleaned:
            check(self.seen.get(offset) == value, SURVIVES, f"{where}: readers have passed it and saw something else")
        self.acknowledged[offset] = value
        self._end = max(self._end, offset + 1)
        if offset < self.committed_to and self.given.get(offset) != value:
            self.transactions.passed(value, f"{where}, acknowledged later")

    def saw(self, offset: int, value: bytes) -> None:
        """A reader was served a record, committed or not."""
        where = f"{self.name} at {offset}"
        check(value in self.sent, WRITTEN, f"{where}: {value[:60]!r}")
        acknowledged = self.acknowledged.get(offset, value)
        check(acknowledged == value, SURVIVES, f"{where} was {acknowledged[:60]!r} and is {value[:60]!r}")
        self._place(offset, value)
        self.seen[offset] = value

    def read_past(self, start: int, end: int, offsets: set[int], where: str) -> None:
        """A reader of all records was given those at these offsets, of a stretch that it has passed."""
        if not self.cleaned:
            for offset in range(start, end):
                lost = offset in self.acknowledged and offset not in offsets
                check(not lost, SURVIVES, f"{where}: {self.name} at {offset} is passed over")
        self.read_to = max(self.read_to, end)

    def gave_committed(self, start: int, end: int, values: dict[int, bytes], where: str) -> None:
        """A reader of committed records has passed a stretch, and was given these."""
        for offset, value in values.items():
            self.saw(offset, value)
            self.given[offset] = value
            self.transactions.saw_committed(value, f"{self.name} at {offset} by {where}")
        for offset in range(start, end):
            acknowledged = self.acknowledged.get(offset)
            if acknowledged is not None and offset not in values:
                self.transactions.passed(acknowledged, f"{self.name} at {offset} by {where}")
        self.committed_to = max(self.committed_to, end)

    def check_whole(self, values: dict[int, bytes]) -> None:
        """Holds everything that is there at the end, control records aside, against what is known."""
        for offset, value in values.items():
            self.saw(offset, value)
        if not self.cleaned:
            lost = sorted(self.acknowledged.keys() - values.keys())
            check(not lost, SURVIVES, f"{self.name}: offsets {lost[:5]} of {len(values)}")
            vanished = sorted(self.seen.keys() - values.keys())
            check(not vanished, "what a reader saw stays", f"{self.name}: offsets {vanished[:5]} of {len(values)}")
