"""The last committed value of some keys of a partition, which transactions write that need not be one's own.

The last stable offset would hold a reader up by any open transaction. So this one goes up to the high watermark, and
takes the marker of each transaction for the word on whether it was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, Client, Partition
from penstock.client.reader import read_range
from penstock.records.batch import BatchHeader, Buffer, check_crc, entries
from penstock.records.compression import Contexts
from penstock.records.control import ControlType, control_type
from penstock.records.reader import bounded, records


class CommittedValues:
    """Finds the values in the partition's batches, which are given in order.

    Args:
        wanted: whether the value of a key is asked for.
    """

    def __init__(self, wanted: Callable[[bytes], bool]) -> None:
        self._wanted = wanted
        self._decompress = bounded(Contexts())
        self._committed: dict[bytes, bytes | None] = {}
        self._pending: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}

    def add(self, view: Buffer, start: int) -> None:
        """Takes the whole batches of a fetch from the offset `start` on."""
        for position, header in entries(view):
            if header.next_offset <= start:
                continue
            check_crc(view, position, header)
            if header.is_control:
                self._ended(view, position, header)
                continue
            for record in records(view, header, position, self._decompress):
                if record.key is None or not self._wanted(record.key):
                    continue
                if header.is_transactional:
                    open_ = self._pending.setdefault(header.producer_id, {})
                    open_[record.key] = (record.offset, record.value)
                else:
                    self._committed[record.key] = record.value

    def _ended(self, view: Buffer, position: int, header: BatchHeader) -> None:
        first = next(records(view, header, position, self._decompress), None)
        if first is None or first.key is None or header.producer_id not in self._pending:
            return
        values = self._pending.pop(header.producer_id)
        if control_type(first.key) is ControlType.COMMIT:
            self._committed |= {key: value for key, (_, value) in values.items()}

    def found(self, last_stable_offset: int) -> tuple[Mapping[bytes, bytes], int | None]:
        """The values, and the first offset of an open transaction that has some of them, None without one.

        A record below the last stable offset whose marker is gone was committed: the cleaner drops what was aborted.
        """
        pending = [(offset, key, value) for some in self._pending.values() for key, (offset, value) in some.items()]
        hanging = None
        for offset, key, value in sorted(pending, key=lambda each: each[0]):
            if offset < last_stable_offset:
                self._committed[key] = value
            elif hanging is None:
                hanging = offset
        return {key: value for key, value in self._committed.items() if value is not None}, hanging


async def committed_values(
    client: Client, place: Partition, wanted: Callable[[bytes], bool]
) -> tuple[Mapping[bytes, bytes], int | None]:
    """Reads a whole partition for the values; see `CommittedValues.found`."""
    start = (await client.offsets([place], EARLIEST))[place].offset
    stable = (await client.offsets([place], LATEST, isolation=READ_COMMITTED))[place].offset
    end = (await client.offsets([place], LATEST))[place].offset  # after `stable`: what is below that has its end here
    search = CommittedValues(wanted)
    async for position, fetched in read_range(client, *place, start, end):
        search.add(fetched.records, position)
    return search.found(stable)
