"""A hanging transaction from end to end: its log comes from elsewhere, the broker finds it, an operator ends it.

The log is what one broker wrote for librdkafka in a transaction that was never ended. Its files are put under another
broker, none of whose coordinators knows the transactional id.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from interop.transactions.raw import Raw, until

from penstock.cli.main import main
from penstock.testing.broker import LocalBroker

TIMEOUT_S = 30.0
LOOK_INTERVAL_MS = 300
AGE_MS = 2 * 3_600_000
"""How old the records are, as those of an imported log."""
OPEN, BEHIND = 3, 4
"""Records of the transaction, and plain ones after them."""


def open_and_gone(directory: Path) -> None:
    """The data directory of a broker that was stopped while a transaction was open in clicks-0."""
    with LocalBroker(data_dir=directory) as origin:
        origin.create_topic("clicks")
        common = {"bootstrap.servers": origin.bootstrap, "linger.ms": 0, "log_level": 0}
        holder = Producer({**common, "transactional.id": "gone"})
        holder.init_transactions(TIMEOUT_S)
        holder.begin_transaction()
        times = time.time_ns() // 1_000_000 - AGE_MS
        for number in range(OPEN):
            holder.produce("clicks", f"open-{number}", partition=0, timestamp=times)
        assert holder.flush(TIMEOUT_S) == 0
        plain = Producer(common)
        for number in range(BEHIND):
            plain.produce("clicks", f"behind-{number}", partition=0, timestamp=times)
        assert plain.flush(TIMEOUT_S) == 0


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    """A broker whose log of clicks-0 is that of another; it looks for what hangs at short intervals."""
    monkeypatch.setattr("penstock.node.hanging.LOOK_INTERVAL_MS", LOOK_INTERVAL_MS)
    open_and_gone(tmp_path / "origin")
    with LocalBroker(data_dir=tmp_path / "data") as first:
        first.create_topic("clicks")
    for log in (tmp_path / "data" / "clicks-0").glob("0*"):
        log.unlink()
    for log in (tmp_path / "origin" / "clicks-0").glob("*.log"):
        shutil.copy(log, tmp_path / "data" / "clicks-0")
    with LocalBroker({"penstock.metrics.listener": "127.0.0.1:0"}, tmp_path / "data") as second:
        yield second


def metric(broker: LocalBroker, name: str) -> float:
    """The value of a metric without labels."""
    assert broker._embedded is not None
    assert broker._embedded.server is not None
    with urllib.request.urlopen(f"http://{broker._embedded.server.http_address}/metrics", timeout=TIMEOUT_S) as answer:
        lines = answer.read().decode().splitlines()
    (found,) = (line for line in lines if line.startswith(name + " "))
    return float(found.rpartition(" ")[2])


def test_it_is_found_by_the_broker_shown_and_ended_by_one_command(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def command(*words: str) -> tuple[int, str]:
        code = main([*words, "--bootstrap", broker.bootstrap])
        return code, capsys.readouterr().out

    reader = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "isolation.level": "read_committed"}
    )
    reader.assign([TopicPartition("clicks", 0, 0)])
    try:
        with caplog.at_level(logging.WARNING, "penstock.node.hanging"):
            until(lambda: metric(broker, "penstock_hanging_transactions"), lambda found: found == 1)
        (line,) = [each.getMessage() for each in caplog.records if each.name == "penstock.node.hanging"]
        assert "partition=clicks-0 offset=0" in line
        (hanging,) = json.loads(command("transactions", "hanging", "--json")[1])
        assert (hanging["topic"], hanging["start_offset"], hanging["transactional_id"]) == ("clicks", 0, None)
        assert hanging["silent_ms"] >= AGE_MS
        code, said = command("doctor", "--json")
        (fix,) = [each for each in json.loads(said) if each["subject"] == "transactions"]
        assert (code, fix["state"]) == (1, "fix")
        assert f"clicks-0 is held back at 0 by producer {hanging['producer_id']}, hanging" in fix["found"]
        assert fix["remedy"] in line, "the log names the same command"
        assert reader.poll(0.2) is None, "nothing is stable yet"
        assert command(*fix["remedy"].split()[1:], "--yes")[0] == 0
        messages = reader.consume(BEHIND, TIMEOUT_S)
        assert [each.value().decode() for each in messages] == [f"behind-{number}" for number in range(BEHIND)]
        until(lambda: metric(broker, "penstock_hanging_transactions"), lambda found: found == 0)
        assert json.loads(command("transactions", "hanging", "--json")[1]) == []
        with Raw(broker.bootstrap, "after") as raw:
            assert raw.end_offset("clicks") == OPEN + BEHIND + 1
    finally:
        reader.close()
