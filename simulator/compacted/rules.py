"""What holds of the replicas of compacted partitions, looked at now and then.

Each replica is cleaned for itself, so they differ in what is left. Of one that is in sync

- every record is one that was sent, as it was sent, at its one place;
- the last record of every key is there, or a later one, and what is too young to go (`KeyedHistory`);
- nothing older is there of who had a delete marker, unless the replica was not in sync when that was written;
- the last batch of every producer is known, for it may be repeated, and others follow it.
"""

from __future__ import annotations

from penstock.log.log import Log
from penstock.metadata.image import MetadataImage
from simulator.cluster.replica_rules import led_partition, replica_bytes
from simulator.compacted.history import KeyedHistory
from simulator.compacted.records import Contents
from simulator.world.checks import check
from simulator.world.machine import Machine

REMEMBERED = "the last batch of every producer is known"


class CompactedRules:
    """See the module's head. `contents` is what has been read of any replica."""

    def __init__(self, machines: dict[int, Machine], contents: Contents) -> None:
        self._machines = machines
        self._contents = contents
        self._in_sync_since_ms: dict[tuple[str, int], int] = {}

    def look(self, image: MetadataImage, history: KeyedHistory, now_ms: int) -> None:
        """Looks at the replicas in sync, if one leads in the newest epoch."""
        registration = image.partition(history.topic, history.index)
        if registration is None:
            return
        for broker_id in self._machines:
            if broker_id not in registration.isr:
                self._in_sync_since_ms.pop((history.name, broker_id), None)
            else:
                self._in_sync_since_ms.setdefault((history.name, broker_id), now_ms)
        led = led_partition(self._machines, registration, history.topic, history.index)
        if led is None:
            return
        for broker_id in registration.isr:
            machine = self._machines[broker_id]
            log = machine.broker.logs.open_log(history.topic, history.index) if machine.running else None
            if log is not None and not log.truncating:
                end_offset = min(led.high_watermark, led.log_end_offset, log.log_end_offset)
                self.check(history, broker_id, end_offset, now_ms)
                check_producers(history, log, end_offset, f"{history.name} of {machine.host}")

    def check(self, history: KeyedHistory, broker_id: int, end_offset: int, now_ms: int) -> int:
        """Looks at one replica, as to what is below an offset; how many records are left there."""
        machine = self._machines[broker_id]
        where = f"{history.name} of {machine.host} below {end_offset}"
        content = replica_bytes(machine, history.topic, history.index)
        last: dict[bytes, int] = {}
        offsets = set()
        before = -1
        for record in self._contents.records(content, where):
            check(record.offset > before, "offsets rise", f"{where}: {record.offset} after {before}")
            before = record.offset
            if record.offset < end_offset:
                history.found(record)
                offsets.add(record.offset)
            last[record.written.key] = record.offset
        had_ms = self._in_sync_since_ms.get((history.name, broker_id))
        history.check_last(last, history.last_below(end_offset), now_ms, where, had_ms=had_ms)
        history.check_young(offsets, end_offset, now_ms, where)
        return len(offsets)


def check_producers(history: KeyedHistory, log: Log, end_offset: int, where: str) -> None:
    """Producers are known with their last acknowledged batches, as far as these are between the log's start and an
    offset."""
    for producer_id, (last_sequence, last_offset) in history.producers.items():
        if log.log_start_offset <= last_offset < end_offset:
            known = log.producers.producers.get(producer_id)
            detail = f"{where}: of {producer_id} it has {known}, {last_sequence} is at {last_offset}"
            check(known is not None and known.last_sequence >= last_sequence, REMEMBERED, detail)
