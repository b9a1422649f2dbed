"""Kafka's tools for transactions say of Penstock what they say of Apache Kafka, and can read its transaction log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest
from interop.kafka_peer import KafkaPeer, require_kafka, run_tool
from interop.tools.toolbox import CONFIGS, CONSUMER, TRANSACTIONS, Outcome, Toolbox
from interop.transactions.conftest import FEATURES, SETTINGS
from interop.transactions.raw import Id, Raw, codes, until

from penstock.errors import ErrorCode
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

DUMP = "org.apache.kafka.tools.DumpLogSegments"
FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
STATE_TOPIC = "__transaction_state"
OF_THIS_RUN = {
    "ProducerId",
    "LastTimestamp",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "StartTimestamp",
    "Duration(min)",
}
"""Columns that differ from run to run."""


class Prepared(NamedTuple):
    """A broker with transactions on it, and who holds them."""

    raw: Raw
    data: Path
    topic: str
    open: Id
    hanging: Id


def prepare(raw: Raw, data: Path, tools: Toolbox) -> Prepared:
    """One transaction is open, one committed, one aborted; and one hangs, as no coordinator knows of it."""
    topic = raw.create_topic("watched", 2)
    opened = raw.begun("open", topic)
    for name, commit in (("committed", True), ("aborted", False)):
        producer = raw.begun(name, topic)
        assert codes(raw.end(producer, commit=commit)) == [ErrorCode.NONE]
        raw.wait_for_state(producer, "CompleteCommit", "CompleteAbort")
    config = ("--alter", "--entity-type", "brokers", "--entity-name", 1, "--add-config")
    setting = "transaction.partition.verification.enable"
    assert tools.run(CONFIGS, raw.bootstrap, *config, f"{setting}=false").status == 0
    hanging = raw.initialised("hanging")
    until(lambda: codes(raw.produce(hanging, topic, 1)), lambda answer: answer == [ErrorCode.NONE])
    return Prepared(raw, data, topic, opened, hanging)


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    require_kafka()
    with Toolbox() as toolbox:
        yield toolbox


@pytest.fixture(scope="module")
def brokers(tools: Toolbox) -> Iterator[tuple[Prepared, Prepared]]:
    """Penstock and Apache Kafka, in the same state."""
    with (
        LocalBroker(SETTINGS) as ours,
        KafkaPeer(properties=SETTINGS, features=FEATURES) as kafkas,
        Raw(ours.bootstrap, "tools") as one,
        Raw(kafkas.bootstrap, "tools") as other,
    ):
        yield prepare(one, ours.data_dir, tools), prepare(other, kafkas.log_dirs[0], tools)


Compare = Callable[..., Outcome]


@pytest.fixture(scope="module")
def both(tools: Toolbox, brokers: tuple[Prepared, Prepared]) -> Compare:
    """Runs TransactionsCommand on both, whose tables must be the same; `words` may ask what is prepared."""

    def run(*words: object, status: int = 0) -> Outcome:
        said = []
        for place in brokers:
            asked = [word(place) if callable(word) else word for word in words]
            outcome = tools.run(TRANSACTIONS, place.raw.bootstrap, *asked)
            assert outcome.status == status, outcome
            said.append((table(outcome.out), first_line(outcome.error)))
        assert said[0] == said[1]
        return outcome

    return run


def table(text: str) -> list[dict[str, str]]:
    """A tool's table, without what differs from run to run; the order of rows is anybody's."""
    lines = [re.split(r"\s*\t\s*", line.strip()) for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    names, *rows = lines
    kept = [
        {name: value for name, value in zip_longest(names, row, fillvalue="") if name not in OF_THIS_RUN}
        for row in rows
    ]
    return sorted(kept, key=str)


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def rows_of(both: Compare, *words: object) -> list[dict[str, str]]:
    return table(both(*words).out)


def test_transactions_are_listed(both: Compare) -> None:
    listed = {row["TransactionalId"]: row for row in rows_of(both, "list")}
    states = {name.removeprefix("tools-"): row["TransactionState"] for name, row in listed.items()}
    assert states == {
        "open": "Ongoing",
        "committed": "CompleteCommit",
        "aborted": "CompleteAbort",
        "hanging": "Empty",
    }
    assert "tools-open" in [row["TransactionalId"] for row in rows_of(both, "list", "--duration-filter", 1)]
    long_ago = {row["TransactionalId"] for row in rows_of(both, "list", "--duration-filter", 10**7)}
    assert "tools-open" not in long_ago
    matched = rows_of(both, "list", "--transactional-id-pattern", ".*ed")
    assert sorted(row["TransactionalId"] for row in matched) == ["tools-aborted", "tools-committed"]


def test_a_transaction_is_described(both: Compare) -> None:
    (found,) = rows_of(both, "describe", "--transactional-id", "tools-open")
    assert found["TransactionState"] == "Ongoing"
    assert found["TopicPartitions"] == "tools-watched-0"
    (found,) = rows_of(both, "describe", "--transactional-id", "tools-committed")
    assert found["TransactionState"] == "CompleteCommit"
    both("describe", "--transactional-id", "tools-nobody", status=1)


def test_producers_of_a_partition_are_described(both: Compare) -> None:
    found = rows_of(both, "describe-producers", "--topic", "tools-watched", "--partition", 0)
    assert len(found) == 3
    assert sorted(row["CurrentTransactionStartOffset"] for row in found) == ["0", "None", "None"]
    on_broker = ("--topic", "tools-watched", "--partition", 1, "--broker-id", 1)
    (hanging,) = rows_of(both, "describe-producers", *on_broker)
    assert hanging["CurrentTransactionStartOffset"] == "0"


def test_a_hanging_transaction_is_found_and_aborted(both: Compare, brokers: tuple[Prepared, Prepared]) -> None:
    for where in (("--broker-id", 1), ("--topic", "tools-watched"), ("--topic", "tools-watched", "--partition", 1)):
        (found,) = rows_of(both, "find-hanging", *where, "--max-transaction-timeout", 0)
        assert (found["Topic"], found["Partition"]) == ("tools-watched", "1")
    assert rows_of(both, "find-hanging", "--broker-id", 1) == [], "none is older than a quarter of an hour"
    for place in brokers:
        assert place.raw.end_offset(place.topic, partition=1) == 0, "it holds everything back"
    both("abort", "--topic", "tools-watched", "--partition", 1, "--start-offset", 7, status=1)
    both("abort", "--topic", "tools-watched", "--partition", 1, "--start-offset", 0)
    for place in brokers:
        place.raw.wait_until_stable(place.topic, 1)
    assert rows_of(both, "find-hanging", "--broker-id", 1, "--max-transaction-timeout", 0) == []


def test_an_open_transaction_is_terminated(both: Compare, brokers: tuple[Prepared, Prepared]) -> None:
    for place in brokers:
        assert codes(place.raw.end(place.open)) == [ErrorCode.NONE]
        name = place.raw.begun("terminated", place.topic)
        assert place.raw.state(name.transactional_id).transaction_state == "Ongoing"
    both("forceTerminateTransaction", "--transactionalId", "tools-terminated")
    for place in brokers:
        place.raw.wait_for_state(Id("tools-terminated", 0, 0), "CompleteAbort", "Empty")
        place.raw.wait_until_stable(place.topic)


def decoded(place: Prepared) -> list[str]:
    """What DumpLogSegments reads in the transaction log, without what differs from run to run."""
    files = [each for each in sorted(place.data.glob(f"{STATE_TOPIC}-*/*.log")) if each.stat().st_size]
    assert files
    out = run_tool(DUMP, "--transaction-log-decoder", "--files", ",".join(map(str, files))).stdout
    assert "Could not" not in out
    assert "isvalid: false" not in out
    found = re.findall(r"key: (\{.*?\}) payload: (\{.*\}|<null>|.*)$", out, re.MULTILINE)
    hidden = re.compile(r'("(?:producerId|previousProducerId|nextProducerId|transaction\w+TimestampMs)":)(\d+)')
    return sorted(key + " " + hidden.sub(r"\1 0", value) for key, value in found)


def test_the_transaction_log_is_decoded(both: Compare, brokers: tuple[Prepared, Prepared]) -> None:
    ours, kafkas = map(decoded, brokers)
    assert len(ours) > 10
    assert ours == kafkas


@pytest.mark.slow
def test_the_transaction_log_is_formatted(tools: Toolbox, brokers: tuple[Prepared, Prepared]) -> None:
    said = []
    for place in brokers:
        words = ("--topic", STATE_TOPIC, "--from-beginning", "--formatter", FORMATTER, "--timeout-ms", 1500)
        told = tools.run(CONSUMER, place.raw.bootstrap, *words).out
        said.append(set(re.findall(r'"transactionalId":"([^"]+)"', told)))
    assert said[0] == said[1] >= {"tools-open", "tools-aborted"}
