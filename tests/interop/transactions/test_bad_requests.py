"""What no well-behaved producer does, told to Penstock and to Apache Kafka: both answer the same, step by step.

Where they differ on purpose, `IN_HISTORIES` has the step with the reason. A difference which is not in it fails, and so
does an entry that no longer differs. At transaction.version 2, and at 1, where epochs grow less often.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from interop.bad_input.differences import IN_HISTORIES
from interop.kafka_peer import KafkaPeer
from interop.transactions.bad_requests import HISTORIES, History, told
from interop.transactions.conftest import FEATURES, SETTINGS
from interop.transactions.raw import Raw

from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Pair]:
    """The addresses of Penstock and of Apache Kafka."""
    with LocalBroker(SETTINGS) as ours, KafkaPeer(properties=SETTINGS, features=FEATURES) as kafkas:
        yield ours.bootstrap, kafkas.bootstrap


@pytest.fixture(scope="module", params=[2, pytest.param(1, marks=pytest.mark.slow)])
def level(request: pytest.FixtureRequest, brokers: Pair) -> int:
    """transaction.version of both."""
    for bootstrap in brokers:
        with Raw(bootstrap, "level") as raw:
            raw.set_level(request.param)
    found: int = request.param
    return found


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
def test_penstock_answers_as_kafka_does(brokers: Pair, level: int, history: History) -> None:
    prefix = f"{history.__name__}-{level}"
    ours, kafkas = ([*told(bootstrap, history, prefix)] for bootstrap in brokers)
    assert len(ours) == len(kafkas) > 0
    different = [pair for pair in zip(ours, kafkas, strict=True) if pair[0] != pair[1]]
    steps = {our.partition(":")[0] for our, _ in different}
    listed = {step for name, step in IN_HISTORIES if name == history.__name__}
    unexpected = [pair for pair in different if pair[0].partition(":")[0] not in listed]
    assert not unexpected, "\n".join(f"Penstock: {our}\nKafka:    {their}" for our, their in unexpected)
    assert listed <= steps, f"listed as different, and they no longer are: {listed - steps}"


def test_the_comparison_can_fail(brokers: Pair) -> None:
    """A step less or another answer is seen."""
    ours, kafkas = brokers

    def one(raw: Raw) -> None:
        raw.tell("an end", raw.end(raw.initialised("one")))

    def other(raw: Raw) -> None:
        producer = raw.initialised("one")
        raw.tell("an end", raw.end(producer.with_epoch(producer.producer_epoch + 7)))

    assert [*told(ours, one, "fails")] != [*told(kafkas, other, "fails")]
