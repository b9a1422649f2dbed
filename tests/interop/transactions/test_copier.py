"""Kafka's own TransactionalMessageCopier, killed in the middle, between its verifiable producer and consumer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from interop.groups.place import Place
from interop.kafka_peer import java
from interop.transactions.clients import PYTHON_CLIENTS

pytestmark = [pytest.mark.java, pytest.mark.slow]

PACKAGE = "org.apache.kafka.tools."
RECORDS, TRANSACTION = 600, 20
TIMEOUT_S = 60
TRANSACTION_TIMEOUT_MS = 10_000


@contextmanager
def running(name: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """One of the tools, killed at the end if it has not ended."""
    command = java(PACKAGE + name, *words)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()


def said(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """What a tool says, line by line."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def copier(place: Place, number: int, *more: object) -> Sequence[object]:
    words: dict[str, object] = {
        "--broker-list": place.bootstrap,
        "--input-topic": f"input-{number}",
        "--input-partition": 0,
        "--output-topic": f"output-{number}",
        "--transactional-id": f"copier-{number}",
        "--consumer-group": f"copying-{number}",
        "--transaction-size": TRANSACTION,
        "--transaction-timeout": TRANSACTION_TIMEOUT_MS,
    }
    return [*(word for pair in words.items() for word in pair), "--enable-random-aborts", *more]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), marks=pytest.mark.long),
        pytest.param(("--use-group-metadata",), marks=pytest.mark.long),
        ("--use-group-metadata", "--group-mode"),
    ],
)
def test_it_copies_each_record_once_though_it_is_killed(
    place: Place, number: int, more: tuple[str, ...], tmp_path: Path
) -> None:
    place.create(f"input-{number}", 1)
    place.create(f"output-{number}", 1)
    to_all = ("--bootstrap-server", place.bootstrap, "--topic")
    with running("VerifiableProducer", *to_all, f"input-{number}", "--max-messages", RECORDS) as producer:
        assert sum(each["name"] == "producer_send_success" for each in said(producer)) == RECORDS
    with running("TransactionalMessageCopier", *copier(place, number, *more)) as first:
        for told in said(first):
            if int(told.get("totalProcessed", 0)) >= RECORDS // 4:
                break  # and is killed, in a transaction or between two
    with running("TransactionalMessageCopier", *copier(place, number, *more)) as second:
        ends = [told for told in said(second) if told.get("stage") == "ShutdownComplete"]
        assert second.wait(TIMEOUT_S) == 0
    assert int(ends[-1]["remaining"]) == 0
    with PYTHON_CLIENTS["librdkafka"](place.bootstrap) as client:
        assert client.read(f"output-{number}", 0, str(RECORDS - 1)) == [str(each) for each in range(RECORDS)]
    config = tmp_path / "consumer.properties"
    config.write_text("isolation.level=read_committed\n")
    words = ("--group-id", f"verifying-{number}", "--max-messages", RECORDS, "--command-config", config)
    with running("VerifiableConsumer", *to_all, f"output-{number}", *words) as consumer:
        counts = [each["count"] for each in said(consumer) if each["name"] == "records_consumed"]
        assert consumer.wait(TIMEOUT_S) == 0
    assert sum(counts) == RECORDS
