"""The part `recovery` of `log_life.py`: a log of batches with one record each, in a directory not stopped cleanly.

Each broker makes the topic and is killed; then the same segment files, with empty indexes and no checkpoint, take the
place of its log. At the next start the time of the recovery is that from the first to the last of the broker's own
lines about it; CPU seconds are those of the broker and its workers between the two. Beside it a client writes to
another topic, in batches of one record every millisecond, as soon as the broker serves; the loop's quantile counts the
turns from then to the second line, and, to compare, in as long after the second one. The best of several rounds, the
brokers in turns.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from confluent_kafka import Producer
from peers import Peer, free_port, running

from penstock.log.names import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from penstock.records.batch import assign_offset
from penstock.records.builder import BatchBuilder

TOPIC, OTHER = "recovered", "other"
VALUE_BYTES = 100
BEGUN = {"kafka": "Recovering 2 logs from", "penstock": "worker started"}
DONE = {"kafka": "Loaded 2 logs in", "penstock": ": recovered 2 logs"}
LINE_MAX_S = 600.0


def make_segments(directory: Path, size_bytes: int, segments: int) -> int:
    """Writes segment files of so many bytes in all; returns how many batches they have."""
    builder = BatchBuilder(leader_epoch=0, producer_id=7, producer_epoch=0, base_sequence=0)
    builder.append(time.time_ns() // 1_000_000, None, b"v" * VALUE_BYTES)
    batch = builder.build()
    each = size_bytes // len(batch) // segments
    for segment in range(segments):
        with (directory / file_name(segment * each, LOG)).open("wb") as file:
            for first in range(segment * each, (segment + 1) * each, 10_000):
                waiting = bytearray()
                for offset in range(first, min(first + 10_000, (segment + 1) * each)):
                    assign_offset(batch, 0, offset, 0)
                    waiting += batch
                file.write(waiting)
    return each * segments


def put_in_place(peer: Peer, segments: Path) -> None:
    """The segment files instead of what the broker has in its log, which is killed and has flushed nothing."""
    data = peer.directory / "data"
    log = data / f"{TOPIC}-0"
    for file in log.iterdir():
        if file.name not in ("partition.metadata", "leader-epoch-checkpoint"):
            file.unlink()
    for file in segments.iterdir():
        shutil.copyfile(file, log / file.name)
        for suffix in (OFFSET_INDEX, TIME_INDEX):  # Kafka scans a segment twice that lacks them
            (log / file.name).with_suffix(suffix).touch()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", ".kafka_cleanshutdown"):
        (data / name).unlink(missing_ok=True)


def wait_for_line(peer: Peer, text: str, position: int) -> None:
    """Waits for a line of the broker's log after a position."""
    until = time.perf_counter() + LINE_MAX_S
    while text not in (peer.directory / "broker.log").read_bytes()[position:].decode(errors="replace"):
        assert time.perf_counter() < until, f"{peer.name} has not said: {text}"
        time.sleep(0.005)


@contextmanager
def writing(bootstrap: str) -> Iterator[None]:
    """Writes a record to the other topic every millisecond."""
    ended = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1, "log_level": 0})
        while not ended.wait(0.001):
            producer.produce(OTHER, b"v" * VALUE_BYTES)
            producer.poll(0)
        producer.flush(10)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def turns(address: str) -> dict[float, float]:
    """The loop's turns so far by their upper bound in seconds, cumulated; none before the broker serves."""
    found: dict[float, float] = {}
    try:
        answer = urlopen(f"http://{address}/metrics")
    except URLError:
        return found
    with answer:
        for line in answer.read().decode().splitlines():
            if line.startswith('penstock_loop_turn_seconds_bucket{le="'):
                bound, _, count = line.partition('le="')[2].partition('"} ')
                found[float(bound)] = float(count)
    return found


def quantile_ms(before: dict[float, float], after: dict[float, float], share: float) -> float:
    counts = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    wanted = max(counts.values()) * share
    return 1000 * min(bound for bound, count in sorted(counts.items()) if count >= wanted)


def kill(peer: Peer) -> None:
    peer._process.kill()
    peer._process.wait()


def recover(name: str, segments: Path) -> tuple[float, float, float, float]:
    """Seconds, CPU seconds and, for our own broker, the 99.9 % quantile of the loop's turns in ms, of one recovery and
    after it.
    """
    address = f"127.0.0.1:{free_port()}"
    with running(name, extra=f"penstock.metrics.listener={address}\n" if name == "penstock" else "") as peer:
        peer.create_topic(TOPIC)
        peer.create_topic(OTHER)
        time.sleep(1)
        kill(peer)
        put_in_place(peer, segments)
        position = (peer.directory / "broker.log").stat().st_size
        peer.start()
        with writing(peer.bootstrap):
            wait_for_line(peer, BEGUN[name], position)
            began_s, began_cpu_s = time.perf_counter(), peer.cpu_seconds()
            before: dict[float, float] = {}
            while name == "penstock" and not (before := turns(address)):
                time.sleep(0.01)
            wait_for_line(peer, DONE[name], position)
            spent = time.perf_counter() - began_s, peer.cpu_seconds() - began_cpu_s
            if name == "kafka":
                return (*spent, 0.0, 0.0)
            between = turns(address)
            time.sleep(spent[0])
            return (*spent, quantile_ms(before, between, 0.999), quantile_ms(between, turns(address), 0.999))


def measure(size_bytes: int, segments: int, rounds: int) -> None:
    """Prints the figures of both brokers."""
    with tempfile.TemporaryDirectory(prefix="penstock-log-recovery-") as made:
        batches = make_segments(Path(made), size_bytes, segments)
        found: dict[str, list[tuple[float, float, float, float]]] = {"kafka": [], "penstock": []}
        for _ in range(rounds):
            for name, each in found.items():
                each.append(recover(name, Path(made)))
                print(f"recovery {name:8} {each[-1][0]:6.2f} s {each[-1][1]:6.2f} CPU s", flush=True)
    for name, each in found.items():
        wall_s, cpu_s = min(spent[0] for spent in each), min(spent[1] for spent in each)
        loop = ", ".join(f"{meanwhile:.1f} ms ({after:.1f} ms after it)" for _, _, meanwhile, after in each)
        loop = f"   loop p99.9 {loop}" if name == "penstock" else ""
        print(
            f"recovery {name:8} {size_bytes / wall_s / 1e6:8.1f} MB/s {batches / cpu_s:12,.0f} batches/CPU s   "
            f"{batches:,} batches of {size_bytes / 1e6:.0f} MB in {segments} segments{loop}"
        )
