"""What it costs to keep a log in order.

    python bench/log_life.py
    python bench/log_life.py --only clean --records 4000000 --batch-records 160
    python bench/log_life.py --only fsync --rounds 3 --seconds 5

clean: one pass of the log cleaner over a log of records of 100 B with keys drawn from 500,000, into a directory beside
it, uncompressed and with zstd; with the compiled map of keys and, over a tenth of the records, with the plain one. CPU
time of the process, the kernel's share included; all rates count the records and bytes that the log had before. The
best of several rounds, so that other work on the machine disturbs little; a first small pass, which loads or compiles
the loops, is not counted.

brokers: the same in running brokers, beside Apache Kafka; see `log_cleaning.py`.

    python bench/log_life.py --only brokers --records 3000000 --rounds 3

fsync: 16 producers whose every append is on disk when it is acknowledged, beside Apache Kafka (`group_fsync.py`).

recovery: a log of 1 GB with one record a batch after an unclean stop, beside Apache Kafka; see `log_recovery.py`.

    python bench/log_life.py --only recovery --rounds 3 --segments 4

retention: 10,000 partitions that fall due in the same minute; see `log_retention.py`.

slow: clients of one of two log directories while the other one is slow; see `slow_directory.py`.

    python bench/log_life.py --only slow --rounds 5 --slow-ms 200
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from random import Random

import group_fsync
import log_cleaning
import log_recovery
import log_retention
import slow_directory

from penstock.log.compaction.cleaning import run_pass
from penstock.log.compaction.maps import offset_map
from penstock.log.compaction.offset_map import LatestOffsets, OffsetMap
from penstock.log.compaction.passes import Pass, SealedSegment
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.target import Target
from penstock.log.names import LOG, file_name
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec, Contexts
from penstock.server.disk import BlockingDisk

PARTS = ("clean", "brokers", "fsync", "recovery", "retention", "slow")
MakeMap = Callable[[int, float, bytes], LatestOffsets]
NAME, OUT = "bench-0", "cleaned-0"
NOW_MS = 1_700_000_000_000
KEY_BYTES, VALUE_BYTES = 16, 76
"""A record with these has 100 bytes in the log, give or take one."""
SEGMENT_BYTES = 64 << 20
ROUNDS = 5
SLOW_WARM_S = 3.0
"""In which a broker finds out that a directory is slow, or no longer."""
BUFFER_BYTES, LOAD_FACTOR = 128 << 20, 0.9
HASH_KEY = bytes(range(16))


def make_log(disk: BlockingDisk, records: int, keys: int, batch_records: int, codec: Codec) -> Pass:
    """Writes a log in segments, all of them closed, and plans a pass over all of it."""
    disk.make_directory(NAME)
    random, contexts = Random(1), Contexts()
    segments: list[SealedSegment] = []
    base_offset, waiting = 0, bytearray()
    for first in range(0, records, batch_records):
        count = min(batch_records, records - first)
        builder = BatchBuilder(base_offset=first, codec=codec, contexts=contexts)
        for number in range(first, first + count):
            key = b"%016d" % random.randrange(keys)
            builder.append(NOW_MS + number // 100, key, (b"%038d" % (number**3)) * 2)
        waiting += builder.build()
        if len(waiting) >= SEGMENT_BYTES or first + count == records:
            disk.write(f"{NAME}/{file_name(base_offset, LOG)}", 0, [waiting])
            segments.append(SealedSegment(base_offset, first + count, len(waiting), 0, 0))
            base_offset, waiting = first + count, bytearray()
    return Pass(
        name=NAME,
        segments=tuple(segments),
        first_dirty_offset=0,
        first_uncleanable_offset=records,
        aborted=(),
        last_records={},
        now_ms=NOW_MS,
        delete_retention_ms=86_400_000,
        segment_bytes=1 << 30,
        segment_index_bytes=10 << 20,
        index_interval_bytes=4096,
    )


def clean(disk: BlockingDisk, work: Pass, offsets: LatestOffsets) -> tuple[float, PassReport]:
    """CPU seconds of one pass, and what it did."""
    disk.make_directory(OUT)
    started = time.process_time()
    report = run_pass(disk, work, offsets, Target(disk, OUT))
    spent_s = time.process_time() - started
    disk.remove_directory(OUT)
    assert not report.problems
    return spent_s, report


def cleaned(
    make_map: MakeMap, records: int, keys: int, batch_records: int, codec: Codec, *, rounds: int = ROUNDS
) -> str:
    """Makes a log, cleans it several times, and says how fast that was at best."""
    place = tempfile.mkdtemp(prefix="penstock-log-life-")
    disk = BlockingDisk(0, place)
    try:
        work = make_log(disk, records, keys, batch_records, codec)
        passes = [clean(disk, work, make_map(BUFFER_BYTES, LOAD_FACTOR, HASH_KEY)) for _ in range(rounds)]
    finally:
        disk.close()
        shutil.rmtree(place)
    cpu_s, report = min(passes, key=lambda each: each[0])
    before, after = sum(each.size_bytes for each in work.segments), sum(each.after.bytes for each in report.groups)
    kept = sum(each.after.records for each in report.groups)
    return (
        f"{records / cpu_s:12,.0f} records/CPU s {before / cpu_s / 1e6:8.1f} MB/CPU s   "
        f"{records:,} records of {before / 1e6:.0f} MB, {kept:,} of {after / 1e6:.0f} MB kept"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, default="clean", help="the part to run (default: clean)")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the log (default: 1000000)")
    parser.add_argument("--keys", type=int, default=500_000, help="distinct ones (default: 500000)")
    parser.add_argument("--batch-records", type=int, default=1000, help="records a batch (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3, help="of brokers, fsync, recovery, slow (default: 3)")
    parser.add_argument("--seconds", type=float, default=5, help="a round of fsync or slow (default: 5)")
    parser.add_argument("--warm", type=float, default=30, help="seconds of appends before (default: 30)")
    parser.add_argument("--megabytes", type=int, default=1000, help="of the log to recover (default: 1000)")
    parser.add_argument("--segments", type=int, default=1, help="of the log to recover (default: 1)")
    parser.add_argument("--partitions", type=int, default=10_000, help="due for retention (default: 10000)")
    parser.add_argument("--slow-ms", type=int, default=200, help="of a write to the slow directory (default: 200)")
    arguments = parser.parse_args()
    if arguments.only == "brokers":
        shape = arguments.records, arguments.keys, arguments.batch_records
        log_cleaning.measure(*shape, arguments.rounds, (Codec.NONE, Codec.ZSTD))
        return
    if arguments.only == "slow":
        slow_directory.measure(
            rounds=arguments.rounds, seconds=arguments.seconds, warm_s=SLOW_WARM_S, slow_ms=arguments.slow_ms
        )
        return
    if arguments.only == "fsync":
        group_fsync.run(rounds=arguments.rounds, seconds=arguments.seconds, warm_s=arguments.warm)
        return
    if arguments.only == "recovery":
        log_recovery.measure(arguments.megabytes * 1_000_000, arguments.segments, arguments.rounds)
        return
    if arguments.only == "retention":
        log_retention.measure(arguments.partitions)
        return
    keys, batch_records = arguments.keys, arguments.batch_records
    cleaned(offset_map, 1000, 100, 100, Codec.NONE, rounds=1)
    for codec in (Codec.NONE, Codec.ZSTD):
        compiled = cleaned(offset_map, arguments.records, keys, batch_records, codec)
        print(f"clean {codec.kafka_name:5} compiled {compiled}", flush=True)
        plain = cleaned(OffsetMap, arguments.records // 10, keys, batch_records, codec, rounds=1)
        print(f"clean {codec.kafka_name:5} plain    {plain}", flush=True)


if __name__ == "__main__":
    main()
