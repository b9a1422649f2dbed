"""`penstock log verify` on a log directory of Apache Kafka: running, stopped cleanly, killed, cleaned, and damaged."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from interop.kafka_peer import KafkaPeer, run_tool
from support.processes import wait_until

from penstock.cli.main import main

pytestmark = [pytest.mark.java, pytest.mark.slow]
TOPICS = ("clicks", "profiles")
confluent_kafka = pytest.importorskip("confluent_kafka")


def verified(directory: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Exit code, and what is said of each directory by its name."""
    capsys.readouterr()
    code = main(["log", "verify", "--json", str(directory)])
    return code, {Path(each["directory"]).name: each for each in json.loads(capsys.readouterr().out)}


def problems(said: dict[str, Any]) -> list[Any]:
    return [(name, each) for name, log in said.items() for each in log["findings"] if each["severity"] == "problem"]


def produce(kafka: KafkaPeer, count: int) -> None:
    """Every codec, an idempotent producer, and transactions of which every third is aborted."""
    random = Random(count)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        options = {"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 1}
        producer = confluent_kafka.Producer({**options, "enable.idempotence": True})
        for number in range(count):
            producer.produce("clicks", random.randbytes(100), b"%d" % number)
            producer.produce("profiles", random.randbytes(100), b"%d" % (number % 20))
            if number % 10 == 9:
                producer.flush()
        producer.flush()
    transactions = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    transactions.init_transactions()
    for number in range(12):
        transactions.begin_transaction()
        for topic in TOPICS:
            transactions.produce(topic, random.randbytes(300), b"%d" % number)
        transactions.flush()
        if number % 3 == 2:
            transactions.abort_transaction()
        else:
            transactions.commit_transaction()


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.long)], ids=["stopped", "killed"]
)
def test_kafkas_directories_are_sound_and_damage_in_them_is_found(
    how: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = KafkaPeer(tmp_path, properties={"log.cleaner.backoff.ms": 100, "log.index.interval.bytes": 1000})
    [data] = kafka.log_dirs
    with kafka:
        kafka.create_topic("clicks", segment_bytes=1 << 20, segment_ms=2000)
        kafka.create_topic("profiles", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms=1000)
        produce(kafka, 60)
        code, said = verified(data, capsys)
        assert (code, problems(said)) == (0, []), "while it runs"
        assert said["clicks-0"]["records"] >= 300
        wait_until(lambda: "profiles 0" in cleaned(data), "Kafka's cleaner has been at the log")
        code, said = verified(data, capsys)
        assert (code, problems(said)) == (0, []), "while it cleans"
        kafka.stop(how)
    code, said = verified(data, capsys)
    assert (code, problems(said)) == (0, [])
    assert {log["verdict"] for log in said.values()} == {"sound"}

    rebuilt(data, clean=how is signal.SIGTERM)
    damaged = max((data / "clicks-0").glob("*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 4
    damaged.write_bytes(content)
    code, said = verified(data, capsys)
    assert code == 1
    assert {name for name, _ in problems(said)} == {"clicks-0"}


def rebuilt(data: Path, *, clean: bool) -> None:
    """Kafka's own indexes are those that `penstock log index` makes, and its tool finds nothing wrong with ours."""
    had = {path: path.read_bytes() for suffix in ("index", "timeindex") for path in data.glob(f"[cp]*-0/*.{suffix}")}
    had |= {path: path.read_bytes() for path in data.glob("clicks-0/*.txnindex")}
    for path in had:
        path.unlink()
    assert main(["log", "index", "--index-interval-bytes", "1000", *(str(data / f"{t}-0") for t in TOPICS)]) == 0
    if clean:
        assert {path: path.read_bytes() for path, content in had.items() if content or path.exists()} == had
    files = [path for path in had if path.suffix != ".txnindex" and path.stat().st_size]
    joined = ",".join(map(str, files))
    said = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", joined, "--index-sanity-check").stdout
    assert said.count("passed sanity check") == len(files)
    if clean:
        return
    checked = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", joined, "--verify-index-only")
    assert "Mismatches" not in checked.stdout + checked.stderr
    assert "Found" not in checked.stdout + checked.stderr


def cleaned(data: Path) -> str:
    path = data / "cleaner-offset-checkpoint"
    return path.read_text() if path.exists() else ""
