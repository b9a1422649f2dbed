"""How fast batches become Arrow columns, and what a batch costs that nobody looks into.

    python bench/records.py

One core; CPU time of the process, the best of several rounds, so that other work on the machine disturbs little. The
checksum is the CRC-32C of all values that came out: equal checksums mean the same data. The first round, which loads
or compiles the kernels, is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from crc32c import crc32c

from penstock.records.arrow import to_arrow
from penstock.records.batch import HEADER_BYTES, check_crc, read_header
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec, Contexts
from penstock.records.validation import Rules, validate_header

RECORD_BYTES = 100
KEY_BYTES = 8
VALUE_BYTES = 84
"""A record of 8 bytes of key and 84 of value has 100 bytes in the log, give or take one."""
ROUNDS = 7


def batches(codec: Codec, records: int, batch_records: int) -> bytes:
    """A run of whole batches of numbered records."""
    run = bytearray()
    contexts = Contexts()
    for base in range(0, records, batch_records):
        builder = BatchBuilder(base_offset=base, codec=codec, contexts=contexts)
        for number in range(base, base + batch_records):
            builder.append(1_700_000_000_000 + number // 10, b"%08d" % number, (b"%020d" % (number**3)) * 4 + b"tail")
        run += builder.build()
    return bytes(run)


def best_s(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def best_each_us(work: Callable[[], object], repeat: int) -> float:
    """Microseconds of one call, of `repeat` in a row."""

    def loop() -> None:
        for _ in range(repeat):
            work()

    return best_s(loop) / repeat * 1e6


def arrow_figures(records: int) -> None:
    print(f"into Arrow, {records} records of {RECORD_BYTES} B, one core:")
    print(f"  {'codec':8} {'batch':>8} {'M records/s':>12} {'MB/s':>8}  checksum of the values")
    for codec in Codec:
        for batch_records in (160, 10_000) if codec in (Codec.NONE, Codec.LZ4) else (10_000,):
            count = records // batch_records * batch_records
            run = batches(codec, count, batch_records)
            contexts = Contexts()
            seconds = best_s(partial(to_arrow, run, contexts=contexts))
            decoded = to_arrow(run, contexts=contexts)
            assert decoded.batch.num_rows == count
            checksum = crc32c(decoded.batch.column("value").buffers()[2])
            rate = count / seconds / 1e6
            print(f"  {codec.kafka_name:8} {batch_records:8} {rate:12.1f} {rate * RECORD_BYTES:8.0f}  {checksum:08x}")


def batch_figures() -> None:
    print("a batch that nobody looks into, microseconds:")
    for batch_records in (1, 160, 10_000):
        data = memoryview(bytearray(batches(Codec.NONE, batch_records, batch_records)))
        header = read_header(data)
        rules = Rules(max_message_bytes=2**30)
        repeat = 20_000 if batch_records < 1000 else 2_000

        parse = best_each_us(partial(read_header, data), repeat)
        crc = best_each_us(partial(check_crc, data, 0, header), repeat)
        valid = best_each_us(partial(validate_header, data, 0, header, rules, 1_700_000_000_000), repeat)
        size = len(data) - HEADER_BYTES
        crc_text = f"CRC {crc:.2f} ({size / crc / 1e3:.1f} GB/s)"
        print(f"  {size:8} B of records: header {parse:.2f}, {crc_text}, header validation {valid:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=500_000)
    options = parser.parse_args()
    arrow_figures(options.records)
    batch_figures()


if __name__ == "__main__":
    main()
