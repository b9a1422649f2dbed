"""Random runs of record batches, whole and broken, for tests and fuzzing of whatever reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from penstock.records.batch import CRC, CRC_POSITION, HEADER_BYTES, TimestampType, computed_crc, headers
from penstock.records.builder import BatchBuilder, HeaderPairs
from penstock.records.compression import Codec, Contexts, compress

LENGTHS = (0, 0, 1, 2, 5, 20, 63, 64, 127, 128, 300)
HEADER_KEYS = ("", "a", "trace-id", "Größe", "日本語", "k" * 70)
HOSTILE_BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF)


@dataclass(slots=True)
class Batch:
    """What one batch is made of, so that it can be broken before it is compressed."""

    codec: Codec
    plain: bytearray
    builder: BatchBuilder = field(repr=False)

    def encoded(self, payload: bytes, contexts: Contexts) -> bytearray:
        """The batch with other record bytes, a length that fits them and a valid CRC."""
        head = bytearray(self.plain[:HEADER_BYTES])
        compressed = compress(self.codec, payload, contexts)
        head[8:12] = (HEADER_BYTES - 12 + len(compressed)).to_bytes(4, "big")
        head[22] = head[22] & ~7 | self.codec
        return with_crc(head + compressed)


class RandomBatches:
    """Draws runs of batches from a generator of random numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.contexts = Contexts()

    def run(self) -> list[Batch]:
        """One to four batches whose offsets rise, with gaps within and between them."""
        offset = self.random.choice((0, 0, 7, 2**40))
        batches = []
        for _ in range(self.random.randint(1, 4)):
            batch, offset = self.batch(offset)
            batches.append(batch)
            offset += self.random.choice((0, 0, 0, 3))
        return batches

    def batch(self, base_offset: int) -> tuple[Batch, int]:
        """One batch and the offset after it."""
        random = self.random
        builder = BatchBuilder(
            base_offset=base_offset,
            timestamp_type=random.choice((TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)),
            log_append_time_ms=random.randrange(2**41),
            is_control=random.random() < 0.1,
        )
        offset = base_offset
        base_ms = random.choice((0, -1, 1_700_000_000_000, 2**62))
        for _ in range(random.randint(1, 8)):
            offset += random.choice((0, 0, 0, 0, 2))
            timestamp_ms = base_ms + random.choice((0, 1, -5, 3_600_000))
            builder.append(timestamp_ms, self.data(), self.data(), self.header_pairs(), offset=offset)
            offset += 1
        offset += random.choice((0, 0, 0, 1))
        return Batch(random.choice(list(Codec)), builder.build(last_offset=offset - 1), builder), offset

    def data(self) -> bytes | None:
        return None if self.random.random() < 0.2 else self.random.randbytes(self.random.choice(LENGTHS))

    def header_pairs(self) -> HeaderPairs:
        if self.random.random() < 0.6:
            return ()
        return [(self.random.choice(HEADER_KEYS), self.data()) for _ in range(self.random.randint(1, 4))]

    def whole(self, batches: list[Batch]) -> bytes:
        """The bytes of the run."""
        return b"".join(batch.encoded(batch.plain[HEADER_BYTES:], self.contexts) for batch in batches)

    def broken(self, batches: list[Batch]) -> bytes:
        """The run with one batch broken: mostly in its records, with a valid CRC, so that the decoders must see it."""
        target = self.random.randrange(len(batches))
        parts = []
        for index, batch in enumerate(batches):
            payload = batch.plain[HEADER_BYTES:]
            kind = self.random.random() if index == target else 1.0
            if kind < 0.7:
                payload = self.mutated(payload)
            encoded = batch.encoded(payload, self.contexts)
            if 0.7 <= kind < 0.9:
                encoded = self.broken_header(encoded)
            elif 0.9 <= kind < 1.0:
                encoded = self.mutated(encoded)
            parts.append(encoded)
        return b"".join(parts)

    def broken_header(self, encoded: bytearray) -> bytearray:
        """A field that the CRC covers changed, or compressed bytes, and the CRC made right again."""
        position = self.random.randrange(CRC_POSITION + 4, len(encoded))
        encoded[position] = self.random.choice(HOSTILE_BYTES)
        return with_crc(encoded)

    def mutated(self, data: bytearray) -> bytearray:
        """A few bytes changed, added or taken away."""
        data = bytearray(data)
        for _ in range(self.random.randint(1, 3)):
            position = self.random.randrange(len(data) + 1)
            kind = self.random.randrange(6)
            if kind == 0:
                data[position:position] = self.random.randbytes(self.random.randint(1, 3))
            elif kind == 1:
                del data[position : position + self.random.randint(1, 3)]
            elif position < len(data):
                data[position] = self.random.choice((*HOSTILE_BYTES, data[position] ^ 1 << self.random.randrange(8)))
        return data


def with_crc(batch: bytearray) -> bytearray:
    CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))
    return batch


def offsets_of(data: bytes) -> tuple[int, int]:
    """The first offset of a whole run and the one after its last."""
    found = [header for _, header in headers(data)]
    return found[0].base_offset, found[-1].next_offset
