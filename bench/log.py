"""What an append costs in Python: prepare, the write's run on a disk in memory left out, and its completion.

python bench/log.py --seconds 2
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.logs import NOW_MS, OneLog, batch, topic_config

from penstock.log.log import Log
from penstock.log.operations import Write


def measure(name: str, seconds: float, values: list[bytes], *, idempotent: bool, turn: int) -> None:
    """Appends batches for some seconds, `turn` a loop turn; prints microseconds a batch."""
    one = OneLog(topic_config(segment_bytes=1 << 30))
    log: Log = one.log
    one.append(batch(b"first"))
    sequence = 0
    prepare_s = settle_s = 0.0
    batches = 0
    while prepare_s + settle_s < seconds:
        made = []
        for _ in range(turn):
            producer = (1, 0, sequence) if idempotent else (-1, -1, -1)
            made.append(memoryview(batch(*values, producer=producer)))
            sequence += len(values)
        started = perf_counter()
        for data in made:
            log.append_as_leader(data, 0, NOW_MS)
        operations = log.take_operations()
        prepared = perf_counter()
        one.calls_to_take = 0
        for operation in operations:
            if not isinstance(operation, Write):
                operation.run(one.disk)
            log.operation_completed(operation, None, NOW_MS)
        settle_s += perf_counter() - prepared
        prepare_s += prepared - started
        batches += turn
    prepare_us, settle_us = prepare_s / batches * 1e6, settle_s / batches * 1e6
    print(f"{name:44} prepare {prepare_us:6.2f} us/batch   complete {settle_us:6.2f} us/batch   {batches:8} batches")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of each part (default: 0.5)")
    seconds = parser.parse_args().seconds
    for idempotent in (False, True):
        for turn in (1, 8):
            name = f"{'idempotent' if idempotent else 'plain'}, 16 KiB, {turn} a turn"
            measure(name, seconds, [b"x" * 1000] * 16, idempotent=idempotent, turn=turn)
    measure("idempotent, 100 B, 8 a turn", seconds, [b"x" * 30], idempotent=True, turn=8)


if __name__ == "__main__":
    main()
