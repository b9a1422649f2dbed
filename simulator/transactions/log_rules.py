"""What the logs of partitions must be with transactions in them, and where their leaders say that readers may come to.

Of each producer id, batch by batch:

- its epochs go on only;
- what lies between two of its markers is of one transaction, and what ends that has its epoch, or the next one, with
  which it was ended or fenced; it is ended once in a partition;
- a commit is what its producer has asked for.

A leader's last stable offset is where the oldest transaction begins that is open, or whose marker is not replicated
yet; else it is the high watermark. It is worked out here from nothing but the leader's log. As in Kafka, a log that was
loaded does not know of markers that were not replicated then: of such the end is decided, and comes again if need be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.records.batch import headers
from penstock.records.control import ControlType
from penstock.replication.partition import Partition
from simulator.cluster.replica_rules import led_partition, replica_bytes
from simulator.groups.history import Place
from simulator.transactions.history import EPOCHS, LedgerHistory, Transaction
from simulator.transactions.readers import Found, batches
from simulator.world.checks import check
from simulator.world.machine import Machine

ONE_MARKER = "a transaction is ended once in a partition, by its own marker"
NOT_TWICE = "a marker is written once where nothing fails"
ENDS = "every transaction ends"
STABLE = "the last stable offset is where the oldest transaction begins that has no replicated end"


@dataclass
class Producer:
    """What a log has told of one producer id so far: of the transaction that is open, and its first epoch."""

    epoch: int = -1
    open_epoch: int = -1
    is_open: bool = False
    transaction: Transaction | None = None
    waiting: dict[int, bytes] = field(default_factory=dict)


class LedgerLog:
    """Holds one replica's log against what the clients know.

    Attributes:
        records: all values by offset. committed: those that are committed, or of no transaction.
    """

    def __init__(self, ledger: LedgerHistory, *, calm: bool) -> None:
        self.ledger = ledger
        self.calm = calm
        self.records: dict[int, bytes] = {}
        self.committed: dict[int, bytes] = {}
        self._producers: dict[int, Producer] = {}
        self._ended: dict[Transaction, int] = {}
        self._markers: dict[int, int] = {}

    def check(self, content: bytes, where: str) -> None:
        """Reads all of it; every transaction in it has to be over."""
        for found in batches(content, where):
            self.records.update(found.values)
            if not found.header.is_transactional:
                self.committed.update(found.values)
            elif found.header.is_control:
                self._marker(found, where)
            else:
                self._data(found, where)
        still = [str(each.transaction) for each in self._producers.values() if each.is_open]
        check(not still, ENDS, f"{where}: {still[:3]} are open")
        self._check_markers(where)

    def _producer(self, found: Found, where: str) -> Producer:
        header = found.header
        producer = self._producers.setdefault(header.producer_id, Producer())
        at = f"{where} at {header.base_offset}: producer {header.producer_id}"
        check(header.producer_epoch >= producer.epoch, EPOCHS, f"{at} {header.producer_epoch} after {producer.epoch}")
        producer.epoch = header.producer_epoch
        return producer

    def _data(self, found: Found, where: str) -> None:
        producer, header = self._producer(found, where), found.header
        at = f"{where} at {header.base_offset}"
        if producer.is_open:
            same = header.producer_epoch == producer.open_epoch
            check(same, ONE_MARKER, f"{at}: epoch {header.producer_epoch} goes on with one of {producer.open_epoch}")
        producer.is_open, producer.open_epoch = True, header.producer_epoch
        producer.waiting.update(found.values)
        for value in found.values.values():
            owner = self.ledger.transactions.owners.get(value)
            assert owner is not None, "transactional records are of transactions"
            producer.transaction = producer.transaction or owner
            check(owner is producer.transaction, ONE_MARKER, f"{at}: {owner} goes on with {producer.transaction}")
            check(owner not in self._ended, ONE_MARKER, f"{at}: {owner} was ended at {self._ended.get(owner)}")

    def _marker(self, found: Found, where: str) -> None:
        if found.marker is None:
            return  # the cleaner has emptied it
        producer, header = self._producer(found, where), found.header
        at = f"{where} at {header.base_offset}"
        self._markers[header.producer_id] = self._markers.get(header.producer_id, 0) + 1
        if not producer.is_open:
            return
        epochs = (producer.open_epoch, producer.open_epoch + 1)
        detail = f"{at}: a marker of epoch {header.producer_epoch} ends {producer.transaction}"
        check(header.producer_epoch in epochs, ONE_MARKER, detail)
        committed = found.marker is ControlType.COMMIT
        if producer.transaction is not None:
            self._ended[producer.transaction] = header.base_offset
            producer.transaction.settle(committed, f"its marker is at {header.base_offset} of {self.ledger.name}")
        if committed:
            self.committed.update(producer.waiting)
        producer.waiting = {}
        producer.is_open, producer.transaction = False, None

    def _check_markers(self, where: str) -> None:
        """Where nothing fails, there is at most one for each transaction that was to write here."""
        if not self.calm:
            return
        touched: dict[int, int] = {}
        for transaction in self.ledger.transactions.transactions.values():
            if self.ledger.place in transaction.touched:
                producer_id = transaction.identity[0]
                touched[producer_id] = touched.get(producer_id, 0) + 1
        for producer_id, count in self._markers.items():
            wanted = touched.get(producer_id, 0)
            check(count <= wanted, NOT_TWICE, f"{where}: {count} of producer {producer_id} for {wanted} transactions")


def stable_offset(found: Iterable[Found], high_watermark: int, log_start_offset: int, *, loaded_to: int = 0) -> int:
    """The last stable offset by the batches of a log, up to its end; of one that was loaded when it ended at
    `loaded_to`, see the module's head.
    """
    begun: dict[int, int] = {}
    bounds = [high_watermark]
    for each in found:
        header = each.header
        if not header.is_transactional:
            continue
        if not header.is_control:
            begun.setdefault(header.producer_id, header.base_offset)
        elif each.marker is not None:
            first = begun.pop(header.producer_id, None)
            if first is not None and header.base_offset >= max(high_watermark, loaded_to):
                bounds.append(first)
    return max(log_start_offset, min([*bounds, *begun.values()]))


class StableOffsets:
    """Looks at what leaders take for the last stable offset."""

    def __init__(self, machines: dict[int, Machine]) -> None:
        self._machines = machines
        self._known: dict[tuple[int, Place], tuple[bytes, list[Found]]] = {}

    def look(self, image: object, place: Place) -> None:
        """Looks at one partition, if somebody leads it in the newest epoch."""
        registration = image.partition(*place)  # type: ignore[attr-defined]
        led = None if registration is None else led_partition(self._machines, registration, *place)
        if led is None or led.log.truncating:
            return
        machine = self._machines[registration.leader]
        if any(
            disk.exists(f"{place[0]}-{place[1]}") for disk in machine.disks
        ):  # else a move is between its two renames
            self._check(machine, led, place)

    def _check(self, machine: Machine, led: Partition, place: Place) -> None:
        content = replica_bytes(machine, *place)
        end = led.log_end_offset
        found = [each for each in self._batches(machine, place, content) if each.header.next_offset <= end]
        told, high_watermark, start_offset = led.last_stable_offset, led.high_watermark, led.log.log_start_offset
        expected = stable_offset(found, high_watermark, start_offset)
        ends = [each.header.next_offset for each in found if each.marker is not None]
        loads = [offset for offset in ends if offset > high_watermark]
        loaded = [stable_offset(found, high_watermark, start_offset, loaded_to=offset) for offset in loads]
        where = f"{place[0]}-{place[1]} of {machine.host}: {told}, by its log {expected}, committed {high_watermark}"
        check(told <= max(high_watermark, start_offset), STABLE, where)
        check(told in (expected, *loaded), STABLE, where)

    def _batches(self, machine: Machine, place: Place, content: bytes) -> list[Found]:
        """Those of a replica; what was read before is not read again."""
        key = (machine.settings.node_id, place)
        known, found = self._known.get(key, (b"", []))
        if not known or not content.startswith(known):
            known, found = b"", []
        size = whole(content)
        found = [*found, *batches(content[len(known) : size], f"{place[0]}-{place[1]} of {machine.host}")]
        self._known[key] = content[:size], found
        return found


def whole(content: bytes) -> int:
    """How many bytes of it are whole batches: the last one may be half written."""
    return max((position + header.size_bytes for position, header in headers(memoryview(content))), default=0)
